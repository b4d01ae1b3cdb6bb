"""Every setting of a run, with a sentence for each: the command line is made of it."""

from dataclasses import dataclass
from typing import Literal

PolicyKind = Literal["joint", "shared", "independent"]
CriticKind = Literal["target", "factor"]


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
    objective: Literal["ppo", "a2c"] = "ppo"
    """ppo: the clipped ratio. a2c: the score alone, in one pass over the batch, whatever n_epochs says."""
    policy: PolicyKind = "joint"
    """joint: one network. shared: one for all components, applied to what each sees. independent: one for each."""
    critic: CriticKind = "target"
    """target: a value for every target. factor: a value for every factor's credit."""
    hidden: tuple[int, ...] = (64, 64)
    """Units of the hidden layers, of the policy and of the critic."""
    squash: bool = False
    """Bounded Box actions through a tanh instead of clipping."""
    initial_log_std: float = 0.0
    """Of Gaussian actions."""
    learning_rate: float = 3e-4
    """Of Adam."""
    anneal: bool = False
    """Let the learning rate fall to nought, in a straight line."""
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
    """The KL divergence an update should make, a factor; above twice of it the weight grows, below half it falls."""
    normalise_advantage: bool = True
    """Centre and scale the credits of a minibatch, all factors by one common scale."""
    normalise_obs: bool = False
    """Centre and scale observations by their running mean and deviation."""
    normalise_reward: bool = False
    """Scale all targets by one running scale, that of the discounted objective: λ stays what it is."""
    bootstrap: Literal["auto", "never", "always"] = "auto"
    """Whether the end of an episode has a future. auto: as its flags say. never, always: whatever they say."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))  # JSON has lists
        for name in ("total_timesteps", "n_envs", "n_steps", "n_epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: got {getattr(self, name)}, want at least 1")
        if self.n_envs * self.n_steps % self.batch_size:
            raise ValueError(
                f"batch_size: got {self.batch_size}, want a divisor of n_envs × n_steps = {self.n_envs * self.n_steps}"
            )
        for name in ("discount", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: got {getattr(self, name)}, want a number from 0 to 1")

    @property
    def passes(self) -> int:
        """Over every batch: with the score alone a second one would be off-policy."""
        return self.n_epochs if self.objective == "ppo" else 1

    @property
    def n_updates(self) -> int:
        """How many batches there are."""
        return -(-self.total_timesteps // (self.n_envs * self.n_steps))
