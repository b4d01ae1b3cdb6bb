"""Every method on a problem whose trajectories can be enumerated: the expected update is the formula, to 1e-6."""

import dataclasses
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_settings import SMALL

import factorax as fx
from factorax.ppo import METHODS, Compiled, Config, FactoredPPO, Learner, find_network
from factorax.ppo.adaptive import AdaptiveNetwork
from factorax.ppo.methods.counterfactual import Counterfactual
from factorax.ppo.presets import network_of, settings_with
from factorax.problems import chain, queues
from ppo import helping
from ppo.two_bits import LAM, REWARDS, SETTINGS, H, flat, trajectories, two_bits

CASES = {name: name for name in METHODS.kinds} | {
    "difference, default": "difference-rewards,default_action=1:0",
    "difference, every": "difference-rewards,at=every",
}


@cache
def learner(case, n_envs=2, **changed):
    method = METHODS.read(CASES[case])
    sizes = {"n_envs": n_envs, "batch_size": n_envs * H, "policy": method.settings.get("policy", "auto")}
    config = Config(**settings_with("none", SETTINGS | {"method": method} | changed | sizes))
    problem, network = two_bits(), network_of("none", method)
    return Learner.of(problem, network and find_network(problem, network), config)


def double(tree):
    return jax.tree.map(lambda x: np.asarray(x, np.float64) if eqx.is_inexact_array(x) else x, tree)


@cache
def agent_of(case):
    """An agent in double precision, whose policy is not uniform, and whose critic knows nothing."""
    with jax.enable_x64(False):
        agent = helping.random_network(lambda: learner(case).init(0).agent)
    rng = np.random.default_rng(9)
    noise = lambda x: jax.device_put(x + 0.7 * rng.normal(size=x.shape)) if eqx.is_inexact_array(x) else x  # noqa: E731
    return jax.tree.map(noise, double(agent))


@cache
def all_trajectories():
    """All trajectories as a rollout, in double precision."""
    return double(trajectories())


def log_probs(policy, rollout):
    return learner("ppo").rule.log_prob(policy(rollout.obs, rollout.local), rollout.action)


def credit_of(case, agent, rollout, **hyper):
    """The credit of every factor by the method; a critic of actions is not trained on the rollout first."""
    rule = learner(case).rule
    if not isinstance(rule.method, Counterfactual):
        return helping.credit_of(rule, agent, rollout)
    reward = fx.credit(rule.network.static, rollout.psi, rule.spec.weights)
    hyper, key = rule.config.hyper._replace(**hyper), jax.random.key(0)
    return rule.method.compared(rule, agent, rollout, reward, rollout.all_terminated, hyper, key)


def share_of(policy, rollout):
    """The probability of every trajectory."""
    return jnp.exp(log_probs(policy, rollout).sum(axis=(0, 2)))


def expected_update(case, agent=None):
    """The gradient of the loss, averaged over all trajectories by their probability, times the steps of one."""
    rule, rollout = learner(case).rule, all_trajectories()
    agent = agent_of(case) if agent is None else agent

    @eqx.filter_jit
    def mean(agent):
        samples = rule.samples(agent, rollout, credit_of(case, agent, rollout))
        share = jnp.tile(share_of(agent.policy, rollout) * 64, H)
        samples = samples._replace(credit=samples.credit * share[:, None])
        return eqx.filter_grad(lambda a: helping.loss_of(rule, a, samples))(agent).policy

    return -H * flat(mean(agent))


def gradient_of(policy, credit):
    """E Σ_t Σᵢ zᵢ Cᵢ for credits ``[H, 64, n]``."""
    return flat(_weighted_score(policy, all_trajectories(), credit))


@eqx.filter_jit
@eqx.filter_grad
def _weighted_score(policy, rollout, credit):
    share = jax.lax.stop_gradient(share_of(policy, rollout))
    return (log_probs(policy, rollout) * share[:, None] * credit).sum()


def exact(policy):
    """∇J, by differentiating the sum over trajectories."""
    return flat(_objective_gradient(policy, all_trajectories()))


@eqx.filter_jit
@eqx.filter_grad
def _objective_gradient(policy, rollout):
    return share_of(policy, rollout) @ (rollout.psi @ LAM).sum(axis=0)


def to_go(x):
    return np.cumsum(np.asarray(x)[::-1], axis=0)[::-1]


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True, scope="module")
def _trajectories_of_this_precision():
    """Other files keep those of single precision."""
    trajectories.cache_clear()
    yield
    trajectories.cache_clear()


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)
    assert np.abs(b).max() > 0.05


