"""Draw the figures of the documentation into `docs/_generated/`, by running the pages that draw them.

The folder is made afresh at every build (`conf.py` runs this file) and does not belong into version control. What the
pages printed is in its folder `printed`, where the tests compare it with what the pages show.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import notebooks
import run_page

DOCS = Path(__file__).parent
PAGES = (
    "get-started/tutorial_training.md",  # continues the other parts, and so runs them and draws their figures, too
    "guides/structure.md",
    "explanation/networks.md",
    "traffic/traffic.md",
    "paper/market.md",
)
PARTS = ("get-started/tutorial.md", "get-started/tutorial_variance.md")
"""Pages that run as parts of a tutorial in `PAGES`, which continues them."""
FIGURES = DOCS / "_generated"


def printed(page: str) -> Path:
    """Return the file with what a page printed, as JSON: line, printed and shown text of every block. For a page of
    `PARTS`, it is one string."""
    return FIGURES / "printed" / f"{Path(page).stem}.json"


def main() -> None:
    shutil.rmtree(FIGURES, ignore_errors=True)
    (FIGURES / "printed").mkdir(parents=True)
    for page in PAGES:
        command = [sys.executable, "-W", "error", DOCS / "run_page.py", DOCS / page]
        if DOCS / page in notebooks.TUTORIALS:  # as readers run them who download the notebook
            command = [sys.executable, DOCS / "notebooks.py", "--run", DOCS / page, FIGURES / "printed"]
        environment = run_page.environment((DOCS / page).read_text(encoding="utf-8"))
        done = subprocess.run(command, cwd=FIGURES, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{page} did not run:\n{done.stderr}")
        printed(page).write_text(done.stdout, encoding="utf-8")


if __name__ == "__main__":
    main()
