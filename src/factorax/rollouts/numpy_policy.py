"""The policy in NumPy, with which rollout workers choose actions; its parameters are plain arrays.

It has the same distribution as the learner's policy, up to rounding. The action of an environment depends only on its
index, its observation and its random numbers, bit for bit: not on which other environments are stepped with it, and
therefore not on how environments are distributed over workers. Rows are multiplied in tiles of a fixed size, because
BLAS rounds a row differently in batches of different sizes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..distributions import Spread
from ..distributions.covariance import inverses
from ..observations import ObservationSpace
from ..spaces import ActionMask, ActionSpace

TILE = 8
"""Number of rows of each matrix product. BLAS chooses the order of additions by the number of rows, so the same row may
differ in the last bit between batches of different sizes. With a fixed number of rows, results are bit-identical for
any number of workers."""


class PolicyArrays(NamedTuple):
    """The parameters of a policy as NumPy arrays."""

    kernels: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    """Kernels and biases of each layer, ``(i, o)`` and ``(o,)``; independent policies have an axis of components
    first."""
    identity: np.ndarray | None
    """Features that tell a shared network for which component it acts, ``(c, k)``."""
    log_std: np.ndarray
    """log σ of Gaussian components, ``(c,)``."""
    colour: np.ndarray
    """(I − W)⁻¹ of each factor with a covariance, ``(f, g, g)``."""
    centre: np.ndarray | None = None
    scale: np.ndarray | None = None
    """Mean and standard deviation of observations, ``(d,)``, if they are normalised."""
    clip: float = 10.0


@dataclass(frozen=True, eq=False)
class NumpyPolicy:
    """A policy network and the distribution of its actions."""

    space: ActionSpace
    kind: Literal["joint", "shared", "independent"]
    factors: np.ndarray | None = None
    """The factor of each component, ``(c,)``; None if each component is a factor."""
    local: Callable[[np.ndarray], Any] | None = None
    """Maps observations ``(B, d)`` to local observations of the factors or components, ``(B, n or c, l)``; None if all
    observe everything. A method ``writer(out)``, or ``choice_writer(out)`` for `by_choice`, may return a function
    that writes them to an array instead."""
    observations: ObservationSpace | None = None
    """The encoding of rows of observations for the network; None if the network receives the rows."""
    activation: Literal["tanh", "relu"] = "tanh"
    mask: ActionMask | None = None
    by_choice: bool = False
    """Whether the network scores each choice separately, from equal parts of the component's observation."""
    memory: ClassVar[int] = 0
    """Size of the memory: these networks are not recurrent."""

    def draw(self, rng: np.random.Generator, arrays: PolicyArrays, n_steps: int) -> np.ndarray:
        """Draw the random part of `n_steps` actions of one environment, ``(T, c, width)``."""
        return self.space.noise(rng, n_steps, arrays.log_std, arrays.colour)

    def playing(
        self, arrays: PolicyArrays, first: int, noise: np.ndarray, outputs: list[np.ndarray] | None = None
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function from observations ``(B, d)`` to raw actions ``(B, c)``, to be called once per step.

        - `first`: the index of the first environment; the others follow.
        - `noise`: the results of `draw` for each environment, ``(T, B, c, width)``.
        - `outputs`: a list to which the network's output of each step is appended.
        """
        steps: Iterator[np.ndarray] = iter(noise)
        network, choose = self.network(arrays, noise.shape[1], first), self.space.choose

        def act(obs: np.ndarray) -> np.ndarray:
            output = network(obs)
            if outputs is not None:
                outputs.append(output)
            return choose(output, next(steps))

        return act

    def log_prob(self, arrays: PolicyArrays, outputs: np.ndarray, action: np.ndarray) -> np.ndarray:
        """Return log π of each component, ``(..., c)``, for the network's outputs ``(..., c, width)``."""
        return log_prob_of_outputs(self.space, arrays, outputs, action)

    def network(self, arrays: PolicyArrays, n_envs: int, first: int = 0) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function from raw observations ``(B, d)`` of environments `first`, … to the distribution parameters
        of all components, ``(B, c, width)``."""
        shape = n_envs, len(self.space), self.space.width
        outputs = (n_envs, shape[1] * shape[2], 1) if self.by_choice else shape
        layers = _Layers(arrays=arrays, kind=self.kind, shape=outputs, first=first, activation=self.activation)
        see = self.see if self.kind != "joint" else self.encode if self.observations is not None else None
        centre, scale, clip = arrays.centre, arrays.scale, arrays.clip
        measured = None if self.observations is None else self.observations.measured
        write = self._writer(layers.inputs.reshape(*shape, -1) if self.by_choice else layers.inputs)

        def network(obs: np.ndarray) -> np.ndarray:
            if centre is not None:
                normalised = np.clip((obs - centre) / scale, -clip, clip)
                obs = normalised if measured is None else np.where(measured, normalised, obs)
            if write is not None:
                write(obs)
                return layers.forward().reshape(shape)
            inputs = obs if see is None else see(obs)
            if not self.by_choice:
                return layers(inputs)
            return layers(inputs.reshape(*outputs[:2], -1)).reshape(shape)

        if self.mask is None:
            return network
        return lambda obs: self.mask.applied(network(obs), obs, np)  # pyright: ignore[reportOptionalMemberAccess]

    def _writer(self, inputs: np.ndarray) -> Callable[[np.ndarray], None] | None:
        """Return the function by which `local` writes to the inputs of the network, if it has one.

        Inputs have the shape ``(B, c, l)``, or ``(B, c, width, l / width)`` with `by_choice`.
        """
        own_rows = self.factors is None or np.array_equal(self.factors, np.arange(len(self.space)))
        if self.kind == "joint" or self.observations is not None or not own_rows:
            return None
        writer = getattr(self.local, "choice_writer" if self.by_choice else "writer", None)
        return None if writer is None else writer(inputs)

    def see(self, obs: np.ndarray) -> np.ndarray:
        """Return the observation of each component, ``(B, c, l)``."""
        if self.local is None:
            obs = self.encode(obs)
            return np.broadcast_to(obs[:, None], (len(obs), len(self.space), obs.shape[-1]))
        local = np.asarray(self.local(obs if self.observations is None else self.observations.structured(obs, np)))
        local = local.astype(np.float32, copy=False)
        per_component = self.factors is None or local.shape[1] != self.factors.max() + 1  # one row per component
        return local if per_component else local[:, self.factors]

    def encode(self, obs: np.ndarray) -> np.ndarray:
        """Return observations ``(B, d)`` as the input vectors of the network."""
        return obs if self.observations is None else self.observations.encoded(obs, np)


def log_prob_of_outputs(space: ActionSpace, arrays: Any, outputs: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Return log π of each component, ``(..., c)``, for a network's outputs ``(..., c, width)``."""
    whiten = None if space.blocks is None else inverses(space.blocks, arrays.colour, len(space))
    return space.log_prob(outputs, Spread(arrays.log_std, None), action, whiten=whiten)


class _Layers:
    """The layers of a network with activations between them, and buffers for their inputs and outputs.

    Each step uses as few NumPy calls as possible: biases are the last row of the kernels, and inputs end in a one.
    """

    def __init__(
        self, arrays: PolicyArrays, kind: str, shape: tuple[int, int, int], first: int, activation: str = "tanh"
    ):
        """Create the layers for environments `first`, `first` + 1, … and outputs of shape ``(B, c, width)``.

        A shared network has one matrix product per environment, with the features of components among its inputs; the
        others have one product per tile of environments.
        """
        n_envs, c, _ = self.shape = shape
        self.activation: Callable[..., np.ndarray] = np.tanh if activation == "tanh" else _relu
        before, kernels, biases = first % TILE, arrays.kernels, [bias[..., None, :] for bias in arrays.biases]
        tiles, self.rows = -(-(before + n_envs) // TILE), slice(before, before + n_envs)
        leading = tiles, TILE
        if kind == "shared":
            leading, self.rows = (n_envs, c), None
        elif kind == "independent":
            leading = c, tiles, TILE
            kernels, biases = [kernel[:, None] for kernel in kernels], [bias[:, None] for bias in biases]
        buffers = [np.zeros((*leading, kernel.shape[-2] + 1), np.float32) for kernel in kernels]
        for buffer in buffers:
            buffer[..., -1] = 1
        inputs = buffers[0][..., :-1]
        if arrays.identity is not None:
            size = inputs.shape[-1] - arrays.identity.shape[1]
            inputs[..., size:] = arrays.identity
            inputs = inputs[..., :size]
        self.inputs = self._of_environments(inputs)
        matrices = [np.concatenate(pair, axis=-2) for pair in zip(kernels, biases, strict=True)]
        self.product: Callable[..., np.ndarray] = np.matmul
        if matrices[0].ndim == 2 and leading[0] == 1:  # the same product with less NumPy overhead
            self.product, buffers = np.dot, [buffer[0] for buffer in buffers]
        following = [buffer[..., :-1] for buffer in buffers[1:]]
        products = [self.product(*pair) for pair in zip(buffers, matrices, strict=True)]
        self.hidden = list(zip(buffers, matrices, products, following, strict=False))
        self.last = buffers[-1], matrices[-1]

    def _of_environments(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows of these environments within their tiles, ``(B, ...)``, as a view."""
        if self.rows is None:
            return rows
        if rows.ndim == 3:
            return rows.reshape(-1, rows.shape[-1])[self.rows]
        return rows.reshape(len(rows), -1, rows.shape[-1])[:, self.rows].swapaxes(0, 1)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.inputs[:] = x
        return self.forward()

    def forward(self) -> np.ndarray:
        """Return the outputs ``(B, c, width)`` for the current contents of `inputs`."""
        product, activation = self.product, self.activation
        for buffer, matrix, out, following in self.hidden:
            activation(product(buffer, matrix, out), following)
        out = product(*self.last)
        if self.rows is not None:
            out = self._of_environments(out[None] if self.product is np.dot else out)
        return out.reshape(self.shape)


def _relu(x: np.ndarray, out: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0, out)
