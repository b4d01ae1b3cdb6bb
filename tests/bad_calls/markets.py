"""Bad calls of `factorax_paper.market`, and bad names of markets."""

import numpy as np

from bad_calls.rows import INF, NAN, NOT_COUNTS, NOT_WHOLE, Given, bad
from factorax.problems import chain, find_problem, market

MODEL = market.MarketModel(2, horizon=3)
TIED = market.MarketModel(2, horizon=3, risk_aversion=1.0, correlation=0.5)
MANY = market.MarketModel(9, risk_aversion=1.0, correlation=0.5)
MARKET = market.market(2, horizon=3)
NOT_POSITIVE = (0, -1.0, NAN, INF, "2", None, True, [1.0], Given([1.0, -2.0], "-2"), Given([1.0, NAN], "nan"))
NOT_PENALTIES = (-0.1, NAN, INF, "2", None, [1.0], Given([0.0, -2.0], "-2"))
NOT_MODELS = (None, 3, "market", MARKET)
NOT_TIMES = (-1.0, NAN, INF, "1", True)
OF_MODEL = {
    "intensity": NOT_POSITIVE,
    "decay": NOT_POSITIVE,
    "volatility": (-0.1, NAN, INF, "2", [1.0], Given([0.0, -2.0], "-2")),
    "running_penalty": NOT_PENALTIES,
    "terminal_penalty": NOT_PENALTIES,
    "correlation": (-1.5, 1.1, NAN, "0", None),
    "covariance": (
        3.0,
        "c",
        Given(np.eye(3), "(3, 3)"),
        Given([[1.0, 0.5], [0.0, 1.0]], "symmetric"),
        Given([[1.0, 2.0], [2.0, 1.0]], "-1"),
        Given([[NAN, 0.0], [0.0, 1.0]], "nan"),
    ),
    "risk_aversion": (-0.1, NAN, INF, "1", None, [1.0]),
    "largest_inventory": NOT_COUNTS,
    "lowest_quote": (NAN, "0", None, Given(9.0, "9.0")),
    "highest_quote": (INF, "0", None, Given(-9.0, "-9.0")),
    "step": (0, -0.1, NAN, INF, "1", None),
    "horizon": NOT_COUNTS,
}
BY_NAME = {
    "market:0": "size of at least 1",
    "market:-3": "size of at least 1",
    "market:2x2": "market:2x2",
    "market:two": "'two'",
    "market:5000": "2,048",
    "market:2,intensity=-1": "intensity: got -1",
    "market:2,intensity=none": "'none'",
    "market:2,intensty=1": "intensity",
    "market:2,horizon=0": "horizon: got 0",
    "market:2,largest_inventory=1000000": "largest_inventory",
    "market:3,correlation=-1": "correlation: got -1",
    "market:2,covariance=1": "covariance: got",
}

ROWS = [
    *bad("problems.market.MarketModel", market.MarketModel, {"n": 2}, n=NOT_COUNTS, **OF_MODEL),
    *bad("problems.market.market", market.market, {"n": 2}, n=NOT_COUNTS, intensty=[Given(1, "intensity")], **OF_MODEL),
    *bad(
        "problems.market.Market.influence",
        MARKET.influence,
        preset=[Given(name, head="network") for name in ("pairs", None, 3)],
    ),
    *bad(
        "problems.find_problem",
        find_problem,
        name=[Given(name, shows, "problem") for name, shows in BY_NAME.items()],
    ),
    *(
        row
        for name in ("continuous_values", "continuous_quotes")
        for row in bad(
            f"problems.market.{name}",
            getattr(market, name),
            {"model": MODEL},
            model=[*NOT_MODELS, Given(TIED, "couples")],
            time_left=NOT_TIMES,
            asset=[*NOT_WHOLE, 2],
        )
    ),
    *bad("problems.market.optimum", market.optimum, model=[*NOT_MODELS, Given(MANY, "2,357,947,691")]),
    *bad(
        "problems.market.value_of_quotes",
        market.value_of_quotes,
        {"model": MODEL, "quotes": np.zeros((3, 11, 2))},
        model=[*NOT_MODELS, Given(TIED, "couples")],
        quotes=[None, "q", np.zeros((3, 11)), np.zeros((2, 11, 2)), Given(np.full((3, 11, 2), NAN), "nan")],
        asset=[*NOT_WHOLE, 2],
    ),
    *bad(
        "problems.market.closed_form_curvature",
        market.closed_form_curvature,
        {"model": MODEL},
        model=NOT_MODELS,
        time_left=NOT_TIMES,
    ),
    *bad(
        "problems.market.closed_form_quotes",
        market.closed_form_quotes,
        {"model": MODEL, "inventory": [0, 0]},
        model=NOT_MODELS,
        inventory=[None, "q", 3, [0], [0, 0, 0], ["a", "b"]],
        time_left=NOT_TIMES,
    ),
    *bad("problems.market.ClosedForm", market.ClosedForm, model=NOT_MODELS),
    *bad(
        "problems.market.play",
        market.play,
        {"market": MARKET, "rule": abs},
        market=[None, 3, "market:2", chain(2)],
        rule=[None, 3, "best"],
        episodes=NOT_COUNTS,
        seed=[-1, 0.5, "0", True, None],
    ),
]