UNBIASED = ["ppo", "mappo", "factored", "adaptive", "a2c", "difference-rewards", "difference, default"]
UNBIASED += [pytest.param("complete", marks=pytest.mark.slow)]  # also in test_learner_exact.py


@pytest.mark.parametrize("case", UNBIASED)
def test_the_expected_update_is_the_gradient_of_the_objective(case):
    """For difference rewards with any model of the reward: what is subtracted does not depend on the own action."""
    close(expected_update(case), exact(agent_of(case).policy))


def test_independent_learners_follow_their_own_targets():
    agent, rollout = agent_of("ippo"), all_trajectories()
    want = gradient_of(agent.policy, to_go(rollout.psi * LAM))
    close(expected_update("ippo"), want)
    assert np.abs(want - exact(agent.policy)).max() > 0.01  # bit 0 turns bit 1, which its owner does not count


def one_by_one(case, agent, rollout):
    """What every factor might have done instead, from the value of each of its actions: Σ_b πᵢ(b|s) Vᵢ(s, (b, a₋ᵢ))."""
    rule, columns = learner(case).rule, []
    for i in range(2):
        column = 0.0
        for b in range(2):
            action = jnp.asarray(rollout.action).at[..., i].set(b)
            own = jnp.exp(log_probs(agent.policy, rollout._replace(action=action)))[..., i]
            column = column + own * rule.method.value(rule, agent, rollout.obs, rollout.local, action)[..., i]
        columns.append(column)
    return jnp.stack(columns, axis=-1)


def test_coma_is_the_formula_for_any_critic():
    agent, rollout = agent_of("coma"), all_trajectories()

    @eqx.filter_jit
    def credit(agent):
        rule = learner("coma").rule
        value = rule.method.value(rule, agent, rollout.obs, rollout.local, rollout.action)
        return value - one_by_one("coma", agent, rollout)

    close(expected_update("coma"), gradient_of(agent.policy, credit(agent)))


class ExactValues(eqx.Module):
    """Values of all states and joint actions from a table ``(time, 2, 2, 2, 2)``, in the place of a network."""

    table: jax.Array

    def __call__(self, obs, local, actions, own=None, probabilities=None):
        x, y, time = (obs[..., i].astype(int) for i in range(3))
        of_state = self.table[time, x, y]
        first = jnp.einsum("...ab,...b->...a", of_state, actions[..., 1, :])
        second = jnp.einsum("...ab,...a->...b", of_state, actions[..., 0, :])
        return jnp.stack([first, second], axis=-2)


def tables(policy):
    """Rewards and action values of every state and joint action, by dynamic programming."""
    rewards, values = np.zeros((H, 2, 2, 2, 2)), np.zeros((H + 1, 2, 2, 2, 2))
    worth, table, chances = np.zeros((2, 2)), np.asarray(REWARDS), np.asarray(_chances(policy))
    for time in reversed(range(H)):
        now = np.zeros((2, 2))
        for x, y in np.ndindex(2, 2):
            one = chances[:, x, y, time]
            for a, b in np.ndindex(2, 2):
                reward = LAM @ np.array([table[0, x, a, 0], table[1, y, b, 0]])
                rewards[time, x, y, a, b] = reward
                values[time, x, y, a, b] = reward + worth[a, (y + b + x) % 2]
                now[x, y] += one[a, 0] * one[b, 1] * values[time, x, y, a, b]
        worth = now
    return rewards, values


@eqx.filter_jit
def _chances(policy):
    """The probability of each action of both factors in every state, ``(2, x, y, time, factors)``."""
    obs = jnp.moveaxis(jnp.indices((2, 2, H), float), 0, -1)
    outputs = policy(obs, learner("ppo").spec.local_of(obs))
    return jnp.exp(jnp.stack([learner("ppo").rule.log_prob(outputs, jnp.full((2, 2, H, 2), b)) for b in (0.0, 1.0)]))


def with_exact(agent, table):
    return eqx.tree_at(lambda a: a.critic.net, agent, ExactValues(jnp.asarray(table)))


def test_coma_with_exact_values_is_the_gradient_of_the_objective():
    agent = agent_of("coma")
    agent = with_exact(agent, tables(agent.policy)[1])
    close(expected_update("coma", agent), exact(agent.policy))


def test_exact_values_are_where_a_critic_of_actions_comes_to_rest():
    agent, rollout = agent_of("coma"), all_trajectories()
    agent = with_exact(agent, tables(agent.policy)[1])

    @eqx.filter_jit
    def weighted_errors(agent):
        credit = credit_of("coma", agent, rollout, gae_lambda=0.5)
        return (credit.returns - credit.value) * share_of(agent.policy, rollout)[:, None]

    errors = np.asarray(weighted_errors(agent))
    np.testing.assert_allclose(errors.sum(axis=1), 0, atol=1e-6)
    assert np.abs(errors).max() > 1e-3


