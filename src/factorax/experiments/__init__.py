"""The paper's experiments, one module each: settings, work, data, summary, figure, claims."""

import difflib
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .experiment import Experiment

BANDITS = (
    "search-baselines",
    "search-throughput",
    "search-aliasing",
    "search-stability",
    "search-rate",
    "search-discrepancy",
    "variance-decomposition",
)
DISCOVERY = ("discover-exact", "discover-samples", "discover-others")
TRAFFIC = ("traffic-3x3", "traffic-2x6", "traffic-gradients", "traffic-city")
NAMES = (*BANDITS, *TRAFFIC, "uav-4", "uav-5", *DISCOVERY, "learning-networks")
_TOGETHER = {"traffic-3x3": "traffic", "traffic-2x6": "traffic", "uav-4": "uav", "uav-5": "uav"}
_TOGETHER |= {"discover-exact": "discovery", "discover-samples": "discovery_samples"}
_TOGETHER |= {"discover-others": "discovery_others"}
"""Modules with several experiments, or with another name."""


def find(name: str) -> "Experiment":
    """The experiment of this name, one of `NAMES`.

    >>> find("search-rate").paper
    'Fig. 8'
    """
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"unknown experiment {name!r}; {hint}There are: {', '.join(NAMES)}")
    if name in _TOGETHER:
        return importlib.import_module("." + _TOGETHER[name], __name__).EXPERIMENTS[name]
    return importlib.import_module("." + name.replace("-", "_"), __name__).EXPERIMENT
