"""Lazy imports: names of our own packages, and other packages without the messages that they print."""

import builtins
import importlib
import os
import sys
import warnings
from types import ModuleType, SimpleNamespace


class lazy_imports:
    """Import the names of a package when they are first used, and declare them in its ``__all__``.

    The imports are written as usual, so that editors and type checkers read them::

        with lazy_imports(__name__):
            from .network import InfluenceNetwork as InfluenceNetwork

    ``from .name import name`` is executed at once: importing the submodule later would replace the name by the module.
    """

    def __init__(self, package: str):
        self.package = package
        self.names = vars(sys.modules[package])
        self.homes: dict[str, str] = {}

    def __enter__(self) -> None:
        self.statement = builtins.__import__
        builtins.__import__ = self._record

    def _record(self, name, globals=None, locals=None, fromlist=(), level=0):  # as builtins.__import__
        if globals is not self.names or level == 0:  # a statement of another module, perhaps in another thread
            return self.statement(name, globals, locals, fromlist, level)
        self.homes |= dict.fromkeys(fromlist, "." * level + name)
        return SimpleNamespace(**dict.fromkeys(fromlist))

    def __exit__(self, *_: object) -> None:
        builtins.__import__ = self.statement
        for name in self.homes:
            del self.names[name]
        self.names |= {"__all__": [*self.homes], "__getattr__": self._get, "__dir__": lambda: [*self.homes]}
        for name, home in self.homes.items():
            if home == f".{name}":
                self._get(name)

    def _get(self, name: str) -> object:
        if name not in self.homes:
            raise AttributeError(f"module {self.package!r} has no attribute {name!r}")
        home = self.homes[name]
        is_module = home == "."
        module = importlib.import_module(home + name if is_module else home, self.package)
        self.names[name] = module if is_module else getattr(module, name)  # found without this function from now on
        return self.names[name]


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
