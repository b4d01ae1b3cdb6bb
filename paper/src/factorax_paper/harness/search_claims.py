"""Common parts of the claims of the search experiments: who chose what, and what would settle them."""

import dataclasses
from collections.abc import Iterable

from .claims import Claim

DIVERGENCE = "that a gap above 10⁶ counts as divergence"
SCALE = "the division of rewards by n"
GRID = "the grid of dimensions and step sizes (the paper does not give its own)"
MORE_SEEDS = "More seeds: the intervals include the threshold."


def chosen(*, paper: str = "", us: str = "") -> str:
    """Return a sentence on who chose what a verdict depends on.

    >>> chosen(paper="step sizes", us="number of steps")
    'The paper: step sizes. We: number of steps.'
    """
    return " ".join(f"{who}: {what}." for who, what in (("The paper", paper), ("We", us)) if what)


def settled(claims: Iterable[Claim], otherwise: str = MORE_SEEDS) -> list[Claim]:
    """Return the claims with a default of `would_settle`."""
    return [dataclasses.replace(claim, would_settle=claim.would_settle or otherwise) for claim in claims]
