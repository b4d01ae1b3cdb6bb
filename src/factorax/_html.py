"""Self-contained HTML pages: data in script elements, and a policy that allows only our own scripts."""

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

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
