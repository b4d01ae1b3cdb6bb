"""Lazy imports: names of our own packages, and other packages without the messages that they print."""

import importlib
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def loaded_when_needed(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package that imports its names on first use.

    - `package`: the ``__name__`` of the package.
    - `homes`: maps each name to the submodule that defines it, or to itself if the name is a submodule.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f".{homes[name]}", package)
        value = module if homes[name] == name else getattr(module, name)
        setattr(sys.modules[package], name, value)  # found without this function from now on
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names


def import_quietly(module: str) -> Any:
    """Import a module of another package while suppressing the warnings and greetings of its dependencies.

    They concern code that users cannot change, such as ``pkg_resources is deprecated`` from pygame. Warning filters and
    environment variables are restored afterwards.
    """
    prompt = "PYGAME_HIDE_SUPPORT_PROMPT"
    before = os.environ.get(prompt)
    os.environ[prompt] = "1"
    try:
        with warnings.catch_warnings(action="ignore"):
            return importlib.import_module(module)
    finally:
        if before is None:
            del os.environ[prompt]
        else:
            os.environ[prompt] = before
