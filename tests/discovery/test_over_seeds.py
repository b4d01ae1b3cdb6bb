"""Tests over seeds: the error rate that they state, and effects of several kinds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from discovery.shifting import Shifting
from scipy import stats

import factorax as fx
from factorax.discovery import intervene
from factorax.discovery.over_seeds import compare_over_seeds
from factorax.discovery.simulators import simulator_of


def compared(make, *, trials, seed=0, horizon=2, name="open-loop", policy=None):
    simulator = simulator_of(make, horizon, policy)
    simulator.watch_streams(seed, simulator.sequence(np.random.default_rng(seed), alike=False))
    return compare_over_seeds(simulator, name, trials=trials, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "policy"), [("open-loop", False), ("closed-loop", True), ("one-step", False)])
def test_null_p_values_keep_their_level(name, policy):
    """No edge exists outside the diagonal: P(p ≤ α) ≤ α. 480 tests, in groups of 12 that share 12 or 72 seeds; the
    bound is that of 480 independent tests at a confidence of 99.9 %."""

    def act(key, obs):
        return np.tanh(obs[0] + np.asarray(jax.random.normal(key, (4,))))  # all answer to the weather

    nulls = []
    for seed in range(40):
        result = compared(Shifting, trials=12, seed=100 * seed, horizon=3, name=name, policy=act if policy else None)
        nulls.append(result.p_value[~np.eye(4, dtype=bool)])
    p = np.concatenate(nulls)
    for level in (0.05, 0.01):
        assert (p <= level).sum() <= stats.binom.isf(0.001, p.size, level)


def test_effects_that_do_not_shift_the_mean():
    """ψ₁ = a₁², ψ₂ = noise with the spread |a₂|; the streams shift, and nothing else moves."""

    class Even(Shifting):
        n = 3

        def step(self, action):
            result = super().step(action)
            noise = result[-1]["vector_reward"] - 2 * np.asarray(action, float)
            psi = np.array([4 * action[0] ** 2 + noise[0], 6 * abs(action[1]) * noise[1], noise[2]])
            return *result[:-1], {"vector_reward": psi}

    with pytest.warns(fx.structure.StructureWarning, match="shift"):
        found = intervene(Even, horizon=1, trials=60, one_step=False)
    assert found.found(0.01).tolist() == [[True, False, False], [False, True, False], [False] * 3]


def test_jax_problems_can_be_tested_too():
    problem = fx.problems.contextual_bandit(3)
    found = intervene(problem, horizon=1, trials=40, streams="test")
    assert found.streams == "held"
    assert (found.found(0.01) & ~problem.network.to_dense()).sum() == 0
    assert found.also["one-step"].samples.min() == 40 + 160


def test_few_changes_cannot_be_sure():
    """With k seeds in which a target changed, p is at least 2¹⁻ᵏ."""
    assert (compared(Shifting, trials=3, policy=lambda key, obs: jnp.zeros(4)).p_value >= 2.0**-2).all()


def test_granted_edges_stay():
    start = np.zeros((4, 4), bool)
    start[0, 3] = True
    with pytest.warns(fx.structure.StructureWarning, match="shift"):
        found = intervene(
            Shifting, horizon=2, trials=10, one_step=False, start=fx.InfluenceNetwork._derive(start, None, None)
        )
    assert found.p_value[0, 3] == 0
    assert "1 edge of start was taken for granted" in found.notes
