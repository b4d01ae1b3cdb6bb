"""Every setting of a run, with a sentence for each; the command line is generated from it."""

from dataclasses import dataclass, fields
from types import UnionType
from typing import Any, Literal, NamedTuple, get_args, get_origin

from ..distributions import Bounded

PolicyKind = Literal["joint", "shared", "independent"]
CriticKind = Literal["target", "factor", "none"]
Annealed = Literal["learning_rate", "clip_range", "ent_coef"]


class Hyper(NamedTuple):
    """The settings that may differ between runs of one compiled program: leaves of a state, so a sweep is a `vmap`."""

    learning_rate: Any
    discount: Any
    gae_lambda: Any
    clip_range: Any
    ent_coef: Any
    vf_coef: Any
    max_grad_norm: Any


def _is_a(value: Any, kind: Any) -> bool:
    """Whether a JSON value has a type of the settings below."""
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, list | tuple) and all(_is_a(each, get_args(kind)[0]) for each in value)
    if get_origin(kind) is UnionType:
        return any(_is_a(value, each) for each in get_args(kind))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return isinstance(value, kind)


def upgraded(settings: dict[str, Any]) -> dict[str, Any]:
    """Return stored settings with the names of this version: what earlier versions stored as `squash` is `bounded`.

    >>> upgraded({"seed": 1, "squash": True})
    {'seed': 1, 'bounded': 'tanh'}
    """
    if not isinstance(settings.get("squash"), bool) or "bounded" in settings:
        return settings
    others = {name: value for name, value in settings.items() if name != "squash"}
    return others | {"bounded": "tanh" if settings["squash"] else "clip"}


WHO_STEPS = ("rollouts", "workers", "fragment_seconds", "ray_address", "worker_cpus", "devices")
"""Settings that do not change results."""


