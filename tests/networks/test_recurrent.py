"""Recurrent networks: the cells, sequences with episodes that end in them, and what an update makes of them."""

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ppo.helping import loss_of, random_network, samples_of
from small_settings import SMALL

from factorax import FactoredPPO, InfluenceNetwork
from factorax.discovery import intervene
from factorax.discovery.batch import collect
from factorax.networks.recurrent import Cell
from factorax.ppo import Config, Learner
from factorax.problems import queues
from factorax.spec import Spec

SETTINGS = SMALL | {"n_envs": 3, "n_steps": 12, "batch_size": 18, "hidden": (8, 8), "critic": "auto,trunk=separate"}
LENGTH = 6
"""Length of sequences."""
ARRANGEMENTS = ["joint", "shared", "independent"]


def learner_of(architecture="gru", policy="joint", **settings):
    return Learner.of(
        queues(3),
        config=Config(architecture=f"{architecture},sequence_length={LENGTH}", policy=policy, **SETTINGS | settings),
    )


def test_a_gru_is_that_of_equinox():
    @jax.jit
    def both(x, h):
        theirs = eqx.nn.GRUCell(3, 4, key=jax.random.key(0))
        ours = Cell(jax.random.key(1), 3, 4, "gru")
        # Equinox orders gates r, z, n; its bias of the candidate is inside the reset gate.
        ours = eqx.tree_at(
            lambda cell: (cell.kernel, cell.recurrent, cell.bias, cell.candidate_bias),
            ours,
            (theirs.weight_ih.T, theirs.weight_hh.T, theirs.bias, theirs.bias_n),
        )
        return ours(ours.gates(x), h), theirs(x, h)

    rng = np.random.default_rng(0)
    got, want = both(rng.normal(size=3).astype(np.float32), rng.normal(size=4).astype(np.float32))
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_an_lstm_is_that_of_equinox():
    @jax.jit
    def both(x, memory):
        theirs = eqx.nn.LSTMCell(3, 4, key=jax.random.key(0))
        ours = Cell(jax.random.key(1), 3, 4, "lstm")
        ours = eqx.tree_at(
            lambda cell: (cell.kernel, cell.recurrent, cell.bias),
            ours,
            (theirs.weight_ih.T, theirs.weight_hh.T, theirs.bias),
        )
        return ours(ours.gates(x), memory), jnp.concatenate(theirs(x, (memory[:4], memory[4:])))

    rng = np.random.default_rng(0)
    got, want = both(rng.normal(size=3).astype(np.float32), rng.normal(size=8).astype(np.float32))
    np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize(
    "policy", [ARRANGEMENTS[0], *(pytest.param(x, marks=pytest.mark.slow) for x in ARRANGEMENTS[1:])]
)
@pytest.mark.parametrize("architecture", ["gru", "lstm"])
def test_sequences_are_steps_one_after_another(architecture, policy):
    learner = learner_of(architecture, policy)
    spec, net = learner.spec, random_network(lambda: learner.init().agent.policy.net)
    step, unroll = (
        eqx.filter_jit(lambda obs, *rest, call=call: call(obs, learner.rule.local(obs), *rest))
        for call in (net.step, net.unroll)
    )
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(5, 2, spec.n_inputs)).astype(np.float32)
    starts = np.array([[0, 0], [0, 1], [1, 0], [0, 0], [1, 1]], bool)
    memory = first = rng.normal(size=(2, net.memory)).astype(np.float32)
    outputs, memories = [], []
    for x, start in zip(obs, starts, strict=True):
        memory = np.where(start[:, None], 0.0, memory)
        out, memory = step(x, memory)
        outputs.append(out)
        memories.append(memory)
    got, _, after = unroll(obs, first, starts)
    np.testing.assert_allclose(got, np.stack(outputs), atol=1e-6)
    np.testing.assert_allclose(after, np.stack(memories), atol=1e-6)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_the_gradient_of_sequences_is_that_of_steps_one_after_another(kind):
    length, n, inputs, size = 5, 3, 2, 4
    rng = np.random.default_rng(0)
    forget = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 1, 1]], bool)[..., None]

    @jax.jit
    def both(x, memory, weight):
        drawn = Cell(jax.random.key(0), inputs, size, kind)
        cell = jax.tree.map(lambda a: a + 0.3 * jnp.cos(jnp.arange(a.size)).reshape(a.shape), drawn)

        def unrolled(cell, x, memory):
            return (weight * cell.unroll(cell.gates(x), forget, memory)).sum()

        def steps(cell, x, memory):
            total = 0.0
            for t in range(length):
                memory = cell(cell.gates(x[t]), jnp.where(forget[t], 0.0, memory))
                total += (weight[t] * memory).sum()
            return total

        return tuple(jax.grad(f, argnums=(0, 1, 2))(cell, x, memory) for f in (unrolled, steps))

    remembered = size if kind == "gru" else 2 * size
    shapes = (length, n, inputs), (n, remembered), (length, n, remembered)
    got, want = both(*(rng.normal(size=shape).astype(np.float32) for shape in shapes))
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
        assert not b.size or np.abs(b).max() > 0.01


