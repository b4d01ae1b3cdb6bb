"""Other people's environments in, our problems out: Gymnasium, MO-Gymnasium, PettingZoo, RDDL, Stable-Baselines3."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import rddl as rddl
    from .canonical import FactoredEnv as FactoredEnv
    from .parallel_view import to_pettingzoo as to_pettingzoo
    from .stable_baselines3 import to_stable_baselines3 as to_stable_baselines3
    from .views import to_gymnasium as to_gymnasium
    from .wrapping import wrap as wrap

_HOMES = {
    "FactoredEnv": "canonical",
    "to_gymnasium": "views",
    "to_pettingzoo": "parallel_view",
    "to_stable_baselines3": "stable_baselines3",
    "wrap": "wrapping",
}


def __getattr__(name: str) -> Any:
    # Loaded when needed: the packages behind them are extras.
    if name == "rddl":
        return importlib.import_module(".rddl", __name__)
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
