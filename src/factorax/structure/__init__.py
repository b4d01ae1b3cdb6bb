"""Influence networks, partition maps and factorisations. This package needs only NumPy and SciPy; other array libraries
are used only if their arrays are passed."""

from .._lazy import lazy_imports

with lazy_imports(__name__):
    from .._text import StructureWarning as StructureWarning
    from . import gallery as gallery
    from . import patterns as patterns
    from .base_network import BaseNetwork as BaseNetwork
    from .base_network import KArray as KArray
    from .closure import close_over as close_over
    from .factorisation import Factorisation as Factorisation
    from .factorisation import PartitionMap as PartitionMap
    from .lagged import LaggedNetwork as LaggedNetwork
    from .network import InfluenceNetwork as InfluenceNetwork
    from .schedule import Blend as Blend
    from .schedule import NetworkSchedule as NetworkSchedule
    from .state_network import StateNetwork as StateNetwork
