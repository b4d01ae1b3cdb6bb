"""Which models share compiled programs: those that are equal by value, and no others."""

import dataclasses
import functools
import gc
import weakref

import gymnasium as gym
import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from factorax_traffic import lanes
from scipy import sparse
from small_settings import SMALL

from factorax import InfluenceNetwork
from factorax.learning import Config, FactoredPPO, Learner, Program
from factorax.learning.adaptive import AdaptiveNetwork
from factorax.learning.program import KEPT, forget_programs
from factorax.learning.sharing import common_config, value_key
from factorax.problems import chain, contextual_bandit, queues
from factorax.structure import LaggedNetwork, StateNetwork

SETTINGS = {"n_envs": 2, "n_steps": 4, "batch_size": 8, "n_epochs": 1, "hidden": (4,)}
FACTOR = 2.0


def scaled(factor):
    return lambda obs, info: obs * factor


def times(n):
    return lambda x: x * n


def times_global(x):
    return FACTOR * x


class Adder:
    def __init__(self, n):
        self.n = n

    def __call__(self, x):
        return x + self.n


@dataclasses.dataclass(frozen=True)
class FrozenAdder:
    n: int

    def __call__(self, x):
        return x + self.n


NET = InfluenceNetwork([[1, 1], [0, 1]])


@pytest.mark.parametrize(
    ("make", "others"),
    [
        (lambda: np.arange(3), [np.arange(4), np.arange(3.0), [0, 1, 2]]),
        (lambda: jnp.arange(3), [jnp.arange(4), np.arange(3)]),
        (lambda: jax.random.key(1), [jax.random.key(2)]),
        (lambda: 1, [True, 1.0, "1"]),
        (lambda: 0.0, [-0.0]),
        (lambda: {"a": [1, 2]}, [{"a": [1, 3]}, {"a": (1, 2)}, {"b": [1, 2]}]),
        (lambda: times(2), [times(3), times_global]),
        (lambda: functools.partial(times, 2), [functools.partial(times, 3)]),
        (lambda: FrozenAdder(1).__call__, [FrozenAdder(2).__call__]),
        (lambda: sparse.eye_array(3, format="csr"), [sparse.eye_array(4, format="csr")]),
        (lambda: gym.spaces.Box(0.0, 1.0, (2,)), [gym.spaces.Box(0.0, 2.0, (2,)), gym.spaces.Box(0.0, 1.0, (3,))]),
        (lambda: gym.spaces.Dict(a=gym.spaces.Discrete(2)), [gym.spaces.Dict(a=gym.spaces.Discrete(2, start=1))]),
        (lambda: NET.relabel(), [NET.relabel(actions=["x", "y"]), NET.factor([["a1", "a2"]])]),
        (lambda: LaggedNetwork({2: NET}), [LaggedNetwork({3: NET})]),
        (lambda: AdaptiveNetwork(NET), [AdaptiveNetwork(NET, every=3)]),
        (lambda: StateNetwork(scaled(1.0), NET), [StateNetwork(scaled(2.0), NET)]),
        (lambda: chain(3), [chain(4), chain(3, delay=2), chain(3, horizon=9)]),
        (lambda: contextual_bandit(2), [contextual_bandit(3)]),
        (lambda: queues(2, 2), [queues(2, 2, horizon=9), queues(2, 2, hops=2)]),
        (lambda: lanes(1, 2, slots=9), [lanes(1, 2, slots=10), lanes(1, 2, slots=9, period=13)]),
    ],
)
def test_equal_by_value(make, others):
    key = value_key(make())
    assert key is not None
    assert key == value_key(make())
    assert hash(key) == hash(value_key(make()))
    for other in others:
        assert value_key(other) != key, other


@pytest.mark.parametrize("x", [Adder(1), times(Adder(1)), times([1]), times(object()), np.array([None]), iter(())])
def test_what_may_change_is_not_described(x):
    assert value_key(x) is None
    assert value_key({"in it": x}) is None


def test_a_function_is_described_with_what_it_refers_to(monkeypatch):
    before = value_key(times_global)
    assert before == value_key(times_global)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert value_key(times_global) != before


def test_what_leads_back_to_itself_is_described():
    def recursive(n):
        return 1 if n == 0 else n * recursive(n - 1)

    assert value_key(recursive) is not None


def test_settings_that_programs_take_as_arguments_are_those_of_all():
    one = Config(seed=3, learning_rate=0.1, gamma=0.5, total_timesteps=7, workers=2, **SETTINGS)
    assert common_config(one) == common_config(Config(**SETTINGS))
    for name, value in {"n_epochs": 2, "anneal": ("clip_range",), "learning_rate": lambda progress: progress}.items():
        assert common_config(Config(**SETTINGS | {name: value})) != common_config(one), name


@pytest.fixture
def compilations():
    """A list that grows with every program that is compiled; not every version of JAX can stop listening."""
    events = []

    def note(event, seconds, **_):
        if event.endswith("backend_compile_duration"):
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    return events


def used(make, **settings):
    model = FactoredPPO(make(), **SMALL | settings).learn(24, progress_bar=False)
    model.evaluate(2)
    model.predict(model.observation_space.sample())
    return model


@pytest.mark.parametrize(
    "make",
    [lambda: contextual_bandit(3), pytest.param(lambda: lambda: gym.make("CartPole-v1"), marks=pytest.mark.slow)],
    ids=["jax", "host"],
)
def test_the_second_model_compiles_nothing_and_learns_with_its_own_settings(make, compilations):
    forget_programs()
    gc.collect()
    one = used(make)
    before = len(compilations)
    assert before > 0
    state = used(make, seed=5, learning_rate=0.1, gamma=0.5).state
    assert len(compilations) == before
    forget_programs()
    del one
    gc.collect()
    alone = used(make, seed=5, learning_rate=0.1, gamma=0.5)
    assert len(compilations) > before
    assert alone.history[-1]["train/learning_rate"] == np.float32(0.1)
    for a, b in zip(*(jax.tree.leaves(each._replace(key=None)) for each in (state, alone.state)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_programs_are_released_with_the_model_and_the_last_ones_are_kept():
    def programs(n):
        return Program(Learner.of(contextual_bandit(n), config=Config(**SETTINGS)))

    forget_programs()
    first = programs(2)
    assert programs(2)._programs is first._programs
    alive = weakref.ref(first._programs)
    for n in range(3, 3 + KEPT):
        programs(n)
    assert programs(2)._programs is first._programs  # because a model has it
    del first
    for n in range(3, 3 + KEPT):
        programs(n)
    gc.collect()
    assert alive() is None


def test_models_that_cannot_be_compared_do_not_share():
    problem = contextual_bandit(2)
    fixed = dataclasses.replace(problem, step=functools.partial(problem.step))
    assert Program(Learner.of(fixed))._programs is Program(Learner.of(fixed))._programs
    box = [problem.reset]
    changing = dataclasses.replace(problem, reset=lambda key: box[0](key))
    one, other = (Program(Learner.of(changing))._programs for _ in range(2))
    assert one is not other
