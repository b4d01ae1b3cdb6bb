"""Compiled programs are released: with whoever holds them, and in loops over many models."""

import gc
import json
import subprocess
import sys
import weakref
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factorax import _programs
from factorax._programs import OwnJit

MANY_MODELS = Path(__file__).parent / "many_models.py"


def test_what_is_not_an_array_goes_in_and_out_as_it_is():
    traces = []

    def function(tree, *, power):
        traces.append(None)
        return {"power": tree["x"] ** power, "name": tree["name"] + "!", "none": None}

    own = OwnJit(function)
    for name, x in [("a", 2.0), ("a", 3.0), ("b", 3.0)]:
        got = own({"x": jnp.float32(x), "name": name}, power=2)
        assert (got["power"], got["name"], got["none"]) == (x**2, f"{name}!", None)
    assert len(traces) == 2
    compiled = OwnJit(lambda x: (x + 1, "text")).compile(jnp.arange(3))
    np.testing.assert_array_equal(compiled(jnp.arange(3))[0], [1, 2, 3])


@pytest.mark.parametrize(
    ("flags", "disabled", "accepted", "backend", "chosen"),
    [
        ("", False, True, "cpu", True),
        ("--xla_backend_optimization_level=1", False, True, "cpu", False),
        ("", True, True, "cpu", False),
        ("", False, False, "cpu", False),
        ("", False, True, "gpu", False),
    ],
    ids=["usual", "of the user", "quick to compile", "unknown to XLA", "on a GPU"],
)
def test_the_level_of_optimisation_is_lower_on_a_cpu(monkeypatch, flags, disabled, accepted, backend, chosen):
    monkeypatch.setenv("XLA_FLAGS", flags)
    monkeypatch.setattr(_programs, "_most_optimisations_disabled", lambda: disabled)
    monkeypatch.setattr(_programs, "_accepts_level", lambda: accepted)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert (_programs.compiler_options() is not None) == chosen


def test_this_version_of_xla_has_the_option(monkeypatch):
    assert _programs._accepts_level()
    monkeypatch.setattr(_programs, "OPTIMISATION_LEVEL", {"xla_no_such_option": 2})
    _programs._accepts_level.cache_clear()
    assert not _programs._accepts_level()
    _programs._accepts_level.cache_clear()
    monkeypatch.undo()
    monkeypatch.setattr(_programs, "_most_optimisations_disabled", lambda: False)
    assert OwnJit(lambda x: x + 1)(jnp.float32(1)) == 2  # called and compiled with it


class Lowered:
    """A program that tells with which options it is compiled."""

    def __init__(self, known=True):
        self.known, self.compilations = known, []

    def compile(self, compiler_options=None):
        self.compilations.append(compiler_options)
        if compiler_options and not self.known:
            raise RuntimeError("No such compile option")
        return compiler_options


@pytest.mark.parametrize(
    ("flags", "backend", "known", "untuned"),
    [
        ("", "gpu", True, True),
        ("", "cpu", True, False),
        ("--xla_gpu_autotune_level=4", "gpu", True, False),
        ("", "gpu", False, False),
    ],
    ids=["usual", "on a CPU", "of the user", "unknown to XLA"],
)
def test_products_are_not_tuned_if_they_take_little_of_the_time(monkeypatch, flags, backend, known, untuned):
    monkeypatch.setenv("XLA_FLAGS", flags)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    lowered = Lowered(known)
    assert _programs.compile_untuned(lowered) == (_programs.UNTUNED if untuned else None)
    assert len(lowered.compilations) == (1 if known else 2)


@pytest.mark.parametrize(("jit", "released"), [(OwnJit, True), (eqx.filter_jit, False)])
def test_a_function_is_released_with_its_program(jit, released):
    """As it would not be with Equinox."""

    class Held:
        def __call__(self, x):
            return x + 1

    held = Held()
    alive, program = weakref.ref(held), jit(held.__call__)
    assert program(jnp.float32(1.0)) == 2
    del held, program
    gc.collect()
    assert (alive() is None) == released


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="counts memory maps where Linux lists them")
@pytest.mark.parametrize(
    ("kind", "models", "maps_of_a_model", "mib_of_a_model"),
    [
        *(("same", 6, 3, 3), ("host", 6, 3, 3), ("different", 6, 150, 30)),
        *(pytest.param(kind, 100, 1, 1, marks=pytest.mark.nightly) for kind in ("same", "host")),
        pytest.param("different", 30, 150, 30, marks=pytest.mark.nightly),
    ],
)
def test_a_process_that_trains_many_models_does_not_grow(kind, models, maps_of_a_model, mib_of_a_model):
    """The programs of a model are released with it; they would take about 900 maps. For each shape that is new, JAX
    keeps programs of single operations and its traces."""
    command = [sys.executable, str(MANY_MODELS), kind, str(models)]
    rows = [json.loads(line) for line in subprocess.check_output(command, text=True).splitlines()]
    (maps, resident), last = rows[1], rows[-1]
    assert len(rows) == models
    assert last[0] - maps <= maps_of_a_model * (models - 2)
    assert last[1] - resident <= mib_of_a_model * (models - 2) + 10
