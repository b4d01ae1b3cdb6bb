"""`Learner`: pure functions of seeds and states, from a scan to a model and a file, and factored gradients learn
faster."""

import dataclasses

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from small_settings import SMALL

from factorax.ppo import Config, FactoredPPO, Learner
from factorax.problems import chain, queues
from factorax.structure import LaggedNetwork


def assert_equal(one, other):
    """Compare all arrays of two trees, bit for bit."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(*(jax.tree.leaves(tree) for tree in (one, other)), strict=True):
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_seeds_in_parallel_are_seeds_one_by_one():
    learner = Learner.of(chain(3, delay=2, horizon=6), config=Config(**SMALL, policy="shared", normalize_reward=True))
    both = eqx.filter_jit(eqx.filter_vmap(learner.init))(jnp.array([3, 4]))
    together = eqx.filter_jit(eqx.filter_vmap(learner.update))
    for _ in range(2):
        both, metrics = together(both)
    update = jax.jit(learner.update)
    for i, seed in enumerate((3, 4)):
        state = learner.init(seed)
        for _ in range(2):
            state, alone = update(state)
        for name, value in alone.items():
            np.testing.assert_allclose(metrics[name][i], value, rtol=2e-3, atol=2e-4, err_msg=name)
        for a, b in zip(jax.tree.leaves(both.agent), jax.tree.leaves(state.agent), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-3, atol=1e-4)


def test_a_key_is_as_good_as_its_seed():
    learner = Learner.of(chain(3), config=Config(**SMALL, seed=5))
    init = eqx.filter_jit(learner.init)
    assert_equal(init(jax.random.key(3)), init(3))
    assert_equal(learner.init(), learner.init(5))  # by default that of the settings
    keys = jax.random.split(jax.random.key(0))
    both = eqx.filter_jit(eqx.filter_vmap(learner.init))(keys)
    assert_equal(jax.tree.map(lambda x: x[1], both).environments, init(keys[1]).environments)


@pytest.mark.slow
def test_a_scan_of_updates_is_a_loop():
    learner = Learner.of(chain(3, horizon=6), config=Config(**SMALL, anneal=("learning_rate",), total_timesteps=72))
    state = learner.init(0)
    scanned, rows = jax.jit(lambda state: jax.lax.scan(lambda s, _: learner.update(s), state, length=3))(state)
    update = jax.jit(learner.update)
    for i in range(3):
        state, metrics = update(state)
        np.testing.assert_allclose(rows["train/loss"][i], metrics["train/loss"], rtol=1e-4)
    for a, b in zip(jax.tree.leaves(scanned.agent), jax.tree.leaves(state.agent), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    assert int(scanned.timesteps) == 72


@pytest.mark.slow
def test_stacked_states_become_models_and_files(tmp_path):
    """From `vmap` over seeds and rates to models, a file, and back."""
    model = FactoredPPO("chain:3", **SMALL)
    learner = model.learner
    init = eqx.filter_jit(eqx.filter_vmap(lambda seed, rate: learner.init(seed, learning_rate=rate)))
    states = init(jnp.array([3, 4]), jnp.array([1e-3, 1e-2]))
    states, _ = eqx.filter_jit(eqx.filter_vmap(learner.update))(states)
    obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    actions = []
    for i in range(2):
        trained = model.with_state(states, index=i)
        assert trained.num_timesteps == 24
        np.testing.assert_array_equal(trained.state.hyper.learning_rate, states.hyper.learning_rate[i])
        trained.save(tmp_path / f"{i}")
        loaded = FactoredPPO.load(tmp_path / f"{i}")
        actions.append(trained.predict(obs, deterministic=True)[0])
        np.testing.assert_array_equal(loaded.predict(obs, deterministic=True)[0], actions[-1])
        assert_equal(loaded.state._replace(hyper=None), trained.state._replace(hyper=None))
    assert not np.array_equal(*actions)
    assert model.num_timesteps == 0  # the first model is as it was
    other = Learner.of(chain(3), config=Config(**SMALL | {"hidden": (4,)}))
    with pytest.raises(ValueError, match=r"state: got arrays of other shapes .*; want index= for stacked states"):
        model.with_state(states)
    with pytest.raises(ValueError, match=r"state: got arrays of other shapes than those of this model, want"):
        model.with_state(other.init(0))
    with pytest.raises(TypeError, match=r"state: got .*, want a TrainState"):
        model.with_state({})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "settings"),
    [
        (
            chain(10, delay=2, horizon=10),
            {"policy": "independent", "n_steps": 20, "distribution": "scale,initial_log_std=-0.5"},
        ),
        (queues(3, 3, horizon=20, hops=1), {"policy": "shared"}),
    ],
    ids=["chain", "queues"],
)
def test_factored_beats_ppo(problem, settings):
    """At equal steps, over six seeds that both have: the mean difference is above zero with 99 % confidence."""
    final = {}
    settings = SMALL | {"n_envs": 8, "n_steps": 20, "batch_size": 160, "n_epochs": 4, "learning_rate": 1e-2} | settings
    for method in ("factored", "ppo"):
        learner = Learner.of(problem, config=Config(**settings, method=method))

        @eqx.filter_jit
        @eqx.filter_vmap
        def train(seed, learner=learner):
            _, metrics = jax.lax.scan(lambda s, _: learner.update(s), learner.init(seed), None, 30)
            return metrics["rollout/ep_rew_mean"][-5:].mean()

        final[method] = np.asarray(train(jnp.arange(6)))
    difference = final["factored"] - final["ppo"]
    error = stats.sem(difference) * stats.t.ppf(0.99, 5)
    assert difference.mean() - error > 0, final


def test_the_pure_update_is_for_jax_problems_alone():
    learner = Learner.of(lambda: gym.make("CartPole-v1"), config=Config(**SMALL))
    with pytest.raises(TypeError, match="update: is a pure function only for JAX problems"):
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
    assert (str(config.policy), str(config.critic)) == chosen


class Remembers(eqx.Module):
    out: jax.Array
    memory: int = eqx.field(static=True, default=1)

    def __call__(self, obs, local, memory):
        return self.out, memory


MEMORY = {
    "policy": {"policy": lambda spec, key: Remembers(jnp.zeros((6, 2)))},
    "critic": {"critic": lambda spec, key: Remembers(jnp.zeros(6))},
    "gru": {"architecture": "gru"},
}


@pytest.mark.parametrize("name", MEMORY)
@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"n_steps": 24, "batch_size": 32}, "sequence_length: got 16, want a divisor of n_steps = 24"),
        ({"n_steps": 48, "batch_size": 24}, "sequence_length: got 16, want a divisor of batch_size = 24"),
        ({"n_steps": 32, "batch_size": 8}, "sequence_length: got 16, want a divisor of batch_size = 8"),
    ],
    ids=["rollout", "minibatch", "shorter minibatch"],
)
def test_networks_with_memory_are_trained_on_whole_sequences(name, sizes, message):
    with pytest.raises(ValueError, match=message):
        Learner.of(queues(2), config=Config(n_envs=4, **sizes, **MEMORY[name]))
