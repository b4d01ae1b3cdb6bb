"""Draw the figures of the documentation into `docs/_generated/`, by running the pages that draw them.

The folder is made afresh at every build (`conf.py` runs this file) and does not belong into version control.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

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
    environment = os.environ | {"MPLBACKEND": "Agg", "JAX_PLATFORMS": "cpu"}
    environment["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # nearly all of the time is spent compiling
    for page in PAGES:
        command = [sys.executable, DOCS / "run_page.py", DOCS / page]
        done = subprocess.run(command, cwd=FIGURES, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{page} did not run:\n{done.stderr}")


if __name__ == "__main__":
    main()
