"""Run an experiment with the paper's budget and put its claims and its figure where the documentation reads them.

    python docs/publish.py search-throughput            # runs the experiment, or resumes it
    python docs/publish.py relatives --folder out/both  # takes what is in a folder

Sentences on the pages of experiments that repeat a number have to be read again afterwards: the claims are printed.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import tyro
from factorax_paper.experiments import NAMES
from factorax_paper.harness.claims import collected

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ROOT / "src" / "factorax" / "experiments" / "harness" / "published"
FIGURES = ROOT / "docs" / "images" / "experiments"
ELSEWHERE = {"relatives": ROOT / "docs" / "images" / "relatives.png"}
"""Figures that are not in the folder of the others."""


def publish(name: str, /, folder: Path | None = None, workers: int | None = None) -> None:
    """Write the claims and the figure of an experiment.

    Args:
        name: Name of the experiment.
        folder: Folder of a finished run; if left out, the experiment is run.
        workers: Number of parts to run in parallel.
    """
    if name not in NAMES:
        raise SystemExit(f"name: got {name!r}, want one of {', '.join(NAMES)}")
    if folder is None:
        folder = ROOT / "out" / f"{name}-paper-0"
        call = "from factorax.cli import main; main()"
        options = ["--budget", "paper", "--out", str(folder)]
        options += [] if workers is None else ["--workers", str(workers)]
        subprocess.run([sys.executable, "-c", call, "reproduce", name, *options], check=True)
    claims = collected([folder])
    text = json.dumps([claim.as_dict() for claim in claims], indent=1, ensure_ascii=False)
    (PUBLISHED / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    shutil.copyfile(folder / "figure.png", ELSEWHERE.get(name, FIGURES / f"{name}.png"))
    for claim in claims:
        print(f"{claim.verdict}: {claim.claim}\n  {claim.ours}")


if __name__ == "__main__":
    tyro.cli(publish)