@dataclass(frozen=True)
class Config:
    """Hyper-parameters of a training run. Defaults follow PPO in Stable-Baselines3 where it has the same setting."""

    total_timesteps: int = 100_000
    """Number of steps to train for, summed over all environments."""
    seed: int = 0
    """Random seed for parameters, actions and environments."""
    n_envs: int = 8
    """Number of environments that are stepped in parallel."""
    n_steps: int = 256
    """Steps of every environment between two updates."""
    estimator: Literal["factored", "vanilla"] = "factored"
    """factored: a ratio and a credit [K(λ∘A)] for every factor. vanilla: one ratio and one advantage for the whole
    action, as in textbook PPO."""
    objective: Literal["ppo", "a2c", "natural"] = "ppo"
    """ppo: the clipped ratio. a2c: the score, in one pass over the batch. natural: one step along F⁻¹g of length
    kl_target for the policy, and n_epochs for the critic."""
    policy: PolicyKind = "joint"
    """joint: one network for all components. shared: one network, applied to what each component sees. independent: a
    network for each component."""
    critic: CriticKind = "target"
    """target: a value for every target. factor: a value for every factor's credit. none: no critic; with objective a2c
    and gae_lambda 1 this is REINFORCE."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the hidden layers, for the policy and the critic."""
    identity: int = 8
    """Size of the learned embedding that tells a shared network which component it acts for; 0 for none."""
    bounded: Bounded = "clip"
    """How actions of a bounded Box are kept within their bounds. clip: a Gaussian, clipped for the environment. tanh: a
    Gaussian through a tanh. beta: a Beta distribution."""
    initial_log_std: float = 0.0
    """Initial log standard deviation of Gaussian actions."""
    covariance: Literal["diagonal", "full"] = "diagonal"
    """Covariance of the Gaussian components within a factor; different factors are always independent."""
    learning_rate: float = 3e-4
    """Step size of the Adam optimizer."""
    anneal: tuple[Annealed, ...] = ()
    """Hyper-parameters to decay linearly to zero over the run."""
    discount: float = 0.99
    """Discount factor γ."""
    gae_lambda: float = 0.95
    """λ of generalised advantage estimation."""
    n_epochs: int = 10
    """Number of passes over every rollout."""
    batch_size: int = 64
    """Minibatch size."""
    clip_range: float = 0.2
    """Clipping range ε of the probability ratio."""
    clip_range_vf: float | None = None
    """Clipping range of the value function; None for no clipping."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Maximum norm of the gradient; longer gradients are scaled down to it."""
    kl_coef: float = 0.0
    """Weight of the penalty KL(old ‖ new); adapted during training if kl_target is given."""
    kl_target: float | None = None
    """Desired KL divergence of an update, per factor. kl_coef grows above twice this, and shrinks below half of it; for
    objective natural it is the length of the step."""
    damping: float = 0.1
    """Added to the diagonal of the Fisher matrix F for objective natural."""
    normalise_advantage: bool = True
    """Standardise the credits of a minibatch, with one common scale for all factors."""
    normalise_obs: bool = False
    """Standardise observations by their running mean and standard deviation."""
    normalise_reward: bool = False
    """Divide all targets by the running standard deviation of the discounted return; λ is not affected."""
    bootstrap: Literal["auto", "never", "always"] = "auto"
    """Whether to bootstrap from the value at the end of an episode. auto: if it was truncated. never, always: whatever
    its flags."""

    rollouts: Literal["inline", "processes", "ray"] = "inline"
    """How Gymnasium environments are stepped: in this process, in worker processes, or by Ray actors. Results are
    bit-identical."""
    workers: int = 0
    """Number of workers; 0 for one per core, or one per environment where a process can hold only one."""
    fragment_seconds: float = 600.0
    """Seconds after which a worker that has not finished its part of a rollout is replaced."""
    overlap: bool = False
    """Collect the next rollout while learning from the last one. Its policy is one update old, which the ratios account
    for. For Gymnasium environments and objective ppo."""
    ray_address: str = ""
    """Address of a Ray cluster, such as auto or host:6379; if empty, Ray is started on this machine."""
    worker_cpus: float = 1.0
    """CPUs that each worker requests from Ray."""
    devices: int = 0
    """Number of local devices that share the environments of a JAX problem; 0 for as many as divide n_envs and
    batch_size. Results agree up to rounding."""

    check_network: bool = True
    """Test during training whether the network lacks an edge, and warn if it does."""
    variance_report: bool = False
    """Log the variance decomposition of every factor's gradient, with and without the network, in every update."""

    def __post_init__(self) -> None:
        for name in ("hidden", "anneal"):  # JSON has lists
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("total_timesteps", "n_envs", "n_steps", "n_epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: got {getattr(self, name)}, want at least 1")
        if not 0 <= self.workers <= self.n_envs:
            raise ValueError(f"workers: got {self.workers}, want at most one for each of n_envs = {self.n_envs}")
        if not self.fragment_seconds > 0:
            raise ValueError(f"fragment_seconds: got {self.fragment_seconds}, want more than 0")
        if self.overlap and self.objective != "ppo":
            raise ValueError(f"overlap: got objective {self.objective!r}, want 'ppo': only its ratios know who acted")
        if self.devices < 0:
            raise ValueError(f"devices: got {self.devices}, want 0 for as many as there are, or a number of them")
        if self.worker_cpus < 0:
            raise ValueError(f"worker_cpus: got {self.worker_cpus}, want 0 or more")
        if self.n_envs * self.n_steps % self.batch_size:
            raise ValueError(
                f"batch_size: got {self.batch_size}, want a divisor of n_envs × n_steps = {self.n_envs * self.n_steps}"
            )
        for name in ("discount", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: got {getattr(self, name)}, want a number from 0 to 1")
        for name in self.anneal:
            if name not in get_args(Annealed):
                raise ValueError(f"anneal: got {name!r}, want some of {', '.join(get_args(Annealed))}")
        if self.objective == "natural" and not self.kl_target:
            raise ValueError(f"kl_target: got {self.kl_target}, want the length of a natural step, such as 0.01")

    @classmethod
    def read(cls, settings: Any) -> "Config":
        """Return the settings stored in a JSON object, of this or an earlier version of factorax.

        Raises ValueError for an unknown setting or a value of the wrong type: the file may come from anyone.
        """
        known = {field.name: field for field in fields(cls)}
        if not isinstance(settings, dict):
            raise ValueError(f"settings: got {type(settings).__name__}, want an object")
        settings = upgraded(settings)
        for name, value in settings.items():
            if name not in known:
                raise ValueError(f"{name}: no setting of this version of factorax")
            if not _is_a(value, known[name].type):
                raise ValueError(f"{name}: got {value!r:.60}, want {known[name].type}")
        return cls(**settings)

    @property
    def passes(self) -> int:
        """Passes over every rollout: without ratios, a second one would be off-policy."""
        return 1 if self.objective == "a2c" else self.n_epochs

    @property
    def hyper(self) -> Hyper:
        """The settings a sweep may map over."""
        return Hyper(*(getattr(self, name) for name in Hyper._fields))

    def annealed(self, hyper: Hyper, timesteps: Any) -> Hyper:
        """The hyper-parameters after this many steps, with those in `anneal` decayed."""
        left = 1 - timesteps / self.total_timesteps
        return hyper._replace(**{name: getattr(hyper, name) * left for name in self.anneal})
