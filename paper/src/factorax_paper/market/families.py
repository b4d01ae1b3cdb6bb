"""The family of problems `market`: a function from the text of a name to a problem."""

from factorax.problems.families import MAX_FACTORS, MAX_STEPS, check_size, jax_problem
from factorax.problems.problem import Problem


def market(text: str) -> Problem:
    """Return the problem named ``market:10,risk_aversion=0.5``: a dealer who quotes on ten assets, with the numeric
    settings of `factorax_paper.market.MarketModel`."""
    from .market_problem import market as make_market

    check_size("market", text, factors=MAX_FACTORS // 2, horizon=MAX_STEPS, largest_inventory=MAX_STEPS)
    return jax_problem(make_market, "market", text)
