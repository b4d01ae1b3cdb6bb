"""All settings of a run, with a description each, from which the command line is generated."""

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, get_args, get_type_hints

import numpy as np

from .._checks import (
    Count,
    NotNegative,
    Positive,
    Range,
    Share,
    Whole,
    check_type,
    checked,
    is_traced,
    nearest,
    shown,
)
from ..distributions import DISTRIBUTIONS
from .combinations import check_combinations

_SCHEDULE_POINTS = 1001


class ScheduledRange(Range):
    """Bounds of a number, or of the values of a function of the progress."""

    def __str__(self) -> str:
        return super().__str__() + ", or a function of the remaining progress"

    def converted(self, value: Any, kind: Any) -> Any:
        """Return the value converted to `kind`, or the schedule of a function."""
        if callable(value):
            return _schedule(value, self)
        return super().converted(value, kind)


class Schedule(tuple[float, ...]):
    """A setting that changes during training: its values at equally spaced points of the remaining progress.

    The remaining progress is 1 at the start of training and 0 at its end, as in Stable-Baselines3. Values are
    interpolated between the points. As a table, a schedule can be part of a compiled program and of a file, whatever
    Python function it was created from.

    >>> halving = Schedule.of(lambda progress: 1e-3 if progress > 0.5 else 5e-4)
    >>> halving
    Schedule(0.001 → 0.0005)
    """

    @classmethod
    def of(cls, function: Callable[[float], float]) -> Self:
        """Create a schedule from a function of the remaining progress in [0, 1]."""
        return cls(float(function(i / (_SCHEDULE_POINTS - 1))) for i in range(_SCHEDULE_POINTS))

    @classmethod
    def read(cls, values: Any) -> Any:
        """Return the schedule stored in a file as a list of numbers; any other value is returned unchanged."""
        numbers_alone = isinstance(values, list) and all(type(value) in (int, float) for value in values)
        return cls(map(float, values)) if numbers_alone and 2 <= len(values) <= 10 * _SCHEDULE_POINTS else values

    def __call__(self, progress: Any) -> Any:
        """Return the value at a progress, which may be a traced JAX scalar."""
        import jax.numpy as jnp  # the command line reads this file without JAX

        return jnp.interp(progress, jnp.linspace(0.0, 1.0, len(self)), jnp.asarray(self))

    def __repr__(self) -> str:
        return f"Schedule({self[-1]:g} → {self[0]:g})"


def _schedule(value: Any, bounds: ScheduledRange) -> Schedule:
    """Return a schedule from a function, with values within the bounds (inclusive, since it may end at a bound)."""
    try:
        schedule = value if isinstance(value, Schedule) else Schedule.of(value)
    except Exception as error:  # raised by the user's function
        raise ValueError(f"the function raised {type(error).__name__}: {error}") from error
    for i, each in enumerate(schedule):
        if not math.isfinite(each) or each not in replace(bounds, open=False):
            raise ValueError(f"it is {each:g} at the remaining progress {i / (len(schedule) - 1):g}")
    return schedule


PolicyKind = Literal["auto", "joint", "shared", "independent"]
CriticKind = Literal["auto", "target", "factor", "central", "q", "reward", "none"]
Annealed = Literal["learning_rate", "clip_range", "ent_coef"]

if TYPE_CHECKING:
    Seed = int
    Bounded = str
else:
    Seed = Annotated[int, Range(0, 2**32 - 1)] | None  # None is replaced by a random seed
    Bounded = Literal[tuple(DISTRIBUTIONS.kinds)]
Scheduled = Annotated[float, ScheduledRange(0)]


class Hyper(NamedTuple):
    """The settings that may differ between runs of one compiled program: leaves of a state, so that a sweep is a
    `vmap`."""

    learning_rate: Any
    gamma: Any
    gae_lambda: Any
    clip_range: Any
    ent_coef: Any
    vf_coef: Any
    max_grad_norm: Any
    total_timesteps: Any
    """The step at which training and all schedules end."""


