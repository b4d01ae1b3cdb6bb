"""Settings that do not go together are named, with what would."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from factorax.ppo import Config, Learner
from factorax.problems import contextual_bandit, queues

FACTORS = {"minibatch_of": "factors", "policy": "shared", "critic": "factor"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gae_steps": 100}, "want a divisor of n_steps = 256"),
        ({"shuffle": "rollout", "architecture": "gru"}, "want 'epoch'"),
        ({"batch_size": 4096, "shuffle": "rollout"}, "want a divisor"),
        (FACTORS | {"policy": "joint"}, "want policy='shared'"),
        (FACTORS | {"critic": "target"}, "want critic='factor' or critic='none'"),
        (FACTORS | {"estimator": "vanilla"}, "want estimator='factored'"),
        (FACTORS | {"objective": "natural"}, "want objective='ppo' or objective='a2c'"),
        (FACTORS | {"trunk": "shared"}, "want trunk='separate'"),
        (FACTORS | {"target_kl": 0.1}, "with target_kl"),
        ({"critic": "q", "estimator": "vanilla"}, "want estimator='factored'"),
        ({"critic": "q", "architecture": "gru"}, "want 'mlp', 'conv' or"),
        ({"critic": "reward", "trunk": "shared"}, "want trunk='separate'"),
        ({"difference_at": "every", "critic": "q"}, "want critic='reward'"),
    ],
)
def test_what_does_not_go_together(settings, message):
    with pytest.raises(ValueError, match=f"^{next(iter(settings))}: .*{message}"):
        Config(**settings)


@pytest.mark.parametrize(
    ("own", "settings", "message"),
    [
        ("policy", {"trunk": "shared"}, "trunk: got 'shared' with your own module as policy"),
        ("critic", {"trunk": "shared"}, "trunk: got 'shared' with your own module as critic"),
        ("policy", {"architecture": "gru"}, "architecture: got 'gru' .* memory"),
        ("policy", {"architecture": "conv", "critic": "none"}, "architecture: got 'conv' .* no built-in critic"),
        ("critic", {"critic": "none"}, "critic: got your own module"),
        ("critic", {"critic": "q"}, "critic: got your own module"),
        ("critic", FACTORS, "minibatch_of: got 'factors' with your own module as critic"),
    ],
)
def test_what_does_not_go_with_an_own_module(own, settings, message):
    with pytest.raises(ValueError, match=message):
        Learner.of(contextual_bandit(3), config=Config(**settings), **{own: lambda spec, key: None})


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


def test_a_minibatch_need_not_divide_what_is_shuffled_once():
    assert Config(shuffle="rollout", batch_size=100).batch_size == 100


@pytest.mark.parametrize(
    ("settings", "want"),
    [({}, False), ({"estimator": "vanilla"}, True), ({"kl_of": "action"}, True)],
)
def test_the_divergence_is_that_of_what_the_ratio_is_of(settings, want):
    assert Config(**settings).kl_is_of_action is want
    assert Config(**settings | {"kl_of": "factor"}).kl_is_of_action is False
