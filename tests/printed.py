"""What a page of the documentation printed, compared with what it shows."""

import re
import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))

import run_page

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def agrees(printed: str, shown: str) -> bool:
    """Word for word the same, but that a number may differ by one in its last place: processors round differently."""
    words = list(zip(printed.split(), shown.split(), strict=False))
    return len(printed.split()) == len(shown.split()) and all(
        map(_same_word, *zip(*words, strict=True)) if words else ()
    )


def _same_word(printed: str, shown: str) -> bool:
    if _NUMBER.sub("#", printed) != _NUMBER.sub("#", shown):
        return False
    return all(
        abs(Decimal(a) - Decimal(b)) <= Decimal((0, (1,), Decimal(b).as_tuple().exponent))
        for a, b in zip(_NUMBER.findall(printed), _NUMBER.findall(shown), strict=True)
    )


def check_printed(page: Path, records: list[tuple[int, str, str | None]]) -> None:
    """Fail unless every block of a page has its record (line, printed and shown text), and shows what it printed."""
    assert len(records) == len(run_page.blocks(page.read_text(encoding="utf-8")))
    for line, printed, shown in records:
        if shown is not None:
            where = f"{page}, block at line {line}; `python docs/run_page.py --write {page}` brings the page up to date"
            assert agrees(printed, shown), f"{where}\nshown:\n{shown}\nprinted:\n{printed}"
