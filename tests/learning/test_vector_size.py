"""`n_envs` is that of a vector environment, unless it is given; then it has to be a multiple."""

from functools import partial

import numpy as np
import pytest
from rollouts.environments import Drift
from rollouts.vectors import Own, sync

import factorax as fx
from factorax.learning import Config, Learner
from factorax.learning.vector_size import vector_size

TINY = {"hidden": (4,), "n_epochs": 1, "check_network": False}


def test_it_is_taken_from_the_vector():
    assert fx.FactoredPPO(sync, n_steps=4, batch_size=4, **TINY).config.n_envs == 3
    assert fx.FactoredPPO(sync, n_steps=10, batch_size=30, **TINY).config.n_envs == 3  # 30 does not divide 8 × 10
    assert fx.FactoredPPO(partial(sync, n=1), n_steps=10, batch_size=5, **TINY).config.n_envs == 1
    assert fx.FactoredPPO(Drift, n_steps=4, batch_size=4, **TINY).config.n_envs == 8
    for settings in ({"batch_size": 7}, {"batch_size": 30, "n_envs": 8}):
        with pytest.raises(ValueError, match="batch_size: got"):
            fx.FactoredPPO(sync, n_steps=10, **settings, **TINY)


def test_another_number_is_refused_and_both_are_named():
    message = r"n_envs: got 8, .* num_envs = 3; want n_envs=3 \(the default\), or a multiple such as 9"
    with pytest.raises(ValueError, match=message):
        fx.FactoredPPO(sync, n_envs=8, n_steps=4, batch_size=4, **TINY)
    with pytest.raises(ValueError, match=message):
        Learner.of(sync, config=Config(n_envs=8))
    model = fx.FactoredPPO(sync, n_envs=6, workers=3, rollouts="processes", n_steps=4, batch_size=4, **TINY)
    with pytest.raises(ValueError, match=r"workers: got 3, want from 1 to 2, the number of vectors of 3"):
        model.learn(24, progress_bar=False)


def test_who_knows_is_not_asked_to_make_one():
    assert vector_size("chain:3") is None
    assert vector_size(fx.problems.chain(3)) is None
    assert vector_size(sync) == 3
    assert vector_size(Drift) is None
    made = []

    def make():
        made.append(Own())
        return made[-1]

    wrapped = fx.wrap(make)
    assert vector_size(wrapped) == 3
    assert len(made) == 1
    assert vector_size(fx.wrap(Drift, np.eye(3))) is None
