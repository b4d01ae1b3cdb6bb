"""A curriculum of networks: which one holds when, its credit, compiled and not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factorax import InfluenceNetwork, credit, factor_baseline
from factorax.structure import Curriculum
from factorax.structure.patterns import banded

STAGES = (InfluenceNetwork.identity(4), banded(4, 1), InfluenceNetwork.complete(4, 4))
CURRICULUM = Curriculum(STAGES, steps=30)


@pytest.mark.parametrize(("step", "stage"), [(-1, 0), (0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (29, 2), (10**9, 2)])
def test_each_network_has_an_equal_share_and_the_last_stays(step, stage):
    assert CURRICULUM.present(None, step) == STAGES[stage]
    assert CURRICULUM.at(step).network() == STAGES[stage]


@given(st.integers(2, 6), st.integers(6, 1000))
def test_shares_differ_by_at_most_one_step(n, steps):
    boundaries = Curriculum([InfluenceNetwork.identity(2)] * n, steps=steps).boundaries
    shares = np.diff([0, *boundaries, steps])
    assert shares.min() > 0
    assert shares.max() - shares.min() <= 1


@pytest.mark.parametrize("step", [0, 10, 20])
def test_its_credit_is_that_of_the_network_to_the_bit(step):
    psi, net = np.random.default_rng(0).normal(size=(3, 4)), CURRICULUM.present(None, step)
    np.testing.assert_array_equal(credit(CURRICULUM.at(step), psi), credit(net, psi))
    np.testing.assert_allclose(factor_baseline(CURRICULUM.at(step), psi), factor_baseline(net, psi), atol=1e-14)


def test_a_traced_step_compiles_once_and_agrees():
    psi, traces = jnp.array([3.0, -1.0, 0.5, 2.0]), []

    @jax.jit
    def compiled(step):
        traces.append(step)
        return credit(CURRICULUM.at(step), psi)

    for step in range(0, 40, 5):
        wanted = CURRICULUM.present(None, step).to_dense() @ np.asarray(psi)
        np.testing.assert_allclose(compiled(jnp.asarray(step)), wanted, rtol=1e-6)
    assert len(traces) == 1


def test_a_curriculum_itself_has_no_credit():
    with pytest.raises(TypeError, match=r"got Curriculum, .* take a point of it with .at\(step\)"):
        credit(CURRICULUM, np.ones(4))


def test_repr_says_which_networks_and_how_long():
    assert repr(CURRICULUM) == f"Curriculum({' → '.join(map(repr, STAGES))}, 30 steps)"


@pytest.mark.parametrize(
    ("networks", "steps", "message"),
    [
        (STAGES[:1], 10, "networks: got 1, want two or more"),
        ([STAGES[0], InfluenceNetwork.identity(3)], 10, r"networks\[1\]: got .* want the same actions and targets"),
        ([STAGES[0], STAGES[0].relabel([*"dcba"])], 10, r"networks\[1\]: got .* in the same order"),
        (STAGES, 2, "steps: got 2, want at least one for each of the 3 networks"),
        (STAGES, 0, "steps: got 0, want a whole number from 1"),
    ],
)
def test_bad_curricula_are_named(networks, steps, message):
    with pytest.raises(ValueError, match=message):
        Curriculum(networks, steps=steps)
