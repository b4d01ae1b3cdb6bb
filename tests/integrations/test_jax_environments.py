"""What adapters of JAX environments share; without the packages, whose tests are in files of their own."""

import subprocess
import sys

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from integrations.jax_cases import contains

from factorax import integrations
from factorax.integrations import _jax_environments as shared
from factorax.problems.registry import find_problem

PACKAGES = {name: name for name in ("gymnax", "jaxmarl", "brax", "jumanji")} | {"playground": "mujoco_playground"}


@pytest.mark.parametrize("family", PACKAGES)
def test_a_missing_package_names_the_extra(family, monkeypatch):
    for module in [name for name in sys.modules if name.partition(".")[0] == PACKAGES[family]]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, PACKAGES[family], None)
    for call in (lambda: getattr(integrations, f"from_{family}")("x"), lambda: find_problem(f"{family}:x")):
        with pytest.raises(ImportError, match=r"need the extra packages of factorax\[jax-envs\]"):
            call()


def test_packages_are_imported_lazily():
    code = "import sys, factorax.integrations as i; dir(i); i.from_gymnax; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {*PACKAGES.values(), "flax", "mujoco"} & {*loaded}


def test_imports_print_nothing(tmp_path, monkeypatch, capsys):
    code = "import sys; print('a'); sys.stdout = sys.__stdout__; print('b'); print('c', file=sys.stderr)"
    (tmp_path / "loud.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    before = sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__
    shared.Package("loud", "Loud", "x").load("loud")
    assert (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__) == before
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "problem: got 'brax:', want the name of an environment, as in brax:ant"),
        ("ant,backend", "got the setting 'backend', want name=value"),
        ("ant,length=1e9", "problem: got length=1000000000.0, want at most 100,000 for a problem by name"),
        ("ant,length=nan", "problem: got length=nan, want at most 100,000"),
        ("ant,num_legs=5000", "problem: got num_legs=5000, want at most 4,096"),
    ],
)
def test_names_with_settings(text, message):
    brax = shared.Package("brax", "Brax", "ant")
    assert brax.parse("ant,a=1,b=x,c=true") == ("ant", {"a": 1, "b": "x", "c": True})
    with pytest.raises(ValueError, match=message):
        brax.parse(text)


class Discrete:
    n = 3


class Box:
    def __init__(self, low, high, shape, dtype=jnp.float32):
        self.low, self.high, self.shape, self.dtype = low, high, shape, dtype


class Dict:
    spaces = {"place": Discrete(), "image": Box(0, 1, (2, 2, 1), jnp.bool_)}  # noqa: RUF012


class Tuple:
    spaces = (Discrete(), Box(jnp.array([0.0, -1.0]), jnp.inf, (2,)), Box(0, 255, (2,), jnp.uint8))


def test_spaces_become_those_of_gymnasium():
    space = shared.space_of(Tuple(), "theirs")
    assert repr(space) == "Tuple(Discrete(3), Box([ 0. -1.], inf, (2,), float32), Box(0, 255, (2,), uint8))"
    assert repr(shared.space_of(Dict(), "theirs")["image"]) == "MultiBinary((2, 2, 1))"
    floats = shared.space_of(Box(0, 255, (2,), jnp.int32), "theirs", jnp.zeros(2))
    assert repr(floats) == "Box(0.0, 255.0, (2,), float32)"
    with pytest.raises(TypeError, match=r"env: has the space 3, want a .*Discrete, MultiDiscrete, Box, Dict or Tuple"):
        shared.space_of(3, "theirs")


def test_elements_have_the_types_of_their_space():
    space = shared.space_of(Dict(), "theirs")
    element = shared.as_element(space, {"place": 2, "image": jnp.ones((2, 2, 1), bool)})
    assert contains(space, element)
    assert isinstance(space, gym.spaces.Dict)
    assert element["image"].dtype == jnp.int8


def test_bounds_that_an_integer_cannot_hold_are_its_own():
    space = shared.box(-np.inf, np.inf, (2,), np.int32)
    assert (space.low, space.high) == pytest.approx((-(2**31), 2**31 - 1))


def test_keys_draw_the_same_numbers_as_their_data():
    key = jax.random.key(3)
    np.testing.assert_array_equal(jax.random.normal(key), jax.random.normal(shared.plain_key(key)))
    assert shared.plain_key(shared.plain_key(key)).shape == (2,)


def test_types_do_not_depend_on_python_numbers():
    tree = shared.strongly_typed({"time": 0, "key": jax.random.key(0), "x": jnp.zeros(2)})
    assert not tree["time"].weak_type
    assert jnp.issubdtype(tree["key"].dtype, jax.dtypes.prng_key)
