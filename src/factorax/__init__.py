"""Factored policy gradients: credit every action with the objectives it influences, and no others."""

__version__ = "0.1.0"

from .credit import credit as credit
from .credit import factor_baseline as factor_baseline
from .structure import Factorisation as Factorisation
from .structure import InfluenceNetwork as InfluenceNetwork
from .structure import NetworkSchedule as NetworkSchedule
from .structure import PartitionMap as PartitionMap
from .structure import StructureWarning as StructureWarning
from .structure import close_over as close_over
from .structure import networks as networks

_OF_JAX = ("bias_report", "check_product_form", "variance_report")


def __getattr__(name: str) -> object:
    # JAX is loaded only when something needs it: structure and credit work for users of NumPy or PyTorch alone.
    import importlib

    if name == "gradients":
        return importlib.import_module(".gradients", __name__)
    if name in _OF_JAX:
        return getattr(importlib.import_module(".gradients", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
