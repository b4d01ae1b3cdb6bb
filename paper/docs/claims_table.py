"""Write the table of claims that ships with factorax-paper to `docs/_generated/claims.md`.

`docs/conf.py` runs this file at every build, after `make_figures.py`, and `claims.md` includes the result.
"""

import re
from collections import Counter
from itertools import groupby
from pathlib import Path

from factorax_paper.experiments import NAMES
from factorax_paper.harness.claims import HEADINGS, MATHEMATICS, Claim, by_source, published

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "_generated" / "claims.md"
PLURALS = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold"}

LINKS = {
    MATHEMATICS: "[Counter-examples](../../docs/explanation/departures.md)",
    "ev2gym_chargers": "[The example](ev2gym.md)",
}
"""Links of claims that no experiment decides."""

FIGURE_PAGES = {
    name: page
    for page in ("experiments_bandits.md", "experiments_training.md", "experiments_discovery.md")
    for name in re.findall(r"^## ([a-z0-9-]+)$", (HERE / page).read_text(encoding="utf-8"), re.MULTILINE)
}
"""The page of each experiment, from its headings."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|$#~])")


def escape(text: str) -> str:
    """Return text that Markdown shows unchanged."""
    return _SPECIAL.sub(r"\\\1", text)


def count(claims: list[Claim]) -> str:
    """Return a sentence with the number of claims per verdict."""
    numbers = Counter(claim.verdict for claim in claims)
    holds, partly, fails = (f"{numbers[one]} {one if numbers[one] == 1 else many}" for one, many in PLURALS.items())
    return f"Of {len(claims)} claims {holds}, {partly} and {fails}."


def row(claim: Claim, command: bool) -> str:
    """Return a row of the table: the verdict; the claim, its place and who chose what; the measurement, and an
    explanation."""
    place = [f"{escape(claim.where)}. Paper: {escape(claim.paper)}."] if claim.source == "paper" else []
    chosen = [f"Chosen by {escape(claim.chosen_by)}"] if claim.chosen_by else []
    note = [f"*{escape(claim.note)}*"] if claim.note else []
    settle = [f"*Would settle it:* {escape(claim.would_settle)}"] if claim.would_settle else []
    cells = (
        [f"**{claim.verdict}**"],
        [escape(claim.claim), *place, *chosen],
        [escape(claim.ours), *note, *settle, *([f"`{claim.command}`"] if command else [])],
    )
    marks = ("* - ", "  - ", "  - ")
    return "".join(mark + "\n\n    ".join(cell) + "\n" for mark, cell in zip(marks, cells, strict=True))


def section(name: str, claims: list[Claim]) -> str:
    """Return the section of claims that one experiment, one example or the tests of the mathematics decide."""
    link = f"[The figure]({FIGURE_PAGES[name]}#{name})" if name in NAMES else LINKS[name]
    commands = {claim.command for claim in claims}
    head = f"{link} · `{claims[0].command}`" if len(commands) == 1 else link
    rows = "".join(row(claim, len(commands) > 1) for claim in claims)
    table = (
        ":::{list-table}\n:header-rows: 1\n:widths: 14 38 48\n:width: 100%\n\n"
        f"* - verdict\n  - claim\n  - measured\n{rows}:::"
    )
    return f"### {name}\n\n{head}\n\n{table}"


def render(claims: list[Claim]) -> str:
    """Return the whole table: the paper's statements, then ours, with one section per experiment."""
    parts = []
    for source, part in by_source(claims).items():
        groups = groupby(part, key=lambda claim: claim.experiment)
        parts += [f"## {HEADINGS[source]}", count(part), *(section(name, list(group)) for name, group in groups)]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    PAGE.write_text(render(published()), encoding="utf-8")


if __name__ == "__main__":
    main()
