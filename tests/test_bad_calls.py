"""Every public function, class and method refuses bad arguments, and says which, what came and what it wants."""

import importlib
import inspect
import re
import traceback
from importlib.util import find_spec
from pathlib import Path

import pytest
from bad_calls import discovery, gradients, learning, markets, networks, problems, runs, structure
from bad_calls.exempt import EXEMPT, EXEMPT_ARGUMENTS, EXEMPT_METHODS
from learning.bad_settings import BAD

import factorax

TABLES = (structure, networks, gradients, problems, markets, learning, discovery, runs)
ROWS = [row for table in TABLES for row in table.ROWS]
ROWS += [row for package, rows in runs.ROWS_OF_EXTRAS.items() if find_spec(package) for row in rows]
MARKS = {"pettingzoo": pytest.mark.marl, "stable_baselines3": pytest.mark.sb3}
MARKS_OF_CALLS = {
    row.covers: MARKS.get(package, pytest.mark.jaxenvs) for package, rows in runs.ROWS_OF_EXTRAS.items() for row in rows
}
"""Markers of the calls that need an optional package."""
ALL_ROWS = [row for table in TABLES for row in table.ROWS] + [
    row for rows in runs.ROWS_OF_EXTRAS.values() for row in rows
]
SOURCE = Path(factorax.__file__).parent
PACKAGES = [
    "structure",
    "structure.patterns",
    "structure.gallery",
    "gradients",
    "distributions",
    "spaces",
    "problems",
    "problems.market",
    "problems.traffic",
    "spec",
    "rollouts",
    "learning",
    "discovery",
    "runs",
    "integrations",
    "experiments",
]


def fault_of(row):
    """What is wrong with how a call is refused: an empty text if nothing is."""
    try:
        row.call()
    except FileNotFoundError as error:  # names the argument, or begins with the path
        return "" if re.match(rf"({re.escape(row.argument)}\b|\S+:)", str(error)) else f"unclear: {error}"
    except (ValueError, TypeError) as error:
        message, frames = str(error), traceback.extract_tb(error.__traceback__)
    except Exception as error:
        return f"unclear: {type(error).__name__}: {error}"
    else:
        return "accepted"
    if not Path(frames[-1].filename).is_relative_to(SOURCE):
        return f"unclear: raised in {frames[-1].filename}: {message}"
    if not re.match(rf"(\w+, )*{re.escape(row.argument)}(, \w+)*( \(\w+\))?: ", message):
        return f"unclear: does not begin with {row.argument}: {message}"
    if not any(text.lower() in message.lower() for text in row.shows):
        return f"unclear: shows none of {row.shows}: {message}"
    if not re.search(r"\b(want|wants|use|give|did you mean|leave|known|must|no such)\b", message):
        return f"unclear: does not say what is wanted: {message}"
    return ""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=MARKS_OF_CALLS.get(name, ())) for name in dict.fromkeys(row.covers for row in ROWS)],
)
def test_bad_calls_are_refused_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    faults = {str(row): fault_of(row) for row in ROWS if row.covers == name}
    assert {call: fault for call, fault in faults.items() if fault} == {}
    assert list(tmp_path.iterdir()) == []


def test_there_are_many_rows():
    assert len(ROWS) >= 450


def public_callables():
    """The public functions, classes and methods with arguments, by the names that the tables use."""
    found = {}
    for package in ("", *PACKAGES):
        module = importlib.import_module(f"factorax.{package}".rstrip("."))
        for name in dir(module):
            value = getattr(module, name)
            home = getattr(value, "__module__", "") or ""
            own = home.startswith("factorax.") and not home.startswith(("factorax._lazy", "factorax._checks"))
            in_one_file = package in ("spaces", "spec", "structure.patterns", "structure.gallery")
            if name.startswith("_") or not callable(value) or not own or (in_one_file and home != module.__name__):
                continue
            found.setdefault(value, f"{package}.{name}".lstrip("."))
    for value, name in list(found.items()):
        for attribute, method in vars(value).items() if inspect.isclass(value) else ():
            function = getattr(method, "__func__", method)
            if not attribute.startswith("_") and inspect.isfunction(function):
                found[f"{name}.{attribute}"] = f"{name}.{attribute}"
    return {name: _arguments(name) for name in found.values()}


def _arguments(name):
    """The names of the arguments of a public callable; none if it has no signature of its own."""
    value = factorax
    *path, last = name.split(".")
    for part in path:
        value = getattr(value, part) if hasattr(value, part) else importlib.import_module(f"{value.__name__}.{part}")
    try:
        parameters = inspect.signature(getattr(value, last)).parameters.values()
    except ValueError:
        return []
    return [each.name for each in parameters if each.kind is not each.VAR_KEYWORD and each.name not in ("self", "cls")]


COVERED = {"learning.Config": {name for settings, _ in BAD for name in settings}}
for _row in ALL_ROWS:
    COVERED.setdefault(_row.covers, set()).update(_row.arguments)


def aliases(name):
    """The names under which a table may list what is re-exported at the top."""
    return {name} | {f"{package}.{name}" for package in PACKAGES}


def test_every_public_callable_has_a_row():
    missing = []
    for name, arguments in public_callables().items():
        owner, _, method = name.rpartition(".")
        if not arguments or name in EXEMPT:
            continue
        covered = set().union(*(COVERED.get(alias, set()) for alias in aliases(name)))
        if not covered and owner not in EXEMPT and method not in EXEMPT_METHODS:
            missing.append(name)
        missing += [
            f"{name}({each})" for each in arguments if covered and each not in covered | EXEMPT_ARGUMENTS.keys()
        ]
    assert missing == []


def test_exceptions_are_public_and_have_no_rows():
    public = public_callables()
    assert [name for name in EXEMPT if name not in public] == []
    assert [name for name in EXEMPT if aliases(name) & COVERED.keys()] == []
    assert EXEMPT_METHODS.keys() <= {name.rpartition(".")[2] for name in public}
