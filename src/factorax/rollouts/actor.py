"""The policy in NumPy: what workers choose actions with, from parameters that are plain arrays.

It has the distribution of the learner's policy, to rounding. What an environment is given depends on its own number,
observation and random numbers alone, to the last bit: not on the environments beside it, so not on how they are spread
over workers. BLAS rounds a row otherwise in a batch of another size, so rows are multiplied in tiles of a fixed one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from .components import BERNOULLI, CATEGORICAL, SQUASHED, Components

TILE = 8
_LOG_2, _HALF_LOG_2PI = np.float32(np.log(2)), np.float32(0.5 * np.log(2 * np.pi))
_TINY = np.finfo(np.float32).tiny


class Parameters(NamedTuple):
    """Of a policy, in NumPy."""

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    """Of every layer; of independent policies with a component in front."""
    identity: np.ndarray | None
    """What tells a shared network which component it acts for, ``(c, k)``."""
    log_std: np.ndarray
    """``(c,)``"""
    colour: np.ndarray
    """(I − W)⁻¹ of every factor with a covariance, ``(f, g, g)``."""
    centre: np.ndarray | None = None
    scale: np.ndarray | None = None
    """Of observations, ``(d,)``, if they are normalised."""
    clip: float = 10.0


@dataclass(frozen=True, eq=False)
class Actor:
    """How actions are chosen.

    `factors` says which factor a component belongs to (None: each is its own), `local` makes what every factor sees of
    observations (None: each sees all).
    """

    components: Components
    kind: Literal["joint", "shared", "independent"]
    factors: np.ndarray | None = None
    local: Callable[[np.ndarray], Any] | None = None

    def draw(self, rng: np.random.Generator, parameters: Parameters, n_steps: int) -> np.ndarray:
        """The random part of `n_steps` actions of one environment, ``(T, c, width)``: to be added to what the network
        gives. Gaussian, logistic and Gumbel noise; −∞ for choices that a component does not have."""
        space = self.components
        noise = np.zeros((n_steps, len(space), space.width), np.float32)
        for kind, those in space.of_kind.items():
            if kind in (BERNOULLI, CATEGORICAL):
                width = space.width if kind == CATEGORICAL else 2
                exponential = rng.standard_exponential((n_steps, len(those), width), np.float32)
                gumbel = -np.log(np.maximum(exponential, _TINY))
                if kind == CATEGORICAL:
                    has = np.arange(width) < space.choices[those, None]
                    noise[:, those] = np.where(has, gumbel, -np.inf)
                else:
                    noise[:, those, 0] = gumbel[..., 1] - gumbel[..., 0]
            else:
                deviation = np.exp(parameters.log_std[those])
                noise[:, those, 0] = deviation * rng.standard_normal((n_steps, len(those)), np.float32)
        if space.blocks is not None:
            for block, colour in zip(space.blocks, parameters.colour, strict=True):
                group = block[block < len(space)]
                noise[:, group, 0] = noise[:, group, 0] @ colour[: len(group), : len(group)].T
        return noise

    def playing(
        self, parameters: Parameters, first: int, noise: np.ndarray, given: list[np.ndarray] | None = None
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Actions ``(B, c)`` for observations ``(B, d)`` of environments `first`, `first` + 1, …, step after step; with
        the noise of each, ``(T, B, c, width)``. What the network gives is added to `given`, if it is wanted."""
        steps: Iterator[np.ndarray] = iter(noise)
        parameters = _ready(parameters)  # once, not in every step

        def act(obs: np.ndarray) -> np.ndarray:
            out = self._network(parameters, obs, first)
            if given is not None:
                given.append(out)
            return self.choose(out + next(steps))

        return act

    def log_prob(self, parameters: Parameters, out: np.ndarray, action: np.ndarray) -> np.ndarray:
        """log π of every component, ``(..., c)``, for what the network gave, ``(..., c, width)``."""
        space, first = self.components, out[..., 0]
        left = action - first
        if space.blocks is not None:
            for block, colour in zip(space.blocks, parameters.colour, strict=True):
                group = block[block < len(space)]
                left[..., group] = left[..., group] @ np.linalg.inv(colour[: len(group), : len(group)]).T
        found = np.empty(action.shape, np.float32)
        for kind, those in space.of_kind.items():
            a, x = action[..., those], first[..., those]
            if kind == BERNOULLI:
                found[..., those] = -_softplus(np.where(a > 0.5, -x, x))
            elif kind == CATEGORICAL:
                has = np.arange(space.width) < space.choices[those, None]
                logits = np.where(has, out[..., those, :], -np.inf)
                chosen = np.take_along_axis(logits, a[..., None].astype(np.int64), axis=-1)[..., 0]
                found[..., those] = chosen - np.logaddexp.reduce(logits, axis=-1)
            else:
                log_std = parameters.log_std[those]
                found[..., those] = -0.5 * (left[..., those] * np.exp(-log_std)) ** 2 - log_std - _HALF_LOG_2PI
                if kind == SQUASHED:  # log of the derivative of tanh
                    found[..., those] -= 2 * (_LOG_2 - a - _softplus(-2 * a))
        return found

    def choose(self, drawn: np.ndarray) -> np.ndarray:
        """Actions ``(..., c)`` from what the network gives plus noise, ``(..., c, width)``."""
        kinds = self.components.of_kind
        if len(kinds) == 1:
            return _pick(next(iter(kinds)), drawn)
        actions = np.empty(drawn.shape[:-1], np.float32)
        for kind, those in kinds.items():
            actions[..., those] = _pick(kind, drawn[..., those, :])
        return actions

    def network(self, parameters: Parameters, obs: np.ndarray, first: int = 0) -> np.ndarray:
        """The parameters of all components' distributions, ``(B, c, width)``, for raw observations ``(B, d)``."""
        return self._network(_ready(parameters), obs, first)

    def _network(self, p: Parameters, obs: np.ndarray, first: int) -> np.ndarray:
        space = self.components
        if p.centre is not None:
            obs = np.clip((obs - p.centre) / p.scale, -p.clip, p.clip)
        if self.kind == "joint":
            out = _untiled(_layers(p, _tiled(obs, first)), first, len(obs))
            return out.reshape(len(obs), len(space), space.width)
        seen = self.see(obs)
        if self.kind == "shared":  # every row is a product of its own already
            return _layers(p, seen)
        by_component = np.swapaxes(_tiled(seen, first), 1, 2)  # (tiles, c, TILE, l)
        return _untiled(np.swapaxes(_layers(p, by_component), 1, 2), first, len(obs))

    def see(self, obs: np.ndarray) -> np.ndarray:
        """What every component sees, ``(B, c, l)``."""
        if self.local is None:
            return np.broadcast_to(obs[:, None], (len(obs), len(self.components), obs.shape[-1]))
        seen = np.asarray(self.local(obs), np.float32)
        return seen if self.factors is None else seen[:, self.factors]