NOT_HERE = {
    "clip": "clip_range",
    "discount": "gamma",
    "lr": "learning_rate",
    "net_arch": "hidden",
    "policy_kwargs": "hidden for its net_arch, initial_log_std for its log_std_init",
    "stats_window_size": "model.history, which has the mean return of each rollout",
    "use_sde": "initial_log_std: state-dependent exploration is not available",
    "sde_sample_freq": "initial_log_std: state-dependent exploration is not available",
    "rollout_buffer_class": "rollouts, which selects how environments are stepped",
    "rollout_buffer_kwargs": "rollouts, which selects how environments are stepped",
}
"""Settings of other libraries, with what to use instead."""
SYNONYMS = {
    "policy": {"mlppolicy": "joint", "mlp": "joint", "central": "joint", "decentralised": "independent"},
    "estimator": {"fpg": "factored", "vpg": "vanilla", "pg": "vanilla", "standard": "vanilla"},
    "objective": {"trpo": "natural", "npg": "natural", "reinforce": "a2c", "vpg": "a2c"},
    "critic": {"value": "target", "v": "target", "global": "central", "coma": "q", "no": "none"},
    "bounded": {"squash": "tanh", "squashed": "tanh", "gaussian": "scale", "raw": "clip", "none": "clip"},
    "architecture": {"cnn": "conv", "rnn": "gru", "transformer": "attention", "gnn": "attention"},
    "device": {"cuda:0": "cuda", "gpu:0": "gpu"},
}
"""Alternative names of choices in other libraries and papers."""


def unknown_setting(name: str) -> str:
    """Return the error message for an unknown setting."""
    close = nearest(name, (field.name for field in fields(Config)))
    if name in NOT_HERE:
        return f"{name}: no such setting; use {NOT_HERE[name]}"
    return f"{name}: no such setting" + (f"; did you mean {close}?" if close else "; see factorax.ppo.Config")


WHO_STEPS = ("rollouts", "workers", "fragment_seconds", "ray_address", "worker_cpus", "device", "devices")
"""Settings that do not change results."""


