"""Every setting of a run, with a sentence for each: the command line is made of it."""

from dataclasses import dataclass, fields
from types import UnionType
from typing import Any, Literal, NamedTuple, get_args, get_origin

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
    """Whether a value of JSON is of a type of the settings below."""
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


WHO_STEPS = ("rollouts", "workers", "fragment_seconds", "ray_address", "worker_cpus", "devices")
"""Settings that do not change what is learnt."""


@dataclass(frozen=True)
class Config:
    """How to train. The defaults are those of PPO in Stable-Baselines3, where it has them."""

    total_timesteps: int = 100_000
    """Steps of all environments together."""
    seed: int = 0
    """Of everything random."""
    n_envs: int = 8
    """Environments that step side by side."""
    n_steps: int = 256
    """Steps of each between updates."""
    estimator: Literal["factored", "vanilla"] = "factored"
    """factored: a ratio and a credit [K(λ∘A)] for every factor. vanilla: the textbook's, both for all together."""
    objective: Literal["ppo", "a2c", "natural"] = "ppo"
    """ppo: the clipped ratio. a2c: the score, in one pass over the batch. natural: one step along F⁻¹g, of length
    kl_target, and n_epochs for the critic."""
    policy: PolicyKind = "joint"
    """joint: one network. shared: one for all components, applied to what each sees. independent: one for each."""
    critic: CriticKind = "target"
    """target: a value for every target. factor: a value for every factor's credit. none: none, as in REINFORCE (with
    objective a2c and gae_lambda 1)."""
    hidden: tuple[int, ...] = (64, 64)
    """Units of the hidden layers, of the policy and of the critic."""
    identity: int = 8
    """Features learnt for every component that tell a shared network which it acts for; 0: none, all are alike."""
    squash: bool = False
    """Bounded Box actions through a tanh instead of clipping."""
    initial_log_std: float = 0.0
    """Of Gaussian actions."""
    covariance: Literal["diagonal", "full"] = "diagonal"
    """Of the Gaussian components that make up a factor; different factors are always independent."""
    learning_rate: float = 3e-4
    """Of Adam."""
    anneal: tuple[Annealed, ...] = ()
    """Settings that fall to nought over the run, in a straight line."""
    discount: float = 0.99
    """γ, of future rewards."""
    gae_lambda: float = 0.95
    """λ of generalised advantage estimation."""
    n_epochs: int = 10
    """Passes over every batch."""
    batch_size: int = 64
    """Samples in a minibatch."""
    clip_range: float = 0.2
    """How far a ratio may move before its gradient is cut."""
    clip_range_vf: float | None = None
    """The same for values; None: not at all."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus."""
    vf_coef: float = 0.5
    """Weight of the critic's loss."""
    max_grad_norm: float = 0.5
    """Gradients longer than this are cut to it."""
    kl_coef: float = 0.0
    """Weight of KL(old ‖ new), adapted to kl_target if that is given."""
    kl_target: float | None = None
    """The KL divergence an update should make, a factor. Above twice of it kl_coef grows, below half it falls; a
    natural step has this length."""
    damping: float = 0.1
    """Added to the diagonal of the Fisher matrix F of a natural step."""
    normalise_advantage: bool = True
    """Centre and scale the credits of a minibatch, all factors by one common scale."""
    normalise_obs: bool = False
    """Centre and scale observations by their running mean and deviation."""
    normalise_reward: bool = False
    """Scale all targets by one running scale, that of the discounted objective: λ stays what it is."""
    bootstrap: Literal["auto", "never", "always"] = "auto"
    """Whether the end of an episode has a future. auto: as its flags say. never, always: whatever they say."""

    rollouts: Literal["inline", "processes", "ray"] = "inline"
    """Who steps the environments of the host: this process, worker processes, or actors of Ray. What is learnt is the
    same, bit for bit."""
    workers: int = 0
    """How many there are; 0: as many as cores, one for each environment where a process has room for no more."""
    fragment_seconds: float = 600.0
    """A worker that takes longer for its part of a rollout is replaced."""
    overlap: bool = False
    """Play the next rollout while learning from the last: its policy is one update old, and its ratios are those to the
    policy that acted. For problems of the host, and objective ppo."""
    ray_address: str = ""
    """Of a Ray cluster, such as auto or host:6379; one on this machine is begun if left out."""
    worker_cpus: float = 1.0
    """Processors that a worker asks Ray for."""
    devices: int = 0
    """Local devices that share the environments of a JAX problem; 0: as many as n_envs and batch_size can be shared out
    to evenly. What is learnt is the same, to rounding."""

    check_network: bool = True
    """Test all along whether the data say that the network lacks an edge, and warn of it."""
    variance_report: bool = False
    """Measure in every update what the network saves: the terms of the variance of every factor's gradient."""

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
        """From JSON that may come from anybody; raises ValueError at what is no setting, or of another kind."""
        known = {field.name: field for field in fields(cls)}
        if not isinstance(settings, dict):
            raise ValueError(f"settings: got {type(settings).__name__}, want an object")
        for name, value in settings.items():
            if name not in known:
                raise ValueError(f"{name}: no setting of this version of factorax")
            if not _is_a(value, known[name].type):
                raise ValueError(f"{name}: got {value!r:.60}, want {known[name].type}")
        return cls(**settings)

    @property
    def passes(self) -> int:
        """Over every batch: with the score alone a second one would be off-policy."""
        return 1 if self.objective == "a2c" else self.n_epochs

    @property
    def hyper(self) -> Hyper:
        """The settings a sweep may map over."""
        return Hyper(*(getattr(self, name) for name in Hyper._fields))

    def annealed(self, hyper: Hyper, timesteps: Any) -> Hyper:
        """Those that `anneal` names, on their way to nought after so many steps."""
        left = 1 - timesteps / self.total_timesteps
        return hyper._replace(**{name: getattr(hyper, name) * left for name in self.anneal})