def _ready(p: Parameters) -> Parameters:
    """The same with biases that can be added to rows, and with what tells a shared network which component it acts for
    as a bias of its first layer, ``(c, h)``."""
    if p.identity is None:
        pairs = zip(p.weights, p.biases, strict=True)
        return p._replace(biases=tuple(b if w.ndim == 2 else b[:, None, :] for w, b in pairs))
    w, size = p.weights[0], len(p.weights[0]) - p.identity.shape[1]
    bias = p.biases[0] + p.identity @ w[size:]
    return p._replace(weights=(w[:size], *p.weights[1:]), biases=(bias, *p.biases[1:]), identity=None)


def _layers(p: Parameters, x: np.ndarray) -> np.ndarray:
    last = len(p.weights) - 1
    for i, w in enumerate(p.weights):
        x = x @ w
        x += p.biases[i]
        if i < last:
            np.tanh(x, out=x)
    return x


def _tiled(x: np.ndarray, first: int) -> np.ndarray:
    """Rows ``(B, ...)`` of environments `first`, … at their places in whole tiles, ``(tiles, TILE, ...)``."""
    before = first % TILE
    if before == 0 and len(x) % TILE == 0:
        return x.reshape(-1, TILE, *x.shape[1:])
    tiles = -(-(before + len(x)) // TILE)
    padded = np.zeros((tiles * TILE, *x.shape[1:]), np.float32)
    padded[before : before + len(x)] = x
    return padded.reshape(tiles, TILE, *x.shape[1:])


def _untiled(x: np.ndarray, first: int, size: int) -> np.ndarray:
    before = first % TILE
    return x.reshape(-1, *x.shape[2:])[before : before + size]


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, np.float32(0))


def _pick(kind: str, drawn: np.ndarray) -> np.ndarray:
    if kind == CATEGORICAL:
        return drawn.argmax(axis=-1).astype(np.float32)
    first = drawn[..., 0]
    return (first > 0).astype(np.float32) if kind == BERNOULLI else first
