"""All settings of a run, with a description each, from which the command line is generated."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

import numpy as np

from .._checks import Count, NotNegative, Positive, Range, Share, check_type, checked, is_traced
from .._text import nearest, shown
from ..choices import Choice, Menu
from .schedules import Schedule, ScheduledRange

CHOICES = ("method", "policy", "critic", "architecture", "distribution", "rollouts", "device")
"""Settings that are choices with settings of their own; see `menus`."""


Annealed = Literal["learning_rate", "clip_range", "ent_coef"]

if TYPE_CHECKING:
    Seed = int
else:
    Seed = Annotated[int, Range(0, 2**32 - 1)] | None  # None is replaced by a random seed
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
    "policy_kwargs": "hidden for its net_arch, distribution='scale,initial_log_std=…' for its log_std_init",
    "stats_window_size": "model.history, which has the mean return of each rollout",
    "use_sde": "distribution: state-dependent exploration is not available",
    "sde_sample_freq": "distribution: state-dependent exploration is not available",
    "rollout_buffer_class": "rollouts, which selects how environments are stepped",
    "rollout_buffer_kwargs": "rollouts, which selects how environments are stepped",
}
"""Settings of other libraries, with what to use instead."""


@cache
def menus() -> dict[str, Menu]:
    """Return the menus of the settings that are choices, by name.

    Imported here, since the command line reads this file without JAX.
    """
    from ..distributions import DISTRIBUTIONS
    from ..networks import ARCHITECTURES, POLICIES
    from ..plugins import choices, imported
    from ..rollouts import ROLLOUTS
    from .credits import CRITICS
    from .devices import DEVICES
    from .methods import METHODS

    menus = {
        "method": METHODS,
        "policy": POLICIES,
        "critic": CRITICS,
        "architecture": ARCHITECTURES,
        "distribution": DISTRIBUTIONS,
        "rollouts": ROLLOUTS,
        "device": DEVICES,
    }
    for (setting, name), reference in choices().items():
        menus[setting].register(name, imported(reference))
    return menus


def unknown_setting(name: str) -> str:
    """Return the error message for an unknown setting."""
    close = nearest(name, (field.name for field in fields(Config)))
    if name in NOT_HERE:
        return f"{name}: no such setting; use {NOT_HERE[name]}"
    return f"{name}: no such setting" + (f"; did you mean {close}?" if close else "; see factorax.ppo.Config")


WHO_STEPS = ("rollouts", "device")
"""Settings that do not change results, except with ``overlap=true`` of `rollouts`."""


def different_settings(a: Mapping[str, Any], b: Mapping[str, Any], ignored: Iterable[str] = ()) -> list[str]:
    """Return the names of settings in which two runs differ and that change results; settings are as in `to_json`."""
    ignored = {*ignored, *WHO_STEPS}
    names = {name for name in a.keys() | b.keys() if name not in ignored and a.get(name) != b.get(name)}
    # With overlap, the policy before the last update acts.
    if ("overlap=true" in str(a.get("rollouts"))) != ("overlap=true" in str(b.get("rollouts"))):
        names.add("rollouts")
    return sorted(names)


@dataclass(frozen=True)
class Config:
    """Settings of a training run. Defaults follow Stable-Baselines3's PPO where it has the same setting.

    Settings that are choices are written as text, ``"name"`` or ``"name,key=value,…"`` with the settings that the
    choice has, or as an object of its class: ``architecture="gru,sequence_length=8"`` or ``architecture=Gru(8)``.
    """

    total_timesteps: Count = 100_000
    """Total number of training steps, summed over all environments."""
    seed: Seed = 0
    """Random seed for parameters, actions and environments. None draws a random seed, which is then stored here."""
    # 8 × 256 are the 2,048 steps of a default rollout of Stable-Baselines3, which has one environment.
    n_envs: Count = 8
    """Number of environments that are stepped in parallel."""
    n_steps: Count = 256
    """Number of steps per environment between updates."""
    method: Any = "factored"
    """Credit-assignment method: factored, or a related one: ppo, ippo, mappo, coma, difference-rewards, complete,
    adaptive, a2c or natural. Settings: default_action and at of difference-rewards, kl and damping of natural, as in
    natural,kl=0.02. In Python also a subclass of Method."""
    policy: Any = "auto"
    """Policy network. joint: one network for all components. shared: one network applied to the observation of each
    component. independent: one network per component. auto: shared if there are local observations, otherwise joint.
    Setting of shared: identity, the size of an embedding that tells components apart. In Python also a network."""
    critic: Any = "auto"
    """Critic. target: one value per target. factor: one value per factor's credit. auto: factor for a fixed network of
    several targets, otherwise target. none: no critic; with method a2c and gae_lambda 1 this is REINFORCE. Setting of
    all: trunk, separate or shared with the policy. In Python also a network."""
    hidden: tuple[Annotated[int, Range(1, 2**16)], ...] = (64, 64)
    """Sizes of the hidden layers, for the policy and the critic."""
    activation: Literal["tanh", "relu", "elu", "gelu", "silu"] = "tanh"
    """Activation function of hidden layers."""
    architecture: Any = "mlp"
    """Network architecture. mlp: fully connected layers. gru, lstm: the last hidden layer is recurrent. conv:
    convolutions for images in the observation, then layers. attention: layers, then attention of each component of a
    shared policy to its neighbours. choices: layers that score each choice of a component from its observation of that
    choice. Settings: sequence_length of gru and lstm, rounds of attention, layer_norm of those without memory, and init
    of all, as in gru,sequence_length=8."""
    distribution: Any = "scale"
    """Distribution of bounded actions of a Box. scale: a Gaussian in units in which the bounds are −1 and 1, clipped.
    clip: a Gaussian in raw units, clipped. tanh: a Gaussian squashed by a tanh. beta: a Beta distribution. Settings of
    Gaussians, also for actions without bounds: std (component, shared, state or full) and initial_log_std."""
    learning_rate: Scheduled = 3e-4
    """Step size of the Adam optimizer; in Python also a function of the remaining progress, from 1 to 0."""
    anneal: tuple[Annealed, ...] = ()
    """Hyper-parameters to decay linearly to zero over the run."""
    gamma: Share = 0.99
    """Discount factor γ."""
    gae_lambda: Share = 0.95
    """λ of generalised advantage estimation."""
    n_epochs: Count = 10
    """Number of passes over each rollout."""
    batch_size: Count = 64
    """Minibatch size."""
    clip_range: Annotated[float, ScheduledRange(0, open=True)] = 0.2
    """Clipping range ε of the probability ratio; in Python also a function of the remaining progress."""
    clip_range_vf: Positive | None = None
    """Clipping range of the value function; None for no clipping."""
    ent_coef: Scheduled = 0.0
    """Weight of the entropy bonus; in Python also a function of the remaining progress."""
    vf_coef: NotNegative = 0.5
    """Weight of the value loss."""
    max_grad_norm: Positive | None = 0.5
    """Maximum norm for gradient clipping; None for no clipping."""
    target_kl: Positive | None = None
    """Stop an update early, before the first minibatch on which the KL divergence of the joint action from the acting
    policy exceeds 1.5 times this; None for no limit."""
    normalize_advantage: bool = True
    """Standardise the credits of a minibatch, with one common scale for all factors."""
    normalize_obs: bool = False
    """Standardise observations by their running mean and standard deviation."""
    normalize_reward: bool = False
    """Divide all targets by the running standard deviation of the discounted return; λ is not affected."""
    reward_scale: Positive = 1.0
    """Factor applied to targets for learning; reported returns are not scaled."""
    rollouts: Any = "inline"
    """How Gymnasium environments are stepped: inline in this process, in worker processes, or by ray. Results are
    bit-identical, except with overlap. Settings: workers and overlap of processes and ray, address and cpus of ray, and
    seconds, the time limit of a rollout, as in processes,workers=4."""
    device: Any = "auto"
    """Device for training. auto: a GPU or TPU if JAX finds one, otherwise the CPU. cuda is a synonym of gpu. Setting of
    all: count, the number of devices, as in gpu,count=2."""
    # The presets turn this off because the networks of their problems are known; that of a user may lack an edge.
    check_network: bool = True
    """Test during training whether the network lacks an edge, and warn if it does."""
    variance_report: bool = False
    """Log the variance decomposition of each factor's gradient, with and without the network, in each update."""

    def __post_init__(self) -> None:
        for name, kind in _field_types().items():
            if name not in CHOICES:
                object.__setattr__(self, name, checked(name, getattr(self, name), kind))
        for name, menu in menus().items():
            value = getattr(self, name)
            if name == "critic" and is_network(value):
                # A network alone does not say whether its values are those of targets or of factors.
                value = menu.kinds["auto"](module=value)
            if name != "policy" or not is_network(value):
                value = menu.read(value)
            object.__setattr__(self, name, value)
        if self.seed is None:
            object.__setattr__(self, "seed", secrets.randbelow(2**31))  # stored, so that the run can be repeated
        for name in self.anneal:
            if isinstance(getattr(self, name), Schedule):
                raise ValueError(
                    f"anneal: got {name!r}, which is already a function of the progress; want only one of the two"
                )
        rollout = self.rollout_steps
        if self.method.divides_rollout and rollout % self.batch_size:
            fits = next(n for n in range(min(self.batch_size, rollout), 0, -1) if rollout % n == 0)
            raise ValueError(
                f"batch_size: got {self.batch_size}, want a divisor of n_envs × n_steps = {rollout}, such as {fits}"
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

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON, from which `read` makes equal ones: choices as text, None as null.

        In place of the user's objects (`custom`), which no file holds, are the defaults.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["critic"] = replace(self.critic, module=None)
        values |= {name: type(self).__dict__[name] for name in self.custom if name != "critic"}
        return {name: str(value) if name in CHOICES else value for name, value in values.items()}

    @property
    def custom(self) -> dict[str, Any]:
        """The settings that are the user's own objects: networks, and a method that is not registered."""
        objects = {"policy": self.policy} if is_network(self.policy) else {}
        objects |= {} if self.critic.module is None else {"critic": self.critic.module}
        return objects | ({} if menus()["method"].has(self.method) else {"method": self.method})

    def for_problem(self, spec: Any) -> "Config":
        """Return these settings with the choices "auto" of `policy` and `critic` made for a problem, a `Spec`."""
        policy, critic = self.policy, self.critic
        if str(policy) == "auto":
            needs_shared = self.architecture.name in ("attention", "choices")  # they read one observation per component
            policy = "shared" if needs_shared or spec.local is not None else "joint"
        if critic.name == "auto":
            network = self.method.network(spec)
            # the credits of a network that varies are not those of one critic
            is_factor = network is network.static and network.static.shape[1] > 1
            kind = menus()["critic"].kinds["factor" if is_factor else "target"]
            critic = kind(trunk=critic.trunk, module=critic.module)
        return self if (policy, critic) == (self.policy, self.critic) else replace(self, policy=policy, critic=critic)

    @property
    def critic_predicts_credit(self) -> bool:
        """Whether the critic predicts what factors are credited with, so that K must be the same at every step."""
        return self.critic.name == "factor" or self.method.predicts_credit

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
    if not is_traced(value):  # a traced one has no value yet
        checked(name, value, Positive if name == "total_timesteps" else _field_types()[name])


def is_network(value: Any) -> bool:
    """Return whether a setting is the user's network: a module, or a function that returns one."""
    return callable(value) and not isinstance(value, str | Choice)


@cache
def _field_types() -> dict[str, Any]:
    """Return the type of each setting."""
    return get_type_hints(Config, include_extras=True)
