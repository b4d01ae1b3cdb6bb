"""Recovery of known networks by intervention: precision, recall and steps on twenty problems.

    python -m benchmarks.discovery_study           # every run that benchmarks/discovery_study.json lacks; the table
    python -m benchmarks.discovery_study --fooled  # and the same with streams="trust", as if random numbers were held

Edges are those at a false-discovery rate of 0.01, which has an effect only where edges are tested.
"""

import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from factorax.discovery import intervene
from factorax.spec import is_jax
from factorax.structure import StructureWarning

from .discovery_problems import Case, cases

STORED = Path(__file__).with_suffix(".json")
SEEDS = range(3)
FDR = 0.01


def score(case: Case, seed: int, streams: str) -> dict[str, Any]:
    """Return the counts of one run."""
    problem = case.make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StructureWarning)
        found = intervene(
            problem if is_jax(problem) else case.make,
            horizon=case.horizon,
            trials=case.trials,
            one_step=False,
            streams=streams,  # pyright: ignore[reportArgumentType]
            seed=1000 * seed,
        )
    truth, edges = case.truth(), found.found(FDR)
    return {
        "edges": int(truth.sum()),
        "right": int((edges & truth).sum()),
        "false": int((edges & ~truth).sum()),
        "steps": found.steps,
        "streams": found.streams,
        "pairs": int(truth.size),
        "trials": case.trials,
    }


def run(streams: str) -> dict[str, list[dict[str, Any]]]:
    """Return the runs of all problems; stored runs are not repeated."""
    stored: dict[str, Any] = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    kept = stored.setdefault(streams, {})
    with tempfile.TemporaryDirectory() as folder:
        for name, case in cases(Path(folder)).items():
            if streams == "trust" and not case.shifts:
                continue
            for seed in SEEDS:
                if str(seed) not in kept.setdefault(name, {}):
                    kept[name][str(seed)] = score(case, seed, streams)
                    STORED.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return {name: list(runs.values()) for name, runs in kept.items()}


def table(results: dict[str, list[dict[str, Any]]]) -> str:
    """Return rows of Markdown: means over seeds, and over all problems."""
    columns = ("problem", "edges of pairs", "random streams", "trials", "precision", "recall", "steps")
    lines = [f"| {' | '.join(columns)} |", "|---|---:|---|---:|---:|---:|---:|"]
    for name, runs in results.items():
        first = runs[0]
        lines.append(
            f"| {name} | {first['edges']} of {first['pairs']:,} | {first['streams']} | {first['trials']} | "
            f"{precision(runs):.3f} | {recall(runs):.3f} | {np.mean([each['steps'] for each in runs]):,.0f} |"
        )
    together = [each for runs in results.values() for each in runs]
    lines.append(f"| all | | | | {precision(together):.3f} | {recall(together):.3f} | |")
    return "\n".join(lines)


def precision(runs: list[dict[str, Any]]) -> float:
    """Return the fraction of reported edges that are true."""
    return sum(each["right"] for each in runs) / max(sum(each["right"] + each["false"] for each in runs), 1)


def recall(runs: list[dict[str, Any]]) -> float:
    """Return the fraction of true edges that are reported."""
    return sum(each["right"] for each in runs) / sum(each["edges"] for each in runs)


def main() -> int:
    """Print the tables; return 1 if precision is below 0.99 or recall below 0.95 over all problems."""
    results = run("check")
    print(table(results))
    if "--fooled" in sys.argv[1:]:
        print("\n" + table(run("trust")))
    together = [each for runs in results.values() for each in runs]
    return 0 if precision(together) >= 0.99 and recall(together) >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
