"""`factorax report`: an HTML report of runs and discoveries."""

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

from .._text import printable
from .arguments import MAX_PATH, Switch, check_output


def report(
    what: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER ...")],
    /,
    *,
    out: Path = Path("report.html"),
    play: bool = True,
    open: Switch = False,
    watch: Switch = False,
    problem: str = "own",
) -> None:
    """Write a self-contained HTML report of runs: verdict, learning curves, influence network, variance reduction by K,
    targets, the policy in action, and how to reproduce the results. It loads nothing and can be shared as one file.

    Args:
        what: Folders of runs (runs that differ only in their seed form one group), folders that contain several of
            these, and files of discover --out, which are shown as evidence for edges.
        out: Output file (.html).
        play: Run policies for films, episodes, scores of reference controllers and variance decompositions. Without it,
            the report uses only files in the folders.
        open: Open the report in a browser.
        watch: Write the report every few seconds until the runs have made all their steps, or until Ctrl-C. The page
            loads itself again.
        problem: Name of the problem of the runs. Required to load a problem whose name refers to code or files; repeat
            the name only if you trust it.
    """
    check_output("out", out, ".html")
    console = Console()
    from ..runs.report import report as write_report

    def tell(text: str) -> None:
        if console.is_terminal:
            console.print(f"{escape(text)} …", style="dim", highlight=False)

    path = write_report(what, out, play=play, watch=watch, trusted=problem, open_browser=open, tell=tell)
    size = path.stat().st_size / 1000
    print(f"the report is in {printable(path, limit=MAX_PATH)} ({size:,.0f} kB)")
