"""Influence networks, partition maps and factorisations. This package needs only NumPy and SciPy."""

from .._lazy import lazy_imports

with lazy_imports(__name__):
    from . import gallery as gallery
    from . import patterns as patterns
    from .base_network import BaseNetwork as BaseNetwork
    from .closure import close_over as close_over
    from .curriculum import Curriculum as Curriculum
    from .drawing import draw as draw
    from .export import to_dot as to_dot
    from .export import to_tikz as to_tikz
    from .factorisation import Factorisation as Factorisation
    from .k_array import KArray as KArray
    from .labels import StructureWarning as StructureWarning
    from .lagged import LaggedNetwork as LaggedNetwork
    from .network import InfluenceNetwork as InfluenceNetwork
    from .partition import PartitionMap as PartitionMap
    from .schedule import Blend as Blend
    from .schedule import NetworkSchedule as NetworkSchedule
    from .state_network import StateNetwork as StateNetwork