def test_every_component_remembers_for_itself():
    learner = learner_of(policy="shared")
    net = random_network(lambda: learner.init().agent.policy.net)
    c, step = net.shape[0], eqx.filter_jit(lambda local, memory: net.step(None, local, memory)[1])
    local = np.zeros((1, *learner.spec.local_of(np.zeros(learner.spec.n_inputs), np).shape), np.float32)
    memory = np.zeros((1, net.memory), np.float32)
    moved, still = (
        np.asarray(step(x, memory)).reshape(c, -1) for x in (local + np.eye(c, 1, dtype=np.float32) * 3, local)
    )
    assert [not np.array_equal(a, b) for a, b in zip(moved, still, strict=True)] == [True] + [False] * (c - 1)


def losses(learner, state, transitions):
    """The loss of a whole rollout, and its gradient, by sequences of the settings' length and by hand."""
    rule, c = learner.rule, learner.config

    @eqx.filter_jit
    def prepare(state, transitions):
        """Also an agent that did not act, so that ratios are not one."""
        batch, *_ = learner.rollout(state, transitions)
        before, _ = state.agent.critic_memories(
            batch.obs, batch.local, state.critic_memory, batch.starts, batch.ended[-1]
        )
        batch = batch._replace(critic_memory=before)
        agent = jax.tree.map(lambda x: x + 0.05 * jnp.cos(jnp.arange(x.size).reshape(x.shape)), state.agent)
        return batch, samples_of(rule, state.agent, batch), agent

    batch, samples, agent = prepare(state, transitions)

    def ours(agent):
        order = np.concatenate([np.arange(c.n_envs * c.n_steps).reshape(-1, LENGTH, c.n_envs)], axis=0)
        parts = [jax.tree.map(lambda x, i=i: x[i.ravel()], samples) for i in order]
        return sum(loss_of(rule, agent, part, length=LENGTH) for part in parts) / len(parts)

    def by_hand(agent):
        """Every sequence from its stored memory, one step after another, in a Python loop."""
        total = 0.0
        for first in range(0, c.n_steps, LENGTH):
            outs, values = [], []
            memory, remembered = batch.memory[first], batch.critic_memory[first]
            for t in range(first, first + LENGTH):
                if t > first:
                    ended = (batch.terminated | batch.truncated)[t - 1][:, None]
                    memory, remembered = jnp.where(ended, 0.0, memory), jnp.where(ended, 0.0, remembered)
                local = None if batch.local is None else batch.local[t]
                (out, _), memory = agent.policy.step(batch.obs[t], local, memory)
                value, remembered = agent.critic.step(batch.obs[t], local, remembered)
                outs.append(out)
                values.append(value)
            part = slice(first * c.n_envs, (first + LENGTH) * c.n_envs)
            some = jax.tree.map(lambda x, part=part: x[part], samples)
            log_prob = rule.log_prob((jnp.concatenate(outs), agent.policy.spread), some.action)
            ratio = jnp.exp(log_prob - some.log_prob)
            credit = standardise(some.credit, some.acted)
            gain = jnp.minimum(ratio * credit, jnp.clip(ratio, 1 - c.clip_range, 1 + c.clip_range) * credit)
            value_loss = ((some.returns - jnp.concatenate(values)) ** 2).mean()
            total = total - gain.sum(axis=-1).mean() + c.vf_coef * value_loss
        return total / (c.n_steps // LENGTH)

    return tuple(eqx.filter_jit(eqx.filter_value_and_grad(loss))(agent) for loss in (ours, by_hand))


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "policy"), [("gru", "shared"), ("lstm", "joint")])
def test_the_loss_and_its_gradient_are_those_of_an_unrolled_computation(architecture, policy):
    learner = learner_of(architecture, policy)
    state, _ = jax.jit(learner.update)(learner.init())  # the next rollout begins in the middle of episodes
    collect = lambda state: learner.collector.collect(learner.behaviour(state), state.environments, state.key)  # noqa: E731
    _, _, transitions = jax.jit(collect)(state)
    transitions = transitions._replace(truncated=transitions.truncated.at[3, 1].set(True).at[7, 0].set(True))
    memory = np.array(transitions.memory)
    memory[4, 1], memory[8, 0] = 0.0, 0.0  # as a rollout with these ends has it
    replayed = memory.copy()

    @jax.jit
    def after(obs, memory):
        obs = learner.normalised(state.obs, obs)
        return state.agent.policy.step(obs, learner.rule.local(obs), memory)[1]

    for t, i in ((4, 1), (8, 0)):
        for later in range(t, 11):
            replayed[later + 1, i] = after(transitions.obs[later, i : i + 1], replayed[later, i : i + 1])[0]
    assert np.abs(memory[0]).max() > 0.01
    transitions = transitions._replace(memory=jnp.asarray(replayed))
    (got, gradient), (want, wanted) = losses(learner, state, transitions)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)
    assert max(float(jnp.abs(x).max()) for x in jax.tree.leaves(wanted.policy) if x.size) > 1e-3


