"""The HTML page of a report: data, scripts and styles in one file that loads nothing."""

import base64
import hashlib
import json
import os
import time
import webbrowser
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ..._checks import check_function, checked, listed, path_of
from ..._files import write_whole
from ...plugins import families, imported
from .contents import collect

_SCRIPTS = ("uPlot.min.js", "charts.js", "network.js", "page.js")
_STYLES = ("uPlot.min.css", "page.css")
_IN_SCRIPT = ("charts", "networks", "films")
"""The parts of a report that are drawn by scripts; everything else is HTML."""

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
            # It ends the watching, not the report: the last version no longer loads itself again.
            is_training = write(play=False)
        if play and not is_training:
            write(play=True)
    return out


def page(report: Mapping[str, Any], *, refresh: float = 0.0) -> str:
    """Return the HTML of a report from the data of `collect`.

    - `refresh`: seconds after which the page loads itself again, while training runs; 0 for never.
    """
    data = {key: report[key] for key in _IN_SCRIPT} | {"title": report["title"], "refresh": refresh}
    scripts = [_asset(name) for name in _SCRIPTS]
    notice = _asset("uPlot.LICENSE.txt")  # must accompany each copy
    scripts[0] = f"/*\nuPlot 1.6.32\n{notice}\n*/\n{scripts[0]}"
    players = {each["player"]: _player(each["player"]) for each in report["episodes"] if each["kind"] == "film"}
    scripts[1:1] = [script for script, _ in players.values()]
    styles = [_asset(_STYLES[0]), *(style for _, style in players.values()), _asset(_STYLES[1])]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            report=report,
            sections=_safe(_environment().get_template("sections.html.j2").render(report=report)),
            data=_safe(script_json(data)),
            scripts=[_safe(script) for script in scripts],
            styles=[_safe(style) for style in styles],
            policy=content_security_policy(scripts, styles),
            refresh=refresh,
        )
    )


def _player(prefix: str) -> tuple[str, str]:
    """Return the script, which adds a function to ``factoraxPlayers``, and the style sheet of a family's films."""
    script, style = imported(str(families()[prefix].player))()
    return f"{script}\n(window.factoraxPlayers ||= {{}})[{script_json(prefix)}] = window.factoraxFilm;", style


def _safe(text: str) -> Any:
    """Mark our own text as safe, so that it is not escaped again."""
    from markupsafe import Markup

    return Markup(text)


@cache
def _environment() -> Any:
    try:
        import jinja2
    except ImportError:
        raise ImportError("report: needs Jinja2: pip install 'factorax[report]'") from None
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,  # for any template name
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = shown_number
    return environment


def shown_number(value: Any) -> str:
    """Return a number with few digits and a minus sign, or a dash if there is none.

    >>> shown_number(-0.123456), shown_number(12345.6), shown_number(None)
    ('−0.1235', '12,346', '–')
    """
    if value is None:
        return "–"
    text = f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
    return text.replace("-", "−")


@cache
def _asset(name: str) -> str:
    folder = resources.files(__package__ or "").joinpath("assets")
    # Browsers hash what they parse, in which all line ends are \n: with others, the policy would block our own.
    return folder.joinpath(name).read_text(encoding="utf-8").replace("\r\n", "\n")


# "</script>" inside a script element would end it, and JSON allows line separators that JavaScript does not.
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def script_json(content: Any) -> str:
    r"""Return JSON that is safe inside a script element, whatever strings it contains.

    >>> print(script_json({"name": "</script><script>alert(1)</script>"}))
    {"name":"\u003c/script\u003e\u003cscript\u003ealert(1)\u003c/script\u003e"}
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.encode(errors="replace").decode()  # an unpaired surrogate cannot be encoded
    for character, escape in _ESCAPED.items():
        text = text.replace(character, escape)
    return text


def content_security_policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """Return a content security policy that allows these scripts and styles and no requests."""
    parts = [
        "default-src 'none'",
        # By hash: text from a folder that got past the escaping is still not run.
        f"script-src {' '.join(map(_hash, scripts))}",
        f"style-src {' '.join(map(_hash, styles))}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(parts)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
