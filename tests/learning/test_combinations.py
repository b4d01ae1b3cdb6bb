"""Settings that do not go together are named, with what would."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from factorax.learning import Config, Learner
from factorax.problems import contextual_bandit, queues

FACTORS = {"minibatch_of": "factors", "policy": "shared", "critic": "factor"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gae_steps": 100}, "gae_steps: got 100, want a divisor of n_steps = 256"),
        ({"shuffle": "rollout", "architecture": "gru"}, "shuffle: got 'rollout' with architecture='gru', want 'epoch'"),
        ({"shuffle": "rollout", "batch_size": 4096}, "batch_size: got 4096, want a divisor"),
        (FACTORS | {"policy": "joint"}, "minibatch_of: got 'factors' with policy='joint', want policy='shared'"),
        (FACTORS | {"critic": "target"}, "with critic='target', want critic='factor' or critic='none'"),
        (FACTORS | {"estimator": "vanilla"}, "with estimator='vanilla', want estimator='factored'"),
        (FACTORS | {"objective": "natural"}, "with objective='natural', want objective='ppo' or objective='a2c'"),
        (FACTORS | {"trunk": "shared"}, "with trunk='shared', want trunk='separate'"),
        (FACTORS | {"target_kl": 0.1}, "with target_kl"),
        (
            {"critic": "q", "estimator": "vanilla"},
            "got 'q' with estimator='vanilla', want estimator='factored'",
        ),
        ({"critic": "q", "architecture": "gru"}, "critic: got 'q' with architecture='gru', want 'mlp', 'conv' or"),
        ({"critic": "reward", "trunk": "shared"}, "critic: got 'reward' with trunk='shared', want trunk='separate'"),
        ({"critic": "q", "difference_at": "every"}, "difference_at: got 'every' with critic='q', want critic='reward'"),
    ],
)
def test_what_does_not_go_together(settings, message):
    with pytest.raises(ValueError, match=message):
        Config(**settings)


@pytest.mark.parametrize("name", ["policy", "critic"])
def test_only_built_in_networks_share_a_trunk(name):
    with pytest.raises(ValueError, match=f"trunk: got 'shared' with your own module as {name}, want 'separate' or"):
        Learner.of(contextual_bandit(3), config=Config(trunk="shared"), **{name: lambda spec, key: None})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"architecture": "gru"}, "got 'gru' with your own module as policy, want 'mlp': give the module a memory"),
        (
            {"architecture": "conv", "critic": "none"},
            "got 'conv' with your own module as policy and no built-in critic",
        ),
    ],
)
def test_an_architecture_is_that_of_built_in_networks(settings, message):
    with pytest.raises(ValueError, match=f"architecture: {message}"):
        Learner.of(contextual_bandit(3), config=Config(**settings), policy=lambda spec, key: None)


class Remembers(eqx.Module):
    out: jax.Array
    memory: int = eqx.field(static=True, default=1)

    def __call__(self, obs, local, memory):
        return self.out, memory


OWN = {"policy": lambda spec, key: Remembers(jnp.zeros((6, 2))), "critic": lambda spec, key: Remembers(jnp.zeros(6))}


@pytest.mark.parametrize("name", ["policy", "critic"])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_steps": 24, "batch_size": 32}, "sequence_length: got 16, want a divisor of n_steps = 24, such as 8"),
        ({"n_steps": 48, "batch_size": 24}, "sequence_length: got 16, want a divisor of batch_size = 24, such as 8"),
        ({"n_steps": 32, "batch_size": 8}, "sequence_length: got 16, want a divisor of batch_size = 8, such as 8"),
        (
            {"n_steps": 32, "batch_size": 32, "shuffle": "rollout"},
            "shuffle: got 'rollout' with your own module with memory as {}, want 'epoch'",
        ),
    ],
    ids=["rollout", "minibatch", "shorter minibatch", "shuffle"],
)
def test_a_module_with_memory_is_trained_on_whole_sequences(name, settings, message):
    with pytest.raises(ValueError, match=message.format(name)):
        Learner.of(queues(2), config=Config(n_envs=4, **settings), **{name: OWN[name]})


def test_a_critic_of_actions_is_not_recurrent():
    config = Config(n_envs=4, n_steps=32, batch_size=32, critic="q")
    with pytest.raises(ValueError, match="critic: got 'q' with your own module with memory as policy, want a module w"):
        Learner.of(queues(2), config=config, policy=OWN["policy"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"critic": "none"}, "critic: got your own module, but the settings select critic='none', no critic"),
        ({"critic": "q"}, "critic: got your own module, but the settings select critic='q', a critic of actions"),
        (FACTORS, "minibatch_of: got 'factors' with your own module as critic, want 'steps'"),
    ],
)
def test_what_an_own_critic_does_not_go_with(settings, message):
    with pytest.raises(ValueError, match=message):
        Learner.of(queues(2), config=Config(**settings), critic=OWN["critic"])


def test_a_minibatch_need_not_divide_what_is_shuffled_once():
    assert Config(shuffle="rollout", batch_size=100).batch_size == 100


@pytest.mark.parametrize(
    ("settings", "want"),
    [({}, False), ({"estimator": "vanilla"}, True), ({"kl_of": "action"}, True)],
)
def test_the_divergence_is_that_of_what_the_ratio_is_of(settings, want):
    assert Config(**settings).kl_is_of_action is want
    assert Config(**settings | {"kl_of": "factor"}).kl_is_of_action is False
