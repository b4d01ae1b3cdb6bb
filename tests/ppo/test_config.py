"""Settings: every bad one is refused by name; schedules and seeds."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factorax.networks import Gru, SharedPolicy
from factorax.ppo import Config, FactoredPPO, NoCritic
from factorax.ppo.config import different_settings, menus
from factorax.ppo.methods import Natural
from factorax.ppo.schedules import Schedule
from factorax.rollouts.settings import Ray
from ppo.bad_settings import BAD, UNKNOWN

ROLLOUT = {"n_envs": 4, "n_steps": 6, "batch_size": 24}


@pytest.mark.parametrize(
    ("settings", "message"), BAD, ids=[f"{i}-{next(iter(settings))}" for i, (settings, _) in enumerate(BAD)]
)
def test_bad_settings_are_refused_from_python(settings, message):
    with pytest.raises(ValueError, match="^" + next(iter(settings))) as error:
        Config(**settings)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"), BAD, ids=[f"{i}-{next(iter(settings))}" for i, (settings, _) in enumerate(BAD)]
)
def test_bad_settings_are_refused_from_files(settings, message):
    if any(callable(value) for value in settings.values()):
        settings = {name: [-0.5, 0.5] for name in settings}
    stored = json.loads(json.dumps(settings, default=str))  # sets and bytes as text
    with pytest.raises(ValueError, match="^" + next(iter(settings))) as error:
        Config.read(stored)
    if stored == settings:  # lists instead of tuples are shown as lists
        assert message in str(error.value)


@pytest.mark.parametrize(("name", "message"), UNKNOWN)
def test_unknown_settings(name, message):
    with pytest.raises(TypeError, match=f"^{name}: no such setting.*{message[:-1]}"):
        FactoredPPO("chain:3", **{name: 1})
    with pytest.raises(ValueError, match=f"^{name}: no such setting"):
        Config.read({name: 1})


def test_settings_of_numpy_are_settings_of_python():
    values = {"learning_rate": np.float32(0.5), "n_envs": np.int64(4), "hidden": np.array([8, 4])}
    config = Config(**values, check_network=np.bool_(False))
    types = [type(x) for x in (config.learning_rate, config.n_envs, config.hidden, config.check_network)]
    assert types == [float, int, tuple, bool]
    assert config.hidden == (8, 4)
    json.dumps(config.to_json())


CHOSEN = [
    {},
    {"method": "natural,kl=0.02", "critic": "factor,trunk=shared", "clip_range_vf": 0.1, "target_kl": 0.01},
    {"architecture": "gru,sequence_length=8,init=he", "policy": "shared,identity=0", "rollouts": "processes,workers=2"},
    {"method": "difference-rewards,default_action=1:0.5", "distribution": "tanh,std=full", "device": "cpu"},
    {"architecture": Gru(8), "policy": SharedPolicy(identity=2), "method": Natural(kl=0.5), "rollouts": Ray(cpus=0.5)},
]


def test_settings_that_change_results():
    """Who steps the environments does not, unless workers act with the policy before the last update."""
    before = Config().to_json()
    settings = {"gamma": 0.5, "device": "cpu", "rollouts": "processes,workers=2"}
    assert different_settings(before, Config(**settings).to_json()) == ["gamma"]
    overlap = Config(gamma=0.5, rollouts="processes,overlap=true").to_json()
    assert different_settings(before, overlap, ["gamma"]) == ["rollouts"]


@pytest.mark.parametrize("settings", CHOSEN, ids=str)
def test_settings_come_back_from_json(settings):
    config = Config(**settings)
    assert Config.read(json.loads(json.dumps(config.to_json()))) == config


def test_text_and_objects_are_the_same_choices():
    settings = {"architecture": "gru,sequence_length=8", "policy": "shared,identity=2", "critic": "none"}
    objects = {"architecture": Gru(8), "policy": SharedPolicy(identity=2), "critic": NoCritic()}
    assert Config(**settings) == Config(**objects)


def test_every_choice_is_read_from_its_text():
    for name, menu in menus().items():
        for kind in menu.kinds.values():
            assert menu.read(str(kind())) == kind(), f"{name}: {kind}"


def test_a_seed_of_none_is_drawn_and_kept():
    seeds = {Config(seed=None).seed for _ in range(5)}
    assert len(seeds) > 1  # equal by chance with a probability of 2⁻¹²⁴
    assert all(isinstance(seed, int) for seed in seeds)


def test_annealed_settings_decay_linearly_to_zero():
    config = Config(
        **ROLLOUT, anneal=("learning_rate", "ent_coef"), total_timesteps=100, learning_rate=2.0, ent_coef=0.1
    )
    for timesteps, left in ((0, 1), (25, 0.75), (100, 0)):
        now = config.annealed(config.hyper, timesteps)
        assert now == config.hyper._replace(learning_rate=2.0 * left, ent_coef=0.1 * left)


def test_schedules_are_functions_of_the_progress_that_remains():
    config = Config(
        total_timesteps=1000, learning_rate=lambda p: 1e-3 if p > 0.5 else 1e-4, clip_range=lambda p: 0.1 + p
    )
    for timesteps, rate, clip in ((0, 1e-3, 1.1), (250, 1e-3, 0.85), (750, 1e-4, 0.35), (1000, 1e-4, 0.1)):
        now = config.annealed(config.hyper, timesteps)
        np.testing.assert_allclose((now.learning_rate, now.clip_range), (rate, clip), rtol=1e-5)
    longer = config.annealed(config.hyper._replace(total_timesteps=2000.0), 250)
    np.testing.assert_allclose(longer.clip_range, 0.1 + 0.875, rtol=1e-5)
    half = config.annealed(config.hyper._replace(learning_rate=0.5), 0)  # of a sweep
    np.testing.assert_allclose(half.learning_rate, 5e-4, rtol=1e-5)
    assert Config.read(json.loads(json.dumps(config.to_json()))) == config
    with pytest.raises(ValueError, match="anneal: got 'clip_range', which is already a function of the progress"):
        dataclasses.replace(config, anneal=("clip_range",))


def test_a_schedule_that_fails_is_named():
    with pytest.raises(ValueError, match=r"clip_range: got .*the function raised ZeroDivisionError: .*zero"):
        Config(clip_range=lambda progress: 1 / progress)


@given(st.floats(0, 1))
def test_a_linear_schedule_is_exact(progress):
    schedule = Schedule.of(lambda p: 3.0 * p + 1.0)
    np.testing.assert_allclose(schedule(progress), 3.0 * progress + 1.0, rtol=1e-5)


def test_a_schedule_in_a_program_and_beyond_its_ends():
    schedule = Schedule.of(lambda p: 2.0 * p)
    assert float(schedule(-0.5)) == 0.0  # a last rollout may go beyond the end of training
    assert float(schedule(1.5)) == 2.0