@pytest.mark.slow
def test_the_memory_in_a_rollout_is_that_of_its_episodes():
    learner = learner_of(policy="shared", n_steps=24, batch_size=36)
    state = learner.init()
    collect = lambda state: learner.collector.collect(learner.behaviour(state), state.environments, state.key)  # noqa: E731
    _, _, t = jax.jit(collect)(state)
    remember = jax.jit(lambda obs, memory: state.agent.policy.step(obs, learner.rule.local(obs), memory)[1])
    ended, obs = np.asarray(t.terminated | t.truncated), np.asarray(t.obs)
    memory = np.zeros_like(t.memory[0])
    for step in range(24):
        np.testing.assert_allclose(t.memory[step], memory, atol=1e-6)
        memory = np.array(remember(obs[step], memory))
        memory[ended[step]] = 0.0


class Remember(gym.Env):
    """One of two signs is shown in the first step; the action of the last step has to repeat it."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    length = 4

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.sign = 0, int(self.np_random.integers(2))
        return np.float32([2 * self.sign - 1, 0]), {}

    def step(self, action):
        self.time += 1
        over = self.time == self.length
        obs = np.float32([0, self.time == self.length - 1])
        return obs, float(over and action == self.sign), over, False, {}


@pytest.mark.slow
def test_what_was_seen_before_is_remembered():
    """Without a memory the mean return is one half."""
    options = {"n_envs": 16, "n_steps": 32, "batch_size": 128, "hidden": (16,), "learning_rate": 1e-2}
    model = FactoredPPO(Remember, InfluenceNetwork.complete(1, 1), architecture="gru,sequence_length=8", **options)
    model.learn(16 * 32 * 20, progress_bar=False)
    assert model.evaluate(50)["return"] > 0.9
    model.close()


def test_states_are_handed_out_and_taken_back():
    model = FactoredPPO(Remember, architecture=f"gru,sequence_length={LENGTH}", **SETTINGS)
    obs = np.float32([1, 0])
    _, state = model.predict(obs, deterministic=True)
    assert state.shape == (1, 8)
    _, second = model.predict(obs, state)
    assert not np.array_equal(state, second)
    _, again = model.predict(obs, state, episode_start=[True])
    np.testing.assert_array_equal(again, state)
    with pytest.raises(
        ValueError, match=r"state: got shape \(1, 3\), want \(1, 8\), the state that the last call of predict"
    ):
        model.predict(obs, np.zeros((1, 3)))
    model.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"architecture": "gru,sequence_length=5"}, "sequence_length: got 5, want a divisor of n_steps = 12"),
        ({"hidden": ()}, r"hidden: got \(\) with architecture='gru', want at least one layer"),
    ],
)
def test_settings_that_do_not_go_together(settings, message):
    with pytest.raises(ValueError, match=message):
        Learner.of(queues(3), config=Config(**SETTINGS | {"architecture": "gru"} | settings))


def test_a_spec_is_all_that_shapes_need():
    assert Spec.of(Remember).n_inputs == 2


def test_discovery_wants_a_policy_that_does_not_remember():
    model = FactoredPPO("queues:2", architecture=f"gru,sequence_length={LENGTH}", **SETTINGS)
    for discover in (intervene, collect):
        with pytest.raises(ValueError, match="policy: got a model with architecture='gru', which is recurrent"):
            discover(queues(2), policy=model)
