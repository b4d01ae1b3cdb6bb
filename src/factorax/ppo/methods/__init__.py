"""Related methods: each is a `Method` with the functions in which it differs from factored PPO, or a row of settings.

| name | publication | credit of factor i | defined in |
|---|---|---|---|
| ``factored`` | factored PPO, Spooner et al. (2021) | [K(λ∘A)]ᵢ | `factorax.ppo.method` |
| ``adaptive`` | this library | [K(λ∘A)]ᵢ, K re-estimated during training | row below |
| ``complete`` | control for one ratio per factor | Σⱼ λⱼ Aⱼ | row below |
| ``ppo`` | Schulman et al. (2017) | A of λ·ψ, with the joint ratio ∏ᵢ rᵢ | `vanilla` |
| ``ippo`` | de Witt et al. (2020) | its own target's advantage, by its own critic | row below |
| ``mappo`` | Yu et al. (2022) | A of λ·ψ, by one central critic | `vanilla` |
| ``coma`` | Foerster et al. (2018) | Qᵢ(s, a) − Σ_b πᵢ(b) Qᵢ(s, (b, a₋ᵢ)) | `coma` |
| ``difference-rewards`` | Castellini et al. (2021) | Σ γˡ rᵢ − Rᵢ(s, (default, a₋ᵢ)) | `difference_rewards` |
| ``a2c`` | Mnih et al. (2016) | [K(λ∘A)]ᵢ, without ratios, in one pass | `vanilla` |
| ``natural`` | Kakade (2002) | [K(λ∘A)]ᵢ, in one step F⁻¹g | `natural` |
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from ...choices import Menu
from ..method import Method
from .coma import Coma
from .difference_rewards import DifferenceRewards
from .natural import Natural
from .vanilla import A2c, Mappo, Ppo


@dataclass(frozen=True)
class Complete(Method):
    """Factored PPO with all edges: the control that separates one ratio per factor from the choice of K."""

    title: ClassVar[str] = "factored PPO with all edges"
    reference: ClassVar[str] = "the control for one ratio per factor"
    equation: ClassVar[str] = "Cᵢ = Σⱼ λⱼ Aⱼ"
    # Not textbook PPO: with all edges, clipping a ratio per factor is another surrogate than the joint ratio.
    network_name: ClassVar[str | None] = "complete"


@dataclass(frozen=True)
class Adaptive(Method):
    """Factored PPO with the edges that are worthwhile, re-estimated during training."""

    title: ClassVar[str] = "factored PPO, adaptive"
    reference: ClassVar[str] = "this library"
    network_name: ClassVar[str | None] = "adaptive"


@dataclass(frozen=True)
class Ippo(Method):
    """Independent learners: one policy and critic per factor, credited with its own target."""

    title: ClassVar[str] = "IPPO"
    reference: ClassVar[str] = "de Witt et al. (2020)"
    equation: ClassVar[str] = "Cᵢ = λᵢ Aᵢ"
    # K is the diagonal, so a critic of factors predicts only the target of its factor.
    settings: ClassVar[dict[str, Any]] = {"policy": "independent", "critic": "factor"}
    network_name: ClassVar[str | None] = "individual"


METHODS = Menu(
    "method",
    {
        "factored": Method,
        "ppo": Ppo,
        "ippo": Ippo,
        "mappo": Mappo,
        "coma": Coma,
        "difference-rewards": DifferenceRewards,
        "complete": Complete,
        "adaptive": Adaptive,
        "a2c": A2c,
        "natural": Natural,
    },
    # The nearest relatives: `natural` has no line search as TRPO has, and REINFORCE needs critic="none" as well.
    {"fpg": "factored", "vpg": "a2c", "vanilla": "ppo", "reinforce": "a2c", "trpo": "natural", "npg": "natural"},
)
"""All methods by name; ``METHODS.register("name", MyMethod)`` adds one."""
