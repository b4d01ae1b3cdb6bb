"""Advantages of RLlib's episodes are those of our learner."""

import warnings

import numpy as np
import pytest
from integrations.rllib.learner_cases import GAMMA, TRACE

from factorax.integrations.rllib.target_advantages import target_advantages
from factorax.ppo import gae

pytestmark = [pytest.mark.rllib, pytest.mark.filterwarnings("ignore")]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("ray.rllib", reason="RLlib is an extra, in an environment of its own", exc_type=ImportError)


def test_advantages_of_episodes_end_to_end_are_ours():
    rng = np.random.default_rng(0)
    lengths, m = [1, 4, 7, 2], 3
    psi, values, stop, ended, theirs = [], [], [], [], []
    for k, length in enumerate(lengths):
        r, v = rng.normal(size=(length, m)), rng.normal(size=(length + 1, m))
        dead = (rng.random((length, m)) < 0.15).cumsum(axis=0) > 0
        dead[-1] |= k % 2 == 0
        last = np.arange(length)[:, None] == length - 1
        options = {"terminated": dead, "ended": last, "gamma": GAMMA, "trace": TRACE}
        theirs += [gae(r.astype("f4"), v[:-1].astype("f4"), v[1:].astype("f4"), **options)[0], np.zeros((1, m))]
        psi += [r, np.zeros((1, m))]
        values.append(v)
        stop += [dead, np.zeros((1, m), bool)]
        ended += [last, np.zeros((1, 1), bool)]
    advantages = target_advantages(
        *map(np.concatenate, (psi, values)),
        terminated=np.concatenate(stop),
        ended=np.concatenate(ended),
        gamma=GAMMA,
        trace=TRACE,
    )
    np.testing.assert_allclose(advantages, np.concatenate(theirs), rtol=1e-5, atol=1e-6)
