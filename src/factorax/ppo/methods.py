"""Methods: factored PPO and related methods by name, each defined by a few settings of the same learner and a network.

A method defines how a factor is credited: the critic, the ratio and the influence network. All other settings, such as
step sizes and layers, come from a preset or the user, so that methods can be compared with equal settings.
"""

from dataclasses import dataclass
from typing import Any

from .._text import did_you_mean, shown
from . import presets
from .presets import NONE


@dataclass(frozen=True)
class Method:
    """A credit-assignment method from the literature."""

    title: str
    """Name in publications."""
    reference: str
    """Authors and year."""
    credit: str
    """A short description of the credit of a factor."""
    settings: dict[str, Any]
    """Values of fields of `Config`."""
    network: str | None = None
    """Name of the network, as for `find_network`; None for that of the preset or problem."""


_SHARED = {"estimator": "factored", "policy": "shared"}
METHODS = {
    "ppo": Method(
        "PPO",
        "Schulman et al. (2017)",
        "the advantage of the objective, with one ratio for the joint action",
        {"estimator": "vanilla", "policy": "joint", "critic": "central"},
    ),
    "ippo": Method(
        "IPPO",
        "de Witt et al. (2020)",
        "the advantage of its own targets, by its own critic",
        {"estimator": "factored", "policy": "independent", "critic": "factor"},
        "individual",
    ),
    "mappo": Method(
        "MAPPO",
        "Yu et al. (2022)",
        "the advantage of the objective, by one central critic",
        _SHARED | {"critic": "central"},
        "complete",
    ),
    "coma": Method(
        "COMA",
        "Foerster et al. (2018)",
        "the value of its action minus the mean value under its policy, by a central critic of actions",
        # Its credits are differences of values, which a network learns only if the values are of order 1.
        _SHARED | {"critic": "q", "normalize_reward": True},
        "complete",
    ),
    "difference-rewards": Method(
        "Dr.Reinforce",
        "Castellini et al. (2021)",
        "the return minus the reward without its action, by a model of the reward",
        _SHARED | {"critic": "reward"},
        "complete",
    ),
    "complete": Method(
        "factored PPO with all edges",
        "the control for one ratio per factor",
        "the advantages of all targets",
        _SHARED | {"critic": "target"},
        "complete",
    ),
    "factored": Method(
        "factored PPO",
        "Spooner et al. (2021)",
        "the advantages of the targets that it influences",
        _SHARED | {"critic": "target"},
    ),
    "adaptive": Method(
        "factored PPO, adaptive",
        "this library",
        "the advantages of the targets whose edges are worthwhile, re-estimated during training",
        _SHARED | {"critic": "target"},
        "adaptive",
    ),
}
"""All methods by name."""


def find_method(name: str) -> Method:
    """Return the method of this name; raise ValueError for an unknown name, with the nearest known one.

    >>> find_method("mappo").settings["critic"]
    'central'
    >>> find_method("mapo")
    Traceback (most recent call last):
    ValueError: method: got 'mapo', want none, ...; did you mean 'mappo'?
    """
    if not isinstance(name, str) or name not in METHODS:
        names = [NONE, *METHODS]
        hint = did_you_mean(name, names, quoted=True) if isinstance(name, str) else ""
        raise ValueError(f"method: got {shown(name)}, want {', '.join(names[:-1])} or {names[-1]}{hint}")
    return METHODS[name]


def settings_for(preset: str, method: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a preset, overridden by those of a method and by `overrides`.

    >>> settings_for("none", "ppo", {"policy": "shared"})
    {'estimator': 'vanilla', 'policy': 'shared', 'critic': 'central'}
    """
    of_method = {} if method == NONE else find_method(method).settings
    return presets.settings_with(preset, of_method | overrides)


def network_for(preset: str, method: str) -> str | None:
    """Return the name of the network of a method or preset; None for that of the problem."""
    of_method = None if method == NONE else find_method(method).network
    return presets.network_of(preset) if of_method is None else of_method