@dataclass(frozen=True)
class Config:
    """Hyper-parameters of a training run. Defaults follow Stable-Baselines3's PPO where it has the same setting."""

    total_timesteps: Count = 100_000
    """Total number of training steps, summed over all environments."""
    seed: Seed = 0
    """Random seed for parameters, actions and environments. None draws a random seed, which is then stored here."""
    n_envs: Count = 8
    """Number of environments that are stepped in parallel."""
    n_steps: Count = 256
    """Number of steps per environment between updates."""
    estimator: Literal["factored", "vanilla"] = "factored"
    """Gradient estimator. factored: one ratio and one credit [K(λ∘A)] per factor. vanilla: one ratio and one advantage
    for the joint action, as in standard PPO."""
    objective: Literal["ppo", "a2c", "natural"] = "ppo"
    """Policy objective. ppo: clipped probability ratio. a2c: plain policy gradient in one pass over the batch.
    natural: one natural-gradient step F⁻¹g with a KL divergence of natural_kl, and n_epochs passes for the critic."""
    policy: PolicyKind = "auto"
    """Policy network. joint: one network for all components. shared: one network applied to the observation of each
    component. independent: one network per component. auto: shared if there are local observations, otherwise joint."""
    critic: CriticKind = "auto"
    """Critic. target: one value per target. factor: one value per factor's credit. auto: factor for a fixed network of
    several targets, otherwise target. central: one value of the objective, as in MAPPO. q: one value per action of a
    factor given the other actions, as in COMA. reward: a model of the reward, for difference rewards. none: no critic;
    with objective a2c and gae_lambda 1 this is REINFORCE."""
    default_action: tuple[float, ...] = ()
    """For critic reward: the default action to which a factor's action is compared, one number per component or one
    for all. Empty: the mean over the factor's own policy, which requires discrete actions."""
    difference_at: Literal["first", "every"] = "first"
    """For critic reward: whether the counterfactual reward is subtracted only at the step of the action, which is
    unbiased, or also at every later step, as published, which keeps only immediate rewards."""
    hidden: tuple[Annotated[int, Range(1, 2**16)], ...] = (64, 64)
    """Sizes of the hidden layers, for the policy and the critic."""
    architecture: Literal["mlp", "gru", "lstm", "conv", "attention", "choices"] = "mlp"
    """Network architecture. mlp: fully connected layers. gru, lstm: the last hidden layer is recurrent. conv:
    convolutions for images in the observation, then layers. attention: layers, then attention of each component of a
    shared policy to its neighbours. choices: layers that score each choice of a component from its observation of that
    choice."""
    sequence_length: Count = 16
    """Length of truncated backpropagation through time for gru and lstm; it must divide n_steps and batch_size."""
    activation: Literal["tanh", "relu", "elu", "gelu", "silu"] = "tanh"
    """Activation function of hidden layers."""
    layer_norm: bool = False
    """Apply layer normalisation before activation functions."""
    init: Literal["orthogonal", "lecun", "he", "normc", "custom"] = "orthogonal"
    """Weight initialisation of layers. The last layer of a policy is always scaled down. normc: normal weights, scaled
    to norm 1 per unit, and to 0.01 in the last layers of policy and critic, as in RLlib. custom: a function of a key, a
    shape and a dtype, as in jax.nn.initializers; in Python, pass the function itself as init."""
    trunk: Literal["auto", "separate", "shared"] = "auto"
    """Hidden layers of the critic. separate: the critic has its own network. shared: the critic is a linear layer on
    the policy's hidden layers, which both losses train. auto: shared for gru and lstm, so that the critic uses the
    policy's memory; otherwise separate."""
    identity: Annotated[int, Range(0, 2**12)] = 0
    """Size of the learned embedding that tells a shared network for which component it acts; 0 for none, with which
    components act alike where they observe the same."""
    rounds: Annotated[int, Range(1, 16)] = 1
    """Number of attention rounds: in each round, information travels one edge further between components."""
    bounded: Bounded = "scale"
    """How actions of a bounded Box are kept within their bounds. scale: a Gaussian in units in which the bounds are −1
    and 1, clipped. clip: a Gaussian in raw units, clipped. tanh: a Gaussian squashed by a tanh. beta: a Beta
    distribution."""
    initial_log_std: Annotated[float, Range(-20, 10)] | None = None
    """Initial log standard deviation of Gaussian actions. None: 0 in raw units and before a tanh, and log ½ for actions
    scaled to their bounds, which are then two standard deviations from the middle."""
    std: Literal["component", "shared", "state"] = "component"
    """Standard deviation of Gaussian actions. component: one parameter per component. shared: one parameter for all.
    state:
    an output of the policy network, to which initial_log_std is added."""
    covariance: Literal["diagonal", "full"] = "diagonal"
    """Covariance of the Gaussian components within a factor; different factors are always independent."""
    learning_rate: Scheduled = 3e-4
    """Step size of the Adam optimizer; in Python also a function of the remaining progress, from 1 to 0."""
    anneal: tuple[Annealed, ...] = ()
    """Hyper-parameters to decay linearly to zero over the run."""
    gamma: Share = 0.99
    """Discount factor γ."""
    gae_lambda: Share = 0.95
    """λ of generalised advantage estimation."""
    gae_steps: Count | None = None
    """Length of the fragments within which advantages are estimated, bootstrapped at their ends, as in RLlib's
    workers; None for the whole rollout."""
    n_epochs: Count = 10
    """Number of passes over each rollout."""
    batch_size: Count = 64
    """Minibatch size."""
    minibatch_of: Literal["steps", "factors"] = "steps"
    """Unit of batch_size. steps: environment steps, with the actions of all factors. factors: the action of one factor
    in one step, as in multi-agent training with a shared policy."""
    shuffle: Literal["epoch", "rollout"] = "epoch"
    """When minibatches are drawn. epoch: in each pass. rollout: once; each pass uses the same minibatches in
    another order, and the remainder of the batch is dropped, as in RLlib 0.7."""
    clip_range: Annotated[float, ScheduledRange(0, open=True)] = 0.2
    """Clipping range ε of the probability ratio; in Python also a function of the remaining progress."""
    clip_range_vf: Positive | None = None
    """Clipping range of the value function; None for no clipping."""
    pessimistic_vf: bool = False
    """With clip_range_vf, use the larger of the clipped and the unclipped value loss, as in RLlib 0.7; otherwise the
    clipped loss, as in Stable-Baselines3."""
    ent_coef: Scheduled = 0.0
    """Weight of the entropy bonus; in Python also a function of the remaining progress."""
    vf_coef: NotNegative = 0.5
    """Weight of the value loss."""
    max_grad_norm: Positive | None = 0.5
    """Maximum norm for gradient clipping; None for no clipping."""
    adam_eps: Positive = 1e-5
    """ε in the denominator of the Adam optimizer."""
    target_kl: Positive | None = None
    """Stop an update early, before the first minibatch on which the KL divergence of the joint action from the acting
    policy exceeds 1.5 times this; None for no limit."""
    kl_coef: NotNegative = 0.0
    """Weight of the penalty KL(old ‖ new); adapted during training if kl_coef_target is set."""
    kl_coef_target: Positive | None = None
    """Target KL divergence per update: kl_coef increases above twice this value and decreases below half of it."""
    kl_of: Literal["auto", "factor", "action"] = "auto"
    """The KL divergence compared with kl_coef_target. factor: the mean over factors. action: that of the joint action,
    the sum over factors. auto: action for the vanilla estimator; otherwise factor."""
    natural_kl: Positive = 0.01
    """For objective natural: KL divergence per factor of one policy step."""
    damping: NotNegative = 0.1
    """For objective natural: damping added to the diagonal of the Fisher matrix F."""
    normalize_advantage: bool = True
    """Standardise the credits, with one common scale for all factors."""
    normalize_over: Literal["minibatch", "rollout"] = "minibatch"
    """Set of credits that are standardised together: a minibatch, or the whole rollout."""
    normalize_obs: bool = False
    """Standardise observations by their running mean and standard deviation."""
    normalize_reward: bool = False
    """Divide all targets by the running standard deviation of the discounted return; λ is not affected."""
    reward_scale: Positive = 1.0
    """Factor applied to targets for learning; reported returns are not scaled."""
    bootstrap: Literal["auto", "never", "always"] = "auto"
    """When to bootstrap from the value at the end of an episode. auto: if it was truncated. never, always: regardless
    of its flags."""

    rollouts: Literal["inline", "processes", "ray"] = "inline"
    """How Gymnasium environments are stepped: in this process, in worker processes, or by Ray actors. Results are
    bit-identical."""
    workers: Whole = 0
    """Number of workers; 0 for one per core, or one per environment if a process can hold only one."""
    fragment_seconds: Positive = 600.0
    """Seconds after which a worker that has not finished its part of a rollout is replaced; if this process steps the
    environments, seconds after which a message reports where it hangs."""
    overlap: bool = False
    """Collect the next rollout while learning from the last one. Its policy is one update old, which the ratios
    correct. For Gymnasium environments and objective ppo."""
    ray_address: str = ""
    """Address of a Ray cluster, such as auto or host:6379; if empty, Ray is started on this machine."""
    worker_cpus: NotNegative = 1.0
    """Number of CPUs that each worker requests from Ray."""
    device: Literal["auto", "cpu", "gpu", "cuda", "tpu"] = "auto"
    """Device for training. auto: a GPU or TPU if JAX finds one, otherwise the CPU. cuda is a synonym of gpu."""
    devices: Whole = 0
    """Number of local devices over which the environments of a JAX problem are distributed; 0 for one on a CPU, and
    elsewhere for as many as divide n_envs and batch_size. Results agree up to rounding."""

    # The presets turn this off because the networks of their problems are known; that of a user may lack an edge.
    check_network: bool = True
    """Test during training whether the network lacks an edge, and warn if it does."""
    variance_report: bool = False
    """Log the variance decomposition of each factor's gradient, with and without the network, in each update."""

    def __post_init__(self) -> None:
        for name, kind in _field_types().items():
            object.__setattr__(self, name, checked(name, getattr(self, name), kind, SYNONYMS.get(name)))
        if self.seed is None:
            object.__setattr__(self, "seed", secrets.randbelow(2**31))
        check_combinations(self)
        for name in self.anneal:
            if isinstance(getattr(self, name), Schedule):
                raise ValueError(
                    f"anneal: got {name!r}, which is already a function of the progress; want only one of the two"
                )

    @classmethod
    def of(cls, settings: dict[str, Any]) -> "Config":
        """Create settings from a dictionary; raise TypeError for an unknown name, with the nearest known one."""
        check_type("settings", settings, dict, "a dictionary from settings to their values")
        for name in settings.keys() - _field_types().keys():
            raise TypeError(unknown_setting(name))
        return cls(**settings)

    @classmethod
    def read(cls, settings: Any) -> "Config":
        """Create settings from a JSON object.

        Raises ValueError for an unknown setting or a value that is not allowed, since the file may be untrusted.
        """
        if not isinstance(settings, dict):
            raise ValueError(f"settings: got {type(settings).__name__}, want an object")
        try:
            stored = {name: Schedule.read(settings[name]) for name in get_args(Annealed) if name in settings}
            return cls.of(settings | stored)
        except TypeError as error:
            raise ValueError(str(error)) from None

    def for_problem(self, spec: Any) -> "Config":
        """Return these settings with the choices "auto" of `policy` and `critic` made for a problem, a `Spec`."""
        policy, critic = self.policy, self.critic
        if policy == "auto":
            needs_shared = self.architecture in ("attention", "choices") or self.minibatch_of == "factors"
            policy = "shared" if needs_shared or spec.local is not None else "joint"
        if critic == "auto":  # the credits of a network that varies are not those of one critic
            is_fixed = spec.network is spec.network.static
            has_factor_critic = self.minibatch_of == "factors" or (is_fixed and spec.n_targets > 1)
            critic = "factor" if has_factor_critic else "target"
        if (policy, critic) == (self.policy, self.critic):
            return self
        return replace(self, policy=policy, critic=critic)

    @property
    def is_recurrent(self) -> bool:
        """Whether the architecture is recurrent."""
        return self.architecture in ("gru", "lstm")

    @property
    def shares_trunk(self) -> bool:
        """Whether the critic shares the policy's hidden layers."""
        return self.is_recurrent if self.trunk == "auto" else self.trunk == "shared"

    @property
    def is_counterfactual(self) -> bool:
        """Whether the critic evaluates counterfactual actions of a factor."""
        return self.critic in ("q", "reward")

    @property
    def critic_predicts_credit(self) -> bool:
        """Whether the critic predicts credits, to which K has been applied, rather than values of targets."""
        return self.critic in ("factor", "central") or self.is_counterfactual

    @property
    def kl_is_of_action(self) -> bool:
        """Whether `kl_coef_target` is compared with the divergence of the joint action."""
        return self.estimator == "vanilla" if self.kl_of == "auto" else self.kl_of == "action"

    @property
    def passes(self) -> int:
        """Number of passes over each rollout: 1 without ratios, since a second pass would be off-policy."""
        return 1 if self.objective == "a2c" else self.n_epochs

    @property
    def rollout_steps(self) -> int:
        """Number of steps of all environments in one rollout."""
        return self.n_envs * self.n_steps

    @property
    def hyper(self) -> Hyper:
        """The settings that a sweep may vectorise. One given as a `Schedule` is 1 here, and multiplies its schedule."""
        values = (getattr(self, name) for name in Hyper._fields)
        return Hyper(*(1.0 if isinstance(value, Schedule) else value for value in values))

    def annealed(self, hyper: Hyper, timesteps: Any) -> Hyper:
        """Return the hyper-parameters after this many steps, with `anneal` applied and schedules evaluated."""
        import jax.numpy as jnp  # the command line reads this file without JAX

        left = jnp.maximum(1 - timesteps / hyper.total_timesteps, 0.0)  # an own loop may go on after the last step
        scheduled = {name: getattr(hyper, name) * left for name in self.anneal}
        for name in Hyper._fields:
            schedule = getattr(self, name)
            if isinstance(schedule, Schedule):
                scheduled[name] = getattr(hyper, name) * schedule(left)
        return hyper._replace(**scheduled)


def check_hyper(name: str, value: Any) -> None:
    """Raise ValueError if a setting of `Hyper` is neither a number that `Config` accepts nor traced by JAX."""
    if np.shape(value) or callable(value):
        raise ValueError(
            f"{name}: got {shown(value)}, want one number; for several runs at once, jax.vmap(lambda {name}: "
            f"learner.init(seed, {name}={name}))(values)"
        )
    if not is_traced(value):
        checked(name, value, Positive if name == "total_timesteps" else _field_types()[name])


@cache
def _field_types() -> dict[str, Any]:
    """Return the type of each setting."""
    return get_type_hints(Config, include_extras=True)
