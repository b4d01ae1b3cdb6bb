"""Factored policy gradients: credit each action only with the targets that it influences."""

from typing import TYPE_CHECKING

from ._lazy import loaded_when_needed

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import discovery as discovery
    from . import gradients as gradients
    from . import integrations as integrations
    from . import learning as learning
    from . import problems as problems
    from . import rollouts as rollouts
    from . import runs as runs
    from . import structure as structure
    from ._credit import credit as credit
    from ._credit import factor_baseline as factor_baseline
    from .discovery import discover as discover
    from .discovery import worthwhile_network as worthwhile_network
    from .gradients import bias_report as bias_report
    from .gradients import variance_report as variance_report
    from .integrations import PPO as PPO
    from .integrations import BatchedSimulator as BatchedSimulator
    from .integrations import from_batched as from_batched
    from .integrations import wrap as wrap
    from .learning import ActionScaleWarning as ActionScaleWarning
    from .learning import AdaptiveNetwork as AdaptiveNetwork
    from .learning import AdaptiveStateNetwork as AdaptiveStateNetwork
    from .learning import FactoredPPO as FactoredPPO
    from .rollouts import check_problem as check_problem
    from .runs.report import report as report
    from .spec import Spec as Spec
    from .structure import BaseNetwork as BaseNetwork
    from .structure import Curriculum as Curriculum
    from .structure import Factorisation as Factorisation
    from .structure import InfluenceNetwork as InfluenceNetwork
    from .structure import LaggedNetwork as LaggedNetwork
    from .structure import NetworkSchedule as NetworkSchedule
    from .structure import PartitionMap as PartitionMap
    from .structure import StateNetwork as StateNetwork
    from .structure import StructureWarning as StructureWarning
    from .structure import close_over as close_over
    from .structure import patterns as patterns

_HOMES = {
    "structure": "structure",
    "credit": "_credit",
    "factor_baseline": "_credit",
    "BaseNetwork": "structure",
    "Curriculum": "structure",
    "Factorisation": "structure",
    "InfluenceNetwork": "structure",
    "LaggedNetwork": "structure",
    "NetworkSchedule": "structure",
    "PartitionMap": "structure",
    "StateNetwork": "structure",
    "StructureWarning": "structure",
    "close_over": "structure",
    "patterns": "structure",
    "discovery": "discovery",
    "gradients": "gradients",
    "integrations": "integrations",
    "learning": "learning",
    "problems": "problems",
    "rollouts": "rollouts",
    "runs": "runs",
    "discover": "discovery",
    "worthwhile_network": "discovery",
    "bias_report": "gradients",
    "variance_report": "gradients",
    "PPO": "integrations",
    "BatchedSimulator": "integrations",
    "from_batched": "integrations",
    "wrap": "integrations",
    "ActionScaleWarning": "learning",
    "AdaptiveNetwork": "learning",
    "AdaptiveStateNetwork": "learning",
    "FactoredPPO": "learning",
    "check_problem": "rollouts",
    "report": "runs.report",
    "Spec": "spec",
}

# Loaded lazily: `structure` and `credit` also serve users of NumPy or PyTorch, who need neither JAX nor Gymnasium, and
# the command line prints its help without either.
__getattr__, __dir__ = loaded_when_needed(__name__, _HOMES)
