"""Lazy imports: names of our own packages, and other packages without the messages that they print."""

import builtins
import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any


@contextmanager
def lazy_imports(package: str) -> Iterator[None]:
    """Import the names of a package when they are first used, and declare them in its ``__all__``.

    The imports are written as usual, so that editors and type checkers read them::

        with lazy_imports(__name__):
            from .network import InfluenceNetwork as InfluenceNetwork

    ``from .name import name`` is executed at once: importing the submodule later would replace the name by the module.
    """
    names = vars(sys.modules[package])
    module_of: dict[str, str] = {}
    import_statement = builtins.__import__

    def record(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if globals is not names or level == 0:  # a statement of another module, perhaps in another thread
            return import_statement(name, globals, locals, fromlist, level)
        module_of.update(dict.fromkeys(fromlist, "." * level + name))
        return SimpleNamespace(**dict.fromkeys(fromlist))

    def get(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        path = module_of[name]
        is_module = path == "."
        module = importlib.import_module(path + name if is_module else path, package)
        names[name] = module if is_module else getattr(module, name)  # Python does not ask this function again
        return names[name]

    builtins.__import__ = record
    try:
        yield
    finally:
        builtins.__import__ = import_statement
    for name in module_of:
        del names[name]
    names.update(__all__=[*module_of], __getattr__=get, __dir__=lambda: [*module_of])
    for name, path in module_of.items():
        if path == f".{name}":
            get(name)


def import_quietly(module: str) -> ModuleType:
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
