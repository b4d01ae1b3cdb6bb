"""The paper's experiments and others, one module for each command: settings, work, data, summary, figure, claims."""

import difflib
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .harness.experiment import Experiment

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


def find(name: str) -> "Experiment":
    """Returns the experiment of this name, one of `NAMES`: ``EXPERIMENT`` of the module of the same name.

    >>> find("search-rate").paper
    'Fig. 8'
    """
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"unknown experiment {name!r}; {hint}There are: {', '.join(NAMES)}")
    return importlib.import_module("." + name.replace("-", "_"), __name__).EXPERIMENT
