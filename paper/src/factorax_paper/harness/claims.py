"""Claims of the paper and of factorax, with measurements and verdicts: one row per claim."""

import dataclasses
import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from factorax._files import read_json
from factorax.runs.statistics import Interval

Verdict = Literal["holds", "holds in part", "does not hold"]
Source = Literal["paper", "ours"]
HEADINGS: dict[Source, str] = {"paper": "The paper's statements", "ours": "Our own statements"}
"""The headings of the two parts of the table, in order."""
MATHEMATICS = "mathematics"
"""The name under which theorems and definitions are listed, whose commands run tests."""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper or of ours that an experiment or an exact test decides."""

    claim: str
    """The statement, in our words."""
    where: str
    """Its place in the paper."""
    paper: str
    """The paper's figure, or what it shows instead."""
    ours: str
    """What was measured, with an interval."""
    verdict: Verdict
    note: str = ""
    """An explanation, if needed."""
    command: str = ""
    """The command that reproduces it."""
    source: Source = "paper"
    """Whether the statement is the paper's or ours."""
    chosen_by: str = ""
    """Who chose the grid, threshold or budget on which the verdict depends; empty if it depends on none, as in
    mathematics."""
    would_settle: str = ""
    """What would settle a claim that holds in part; empty with other verdicts, whatever is passed."""

    def __post_init__(self) -> None:
        # Here, so that no experiment has to make its text depend on its verdict.
        if self.verdict != "holds in part":
            object.__setattr__(self, "would_settle", "")

    @property
    def experiment(self) -> str:
        """What decides the claim: the name of an experiment or example, or ``"mathematics"`` for a test.

        >>> Claim("", "", "", "", "holds", command="factorax reproduce search-rate --budget paper").experiment
        'search-rate'
        >>> Claim("", "", "", "", "holds", command="python paper/examples/ev2gym_chargers.py compare").experiment
        'ev2gym_chargers'
        >>> Claim("", "", "", "", "holds", command="pytest tests/test_counter_examples.py -k sign").experiment
        'mathematics'
        """
        program, argument, *rest = [*shlex.split(self.command), "", ""]
        names = {"factorax": rest[0], "python": Path(argument).stem, "pytest": MATHEMATICS}
        return names.get(program, self.command)

    def as_dict(self) -> dict[str, str]:
        """Return the claim as a dictionary for JSON."""
        return dataclasses.asdict(self)


def verdict(*tests: bool) -> Verdict:
    """Return ``"holds"`` if every test passes, ``"holds in part"`` if some do."""
    return "holds" if all(tests) else "holds in part" if any(tests) else "does not hold"


def above(interval: Interval, bound: float) -> Verdict:
    """Return whether the whole interval is above a bound; ``"holds in part"`` if the interval contains the bound."""
    return "holds" if interval.low > bound else "does not hold" if interval.high < bound else "holds in part"


def by_source(claims: Iterable[Claim]) -> dict[Source, list[Claim]]:
    """Return the paper's statements and ours separately, in the order of `HEADINGS`; both keys always exist."""
    claims = list(claims)
    return {source: [claim for claim in claims if claim.source == source] for source in HEADINGS}


OURS: dict[str, Any] = {"where": "not in the paper", "paper": "–", "source": "ours"}
"""Fields of a claim of ours that the paper does not make."""


def published() -> list[Claim]:
    """Return the claims table that ships with the library: mathematics, and experiments with the paper's budget."""
    files = resources.files(__package__ or "").joinpath("published").iterdir()
    order = sorted(files, key=lambda file: (file.name != f"{MATHEMATICS}.json", file.name))
    texts = [file.read_text(encoding="utf-8") for file in order]
    return [Claim(**row) for text in texts for row in json.loads(text)]


def collected(folders: Iterable[Path]) -> list[Claim]:
    """Return the claims of experiments in these folders."""
    claims = []
    for folder in folders:
        path = Path(folder) / "summary.json"
        try:
            content: Any = read_json(path)
            rows = [Claim(**row) for row in content["claims"]]
            for name, allowed in (("verdict", get_args(Verdict)), ("source", get_args(Source))):
                odd = [getattr(row, name) for row in rows if getattr(row, name) not in allowed]
                if odd:
                    raise ValueError(f"the {name} {odd[0]!r}")
            claims += rows
        except FileNotFoundError:
            raise FileNotFoundError(f"{path}: no summary; want a folder that an experiment has finished in") from None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: not a summary of an experiment, or damaged ({error})") from error
    return claims
