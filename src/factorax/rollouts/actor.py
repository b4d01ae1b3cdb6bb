"""The policy in NumPy: what workers choose actions with, from parameters that are plain arrays.

It has the distribution of the learner's policy, to rounding. What an environment is given depends on its own number,
observation and random numbers alone, to the last bit: not on the environments beside it, so not on how they are spread
over workers. BLAS rounds a row otherwise in a batch of another size, so rows are multiplied in tiles of a fixed one.
"""

from collections.abc import Callable, Iterator, Sequence
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
        layers = _Layers.of(p, self.kind, (n_envs, len(self.components), self.components.width), first)
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
    begins as few operations as can be. Biases are the last rows of the weights, and inputs end in ones."""

    @classmethod
    def of(cls, p: Parameters, kind: str, shape: tuple[int, int, int], first: int) -> "_Layers":
        """For rows of environments `first`, … that give an array of this shape, ``(B, c, width)``.

        A shared network has a product for every environment, with what tells it of components as a bias of each row;
        the others have one for every tile of environments.
        """
        weights, biases = p.weights, p.biases
        n_envs, c, _ = shape
        if kind == "shared":
            rest = [b[None] for b in biases[1:]]
            if p.identity is None:
                return cls(weights, [biases[0][None], *rest], (n_envs, c), shape, None)
            size = len(weights[0]) - p.identity.shape[1]
            each = biases[0] + p.identity @ weights[0][size:]
            return cls((weights[0][:size], *weights[1:]), [each, *rest], (n_envs, c), shape, None)
        before = first % TILE
        tiles, those = -(-(before + n_envs) // TILE), slice(before, before + n_envs)
        if kind == "joint":
            return cls(weights, [b[None] for b in biases], (tiles, TILE), shape, those)
        weights, biases = [w[:, None] for w in weights], [b[:, None, None] for b in biases]
        return cls(weights, biases, (c, tiles, TILE), shape, those)

    def __init__(
        self,
        weights: Sequence[np.ndarray],
        biases: Sequence[np.ndarray],
        rows: tuple[int, ...],
        shape: tuple[int, int, int],
        those: slice | None,
    ):
        self.shape, self.those = shape, those
        rooms = []
        for w, b in zip(weights, biases, strict=True):
            size, ones = w.shape[-2], b.shape[-2]
            rooms.append(np.zeros((*rows, size + ones), np.float32))
            rooms[-1][..., size:] = np.eye(ones) if ones > 1 else 1
        self.into = self._of_environments(rooms[0][..., : weights[0].shape[-2]])
        whole = [np.concatenate(pair, axis=-2) for pair in zip(weights, biases, strict=True)]
        if whole[0].ndim == 2 and rows[0] == 1:  # the same products, which NumPy begins sooner
            self.product, rooms = np.dot, [room[0] for room in rooms]
        else:
            self.product = np.matmul
        views = [room[..., : w.shape[-2]] for room, w in zip(rooms, weights, strict=True)]
        self.hidden = list(zip(rooms, whole, views[1:], strict=False))
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
