"""Names of a package that are imported when they are asked for."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def loaded_when_needed(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: from a name to the module of it that has it, or that is called so itself."""

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f".{homes[name]}", package)
        return module if homes[name] == name else getattr(module, name)

    return get
