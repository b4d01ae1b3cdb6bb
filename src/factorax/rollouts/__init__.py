"""Stepping a problem: in the compiled program, in this process, in worker processes, or by Ray actors."""

from .._lazy import lazy_imports

# Loaded lazily: worker processes do not need JAX.
with lazy_imports(__name__):
    from ..networks.numpy_policy import NumpyPolicy as NumpyPolicy
    from ..networks.numpy_policy import PolicyArrays as PolicyArrays
    from .backend import Backend as Backend
    from .backend import LostWarning as LostWarning
    from .batched import BatchedEnvironments as BatchedEnvironments
    from .checking import ProblemError as ProblemError
    from .checking import check_problem as check_problem
    from .collector import Behaviour as Behaviour
    from .collector import Collector as Collector
    from .data_checks import DataWarning as DataWarning
    from .factory import collector_for as collector_for
    from .host import HostEnvironments as HostEnvironments
    from .in_jax import JaxCollector as JaxCollector
    from .in_jax import JaxEnvironments as JaxEnvironments
    from .on_host import HostCollector as HostCollector
    from .on_host import Inline as Inline
    from .player import Iteration as Iteration
    from .player import Plan as Plan
    from .processes import Processes as Processes
    from .ray_actors import RayActors as RayActors
    from .seeding import SeedWarning as SeedWarning
    from .settings import ROLLOUTS as ROLLOUTS
    from .supervising import WorkerDied as WorkerDied
    from .transitions import Transition as Transition
