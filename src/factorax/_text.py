"""Text of messages: counts, lists of names, abbreviated values, the nearest known word, and warnings."""

import difflib
import sys
import warnings
from collections.abc import Iterable, Sequence


def shown(value: object) -> str:
    """Return a value for use in a message, on one line and abbreviated."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def some(names: Sequence[str], limit: int = 5) -> str:
    """Return a list of names, abbreviated for messages: ``'a1', 'a2' and 7 more``."""
    first = ", ".join(repr(name) for name in names[:limit])
    return first if len(names) <= limit else f"{first} and {len(names) - limit} more"


def counted(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: `one` for a count of 1, otherwise `many` (by default `one` plus "s").

    >>> counted(1, "edge is", "edges are"), counted(3, "target")
    ('1 edge is', '3 targets')
    """
    return f"{count} {one if count == 1 else many or f'{one}s'}"


def printable(text: object, keep: str = "", limit: int = 200) -> str:
    r"""Return text with non-printable characters escaped, abbreviated to `limit` characters.

    Names may come from untrusted files, may be of any length, and some characters are commands to a terminal.

    - `keep`: characters that are not escaped, such as line breaks.

    >>> printable("chain\x1b[2J\u202e")
    'chain\\x1b[2J\\u202e'
    >>> printable("x" * 1000, limit=10)
    'xxxxxxxxxx… (1,000 characters)'
    """
    # The limit applies before escaping, so that a huge text costs nothing.
    full = str(text)
    rest = "" if len(full) <= limit else f"… ({len(full):,} characters)"
    escaped = (c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in full[:limit])
    return "".join(escaped) + rest


def nearest(word: object, known: Iterable[str]) -> str | None:
    """Return the known word most similar to `word`, ignoring case, or None if none is similar.

    >>> nearest("leraning_rate", ["learning_rate", "gamma"])
    'learning_rate'
    """
    # Case is the most common difference between names of libraries.
    by_lower = {each.lower(): each for each in known}
    match = difflib.get_close_matches(str(word).lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[match[0]] if match else None


def did_you_mean(word: object, known: Iterable[str], *, quoted: bool = False) -> str:
    """Return the nearest known word as the end of a message, or an empty string if none is similar.

    >>> did_you_mean("chian", ["chain", "queues"])
    '; did you mean chain?'
    """
    close = nearest(word, known)
    return "" if close is None else f"; did you mean {repr(close) if quoted else close}?"


class StructureWarning(UserWarning):
    """Warns of an influence network that is valid but probably not intended."""


def warn(message: str, category: type[Warning] = StructureWarning) -> None:
    """Issue a warning that points at the caller's line outside this package, however deep the call is."""
    # A fixed depth would point into this package, since the same checks are reached in many ways.
    depth, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "factorax":
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth)
