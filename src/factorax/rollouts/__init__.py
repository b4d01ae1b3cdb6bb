"""Stepping a problem: in the compiled program, in this process, in worker processes, or by Ray actors."""

from .._lazy import lazy_imports

# Loaded lazily: worker processes do not need JAX.
with lazy_imports(__name__):
    from ..networks.numpy_policy import NumpyPolicy as NumpyPolicy
    from ..networks.numpy_policy import PolicyArrays as PolicyArrays
    from .backend import Backend as Backend
    from .backend import InlineBackend as InlineBackend
    from .backend import LostWarning as LostWarning
    from .backend import WorkerDied as WorkerDied
    from .collector import Behaviour as Behaviour
    from .collector import Collector as Collector
    from .data_checks import DataWarning as DataWarning
    from .environments import Environments as Environments
    from .factory import collector_for as collector_for
    from .host_collector import HostCollector as HostCollector
    from .in_jax import JaxCollector as JaxCollector
    from .in_jax import JaxEnvironments as JaxEnvironments
    from .player import Iteration as Iteration
    from .player import Plan as Plan
    from .problem_checks import ProblemError as ProblemError
    from .problem_checks import check_problem as check_problem
    from .processes import ProcessBackend as ProcessBackend
    from .ray_actors import RayBackend as RayBackend
    from .seeding import SeedWarning as SeedWarning
    from .settings import ROLLOUTS as ROLLOUTS
    from .settings import Inline as Inline
    from .settings import Processes as Processes
    from .settings import Ray as Ray
    from .transitions import Transition as Transition
