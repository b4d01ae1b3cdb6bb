"""Reports as files."""

import os
import webbrowser
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..._checks import check_function, checked, path_of
from ..._files import write_whole
from .collection import collect
from .page import page


def report(
    what: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str] = "report.html",
    *,
    play: bool = True,
    trusted: str | None = None,
    open_browser: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Write one HTML file about runs, experiments or discoveries; returns its path.

    The file stands alone: it loads nothing from elsewhere, opens from a disk, and can be sent to others. Runs that
    differ only in their seed are one group, with intervals.

    **Arguments**

    - `what`: the folder of a run of `factorax train` or of an experiment of `factorax reproduce`, a file of
      `factorax discover --out`, or a list of those. A folder of such folders stands for all of them. A discovery of the
      same actions and targets is shown as evidence for the edges of a run's network.
    - `out`: the file to write, .html.
    - `play`: whether to let policies act, which takes some time: for a film or an episode, for the score of a reference
      controller, and for the variance decomposition if training did not log it. With False, the report is made from
      what is in the folders alone.
    - `trusted`: the name of the runs' problem, if it leads to code or files and you trust it; see `factorax.runs.load`.
    - `open_browser`: open the file when it is written.
    - `tell`: called with what takes time before it starts, for progress.

    Folders may come from strangers: their texts are shown as texts, and nothing of theirs is run.
    """
    out = path_of("out", out, "a file that ends in .html")
    if out.suffix.lower() != ".html":
        raise ValueError(f"out: got {out.name!r}, want a name that ends in .html")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"out: no folder {str(out.parent)!r} to write {out.name!r} to; make it")
    for name, value in (("play", play), ("open_browser", open_browser)):
        checked(name, value, bool)
    checked("trusted", trusted, str | None)
    if tell is not None:
        check_function("tell", tell, "a function of a text")
    sources: Iterable[Any] = [what] if isinstance(what, str | os.PathLike) else what
    data = collect(sources, trusted=trusted, play=play, relative_to=out.parent, tell=tell or (lambda text: None))
    content = page(data).encode()
    write_whole(out, lambda file: file.write(content))
    if open_browser:
        webbrowser.open(out.resolve().as_uri())
    return out
