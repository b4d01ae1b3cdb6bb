"""Write the table of claims, as it ships with the library, to `docs/_generated/claims.md`.

`conf.py` runs this file at every build, after `make_figures.py`, and `claims.md` includes what it writes.
"""

import re
from collections import Counter
from itertools import groupby
from pathlib import Path

from factorax.experiments.harness.claims import Claim, published

PAGE = Path(__file__).parent / "_generated" / "claims.md"
PLURALS = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold"}

PAGES = {"ev2gym_chargers": "ev2gym.md"}
"""Of the examples that make claims."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|$#~])")


def escape(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return _SPECIAL.sub(r"\\\1", text)


def count(claims: list[Claim]) -> str:
    """How many claims have which verdict, as a sentence."""
    numbers = Counter(claim.verdict for claim in claims)
    holds, partly, fails = (f"{numbers[one]} {one if numbers[one] == 1 else many}" for one, many in PLURALS.items())
    return f"Of {len(claims)} claims {holds}, {partly} and {fails}."


def row(claim: Claim) -> str:
    """A row of a list-table: the verdict; the claim, its place and the paper's figure; ours, and why."""
    cells = (
        [f"**{claim.verdict}**"],
        [escape(claim.claim), f"{escape(claim.where)}. Paper: {escape(claim.paper)}."],
        [escape(claim.ours), *([f"*{escape(claim.note)}*"] if claim.note else [])],
    )
    marks = ("* - ", "  - ", "  - ")
    return "".join(mark + "\n\n    ".join(cell) + "\n" for mark, cell in zip(marks, cells, strict=True))


def render(claims: list[Claim]) -> str:
    """The whole of it, a section for each experiment."""
    sections = [count(claims)]
    for command, group in groupby(claims, key=lambda claim: claim.command):
        program, what, *rest = command.split()
        name = rest[0] if program == "factorax" else Path(what).stem
        link = f"[The figure](experiments.md#{name})" if program == "factorax" else f"[The example]({PAGES[name]})"
        rows = "".join(map(row, group))
        table = (
            ":::{list-table}\n:header-rows: 1\n:widths: 14 38 48\n:width: 100%\n\n"
            f"* - verdict\n  - claim\n  - measured\n{rows}:::"
        )
        sections.append(f"## {name}\n\n{link} · `{command}`\n\n{table}")
    return "\n\n".join(sections) + "\n"


def main() -> None:
    PAGE.write_text(render(published()), encoding="utf-8")


if __name__ == "__main__":
    main()
