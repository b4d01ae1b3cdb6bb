"""`Learner` and `Program`: seeds side by side, what is compiled when, and that factored gradients learn faster."""

import dataclasses

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from small_settings import SMALL

from factorax.ppo import Config, Learner, Program
from factorax.problems import chain, queues
from factorax.structure import LaggedNetwork


@pytest.mark.slow
def test_seeds_side_by_side_are_seeds_apart():
    learner = Learner.of(chain(3, delay=2, horizon=6), config=Config(**SMALL, policy="shared", normalize_reward=True))
    both = eqx.filter_jit(eqx.filter_vmap(learner.init))(jnp.array([3, 4]))
    together = eqx.filter_jit(eqx.filter_vmap(learner.update))
    for _ in range(2):
        both, metrics = together(both)
    program = Program(learner)
    for i, seed in enumerate((3, 4)):
        state = learner.init(seed)
        for _ in range(2):
            state, alone = program.update(state)
        for name, value in alone.items():
            np.testing.assert_allclose(metrics[name][i], value, rtol=2e-3, atol=2e-4, err_msg=name)
        for a, b in zip(jax.tree.leaves(both.agent), jax.tree.leaves(state.agent), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "settings"),
    [
        (chain(10, delay=2, horizon=10), {"policy": "independent", "n_steps": 20, "initial_log_std": -0.5}),
        (queues(3, 3, horizon=20, hops=1), {"policy": "shared", "n_steps": 20}),
    ],
    ids=["chain", "queues"],
)
def test_factored_beats_vanilla(problem, settings):
    """At equal steps, over six seeds that both have: the mean difference is above zero with 99 % confidence."""
    final = {}
    settings = SMALL | {"n_envs": 8, "batch_size": 160, "n_epochs": 4, "learning_rate": 1e-2} | settings
    for estimator in ("factored", "vanilla"):
        learner = Learner.of(problem, config=Config(**settings, estimator=estimator))

        @eqx.filter_jit
        @eqx.filter_vmap
        def train(seed, learner=learner):
            _, metrics = jax.lax.scan(lambda s, _: learner.update(s), learner.init(seed), None, 30)
            return metrics["rollout/ep_rew_mean"][-5:].mean()

        final[estimator] = np.asarray(train(jnp.arange(6)))
    difference = final["factored"] - final["vanilla"]
    error = stats.sem(difference) * stats.t.ppf(0.99, 5)
    assert difference.mean() - error > 0, final


def counted(problem):
    """The problem, and a list that grows whenever JAX traces its step."""
    traces = []

    def step(key, state, action):
        traces.append(None)
        return problem.step(key, state, action)

    return dataclasses.replace(problem, step=step), traces


@pytest.mark.slow
def test_a_program_compiles_once_for_all_states():
    """Other seeds and other hyper-parameters do not compile it again; nor does `update` after `update_seeds`."""
    problem, traces = counted(chain(3, horizon=6))
    learner = Learner.of(problem, config=Config(**SMALL))
    program = Program(learner)
    state, _ = program.update(learner.init(0))
    once = len(traces)
    assert once > 0
    for other in (state, learner.init(5), learner.init(0, learning_rate=0.1, clip_range=0.5)):
        program.update(other)
    assert len(traces) == once
    states = eqx.filter_vmap(learner.init)(jnp.arange(3))
    states, metrics = program.update_seeds(states)
    assert metrics["train/loss"].shape == (3,)
    twice = len(traces)
    assert twice > once
    program.update_seeds(states)
    program.update(state)
    assert len(traces) == twice


