"""The bandit experiments at tiny sizes, and what their tests look at."""

import dataclasses
import importlib
import io
import json

import pytest
from factorax_paper.experiments import BANDITS, find
from factorax_paper.harness import parts
from factorax_paper.harness.experiment import reproduce
from rich.console import Console

SIZES = {"seeds": 2, "steps": 40, "every": 10}
TINY = {
    "search-baselines": SIZES | {"n": 3, "step_size": 50.0},
    "search-throughput": {"n": 3, "seeds": 2, "steps": 40, "naive_fraction": 4},
    "search-aliasing": SIZES | {"n": 3},
    "search-stability": SIZES | {"dimensions": (3,), "step_sizes": (0.01, 50.0)},
    "search-rate": SIZES | {"dimensions": (3,), "step_sizes": (1.0,), "tolerance": 2.0},
    "search-discrepancy": SIZES | {"dimensions": (3,), "step_sizes": (0.1, 1.0)},
    "search-states": SIZES | {"n": 3, "features": 2, "step_sizes": (0.01, 50.0)},
    "variance-decomposition": {"dimensions": (2,), "samples": 200, "batches": 4},
}
ROWS = {
    "search-baselines": 11 * 2 * 5,  # methods and step sizes, four of them with undivided rewards; seeds; records
    "search-throughput": 6 * 2,
    "search-aliasing": 2 * 2 * 5,
    "search-stability": 2 * 2 * 2,  # methods, step sizes, seeds
    "search-rate": 2 * 2,
    "search-discrepancy": 2 * 2 * 2 * 2,
    "variance-decomposition": 3 * 4 * 4,
    "search-states": 2 * 2 * 2 * 2,  # norms, methods, step sizes, seeds
}
VALUES = ("gap", "squared_error", "iterations_per_second", "value")
FILES = ["config.json", "data.csv", "figure.pdf", "figure.png", "summary.json"]
DETERMINED = [name for name in BANDITS if name != "search-throughput"]  # it measures time
A_MINUTE = 60.0  # for what comes at once, or never

every_experiment = pytest.mark.parametrize("name", BANDITS)


def settings(name, **changes):
    module = importlib.import_module("factorax_paper.experiments." + name.replace("-", "_"))
    return module.Settings(**TINY[name] | changes)


def go(name, out, *, settings=settings, **options):
    """Run an experiment at its tiny size; options ``parts`` and the like replace what it is made of."""
    changed = {key: options.pop(key) for key in ("parts", "summarise") if key in options}
    small = settings(name) if callable(settings) else settings
    quiet = Console(file=io.StringIO())
    return reproduce(dataclasses.replace(find(name), **changed), settings=small, out=out, console=quiet, **options)


def no_parts(settings, seed):
    def compute(*arguments):
        raise AssertionError("computed what was there")

    return [parts.Part("nothing", 1.0, compute)]


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def strict(path):
    """JSON as the standard has it: no NaN, no Infinity."""

    def refuse(constant):
        raise AssertionError(f"{path} has {constant}")

    return json.loads(path.read_bytes(), parse_constant=refuse)
