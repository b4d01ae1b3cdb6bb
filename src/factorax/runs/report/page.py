"""The HTML page of a report: data, scripts and styles in one file that loads nothing."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from ...plugins import families, imported

_SCRIPTS = ("uPlot.min.js", "charts.js", "network.js", "page.js")
_STYLES = ("uPlot.min.css", "page.css")
_IN_SCRIPT = ("charts", "networks", "films")
"""The parts of a report that are drawn by scripts; everything else is HTML."""


def page(report: Mapping[str, Any], *, refresh: float = 0.0) -> str:
    """Return the HTML of a report from the data of `collect`.

    - `refresh`: seconds after which the page loads itself again, while training runs; 0 for never.
    """
    scripts = [_asset(name) for name in _SCRIPTS]
    notice = _asset("uPlot.LICENSE.txt")  # must accompany each copy
    scripts[0] = f"/*\nuPlot 1.6.32\n{notice}\n*/\n{scripts[0]}"
    players = {each["player"]: _player(each["player"]) for each in report["acting"] if each["kind"] == "film"}
    scripts[1:1] = [script for script, _ in players.values()]
    styles = [_asset(_STYLES[0]), *(style for _, style in players.values()), _asset(_STYLES[1])]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            report=report,
            sections=_safe(_environment().get_template("sections.html.j2").render(report=report)),
            data=_safe(script_data(report, refresh=refresh)),
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


def script_data(report: Mapping[str, Any], *, refresh: float = 0.0) -> str:
    """Return the data of the scripts as JSON that is safe in a page."""
    return script_json({key: report[key] for key in _IN_SCRIPT} | {"title": report["title"], "refresh": refresh})


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
