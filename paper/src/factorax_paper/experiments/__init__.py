"""The paper's experiments and others, one module per command: settings, work, data, summary, figure, claims."""

import importlib
from typing import TYPE_CHECKING

from factorax._text import did_you_mean

if TYPE_CHECKING:
    from ..harness.experiment import Experiment

BANDITS = (
    "search-baselines",
    "search-throughput",
    "search-aliasing",
    "search-stability",
    "search-rate",
    "search-discrepancy",
    "search-states",
    "variance-decomposition",
)
DISCOVERY = ("discover-exact", "discover-samples", "discover-others")
TRAFFIC = ("traffic-3x3", "traffic-2x6", "traffic-better", "traffic-gradients", "traffic-city")
VARIANCE = ("variance-growth", "noise-ball", "kappa-hop")
UAV = ("uav-4", "uav-5")
NAMES = (
    *BANDITS,
    *VARIANCE,
    *TRAFFIC,
    *UAV,
    *DISCOVERY,
    "learning-networks",
    "curriculum",
    "market",
    "relatives",
    "cities",
)


def find(name: str) -> "Experiment":
    """Return the experiment of this name, one of `NAMES`: ``EXPERIMENT`` of the module of the same
    name.

    >>> find("search-rate").paper
    'Fig. 8'
    """
    if not isinstance(name, str) or name not in NAMES:
        raise ValueError(f"experiment: got {name!r}, want one of {', '.join(NAMES)}{did_you_mean(name, NAMES)}")
    attribute = name.replace("-", "_")
    if name in UAV:  # both are in one module
        return getattr(importlib.import_module(".uav", __name__), attribute.upper())
    return importlib.import_module("." + attribute, __name__).EXPERIMENT
