"""Host collectors: one environment per process, rollouts that overlap learning, evaluation, and the stack of an
environment that hangs."""

import sys
import time
from functools import partial

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rollouts.environments import Counter, Drift
from rollouts.helping import inline, iterations, plan_of
from small_settings import SMALL

from factorax.ppo import Config, FactoredPPO, Learner
from factorax.rollouts import HostCollector, InlineBackend


def model(problem, network=None, **settings):
    return FactoredPPO(problem, network, **SMALL | settings)


def test_environments_that_need_a_process_each():
    class Alone(Counter):
        metadata = {"one_per_process": True}  # noqa: RUF012
        open_id = 0

        def reset(self, *, seed=None, options=None):
            assert Alone.open_id in (0, id(self))
            Alone.open_id = id(self)
            return super().reset(seed=seed)

        def close(self):
            Alone.open_id = 0

    for settings, got in (({}, "'inline'"), ({"rollouts": "processes,workers=2"}, "'processes,workers=2'")):
        with pytest.raises(ValueError, match=rf"rollouts: got {got} for 4 environments, .*,workers=4'"):
            model(lambda: Alone(cut=3), check_network=False, **settings).learn(24, progress_bar=False)


@pytest.mark.slow
def test_a_rollout_may_be_played_while_the_last_is_learnt_from():
    """With the policy of one update ago, and log-probabilities that say so; whoever plays it."""
    models = [model(partial(gym.make, "CartPole-v1"), rollouts=f"processes,workers={w},overlap=true") for w in (1, 2)]
    first = models[0].state
    rollouts, collector = [], models[0].compiled.collector
    collect = collector.collect

    def recorded(*arguments):
        rollouts.append(collect(*arguments))
        return rollouts[-1]

    collector.collect = recorded
    for one in models:
        one.learn(72, progress_bar=False).close()
        assert [int(row["rollout/policy_lag"]) for row in one.history] == [0, 1, 1]
    for a, b in zip(*(jax.tree.leaves(eqx.filter(m.state.agent, eqx.is_array)) for m in models), strict=True):
        np.testing.assert_array_equal(a, b)
    before, after = (transitions for _, _, transitions in rollouts[:2])
    for transitions in (before, after):  # the second, too, is of the policy before any update
        out = first.agent.policy(jnp.asarray(transitions.obs), None)
        log_prob = models[0].spec.components.log_prob(*out, transitions.action)
        np.testing.assert_allclose(log_prob, transitions.log_prob, atol=1e-5)
    assert (before.action != after.action).any()


@pytest.mark.parametrize("method", ["a2c", "natural"])
def test_methods_without_ratios_need_rollouts_of_the_current_policy(method):
    with pytest.raises(ValueError, match=f"rollouts: got overlap=true with method='{method}', which has no ratios"):
        model(Counter, method=method, rollouts="processes,overlap=true")


def test_an_evaluation_is_not_of_the_shortest_episodes():
    """Of two environments, one ends after 2 steps and one after 20: both count alike."""
    lengths = iter([2, 2, 20])  # the first environment is created for its spaces
    ppo = model(lambda: Counter(cut=next(lengths)), n_envs=2)
    assert sorted(ppo.evaluate(4)["episodes"]) == [8, 8, 440, 440]


def test_a_host_collector_keeps_the_state_of_its_environments():
    learner = Learner.of(Counter, config=Config(**SMALL))
    collector = learner.new_collector()
    assert isinstance(collector, HostCollector)
    state = learner.init(0)
    assert collector.init(jax.random.key(0)) is None
    one, other = (collector.collect(learner.behaviour(state), None, state.key)[2] for _ in range(2))
    np.testing.assert_array_equal(one.obs[:, 0, 0], np.arange(6))
    np.testing.assert_array_equal(other.obs[:, 0, 0], np.arange(6, 12))
    assert [episode.length for episode in collector.episodes] == [12] * SMALL["n_envs"]
    collector.close()
    assert collector.episodes is None


class Slow(Drift):
    """Waits in its third step until something has been written to the file, or for a minute."""

    file = None

    def step(self, action):
        self.steps = getattr(self, "steps", 0) + 1
        end = time.monotonic() + 60.0
        while self.steps == 3 and not self.file.stat().st_size and time.monotonic() < end:
            time.sleep(0.01)
        return super().step(action)


def test_stack_of_a_hanging_environment_is_written_once_and_the_rollout_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(Slow, "file", tmp_path / "stderr")
    with open(Slow.file, "w") as stderr:
        monkeypatch.setattr(sys, "__stderr__", stderr)
        plan = plan_of(Slow)
        backend = InlineBackend(plan, 0.05)
        transitions = [backend.collect(iteration) for iteration in iterations(plan, 2)]
        backend.close()
    assert len(transitions) == 2
    text = Slow.file.read_text()
    assert text.count("in step\n") >= 1
    assert "test_on_host.py" in text


def test_no_stack_without_a_limit_or_without_stderr(tmp_path, monkeypatch):
    with open(tmp_path / "stderr", "w") as stderr:
        monkeypatch.setattr(sys, "__stderr__", stderr)
        inline(plan_of(Drift), 2)
        monkeypatch.setattr(sys, "__stderr__", None)
        plan = plan_of(Drift)
        backend = InlineBackend(plan, 0.001)
        backend.collect(*iterations(plan, 1))
        backend.close()
    assert not (tmp_path / "stderr").read_text()
