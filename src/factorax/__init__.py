"""Factored policy gradients: credit every action with the objectives it influences, and no others."""

import importlib
from typing import TYPE_CHECKING, Any

from . import structure as structure
from ._credit import credit as credit
from ._credit import factor_baseline as factor_baseline
from .structure import Factorisation as Factorisation
from .structure import InfluenceNetwork as InfluenceNetwork
from .structure import LaggedNetwork as LaggedNetwork
from .structure import NetworkSchedule as NetworkSchedule
from .structure import PartitionMap as PartitionMap
from .structure import StateNetwork as StateNetwork
from .structure import StructureWarning as StructureWarning
from .structure import close_over as close_over
from .structure import networks as networks

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import discovery as discovery
    from . import experiments as experiments
    from . import gradients as gradients
    from . import integrations as integrations
    from . import learning as learning
    from . import problems as problems
    from .discovery import discover as discover
    from .discovery import worthwhile_network as worthwhile_network
    from .gradients import bias_report as bias_report
    from .gradients import variance_report as variance_report
    from .integrations import wrap as wrap
    from .learning import AdaptiveNetwork as AdaptiveNetwork
    from .learning import FactoredPPO as FactoredPPO
    from .learning import check_problem as check_problem


def __getattr__(name: str) -> Any:
    # JAX and Gymnasium are loaded only when something needs them: structure and credit serve users of NumPy or PyTorch.
    if name in ("discovery", "experiments", "gradients", "integrations", "learning", "problems"):
        return importlib.import_module(f".{name}", __name__)
    if name in ("discover", "worthwhile_network"):
        return getattr(importlib.import_module(".discovery", __name__), name)
    if name in ("bias_report", "variance_report"):
        return getattr(importlib.import_module(".gradients", __name__), name)
    if name in ("AdaptiveNetwork", "FactoredPPO", "check_problem"):
        return getattr(importlib.import_module(".learning", __name__), name)
    if name == "wrap":
        return importlib.import_module(".integrations", __name__).wrap
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
