"""How environments are stepped, as choices with their own settings: `Inline`, `Processes` and `Ray`.

Results are bit-identical for the same problem, settings and seed.
"""

from dataclasses import dataclass

from .._checks import NotNegative, Positive, Whole
from ..choices import Choice, Menu


class Rollouts(Choice):
    """Base class of what `rollouts` may be."""


@dataclass(frozen=True)
class Inline(Rollouts):
    """Steps environments one after another in the process of the learner."""

    seconds: Positive = 600.0
    """Seconds for a rollout after which the stack of all threads is written to stderr; it then continues."""


@dataclass(frozen=True)
class Processes(Rollouts):
    """Steps environments in worker processes on this machine, each with its own simulators."""

    workers: Whole = 0
    """Number of workers, at most one per environment; 0 for one per core, or one per environment if a process can hold
    only one."""
    seconds: Positive = 600.0
    """Seconds for a rollout after which a worker is considered to hang and is replaced."""
    overlap: bool = False
    """Whether workers already play the next rollout during an update, with the policy before this update. Ratios
    correct for that, so it is not possible with the methods a2c and natural, which have none."""


@dataclass(frozen=True)
class Ray(Processes):
    """Steps environments in Ray actors, on this machine or on a cluster; needs ``pip install 'factorax[ray]'``."""

    address: str = ""
    """Address of a Ray cluster; empty to start Ray on this machine, for local connections only."""
    cpus: NotNegative = 1.0
    """Processors that a worker requests from Ray."""


ROLLOUTS = Menu("rollouts", {"inline": Inline, "processes": Processes, "ray": Ray})
"""All ways to step environments, by name."""
