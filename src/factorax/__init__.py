"""Factored policy gradients: credit each action only with the targets that it influences."""

from ._lazy import lazy_imports

__version__ = "0.1.0"

# Loaded lazily: `structure` and `credit` also serve users of NumPy or PyTorch, who need neither JAX nor Gymnasium, and
# the command line prints its help without either.
# isort: off
with lazy_imports(__name__):
    # the main road
    from .structure import InfluenceNetwork as InfluenceNetwork
    from .integrations import wrap as wrap
    from .ppo import FactoredPPO as FactoredPPO
    from ._credit import credit as credit
    from ._credit import factor_baseline as factor_baseline
    from .discovery import discover as discover
    from .structure import close_over as close_over
    from .rollouts import check_problem as check_problem
    from .gradients import variance_report as variance_report
    from .runs.report import report as report

    # networks of other kinds
    from .structure import BaseNetwork as BaseNetwork
    from .structure import Factorisation as Factorisation
    from .structure import LaggedNetwork as LaggedNetwork
    from .structure import NetworkSchedule as NetworkSchedule
    from .structure import StateNetwork as StateNetwork
    from .ppo import AdaptiveNetwork as AdaptiveNetwork
    from .structure import patterns as patterns

    from . import discovery as discovery
    from . import gradients as gradients
    from . import integrations as integrations
    from . import ppo as ppo
    from . import problems as problems
    from . import rollouts as rollouts
    from . import runs as runs
    from . import structure as structure
# isort: on
