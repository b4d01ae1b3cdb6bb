"""Actions of factors, enumerated: numbers, probabilities, encodings, and what cannot be enumerated."""

import dataclasses

import gymnasium as gym
import jax
import numpy as np
import pytest

import factorax as fx
from factorax.networks.factor_actions import FactorActions, default_actions, encoded_actions
from factorax.ppo import Config, Learner
from factorax.ppo.methods import Coma, DifferenceRewards
from factorax.problems import chain, contextual_bandit, queues
from factorax.spec import Spec

GROUPED = fx.InfluenceNetwork.complete(3, 1).factor(fx.Factorisation([[0, 2], [1]], 3))
SPEC = Spec.of_spaces(gym.spaces.Box(-1, 1, (2,)), gym.spaces.MultiDiscrete([2, 3, 4]), GROUPED)


def test_the_numbers_of_joint_actions_count_all_combinations():
    actions = FactorActions.of(SPEC)
    assert sorted(actions.sizes.tolist()) == [3, 8]
    rows = np.stack(np.meshgrid(range(2), range(3), range(4), indexing="ij"), -1).reshape(-1, 3)
    numbers = np.asarray(jax.jit(actions.number)(rows.astype(np.float32)))
    assert len({tuple(row) for row in numbers}) == 24
    assert (numbers < actions.sizes).all()


def test_probabilities_are_products_over_the_components_of_a_factor():
    actions = FactorActions.of(SPEC)
    parameters = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32)
    spread = SPEC.components.spread()
    share = np.asarray(jax.jit(actions.probabilities)(parameters, spread))
    of_actions = jax.jit(lambda a: (SPEC.components.log_prob(parameters, spread, a), actions.number(a)))
    np.testing.assert_allclose(share.sum(axis=-1), 1, rtol=1e-5)
    for row in ([0, 0, 0], [1, 2, 3], [1, 0, 2]):
        log_prob, number = map(np.asarray, of_actions(np.broadcast_to(np.float32(row), (5, 3))))
        each = np.exp(log_prob)
        for i, group in enumerate(SPEC.groups):
            np.testing.assert_allclose(share[np.arange(5), i, number[:, i]], each[:, group].prod(axis=1), rtol=1e-5)


def test_encodings():
    one_hot = jax.jit(lambda a: encoded_actions(SPEC, a))(np.float32([1.0, 0.0, 3.0]))
    np.testing.assert_array_equal(one_hot, [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
    spec = Spec.of(chain(2))  # bounds −2 and 2; raw actions are scaled
    np.testing.assert_allclose(jax.jit(lambda a: encoded_actions(spec, a))(np.float32([0.5, 9.0])), [[0.5], [1.0]])
    given = jax.jit(lambda a: encoded_actions(spec, a, raw=False))(np.float32([0.5, -2.0]))
    np.testing.assert_allclose(given, [[0.25], [-1.0]])


@pytest.mark.parametrize(
    ("problem", "method", "message"),
    [
        (chain(3), Coma(), "critic: got one that enumerates .* component 0 is continuous; want discrete"),
        (chain(3), DifferenceRewards(), "component 0 is continuous; want discrete actions, .* or a default_action"),
        (chain(3), DifferenceRewards((0, 0)), "default_action: got 2 numbers, want 3"),
        (chain(3), DifferenceRewards((0, 0, 7)), "got 7 for component 2, want one from -2 to 2"),
        (queues(2, 2), DifferenceRewards((0.5,)), "got 0.5 for component 0, want a whole number from 0 to 1"),
        (queues(2, 2), DifferenceRewards((2,)), "got 2 for component 0, want a whole number from 0 to 1"),
    ],
)
def test_what_does_not_fit_the_problem_is_refused(problem, method, message):
    with pytest.raises(ValueError, match=message):
        Learner.of(problem, config=Config(method=method, policy="shared"))


def test_too_many_joint_actions_are_refused():
    problem = contextual_bandit(12)
    one = fx.InfluenceNetwork.complete(12, 1).factor(fx.Factorisation([list(range(12))], 12))
    problem = dataclasses.replace(problem, network=one, weights=np.ones(1), local=None)
    with pytest.raises(ValueError, match="factor 0 has 4,096 joint actions of 12 components, want at most 1,024"):
        FactorActions.of(Spec.of(problem))


def test_one_default_action_may_stand_for_all():
    np.testing.assert_array_equal(default_actions(Spec.of(chain(3)), (1.5,)), [1.5, 1.5, 1.5])
