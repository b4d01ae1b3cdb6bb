"""Who steps the problems of the host: this process, worker processes, or Ray. NumPy alone."""

from .actor import Actor as Actor
from .actor import Parameters as Parameters
from .components import Components as Components
from .host import HostEnvironments as HostEnvironments
from .inline import Inline as Inline
from .playing import Iteration as Iteration
from .playing import Plan as Plan
from .processes import Processes as Processes
from .ray_actors import RayActors as RayActors
from .rollouts import LostWarning as LostWarning
from .rollouts import Rollouts as Rollouts
from .supervising import WorkerDied as WorkerDied
from .transitions import Transition as Transition
