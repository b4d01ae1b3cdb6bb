"""Settings that do not go together are named, with what would."""

import pytest

from factorax.learning import Config, Learner
from factorax.problems import contextual_bandit

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


def test_a_minibatch_need_not_divide_what_is_shuffled_once():
    assert Config(shuffle="rollout", batch_size=100).batch_size == 100


@pytest.mark.parametrize(
    ("settings", "want"),
    [({}, False), ({"estimator": "vanilla"}, True), ({"kl_of": "action"}, True)],
)
def test_the_divergence_is_that_of_what_the_ratio_is_of(settings, want):
    assert Config(**settings).kl_is_of_action is want
    assert Config(**settings | {"kl_of": "factor"}).kl_is_of_action is False
