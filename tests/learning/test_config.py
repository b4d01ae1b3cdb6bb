"""Settings: annealing, values that are refused, and those stored by earlier versions."""

import pytest

from factorax.learning import Config
from factorax.learning.config import upgraded

ROLLOUT = {"n_envs": 4, "n_steps": 6, "batch_size": 24}


def test_annealed_settings_decay_linearly_to_zero():
    config = Config(
        **ROLLOUT, anneal=("learning_rate", "ent_coef"), total_timesteps=100, learning_rate=2.0, ent_coef=0.1
    )
    for timesteps, left in ((0, 1), (25, 0.75), (100, 0)):
        now = config.annealed(config.hyper, timesteps)
        assert now == config.hyper._replace(learning_rate=2.0 * left, ent_coef=0.1 * left)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_steps": 0}, "n_steps: got 0, want at least 1"),
        ({"batch_size": 7}, r"batch_size: got 7, want a divisor of n_envs × n_steps = 24"),
        ({"discount": 1.5}, "discount: got 1.5, want a number from 0 to 1"),
        ({"gae_lambda": -0.1}, "gae_lambda: got -0.1"),
        ({"anneal": ["discount"]}, "anneal: got 'discount', want some of learning_rate, clip_range, ent_coef"),
        ({"objective": "natural"}, "kl_target: got None, want the length of a natural step"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Config(**ROLLOUT | settings)


@pytest.mark.parametrize(("squash", "bounded"), [(True, "tanh"), (False, "clip")])
def test_squash_of_earlier_versions_is_bounded(squash, bounded):
    stored = {"seed": 3, "squash": squash}
    assert Config.read(stored) == Config(seed=3, bounded=bounded)
    assert stored == {"seed": 3, "squash": squash}


def test_settings_of_this_version_stay_as_they_are():
    stored = {"bounded": "beta", "seed": 3}
    assert upgraded(stored) is stored
    assert Config.read(stored).bounded == "beta"


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"squash": "yes"}, "^squash: no setting of this version"),
        ({"squash": True, "bounded": "clip"}, "^squash: no setting of this version"),
        ({"bounded": "wrap"}, "^bounded: got 'wrap', want"),
    ],
)
def test_other_values_are_refused(stored, message):
    with pytest.raises(ValueError, match=message):
        Config.read(stored)
