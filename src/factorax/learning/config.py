"""Every setting of a run, with a sentence for each; the command line is generated from it."""

import secrets
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

from .._checks import Count, NotNegative, Positive, Range, Share, Whole, check_type, checked, nearest
from ..distributions import Bounded
from .combinations import check_combinations
from .validation import Schedule, ScheduledRange

PolicyKind = Literal["joint", "shared", "independent"]
CriticKind = Literal["target", "factor", "central", "q", "reward", "none"]
Annealed = Literal["learning_rate", "clip_range", "ent_coef"]

if TYPE_CHECKING:
    Seed = int
else:
    Seed = Annotated[int, Range(0, 2**32 - 1)] | None  # None is replaced by a number when settings are made
Scheduled = Annotated[float, ScheduledRange(0)]


class Hyper(NamedTuple):
    """The settings that may differ between runs of one compiled program: leaves of a state, so a sweep is a `vmap`."""

    learning_rate: Any
    gamma: Any
    gae_lambda: Any
    clip_range: Any
    ent_coef: Any
    vf_coef: Any
    max_grad_norm: Any
    total_timesteps: Any
    """The step at which training ends, and with it every schedule."""


_RENAMED = {
    "discount": "gamma",
    "normalise_advantage": "normalize_advantage",
    "normalise_obs": "normalize_obs",
    "normalise_reward": "normalize_reward",
}
"""Settings of earlier versions, and what they are called now."""


def upgraded(settings: dict[str, Any]) -> dict[str, Any]:
    """Return stored settings with the names of this version.

    >>> upgraded({"seed": 1, "discount": 0.9, "squash": True})
    {'seed': 1, 'gamma': 0.9, 'bounded': 'tanh'}
    """
    new: dict[str, Any] = {}
    for name, value in settings.items():
        if name == "squash" and isinstance(value, bool) and "bounded" not in settings:
            new["bounded"] = "tanh" if value else "clip"
        elif name == "kl_target" and "kl_coef_target" not in settings:
            natural = settings.get("objective") == "natural"
            if not natural:
                new["kl_coef_target"] = value
            elif value is not None:
                new["natural_kl"] = value
        elif _RENAMED.get(name, name) in settings:
            new[name] = value
        else:
            new[_RENAMED.get(name, name)] = value
    if "discount" in settings:  # of a version that had no choice
        new.setdefault("bounded", "clip")
    adapted = new.get("kl_coef_target") is not None
    if "kl_of" not in settings and adapted and settings.get("estimator") == "vanilla":  # likewise
        new["kl_of"] = "factor"
    return new


NOT_HERE = {
    "clip": "clip_range",
    "discount": "gamma",
    "lr": "learning_rate",
    "net_arch": "hidden",
    "policy_kwargs": "hidden for its net_arch, initial_log_std for its log_std_init",
    "squash": "bounded='tanh'",
    "kl_target": "target_kl to stop an update early, kl_coef_target to adapt the KL penalty, natural_kl for the length "
    "of a natural step",
    "stats_window_size": "model.history, which has the mean of every rollout",
    "use_sde": "initial_log_std: state-dependent exploration is not available",
    "sde_sample_freq": "initial_log_std: state-dependent exploration is not available",
    "rollout_buffer_class": "rollouts, for who steps the environments",
    "rollout_buffer_kwargs": "rollouts, for who steps the environments",
}
"""Settings of other libraries and of earlier versions, and what to use instead."""
SYNONYMS = {
    "policy": {"mlppolicy": "joint", "mlp": "joint", "central": "joint", "decentralised": "independent"},
    "estimator": {"fpg": "factored", "vpg": "vanilla", "pg": "vanilla", "standard": "vanilla"},
    "objective": {"trpo": "natural", "npg": "natural", "reinforce": "a2c", "vpg": "a2c"},
    "critic": {"value": "target", "v": "target", "global": "central", "coma": "q", "no": "none"},
    "bounded": {"squash": "tanh", "squashed": "tanh", "gaussian": "scale", "raw": "clip", "none": "clip"},
    "architecture": {"cnn": "conv", "rnn": "gru", "transformer": "attention", "gnn": "attention"},
    "device": {"cuda:0": "cuda", "gpu:0": "gpu"},
}
"""Choices by names that other libraries and papers use."""


def unknown_setting(name: str) -> str:
    """Return the message for a setting that does not exist."""
    close = nearest(name, (field.name for field in fields(Config)))
    if name in NOT_HERE:
        return f"{name}: no such setting; use {NOT_HERE[name]}"
    return f"{name}: no such setting" + (f"; did you mean {close}?" if close else "; see factorax.learning.Config")


