"""`factorax report`: runs, experiments and discoveries as one page."""

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

from .arguments import Not, OutputFile


def report(
    what: tyro.conf.Positional[tuple[Path, ...]],
    /,
    *,
    out: Annotated[Path, OutputFile((".html",)), Not("watch")] = Path("report.html"),
    play: bool = True,
    open: bool = False,
    watch: bool = False,
    problem: str = "own",
) -> None:
    """Write one HTML file about runs: verdict, learning curves, influence network, what K bought, targets, the policy
    in action, and how to reproduce it. It needs no network and can be sent to others.

    Args:
        what: Folders of runs (runs that differ only in their seed become one group), of experiments that reproduce has
            written, or of several of them; and files of discover --out, which are shown as evidence for edges.
        out: The file, .html.
        play: Make the report from the folders alone, without letting policies act: no film or episode, no score of a
            reference controller, and no variance decomposition unless training logged it.
        open: Open the report in a browser.
        watch: Serve the report to this machine alone, and update it while training runs; Ctrl-C ends it.
        problem: The problem of the runs, again, if its name leads to code or files and you trust it.
    """
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
    console.print(f"the report is in {escape(str(path))} ({size:,.0f} kB)", soft_wrap=True, highlight=False)


def _watch(console: Console, what: tuple[Path, ...], *, play: bool, open_browser: bool, trusted: str) -> None:
    import webbrowser

    from ..runs.report import LiveReport

    with LiveReport(what, play=play, trusted=trusted) as live:
        console.print(f"the report is at {live.address}; Ctrl-C ends it", soft_wrap=True, highlight=False)
        if open_browser:
            webbrowser.open(live.address)
        try:
            live.wait()
        except KeyboardInterrupt:
            console.print("ended", highlight=False)
