"""Pages that stand alone: data inside a script element, and a policy that lets only our own scripts run."""

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

# Inside a script element a page ends at "</script>", and JSON may hold line ends that JavaScript has not.
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def script_json(content: Any) -> str:
    r"""Returns JSON that can stand inside a script element, whatever texts it holds.

    >>> print(script_json({"name": "</script><script>alert(1)</script>"}))
    {"name":"\u003c/script\u003e\u003cscript\u003ealert(1)\u003c/script\u003e"}
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.encode(errors="replace").decode()  # half of a surrogate pair is no text
    for character, escape in _ESCAPED.items():
        text = text.replace(character, escape)
    return text


def content_security_policy(scripts: Sequence[str], styles: Sequence[str], *, connect: bool = False) -> str:
    """Return a policy under which a page runs these scripts and uses these styles, and loads nothing.

    - `connect`: whether it may fetch from where it came from, as a live view does.
    """
    parts = [
        "default-src 'none'",
        f"script-src {' '.join(map(_hash, scripts))}",
        f"style-src {' '.join(map(_hash, styles))}",
        "img-src data:",
        *(["connect-src 'self'"] if connect else []),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(parts)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
