"""Problems of every kind for the tests of views."""

import pytest
from integrations.environments import EYE, Agents, Plain

import factorax as fx
from factorax.problems import chain, contextual_bandit, queues

PROBLEMS = {
    "bandit": contextual_bandit(3),
    "chain": chain(3, delay=2, horizon=6),
    "queues": queues(2, 2, horizon=12),
    "wrapped": fx.wrap(Plain, EYE, reward="info:a,b.c"),
    "agents": fx.wrap(Agents, fx.InfluenceNetwork.identity(3)),
}


every_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