def test_difference_rewards_as_published_keep_immediate_rewards_only():
    agent, rollout = agent_of("difference, every"), all_trajectories()
    agent = with_exact(agent, tables(agent.policy)[0])
    immediate = gradient_of(agent.policy, np.broadcast_to((rollout.psi @ LAM)[..., None], (H, 64, 2)))
    close(expected_update("difference, every", agent), immediate)
    assert np.abs(immediate - exact(agent.policy)).max() > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("case", ["mappo", "ippo", "coma", "difference-rewards"])
def test_the_update_of_a_learner_uses_this_credit(case):
    this = learner(case, n_envs=8)
    with jax.enable_x64(False):
        state = this.init(3)
        _, metrics = Compiled(this).updates(state)

        @eqx.filter_jit
        def first_gradient(state):
            rule = this.rule
            state, transitions = this.collect(state)
            rollout, *_ = this.rollout(state, transitions)
            _, key = jax.random.split(state.key)
            learned = state.agent, state.optimiser  # methods with a critic of actions train it first
            (agent, _), credit = rule.method.credit(rule, learned, rollout, rule.network.static, state.hyper, key)
            samples = rule.samples(agent, rollout, credit)
            return eqx.filter_grad(lambda a: helping.loss_of(rule, a, samples))(agent)

        gradient = first_gradient(state)
    np.testing.assert_allclose(metrics["train/grad_norm"][0], np.linalg.norm(flat(gradient)), rtol=1e-4)


def test_methods_are_what_their_names_say():
    assert learner("ppo").rule.network.static.shape == (1, 2)
    assert learner("ippo").spec.network == fx.InfluenceNetwork.identity(2)
    assert isinstance(learner("adaptive").spec.network, AdaptiveNetwork)
    assert jax.eval_shape(lambda obs: agent_of("mappo").critic(obs, None), np.zeros(3)).shape == (1,)


@pytest.mark.slow
def test_a_setting_by_name_replaces_that_of_the_method():
    with jax.enable_x64(False):
        model = FactoredPPO(queues(2, 2), method="mappo", critic="target", **SMALL)
        assert (str(model.config.critic), str(model.config.policy)) == ("target", "shared")
        assert model.network == queues(2, 2).network
        assert FactoredPPO("queues:2x2", "own", method="coma", preset="queues").network == queues(2, 2).network


def test_a_method_replaces_settings_of_a_preset_and_keeps_the_others():
    settings = settings_with("queues", {"method": "ippo", "n_envs": 4})
    assert settings | {"policy": "independent", "n_envs": 4, "learning_rate": 3e-3} == settings
    assert network_of("queues", METHODS.read("factored")) in (None, "own")
    assert network_of("queues", METHODS.read("coma")) == "complete"


def test_the_network_of_independent_learners():
    assert find_network(chain(3), "individual") == fx.InfluenceNetwork.identity(3)
    assert find_network(queues(2, 2), "individual").actions == queues(2, 2).network.actions
    tall = dataclasses.replace(chain(3), network=fx.InfluenceNetwork.complete(3, 1), weights=np.ones(1))
    assert find_network(tall, "individual") is None  # one target for all: that of the problem


class Values(eqx.Module):
    def __call__(self, obs, local):
        return jnp.zeros(4)


@pytest.mark.parametrize("method", ["coma", "difference-rewards"])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"critic": Values()}, "critic: got Values.* critic of actions is built in"),
        ({"architecture": "gru,sequence_length=3"}, "architecture: got a policy with memory and method"),
    ],
    ids=["the user's critic", "memory"],
)
def test_a_critic_of_actions_is_built_in_and_has_no_memory(method, settings, message):
    with jax.enable_x64(False), pytest.raises(ValueError, match=message):
        FactoredPPO(queues(2, 2), method=method, **SMALL, **settings)


def test_continuous_actions_are_not_enumerated():
    with jax.enable_x64(False), pytest.raises(ValueError, match="component 0 is continuous; want discrete actions"):
        FactoredPPO("chain:3", method="coma", **SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("critic", ["auto", "target"])
def test_a_critic_of_actions_trains_with_an_adaptive_network(critic):
    """Whose estimates need advantages of targets, which this critic does not predict."""
    with jax.enable_x64(False):
        model = FactoredPPO(queues(2, 2), "adaptive", method="coma", critic=critic, **SMALL)
        model.learn(24, progress_bar=False)
    assert np.isfinite(model.state.network.gradient).all()
