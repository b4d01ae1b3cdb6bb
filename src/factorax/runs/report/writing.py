"""Write reports to files."""

import os
import time
import webbrowser
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from ..._checks import check_function, checked, listed, path_of
from ..._files import write_whole
from .collection import collect
from .page import page

_PAUSE = 5.0
"""Seconds between two versions of a report while training runs, or more if it takes long to write."""


def report(
    what: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str] = "report.html",
    *,
    play: bool = True,
    watch: bool = False,
    trusted: str | None = None,
    open_browser: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Write a self-contained HTML report of runs or discoveries; return its path.

    The file loads nothing from elsewhere and can be shared. Runs that differ only in their seed form one group, with
    intervals over seeds.

    **Arguments**

    - `what`: the folder of a run of `factorax train`, a file of `factorax discover --out`, or a list of these. A folder
      that contains such folders stands for all of them. A discovery with the same actions and targets is shown as
      evidence for the edges of a run's network.
    - `out`: the output file, .html.
    - `play`: whether to run policies, which takes some time: for a film or an episode, the score of a reference
      controller, and the variance decomposition if training did not log it. If false, only files are used.
    - `watch`: whether to write the file again and again until the runs have made all their steps, or until Ctrl-C. The
      open page loads itself again. Policies run only in the end, since training needs the processors.
    - `trusted`: the name of the runs' problem if it refers to code or files and you trust it; see `FactoredPPO.load`.
    - `open_browser`: whether to open the file in a browser.
    - `tell`: called with a description of each slow step before it starts.

    Folders may be untrusted: their texts are escaped, and no code from them is run.
    """
    out = path_of("out", out, "a file that ends in .html")
    if out.suffix.lower() != ".html":
        raise ValueError(f"out: got {out.name!r}, want a name that ends in .html")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"out: no folder {str(out.parent)!r}; create it to write {out.name!r}")
    for name, value in (("play", play), ("watch", watch), ("open_browser", open_browser)):
        checked(name, value, bool)
    checked("trusted", trusted, str | None)
    if tell is not None:
        check_function("tell", tell, "a function of a text")
    sources = [what] if isinstance(what, str | os.PathLike) else listed("what", what, "folders of runs")

    def write(*, play: bool, refresh: float = 0.0) -> bool:
        """Write the report and return whether a run still trains."""
        data = collect(sources, trusted=trusted, play=play, relative_to=out.parent, tell=tell or (lambda text: None))
        content = page(data, refresh=refresh if data["is_training"] else 0.0).encode()
        write_whole(out, lambda file: file.write(content))
        return data["is_training"]

    began = time.monotonic()
    is_training = write(play=play and not watch, refresh=_PAUSE if watch else 0.0)
    if open_browser:
        webbrowser.open(out.resolve().as_uri())
    if watch:
        try:
            while is_training:
                time.sleep(max(_PAUSE, 10 * (time.monotonic() - began)))  # training needs the processors
                began = time.monotonic()
                with suppress(ValueError, OSError):  # a file that is being replaced; the next attempt comes soon
                    is_training = write(play=False, refresh=_PAUSE)
        except KeyboardInterrupt:
            is_training = write(play=False)
        if play and not is_training:
            write(play=True)
    return out
