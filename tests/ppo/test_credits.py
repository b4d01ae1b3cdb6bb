"""Credits and returns of a rollout, by kind of critic, by the order of K and GAE, and by how episodes end."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax.ppo import Config, Learner, gae
from factorax.problems import queues
from ppo.helping import random_network
from ppo.ppo_cases import (
    LAM,
    NET,
    SPACES,
    B,
    T,
    advantages,
    make_agent,
    make_rollout,
    make_update,
    outputs_of,
    samples_of,
)


def values_of(agent, rollout):
    """Values of the observations and of the next ones."""
    return (np.asarray(outputs_of(agent.critic, obs)) for obs in (rollout.obs, rollout.next_obs))


@jax.jit
def _compiled(psi, values, next_values, terminated, ended):
    return gae(psi, values, next_values, terminated=terminated, ended=ended, gamma=0.99, trace=0.95)[0]


def advantages_of(*arguments, **flags):
    return np.asarray(_compiled(*arguments, **flags))


def test_ppo_credits_all_with_the_scalar_advantage():
    """The sum of per-target advantages is the advantage of the scalar reward λ·r, under the critic λ·v."""
    total = fx.InfluenceNetwork.complete(1, 3)
    update = make_update(SPACES["box"], total, method="ppo")
    agent = make_agent(update)
    rollout = make_rollout(update, agent)
    samples = samples_of(update, agent, rollout, total)
    scalar = [x @ np.float32(LAM[:, None]) for x in (np.asarray(rollout.psi), *values_of(agent, rollout))]
    terminated, truncated = (np.asarray(x)[..., None] for x in (rollout.terminated, rollout.truncated))
    want = advantages_of(*scalar, terminated=terminated, ended=terminated | truncated)
    np.testing.assert_allclose(samples.credit, want.reshape(-1, 1), rtol=1e-4, atol=1e-5)


def test_soft_and_blended_networks_are_applied():
    soft = fx.InfluenceNetwork(np.array([[1.0, 0.3, 0.0], [0.2, 1.0, 0.0], [0.0, 0.5, 1.0]]))
    schedule = fx.NetworkSchedule(NET, fx.InfluenceNetwork.complete(3, 3), steps=100)
    update = make_update(SPACES["box"])
    agent = make_agent(update)
    rollout = make_rollout(update, agent)
    advantage = np.asarray(advantages(update, agent, rollout)[0], float).reshape(-1, 3)
    for net, matrix in ((soft, soft.to_dense()), (schedule.at(40), 0.6 * NET.to_dense() + 0.4)):
        samples = samples_of(update, agent, rollout, net)
        np.testing.assert_allclose(samples.credit, (advantage * LAM) @ matrix.T, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_both_orders_of_k_and_gae_give_the_same_credit():
    """With values K(λ∘v) of factors and v of targets, since GAE is linear in rewards and values."""
    by_target, by_factor = make_update(SPACES["box"]), make_update(SPACES["box"], critic="factor")
    agent = make_agent(by_target, hidden=())
    K = NET.to_dense() * LAM
    weights = agent.critic.net.net.kernels[0] @ K.T
    other = eqx.tree_at(lambda a: a.critic.net.net.kernels[0], agent, weights)
    rollout = make_rollout(by_target, agent)
    want, got = samples_of(by_target, agent, rollout, NET), samples_of(by_factor, other, rollout, NET)
    np.testing.assert_allclose(got.credit, want.credit, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got.returns, want.returns @ K.T, rtol=1e-4, atol=1e-5)


def test_both_orders_agree_on_monte_carlo_returns():
    """Without values, ``gae_lambda=1``: both are the sum of what the factor influences."""
    settings = {"gae_lambda": 1.0, "gamma": 0.9}
    by_target, by_factor = (make_update(SPACES["box"], critic=critic, **settings) for critic in ("target", "factor"))
    agent = jax.tree.map(jnp.zeros_like, make_agent(by_target, hidden=()))
    rollout = make_rollout(by_target, agent)
    want, got = (samples_of(update, agent, rollout, NET).credit for update in (by_target, by_factor))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    to_go, rows = np.zeros((B, 3)), []
    ended = np.asarray(rollout.terminated | rollout.truncated)
    for psi, end in zip(np.asarray(rollout.psi)[::-1], ended[::-1], strict=True):
        to_go = psi + 0.9 * to_go * ~end[:, None]
        rows.insert(0, to_go)
    np.testing.assert_allclose(got, fx.credit(NET, np.stack(rows), LAM).reshape(-1, 3), rtol=1e-4, atol=1e-5)


def test_a_factor_ends_with_the_last_of_its_targets():
    update = make_update(SPACES["box"], critic="factor", gae_lambda=0.0, gamma=1.0)
    agent = make_agent(update, hidden=())
    stops = np.broadcast_to([True, False, True], (T, B, 3))
    never = np.zeros((T, B), bool)
    rollout = make_rollout(update, agent, target_terminated=stops)._replace(terminated=never, truncated=never)
    psi, (_, after) = np.asarray(rollout.psi), values_of(agent, rollout)
    own = fx.InfluenceNetwork.identity(3)
    follows = np.array([False, True, False])
    for net, bootstrap in ((NET, after), (own, follows * after)):  # every row of NET has target 1, which goes on
        got = np.asarray(samples_of(update, agent, rollout, net).returns).reshape(T, B, 3)
        np.testing.assert_allclose(got, fx.credit(net, psi, LAM) + bootstrap, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ends_early", [False, True], ids=["episodes", "single targets"])
def test_only_termination_cuts_the_bootstrap(ends_early):
    """A truncated episode has the value of its last observation; a target may end while its episode goes on."""
    update = make_update(SPACES["box"])
    agent = make_agent(update)
    stops = np.random.default_rng(5).random((T, B, 3)) < 0.5 if ends_early else None
    rollout = make_rollout(update, agent, target_terminated=stops)
    terminated, truncated = (np.asarray(x)[..., None] for x in (rollout.terminated, rollout.truncated))
    assert (truncated & ~terminated).any()
    cut = terminated if stops is None else terminated | stops
    want = advantages_of(rollout.psi, *values_of(agent, rollout), terminated=cut, ended=terminated | truncated)
    got = samples_of(update, agent, rollout, NET).credit
    np.testing.assert_allclose(got, fx.credit(NET, want, LAM).reshape(-1, 3), rtol=1e-4, atol=1e-5)


def recurrent(**settings):
    return {"architecture": "gru,sequence_length=4", "policy": "shared"} | settings


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"policy": "shared", "critic": "factor"},
        {"policy": "joint", "critic": "target"},
        recurrent(critic="target,trunk=shared"),
        recurrent(critic="factor,trunk=separate"),
    ],
    ids=str,
)
def test_values_of_next_observations_are_those_of_the_next_step(settings):
    """Within an episode; also if a critic has a memory, or uses that of the policy."""
    config = Config(n_envs=3, n_steps=8, batch_size=12, n_epochs=1, hidden=(8,), **settings)
    learner = Learner.of(queues(2, 2, horizon=5), config=config)
    state = learner.init(0)
    agent = random_network(lambda: state.agent)

    @eqx.filter_jit
    def values(state, agent):
        state = state._replace(agent=agent)
        state, transitions = learner.collect(state)
        rollout, *_ = learner.rollout(state, transitions)
        memory, _ = agent.critic_memories(
            rollout.obs, rollout.local, state.critic_memory, rollout.starts, rollout.ended[-1]
        )
        return rollout.ended, *learner.rule.values(agent, rollout._replace(critic_memory=memory))

    ended, now, after = map(np.asarray, values(state, agent))
    goes_on = ~ended[:-1]
    assert 0 < goes_on.sum() < goes_on.size
    np.testing.assert_allclose(after[:-1][goes_on], now[1:][goes_on], rtol=1e-5, atol=1e-6)
    assert np.abs(after[:-1][~goes_on] - now[1:][~goes_on]).max() > 0.01  # not those of the next episode
