"""Episodes with quotes by a rule."""

import jax.numpy as jnp
import numpy as np
from factorax_paper.market import market, play


def test_targets_are_summed_over_an_episode():
    problem = market(3, horizon=5, volatility=0.0, risk_aversion=1.0, correlation=0.2)
    far = play(problem, lambda time, inventory: jnp.full((3, 2), 30.0), episodes=4)
    assert far.shape == (4, 7)
    assert (far == 0).all()  # nothing is filled
    returns = play(problem, lambda time, inventory: jnp.full((3, 2), 0.5), episodes=200, seed=1)
    fills = returns[:, :3] / 0.5
    np.testing.assert_allclose(fills, fills.round(), atol=1e-4)
    assert returns[:, :3].sum() > 0 > returns[:, 3:6].sum()