WHO_STEPS = ("rollouts", "workers", "fragment_seconds", "ray_address", "worker_cpus", "device", "devices")
"""Settings that do not change results."""


@dataclass(frozen=True)
class Config:
    """Hyper-parameters of a training run. Defaults follow PPO in Stable-Baselines3 where it has the same setting."""

    total_timesteps: Count = 100_000
    """Number of steps to train for, summed over all environments."""
    seed: Seed = 0
    """Random seed for parameters, actions and environments. None draws one, which is then this setting."""
    n_envs: Count = 8
    """Number of environments that are stepped in parallel."""
    n_steps: Count = 256
    """Steps of every environment between two updates."""
    estimator: Literal["factored", "vanilla"] = "factored"
    """factored: a ratio and a credit [K(λ∘A)] for every factor. vanilla: one ratio and one advantage for the whole
    action, as in textbook PPO."""
    objective: Literal["ppo", "a2c", "natural"] = "ppo"
    """ppo: the clipped ratio. a2c: the score, in one pass over the batch. natural: one step along F⁻¹g of length
    natural_kl for the policy, and n_epochs for the critic."""
    policy: PolicyKind = "joint"
    """joint: one network for all components. shared: one network, applied to what each component sees. independent: a
    network for each component."""
    critic: CriticKind = "target"
    """target: a value for every target. factor: a value for every factor's credit. central: one value of the whole
    objective, as in MAPPO. q: a value for every action of a factor given the others', as in COMA. reward: a model of
    the reward, for difference rewards. none: no critic; with objective a2c and gae_lambda 1 this is REINFORCE."""
    default_action: tuple[float, ...] = ()
    """For critic reward: what a factor's action is compared with, a number for each component, or one for all. Empty:
    the mean over the factor's own policy, which needs discrete actions."""
    difference_at: Literal["first", "every"] = "first"
    """For critic reward: whether the compared reward is subtracted at the step of the action alone, which is unbiased,
    or at every later step too, as published, which keeps immediate rewards only."""
    hidden: tuple[Annotated[int, Range(1, 2**16)], ...] = (64, 64)
    """Sizes of the hidden layers, for the policy and the critic."""
    architecture: Literal["mlp", "gru", "lstm", "conv", "attention", "choices"] = "mlp"
    """mlp: layers alone. gru, lstm: the last hidden layer remembers the episode. conv: convolutions for the images of
    an observation, then layers. attention: layers, and then every component of a shared policy looks at its
    neighbours. choices: layers that score one choice of a component after another, from what it sees of that choice."""
    sequence_length: Count = 16
    """Steps through which the gradient of a gru or lstm is followed back; it divides n_steps and batch_size."""
    activation: Literal["tanh", "relu", "elu", "gelu", "silu"] = "tanh"
    """Activation function of hidden layers."""
    layer_norm: bool = False
    """Normalise the inputs of activation functions."""
    init: Literal["orthogonal", "lecun", "he", "normc"] = "orthogonal"
    """Initialisation of layers. The last layer of a policy is scaled down, whatever this is. normc: normal
    weights, scaled so that those of every unit have norm 1, and 0.01 in the last layers of policy and critic, as in
    RLlib."""
    trunk: Literal["auto", "separate", "shared"] = "auto"
    """separate: a network of its own for the critic. shared: the critic's last layer on the policy's hidden layers,
    which both then train. auto: shared for gru and lstm, whose critic then remembers what the policy does; else
    separate."""
    identity: Annotated[int, Range(0, 2**12)] = 8
    """Size of the learned embedding that tells a shared network which component it acts for; 0 for none."""
    identity_by: Literal["input", "film"] = "input"
    """input: the embedding is an input of a shared network. film: it scales and shifts every hidden layer."""
    rounds: Annotated[int, Range(1, 16)] = 1
    """Rounds of attention: in each, every component hears of components one edge further away."""
    bounded: Bounded = "scale"
    """How actions of a bounded Box are kept within their bounds. scale: a Gaussian in units in which the bounds are −1
    and 1, clipped to them. clip: a Gaussian in raw units, clipped. tanh: a Gaussian through a tanh. beta: a Beta
    distribution."""
    initial_log_std: Annotated[float, Range(-20, 10)] | None = None
    """Initial log standard deviation of Gaussian actions. None: 0 in raw units and before a tanh, and log ½ for actions
    that are scaled to their bounds, which are then two standard deviations from the middle."""
    std: Literal["component", "shared", "state"] = "component"
    """Standard deviation of Gaussian actions. component: a parameter for each component. shared: one for all of them.
    state: from the policy network, so that it depends on the state; initial_log_std is then added to its output."""
    covariance: Literal["diagonal", "full"] = "diagonal"
    """Covariance of the Gaussian components within a factor; different factors are always independent."""
    learning_rate: Scheduled = 3e-4
    """Step size of the Adam optimizer; from Python also a function of the remaining progress, from 1 to 0."""
    anneal: tuple[Annealed, ...] = ()
    """Hyper-parameters to decay linearly to zero over the run."""
    gamma: Share = 0.99
    """Discount factor γ."""
    gae_lambda: Share = 0.95
    """λ of generalised advantage estimation."""
    gae_steps: Count | None = None
    """Length of the fragments within which advantages are estimated, with the critic's value at their ends, as RLlib's
    workers do; None for the whole rollout."""
    n_epochs: Count = 10
    """Number of passes over every rollout."""
    batch_size: Count = 64
    """Minibatch size."""
    minibatch_of: Literal["steps", "factors"] = "steps"
    """What batch_size counts. steps: steps of an environment, with what all factors did in them. factors: what one
    factor did in one step is a sample of its own, as in multi-agent training with a shared policy."""
    shuffle: Literal["epoch", "rollout"] = "epoch"
    """How often minibatches are drawn. epoch: new ones in every pass. rollout: once; every pass goes through the same
    minibatches in another order, and what batch_size leaves over is dropped, as in RLlib 0.7."""
    clip_range: Annotated[float, ScheduledRange(0, open=True)] = 0.2
    """Clipping range ε of the probability ratio; from Python also a function of the remaining progress."""
    clip_range_vf: Positive | None = None
    """Clipping range of the value function; None for no clipping."""
    pessimistic_vf: bool = False
    """With clip_range_vf, take the larger of the clipped and the unclipped value loss, as RLlib 0.7 does; otherwise the
    clipped one, as Stable-Baselines3 does."""
    ent_coef: Scheduled = 0.0
    """Weight of the entropy bonus; from Python also a function of the remaining progress."""
    vf_coef: NotNegative = 0.5
    """Weight of the value loss."""
    max_grad_norm: Positive | None = 0.5
    """Maximum norm of the gradient; longer gradients are scaled down to it. None for no limit."""
    adam_eps: Positive = 1e-5
    """ε in the denominator of the Adam optimizer."""
    target_kl: Positive | None = None
    """Stop an update early, before the first minibatch on which the KL divergence of the whole action from the policy
    that acted exceeds 1.5 times this; None for no limit."""
    kl_coef: NotNegative = 0.0
    """Weight of the penalty KL(old ‖ new); adapted during training if kl_coef_target is given."""
    kl_coef_target: Positive | None = None
    """Desired KL divergence of an update: kl_coef grows above twice this, and shrinks below half of it."""
    kl_of: Literal["auto", "factor", "action"] = "auto"
    """The divergence that kl_coef_target is compared with. factor: the mean over factors. action: that of the whole
    action, the sum over factors. auto: action for the vanilla estimator, which has one ratio for it; else factor."""
    natural_kl: Positive = 0.01
    """Length of a step of objective natural: the KL divergence by which it changes the policy, per factor."""
    damping: NotNegative = 0.1
    """Added to the diagonal of the Fisher matrix F for objective natural."""
    normalize_advantage: bool = True
    """Standardise the credits, with one common scale for all factors."""
    normalize_over: Literal["minibatch", "rollout"] = "minibatch"
    """The credits that are standardised together: those of a minibatch, or those of the whole rollout."""
    normalize_obs: bool = False
    """Standardise observations by their running mean and standard deviation."""
    normalize_reward: bool = False
    """Divide all targets by the running standard deviation of the discounted return; λ is not affected."""
    reward_scale: Positive = 1.0
    """Factor by which targets are multiplied for learning; returns are reported without it."""
    bootstrap: Literal["auto", "never", "always"] = "auto"
    """Whether to bootstrap from the value at the end of an episode. auto: if it was truncated. never, always: whatever
    its flags."""

    rollouts: Literal["inline", "processes", "ray"] = "inline"
    """How Gymnasium environments are stepped: in this process, in worker processes, or by Ray actors. Results are
    bit-identical."""
    workers: Whole = 0
    """Number of workers; 0 for one per core, or one per environment where a process can hold only one."""
    fragment_seconds: Positive = 600.0
    """Seconds after which a worker that has not finished its part of a rollout is replaced, or, where this process
    steps the environments, after which a message says where it hangs."""
    overlap: bool = False
    """Collect the next rollout while learning from the last one. Its policy is one update old, which the ratios account
    for. For Gymnasium environments and objective ppo."""
    ray_address: str = ""
    """Address of a Ray cluster, such as auto or host:6379; if empty, Ray is started on this machine."""
    worker_cpus: NotNegative = 1.0
    """CPUs that each worker requests from Ray."""
    device: Literal["auto", "cpu", "gpu", "cuda", "tpu"] = "auto"
    """Where to train. auto: on a GPU or TPU if JAX finds one, else on the CPU. cuda is the same as gpu."""
    devices: Whole = 0
    """Number of local devices that share the environments of a JAX problem; 0 for as many as divide n_envs and
    batch_size. Results agree up to rounding."""

    check_network: bool = True
    """Test during training whether the network lacks an edge, and warn if it does."""
    variance_report: bool = False
    """Log the variance decomposition of every factor's gradient, with and without the network, in every update."""

    def __post_init__(self) -> None:
        for name, kind in _field_types().items():
            object.__setattr__(self, name, checked(name, getattr(self, name), kind, SYNONYMS.get(name)))
        if self.seed is None:
            object.__setattr__(self, "seed", secrets.randbelow(2**31))
        check_combinations(self)

    @classmethod
    def of(cls, settings: dict[str, Any]) -> "Config":
        """Return the settings of this name; raises TypeError for a name that does not exist, with the nearest one."""
        check_type("settings", settings, dict, "a dictionary from settings to their values")
        for name in settings.keys() - _field_types().keys():
            raise TypeError(unknown_setting(name))
        return cls(**settings)

    @classmethod
    def read(cls, settings: Any) -> "Config":
        """Return the settings stored in a JSON object, of this or an earlier version of factorax.

        Raises ValueError for an unknown setting or a value that is not allowed: the file may come from anyone.
        """
        if not isinstance(settings, dict):
            raise ValueError(f"settings: got {type(settings).__name__}, want an object")
        try:
            settings = upgraded(settings)
            stored = {name: Schedule.read(settings[name]) for name in get_args(Annealed) if name in settings}
            return cls.of(settings | stored)
        except TypeError as error:
            raise ValueError(str(error)) from None

    @property
    def is_recurrent(self) -> bool:
        """Whether our networks remember."""
        return self.architecture in ("gru", "lstm")

    @property
    def shares_trunk(self) -> bool:
        """Whether the critic is on the policy's hidden layers."""
        return self.is_recurrent if self.trunk == "auto" else self.trunk == "shared"

    @property
    def is_counterfactual(self) -> bool:
        """Whether the critic judges what a factor might have done instead."""
        return self.critic in ("q", "reward")

    @property
    def critic_predicts_credit(self) -> bool:
        """Whether the critic predicts credits, so that K comes before it, and not the values of targets."""
        return self.critic in ("factor", "central") or self.is_counterfactual

    @property
    def kl_is_of_action(self) -> bool:
        """Whether `kl_coef_target` is a divergence of the whole action."""
        return self.estimator == "vanilla" if self.kl_of == "auto" else self.kl_of == "action"

    @property
    def passes(self) -> int:
        """Passes over every rollout: without ratios, a second one would be off-policy."""
        return 1 if self.objective == "a2c" else self.n_epochs

    @property
    def rollout_steps(self) -> int:
        """Steps of all environments in one rollout."""
        return self.n_envs * self.n_steps

    @property
    def hyper(self) -> Hyper:
        """The settings a sweep may map over. One that is a `Schedule` is 1 here, and multiplies its schedule."""
        values = (getattr(self, name) for name in Hyper._fields)
        return Hyper(*(1.0 if isinstance(value, Schedule) else value for value in values))

    def annealed(self, hyper: Hyper, timesteps: Any) -> Hyper:
        """Return the hyper-parameters after this many steps, with those in `anneal` decayed, and schedules
        evaluated."""
        left = 1 - timesteps / hyper.total_timesteps
        scheduled = {name: getattr(hyper, name) * left for name in self.anneal}
        for name in Hyper._fields:
            schedule = getattr(self, name)
            if isinstance(schedule, Schedule):
                scheduled[name] = getattr(hyper, name) * schedule(left)
        return hyper._replace(**scheduled)


@cache
def _field_types() -> dict[str, Any]:
    """Return the type of every setting."""
    return get_type_hints(Config, include_extras=True)
