"""`factorax report`: an HTML report of runs, experiments and discoveries."""

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

from ..structure.labels import printable
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
        what: Folders of runs (runs that differ only in their seed form one group), folders that reproduce has written,
            folders that contain several of these, and files of discover --out, which are shown as evidence for edges.
        out: Output file (.html).
        play: Run policies for films, episodes, scores of reference controllers and variance decompositions. Without it,
            the report uses only files in the folders.
        open: Open the report in a browser.
        watch: Serve the report on this machine only and update it during training; stop with Ctrl-C.
        problem: Name of the problem of the runs. Required to load a problem whose name refers to code or files; repeat
            the name only if you trust it.
    """
    check_output("out", out, ".html")
    console = Console()
    if watch:
        _watch(console, what, play=play, open_browser=open, trusted=problem)
        return
    from ..runs.report import report as write_report

    def tell(text: str) -> None:
        if console.is_terminal:
            console.print(f"{escape(text)} …", style="dim", highlight=False)

    path = write_report(what, out, play=play, trusted=problem, open_browser=open, tell=tell)
    size = path.stat().st_size / 1000
    print(f"the report is in {printable(path, limit=MAX_PATH)} ({size:,.0f} kB)")


def _watch(console: Console, what: tuple[Path, ...], *, play: bool, open_browser: bool, trusted: str) -> None:
    import webbrowser

    from ..runs.report import LiveReport

    with LiveReport(what, play=play, trusted=trusted) as live:
        console.print(f"the report is at {live.address}; press Ctrl-C to stop", soft_wrap=True, highlight=False)
        if open_browser:
            webbrowser.open(live.address)
        try:
            live.wait()
        except KeyboardInterrupt:
            console.print("stopped", highlight=False)
