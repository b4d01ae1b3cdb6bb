"""Arguments of `wrap`: matching of a network to an action space, and defaults from attributes of the environment."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from .._checks import real_array
from .._text import counted, shown, some, warn
from ..spaces import ActionSpace
from ..structure import Factorisation, InfluenceNetwork
from ..structure.labels import default_labels
from ..structure.network import as_network

FIXED = "or its matrix; pass networks that vary to FactoredPPO"
"""Hint for networks that an environment cannot have."""
FactorRule = Literal["elements", "leaves", "minimum"]


@dataclass(frozen=True)
class Rows:
    """The components of an action, leaf by leaf."""

    names: tuple[str, ...] | None
    """Names of the leaves; None if the space is one leaf without a name."""
    sizes: tuple[int, ...]
    """Number of components of each leaf."""

    @classmethod
    def of(cls, space: gym.Space) -> "Rows":
        """Create the leaves of a space: the space itself, or the parts of a Dict or Tuple, named ``arm.left`` or
        ``0``."""
        names, sizes = zip(*_leaves(space, ""), strict=True)
        return cls(None if names == ("",) else names, sizes)

    @property
    def n_components(self) -> int:
        """Number of components of all leaves."""
        return sum(self.sizes)

    @cached_property
    def leaf_of(self) -> np.ndarray:
        """The leaf of each component."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def components(self) -> tuple[str, ...] | None:
        """Names of components: the name of the leaf, with an index if it has several."""
        if self.names is None:
            return None
        pairs = zip(self.names, self.sizes, strict=True)
        return tuple(name if size == 1 else f"{name}[{k}]" for name, size in pairs for k in range(size))


def _leaves(space: gym.Space, path: str) -> Iterator[tuple[str, int]]:
    """Yield the name and the number of components of each leaf."""
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, gym.spaces.Dict) else enumerate(space.spaces)
        for name, part in parts:
            yield from _leaves(part, f"{path}.{name}" if path else str(name))
    else:
        yield path, len(ActionSpace.of(space))


def fit(network: Any, rows: Rows, factors: FactorRule, m: int, targets: tuple[str, ...] | None) -> InfluenceNetwork:
    """Return the network with one row per factor, in the order of the environment, and with its factorisation."""
    if factors not in ("elements", "leaves", "minimum"):
        raise ValueError(f'factors: got {factors!r}, want "elements", "leaves" or "minimum"')
    leaves = Factorisation.from_group_of(rows.leaf_of)
    if network is None:
        network = InfluenceNetwork.complete(rows.n_components, m).relabel(rows.components)
        if targets is not None:
            network = network.relabel(targets=targets)
    network = as_network(network, "network", FIXED)
    if network.shape[1] != m:
        called = "" if targets is None else f" ({some(targets)})"
        raise ValueError(
            f"network: got shape {network.shape}, want {_wanted(network, rows, factors)} × {m}: the reward has "
            f"{counted(m, 'part')}{called}; want one column per part"
        )
    network = _ordered(network, "targets", targets)
    if network.factorisation is not None:
        if network.factorisation.n_actions != rows.n_components or factors == "minimum":
            raise ValueError(
                f"network: is factored over {counted(network.factorisation.n_actions, 'action')}, but the action space "
                f"has {counted(rows.n_components, 'component')}; want a factored network with one row per component, "
                "without the argument factors"
            )
        return network
    n = network.shape[0]
    if n == rows.n_components:  # first: if each leaf has one component, rows of both are the same
        network = _ordered(network, "actions", rows.components)
    elif n == len(rows.sizes) and factors != "elements":
        network = _ordered(network, "actions", rows.names)
        # a row per component first, as all networks have it; the leaves become its factorisation below
        network = InfluenceNetwork(network.matrix[rows.leaf_of], rows.components, network.targets)
    else:
        also = f", or {len(rows.sizes)}, one per leaf" if factors != "elements" else ""
        hint = '; with factors="leaves" it may have one per leaf' if n == len(rows.sizes) and not also else ""
        if not hint and n > 1 and rows.n_components % n == 0:
            times = rows.n_components // n
            hint = (
                f'; if a row stands for {times} actions, pass np.repeat(matrix, {times}, axis=0) and factors="minimum"'
            )
        raise ValueError(
            f"network: got shape {network.shape}, want {rows.n_components} × {m}: the action space has "
            f"{counted(rows.n_components, 'component')}; want one row per component{also}{hint}"
        )
    if factors == "elements" or (factors == "leaves" and len(leaves) == n == rows.n_components):
        return network
    if factors == "minimum":
        return network.factor(network.minimum_factorisation())
    return network.factor(leaves).relabel(actions=rows.names or ("action",))


def _wanted(network: InfluenceNetwork, rows: Rows, factors: FactorRule) -> int:
    """Return the expected number of rows: the number it has, if these can be leaves or groups."""
    n, grouped = network.shape[0], network.factorisation is not None
    return n if grouped or (factors != "elements" and n == len(rows.sizes)) else rows.n_components


def _ordered(network: InfluenceNetwork, side: str, names: tuple[str, ...] | None) -> InfluenceNetwork:
    """Return the network with rows or columns in the order of the environment's names, if both have names."""
    labels = getattr(network, side)
    if names is None or labels == names or labels == default_labels("a" if side == "actions" else "psi", len(labels)):
        return network
    if set(labels) != set(names):
        unknown = [name for name in labels if name not in names]
        raise ValueError(
            f"network: has {side} {some(unknown)}, which the environment lacks; it has {some(names)}. Use these names, "
            f"or net.relabel({side}=…) with these in the order of the network"
        )
    return network.select(**{side: names})  # names decide, not the order in which the user wrote them


def weights_of(weights: Any, default: Any, m: int) -> np.ndarray:
    """Return λ ``(m,)``, checked: `weights`, the `default` if it has this shape, or ones."""
    chosen = (default if np.shape(default) == (m,) else None) if weights is None else weights
    lam = np.ones(m) if chosen is None else real_array("weights", chosen, finite=False).astype(float)
    if lam.shape != (m,) or not np.isfinite(lam).all():
        raise ValueError(f"weights: got {shown(lam.tolist())}, want {m} finite numbers, one λ per target")
    return lam


def warn_if_complete(wrapped: Any) -> None:
    """Warn that factoring has no effect if a wrapped environment has no network."""
    if not wrapped.has_no_network:
        return
    m = wrapped.network.shape[1]
    if m == 1:
        warn(
            "reward: is one number, and thus one target for all actions, so factoring has no effect and this is plain "
            "PPO. Use reward=… to locate its parts, or pass a network with one column if this is intended"
        )
    else:
        warn(
            f"network: got none, so each action is credited with all {m} targets, as in plain PPO. Pass a network, "
            "or fx.InfluenceNetwork.complete(n, m) if this is intended"
        )