@pytest.mark.slow
def test_a_program_gives_what_the_pure_update_gives():
    learner = Learner.of(chain(3, horizon=6), config=Config(**SMALL))
    state = learner.init(0)
    (one, _), (other, _) = Program(learner).update(state), eqx.filter_jit(learner.update)(state)
    for a, b in zip(*(jax.tree.leaves(x._replace(key=None)) for x in (one, other)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_an_evaluation_compiles_once_for_its_number_of_episodes():
    problem, traces = counted(chain(3, horizon=6))
    learner = Learner.of(problem, config=Config(**SMALL))
    program = Program(learner)
    play = program.collector.play_episodes
    play(learner.behaviour(learner.init(0)), 3, deterministic=True, seed=0)
    once = len(traces)
    play(learner.behaviour(learner.init(1)), 3, deterministic=True, seed=1)
    assert len(traces) == once


def test_the_pure_update_is_for_jax_problems_alone():
    learner = Learner.of(lambda: gym.make("CartPole-v1"), config=Config(**SMALL))
    with pytest.raises(TypeError, match=r"update: is a pure function only for JAX problems; use Program\(learner\)"):
        learner.update(learner.init(0))


def test_a_network_by_name_is_adaptive_or_an_error():
    with pytest.raises(ValueError, match=r"network: got 'complete', want 'adaptive', or a network \(InfluenceNetwork"):
        Learner.of(chain(3), "complete")
    assert Learner.of(chain(3), "adaptive").spec.network.static.density == 1


def test_annealed_settings_stay_at_zero_after_the_last_step():
    anneal = ("learning_rate", "clip_range", "ent_coef")
    config = Config(**SMALL, anneal=anneal, ent_coef=0.1, total_timesteps=48)
    learner = Learner.of(chain(3), config=config)
    _, metrics = jax.jit(lambda: jax.lax.scan(lambda s, _: learner.update(s), learner.init(0), length=4))()
    np.testing.assert_allclose(metrics["train/learning_rate"], [3e-4, 1.5e-4, 0, 0], rtol=1e-6)
    late = config.annealed(config.hyper, 96)
    assert (float(late.learning_rate), float(late.clip_range), float(late.ent_coef)) == (0, 0, 0)


def test_means_over_no_episode_are_nan():
    learner = Learner.of(chain(3, horizon=100), config=Config(**SMALL))
    _, metrics = jax.jit(learner.update)(learner.init(0))
    assert metrics["rollout/episodes"] == 0
    assert all(np.isnan(metrics[f"rollout/ep_{name}"]).all() for name in ("rew_mean", "len_mean", "targets_mean"))


@pytest.mark.parametrize(
    ("hyper", "message"),
    [
        ({"clip_range": np.full(8, 0.2)}, "clip_range: got .* want one number"),
        ({"gamma": [0.9, 0.99]}, "gamma: got .* want one number"),
        ({"learning_rate": lambda progress: progress}, "learning_rate: got .* want one number"),
        ({"learning_rate": -1.0}, "learning_rate: got -1.0, want a number of at least 0"),
        ({"gamma": np.float32(1.5)}, "gamma: got .*1.5.* want a number from 0 to 1"),
        ({"total_timesteps": 0}, "total_timesteps: got 0, want a number above 0"),
    ],
)
def test_a_setting_of_a_state_is_one_valid_number(hyper, message):
    with pytest.raises(ValueError, match=message):
        Learner.of(chain(3), config=Config(**SMALL)).init(0, **hyper)


@pytest.mark.parametrize(
    ("problem", "network", "settings", "chosen"),
    [
        (chain(3), None, {}, ("shared", "factor")),
        (chain(3), "adaptive", {}, ("shared", "target")),
        (chain(3), LaggedNetwork.from_lags(np.zeros((3, 3), int)), {}, ("shared", "target")),
        (dataclasses.replace(chain(3), local=None), None, {}, ("joint", "factor")),
        (lambda: gym.make("CartPole-v1"), None, {}, ("joint", "target")),
        (chain(3), None, {"policy": "joint", "critic": "target"}, ("joint", "target")),
    ],
)
def test_policy_and_critic_follow_from_the_problem(problem, network, settings, chosen):
    config = Learner.of(problem, network, Config(**SMALL | settings)).config
    assert (config.policy, config.critic) == chosen


def test_a_shared_policy_that_cannot_tell_components_apart_is_refused():
    problem = dataclasses.replace(chain(3), local=None)
    with pytest.raises(ValueError, match=r"identity: got 0 with policy='shared'"):
        Learner.of(problem, config=Config(**SMALL, policy="shared"))
    assert Learner.of(problem, config=Config(**SMALL, policy="shared", identity=2)).config.identity == 2
