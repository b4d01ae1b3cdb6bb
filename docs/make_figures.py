"""Draw the figures of the documentation into `docs/_generated/`, by running the pages that draw them.

The folder is made afresh at every build (`conf.py` runs this file) and does not belong into version control.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import run_page

DOCS = Path(__file__).parent
PAGES = (
    "get-started/tutorial_training.md",  # continues the other parts, and so draws their figures, too
    "guides/structure.md",
    "explanation/networks.md",
    "guides/traffic.md",
    "guides/market.md",
)
FIGURES = DOCS / "_generated"


def main() -> None:
    shutil.rmtree(FIGURES, ignore_errors=True)
    FIGURES.mkdir()
    for page in PAGES:
        command = [sys.executable, DOCS / "run_page.py", DOCS / page]
        environment = run_page.environment((DOCS / page).read_text(encoding="utf-8"))
        done = subprocess.run(command, cwd=FIGURES, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{page} did not run:\n{done.stderr}")


if __name__ == "__main__":
    main()
