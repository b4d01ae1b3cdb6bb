"""`Spec`: what is fixed before training, worked out once and checked."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import factorax as fx
from factorax.problems import chain, queues
from factorax.spec import Spec, is_jax, opened

BOX = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)


class Two(gym.Env):
    """Two actions, two targets, and a count of the environments that are open."""

    opened = 0
    observation_space = BOX
    action_space = BOX
    network = fx.InfluenceNetwork([[1, 1], [0, 1]])
    weights = np.array([2.0, 3.0])

    def __init__(self):
        type(self).opened += 1

    def close(self):
        type(self).opened -= 1

    def local(self, obs):
        return obs[..., :, None]


def test_defaults_come_from_the_problem():
    problem = chain(3)
    spec = Spec.of(problem)
    assert spec.is_jax
    assert spec.network is problem.network
    assert (spec.n_factors, spec.n_targets, spec.n_inputs) == (3, 3, problem.observation_space.shape[0])
    np.testing.assert_array_equal(spec.weights, problem.weights)
    assert spec.factors is None


def test_spec_of_a_factory_closes_the_environment_it_makes():
    spec = Spec.of(Two)
    assert Two.opened == 0
    assert not spec.is_jax
    assert spec.problem_defines_local
    np.testing.assert_array_equal(spec.weights, [2.0, 3.0])
    with pytest.raises(ValueError, match=r"weights: got \[1\.0\], want \(2,\), one λ per target"):
        Spec.of(Two, weights=[1.0])
    assert Two.opened == 0  # also after an error


def test_arguments_replace_what_the_problem_declares():
    net, see_all = fx.InfluenceNetwork.complete(2, 3), lambda obs: obs[..., None, :] + jnp.zeros((2, 1))
    spec = Spec.of(Two, net, weights=[1, 2, 3], local=see_all)
    assert spec.network is net
    assert spec.local is see_all
    assert not spec.problem_defines_local
    assert spec.weights.dtype == np.float64


def test_network_with_other_rows_is_refused():
    spec = Spec.of(Two)
    assert spec.with_network(fx.AdaptiveNetwork.from_complete(spec.network.static)).network.static.density == 1
    with pytest.raises(ValueError, match="network: has 3 rows"):
        spec.with_network(fx.InfluenceNetwork.complete(3, 2))


def test_without_a_network_the_reward_is_the_only_target():
    spec = Spec.of(lambda: gym.make("CartPole-v1"))
    assert spec.network.static.shape == (1, 1)
    np.testing.assert_array_equal(spec.weights, [1.0])


def test_components_of_a_factor_share_its_local_observation():
    net = fx.InfluenceNetwork([[1, 0], [1, 0], [0, 1]])
    factored = net.factor(net.minimum_factorisation())
    space = gym.spaces.MultiBinary(3)
    spec = Spec.of_spaces(BOX, space, factored)
    np.testing.assert_array_equal(spec.factors, [0, 0, 1])
    assert [group.tolist() for group in spec.groups] == [[0, 1], [2]]
    local = Spec.of_spaces(BOX, space, factored, local=lambda obs: jnp.stack([obs, 10 * obs], axis=-2))
    seen = np.asarray(jax.jit(lambda obs: local.local_of(obs, jnp))(np.ones((5, 2))))
    np.testing.assert_array_equal(seen[0], [[1, 1], [1, 1], [10, 10]])
    assert seen.shape == (5, 3, 2)
    everything = spec.local_of(np.ones((5, 2)), np)
    assert everything.shape == (5, 3, 2)


def test_full_covariance_is_confined_to_factors():
    net = fx.InfluenceNetwork([[1, 0], [1, 0], [0, 1]])
    box = gym.spaces.Box(-np.inf, np.inf, (3,))
    full = Spec.of_spaces(BOX, box, net.factor(net.minimum_factorisation()), distribution="scale,std=full")
    np.testing.assert_array_equal(full.components.blocks, [[0, 1]])
    assert Spec.of_spaces(BOX, box, net, distribution="scale,std=full").components.blocks is None


@pytest.mark.parametrize("matrix", [[[1, 1], [0, 1]], np.array([[1, 1], [0, 1]]), sparse.coo_array([[1, 1], [0, 1]])])
def test_a_plain_matrix_is_a_network(matrix):
    net = fx.InfluenceNetwork([[1, 1], [0, 1]])
    spec = Spec.of_spaces(BOX, BOX, matrix)
    assert spec.network == net
    assert spec.with_network(np.ones((2, 2))).network == fx.InfluenceNetwork.complete(2, 2)


def test_opened_returns_a_jax_problem_unchanged():
    problem = queues(2)
    with opened(problem) as source:
        assert source is problem
    assert is_jax(problem)
    assert not is_jax(Two)


def test_components_without_bounds_are_named():
    box = gym.spaces.Box(np.float32([0, 0, -np.inf]), np.float32([1, np.inf, np.inf]))
    net = fx.InfluenceNetwork([[1, 0], [1, 0], [0, 1]], actions=["valve", "pump", "tap"])
    assert Spec.of_spaces(BOX, box, net).unscaled == ("pump", "tap")
    factored = net.factor(net.minimum_factorisation())
    assert Spec.of_spaces(BOX, box, factored).unscaled == ("component 1", "component 2")
    assert Spec.of_spaces(BOX, BOX, fx.InfluenceNetwork.identity(2)).unscaled == ()


def test_raw_actions_are_read_from_metadata():
    class Raw(Two):
        metadata = {"raw_actions": True}  # noqa: RUF012

    assert Spec.of(Raw).raw_actions
    assert not Spec.of(Two).raw_actions


def test_local_may_have_a_row_per_factor_or_per_component():
    """`local` has a row for every factor, or one for every component; a factor then sees those of its components."""
    box = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
    net = fx.InfluenceNetwork([[1, 0], [0, 1], [1, 0]])
    pairs = net.factor(net.minimum_factorisation())
    obs = np.array([[1.0, 2.0, 3.0]])
    by_component = Spec.of_spaces(box, box, pairs, local=lambda obs: obs[..., :, None])
    np.testing.assert_array_equal(by_component.local_of(obs, np), [[[1.0], [2.0], [3.0]]])
    assert by_component.components_of_factor.tolist() == [[0, 2], [1, 3]]  # padded with 3
    by_factor = Spec.of_spaces(box, box, pairs, local=lambda obs: obs[..., :2, None])
    np.testing.assert_array_equal(by_factor.local_of(obs, np), [[[1.0], [2.0], [1.0]]])
    assert by_factor.components_of_factor.tolist() == [[0], [1]]
    assert Spec.of_spaces(box, box, pairs).components_of_factor.tolist() == [[0], [1]]


@pytest.mark.parametrize("local", [lambda obs: obs, lambda obs: obs[..., None, :], lambda obs: obs[..., None, None]])
def test_local_observations_of_the_wrong_shape_are_refused(local):
    box = gym.spaces.Box(-1.0, 1.0, (4,))
    spec = Spec.of_spaces(box, box, fx.InfluenceNetwork.identity(4), local=local)
    with pytest.raises(
        ValueError, match=r"local: got shape .* for observations of shape \(3, 4\), want \(\.\.\., 4, l\)"
    ):
        spec.local_of(np.zeros((3, 4)), np)
