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
        network = self.network(parameters, noise.shape[1], first)

        def act(obs: np.ndarray) -> np.ndarray:
            out = network(obs)
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

    def network(self, p: Parameters, n_envs: int, first: int = 0) -> Callable[[np.ndarray], np.ndarray]:
        """From raw observations ``(B, d)`` of environments `first`, … to the parameters of all components'
        distributions, ``(B, c, width)``."""
        layers = _Layers(p, self.kind, (n_envs, len(self.components), self.components.width), first)
        sees = self.see if self.kind != "joint" else None

        def network(obs: np.ndarray) -> np.ndarray:
            if p.centre is not None:
                obs = np.clip((obs - p.centre) / p.scale, -p.clip, p.clip)
            return layers(obs if sees is None else sees(obs))

        return network

    def see(self, obs: np.ndarray) -> np.ndarray:
        """What every component sees, ``(B, c, l)``."""
        if self.local is None:
            return np.broadcast_to(obs[:, None], (len(obs), len(self.components), obs.shape[-1]))
        seen = np.asarray(self.local(obs), np.float32)
        return seen if self.factors is None else seen[:, self.factors]


class _Layers:
    """A network's layers, tanh between them, and room for what goes in and out of them: a step of the environments
    begins as few operations as can be. Biases are the last row of the weights, and inputs end in a one."""

    def __init__(self, p: Parameters, kind: str, shape: tuple[int, int, int], first: int):
        """For rows of environments `first`, … that give an array of this shape, ``(B, c, width)``.

        A shared network has a product for every environment, and what tells it of components in its inputs; the others
        have one for every tile of environments.
        """
        n_envs, c, _ = self.shape = shape
        before, weights, biases = first % TILE, p.weights, [b[..., None, :] for b in p.biases]
        tiles, self.those = -(-(before + n_envs) // TILE), slice(before, before + n_envs)
        rows = tiles, TILE
        if kind == "shared":
            rows, self.those = (n_envs, c), None
        elif kind == "independent":
            rows, weights, biases = (c, tiles, TILE), [w[:, None] for w in weights], [b[:, None] for b in biases]
        rooms = [np.zeros((*rows, w.shape[-2] + 1), np.float32) for w in weights]
        for room in rooms:
            room[..., -1] = 1
        inputs = rooms[0][..., :-1]
        if p.identity is not None:
            size = inputs.shape[-1] - p.identity.shape[1]
            inputs[..., size:] = p.identity
            inputs = inputs[..., :size]
        self.into = self._of_environments(inputs)
        whole = [np.concatenate(pair, axis=-2) for pair in zip(weights, biases, strict=True)]
        self.product: Callable[..., np.ndarray] = np.matmul
        if whole[0].ndim == 2 and rows[0] == 1:  # the same products, which NumPy begins sooner
            self.product, rooms = np.dot, [room[0] for room in rooms]
        self.hidden = [(room, w, to[..., :-1]) for room, w, to in zip(rooms, whole, rooms[1:], strict=False)]
        self.last = rooms[-1], whole[-1]

    def _of_environments(self, rows: np.ndarray) -> np.ndarray:
        """The rows of our environments in tiles, ``(B, ...)``, as a view; those of a shared network are."""
        if self.those is None:
            return rows
        if rows.ndim == 3:
            return rows.reshape(-1, rows.shape[-1])[self.those]
        return rows.reshape(len(rows), -1, rows.shape[-1])[:, self.those].swapaxes(0, 1)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.into[:] = x
        for room, weights, to in self.hidden:
            np.tanh(self.product(room, weights), to)
        out = self.product(*self.last)
        if self.those is not None:
            out = self._of_environments(out[None] if self.product is np.dot else out)
        return out.reshape(self.shape)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, np.float32(0))


def _pick(kind: str, drawn: np.ndarray) -> np.ndarray:
    if kind == CATEGORICAL:
        return drawn.argmax(axis=-1).astype(np.float32)
    first = drawn[..., 0]
    return first > 0 if kind == BERNOULLI else first
