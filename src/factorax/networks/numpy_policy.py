"""The policy in NumPy, with which rollout workers choose actions; its parameters are plain arrays.

It has the same distribution as the learner's policy, up to rounding. The action of an environment depends only on its
index, its observation and its random numbers, bit for bit: not on which other environments are stepped with it, and
therefore not on how environments are distributed over workers. Rows are multiplied in tiles of a fixed size, because
BLAS rounds a row differently in batches of different sizes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..distributions import Spread
from ..observations import ObservationSpace
from ..spaces import ActionMask, ActionSpace

TILE = 8
"""Number of rows of each matrix product. BLAS chooses the order of additions by the number of rows, so the same row may
differ in the last bit between batches of different sizes. With a fixed number of rows, results are bit-identical for
any number of workers."""


class PolicyArrays(NamedTuple):
    """The parameters of a policy as NumPy arrays."""

    log_std: np.ndarray
    """log σ of Gaussian components, ``(c,)``."""
    mixing: np.ndarray
    """W of each factor with a covariance, ``(f, g, g)``."""
    kernels: tuple[np.ndarray, ...] = ()
    biases: tuple[np.ndarray, ...] = ()
    """Kernels and biases of each layer, ``(i, o)`` and ``(o,)``; independent policies have an axis of components
    first."""
    identity: np.ndarray | None = None
    """Features that tell a shared network for which component it acts, ``(c, k)``."""
    leaves: tuple[np.ndarray, ...] = ()
    """Instead of layers, all arrays of a policy that is evaluated with JAX."""
    centre: np.ndarray | None = None
    scale: np.ndarray | None = None
    """Mean and standard deviation of observations, ``(d,)``, if they are normalised."""


class WorkerPolicy:
    """What the policies that workers evaluate have in common: observations, and the distribution of actions."""

    space: ActionSpace
    factors: np.ndarray | None
    local: Callable[[np.ndarray], Any] | None
    observations: ObservationSpace | None

    def draw(self, rng: np.random.Generator, arrays: Any, n_steps: int) -> np.ndarray:
        """Draw the random part of `n_steps` actions of one environment, ``(T, c, width)``."""
        return self.space.noise(rng, n_steps, arrays.log_std, arrays.mixing)

    def log_prob(self, arrays: Any, outputs: np.ndarray, action: np.ndarray) -> np.ndarray:
        """Return log π of each component, ``(..., c)``, for the network's outputs ``(..., c, width)``."""
        return self.space.log_prob(outputs, Spread(arrays.log_std, arrays.mixing), action)

    def normalised(self, obs: Any, centre: Any, scale: Any, xp: Any) -> Any:
        """Return rows of observations ``(B, d)`` with the columns that are quantities normalised and clipped to ±10."""
        # ±10 is `clip_obs` of VecNormalize in Stable-Baselines3.
        normalised = xp.clip((obs - centre) / scale, -10.0, 10.0)
        measured = None if self.observations is None else self.observations.measured
        return normalised if measured is None else xp.where(measured, normalised, obs)

    def local_of(self, obs: Any, xp: Any) -> Any:
        """Return the local observation of each component, ``(B, c, l)``."""
        plain = self.observations is None or self.observations.is_plain
        local = self.local(obs if plain else self.observations.structured(obs, xp))  # type: ignore[misc, union-attr]
        local = xp.asarray(local, dtype=np.float32)
        per_component = self.factors is None or local.shape[1] != self.factors.max() + 1  # one row per component
        return local if per_component else local[:, self.factors]


@dataclass(frozen=True, eq=False)
class NumpyPolicy(WorkerPolicy):
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

    def playing(
        self, arrays: PolicyArrays, first: int, noise: np.ndarray, outputs: list[np.ndarray] | None = None
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function from observations ``(B, d)`` to raw actions ``(B, c)``, to be called once per step.

        - `first`: the index of the first environment; the others follow.
        - `noise`: the results of `draw` for each environment, ``(T, B, c, width)``.
        - `outputs`: a list to which the network's output of each step is appended.
        """
        network, choose = self.network(arrays, noise.shape[1], first), self.space.choose
        # NumPy's fastest loops are for arrays with one axis: a single environment has no axis of its own.
        alone = noise.shape[1] == 1
        steps: Iterator[np.ndarray] = iter(noise[:, 0] if alone else noise)

        def act(obs: np.ndarray) -> np.ndarray:
            output = network(obs)
            if outputs is not None:
                # The next step overwrites the array.
                outputs.append(output.copy())
            return choose(output[0], next(steps))[None] if alone else choose(output, next(steps))

        return act

    def network(self, arrays: PolicyArrays, n_envs: int, first: int = 0) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function from raw observations ``(B, d)`` of environments `first`, … to the distribution parameters
        of all components, ``(B, c, width)``, in an array that the next call may overwrite."""
        shape = n_envs, len(self.space), self.space.width
        outputs = (n_envs, shape[1] * shape[2], 1) if self.by_choice else shape
        layers = _Layers(arrays=arrays, kind=self.kind, shape=outputs, first=first, activation=self.activation)
        prepare = self.inputs if self.kind != "joint" else self._encoded
        centre, scale = arrays.centre, arrays.scale
        inputs, forward = layers.inputs, layers.forward
        write = self._writer(inputs.reshape(*shape, -1) if self.by_choice else inputs)
        parameters = layers.outputs.reshape(shape)

        def network(obs: np.ndarray) -> np.ndarray:
            if centre is not None:
                obs = self.normalised(obs, centre, scale, np)
            if write is not None:
                write(obs)
            else:
                rows = prepare(obs)
                inputs[...] = rows.reshape(*outputs[:2], -1) if self.by_choice else rows
            forward()
            return parameters

        if self.mask is None:
            return network
        return lambda obs: self.mask.applied(network(obs), obs, np)  # pyright: ignore[reportOptionalMemberAccess]

    def _writer(self, inputs: np.ndarray) -> Callable[[np.ndarray], None] | None:
        """Return the function by which `local` writes to the inputs of the network, if it has one.

        Inputs have the shape ``(B, c, l)``, or ``(B, c, width, l / width)`` with `by_choice`.
        """
        row_per_component = self.factors is None or np.array_equal(self.factors, np.arange(len(self.space)))
        if self.kind == "joint" or self.observations is not None or not row_per_component:
            return None
        writer = getattr(self.local, "choice_writer" if self.by_choice else "writer", None)
        return None if writer is None else writer(inputs)

    def inputs(self, obs: np.ndarray) -> np.ndarray:
        """Return the observation of each component, ``(B, c, l)``: its local observation, or the full one."""
        if self.local is not None:
            return self.local_of(obs, np)
        obs = self._encoded(obs)
        return np.broadcast_to(obs[:, None], (len(obs), len(self.space), obs.shape[-1]))

    def _encoded(self, obs: np.ndarray) -> np.ndarray:
        return obs if self.observations is None else self.observations.encoded(obs, np)


class _Layers:
    """The layers of a network with activations between them, and buffers for their inputs and outputs.

    Each step uses as few NumPy calls as possible, on contiguous arrays: biases are the last row of the kernels, and
    inputs end in a one, which every hidden layer passes on to the next.
    """

    def __init__(
        self, arrays: PolicyArrays, kind: str, shape: tuple[int, int, int], first: int, activation: str = "tanh"
    ):
        """Create the layers for environments `first`, `first` + 1, … and outputs of shape ``(B, c, width)``.

        A shared network has one matrix product per environment, with the features of components among its inputs; the
        others have one product per tile of environments.
        """
        n_envs, c, _ = shape
        before, kernels, biases = first % TILE, arrays.kernels, [bias[..., None, :] for bias in arrays.biases]
        tiles, self._rows = -(-(before + n_envs) // TILE), slice(before, before + n_envs)
        leading = tiles, TILE
        if kind == "shared":
            # The c components of an environment are always multiplied together, so they need no tile.
            leading, self._rows = (n_envs, c), None
        elif kind == "independent":
            leading = c, tiles, TILE
            kernels, biases = [kernel[:, None] for kernel in kernels], [bias[:, None] for bias in biases]
        n_outputs = kernels[-1].shape[-1]
        # In single precision, which their biases do not have where JAX computes in double precision.
        matrices = [np.concatenate(pair, axis=-2, dtype=np.float32) for pair in zip(kernels, biases, strict=True)]
        matrices[:-1] = [_passing_one_on(matrix, _BECOMES_ONE[activation]) for matrix in matrices[:-1]]
        if n_outputs == 1:  # BLAS multiplies by a single column with another function, which would not be in the caches
            matrices[-1] = np.concatenate([matrices[-1], np.zeros_like(matrices[-1])], axis=-1)
        buffers = [np.zeros((*leading, matrix.shape[-2]), np.float32) for matrix in matrices]
        products = [np.zeros((*leading, matrix.shape[-1]), np.float32) for matrix in matrices]
        buffers[0][..., -1] = 1
        inputs = buffers[0][..., :-1]
        if arrays.identity is not None:
            size = inputs.shape[-1] - arrays.identity.shape[1]
            # Written once: embeddings do not change during a fragment.
            inputs[..., size:] = arrays.identity
            inputs = inputs[..., :size]
        self.inputs = self._of_environments(inputs)
        """Inputs of the first layer, ``(B, d)`` or ``(B, c, l)``, to be written before `forward`."""
        self.outputs = self._of_environments(products[-1])[..., :n_outputs].reshape(shape)
        """Results ``(B, c, width)`` of the last call of `forward`."""
        layers = list(zip(buffers, matrices, products, strict=True))
        if leading[0] == 1 and matrices[0].ndim == 2:  # the same product with less NumPy overhead
            times = [partial(buffer[0].dot, matrix, out[0]) for buffer, matrix, out in layers]
        else:
            times = [partial(np.matmul, *layer) for layer in layers]
        self._activation: Callable[..., np.ndarray] = np.tanh if activation == "tanh" else _relu
        self._hidden, self._last = list(zip(times, products, buffers[1:], strict=False)), times[-1]

    def _of_environments(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows of these environments within their tiles, ``(B, ...)``, as a view."""
        if self._rows is None:
            return rows
        if rows.ndim == 3:
            return rows.reshape(-1, rows.shape[-1])[self._rows]
        return rows.reshape(len(rows), -1, rows.shape[-1])[:, self._rows].swapaxes(0, 1)

    def forward(self) -> None:
        """Compute `outputs` for the current contents of `inputs`."""
        activation = self._activation
        for multiply, product, following in self._hidden:
            multiply()
            activation(product, following)
        self._last()


_BECOMES_ONE = {"tanh": 20.0, "relu": 1.0}
"""A number that each activation maps to exactly 1 in single precision."""


def _passing_one_on(matrix: np.ndarray, becomes_one: float) -> np.ndarray:
    """Return a matrix ``(..., i + 1, o + 1)`` whose last output is `becomes_one` if the last input is 1."""
    wider = np.zeros((*matrix.shape[:-1], matrix.shape[-1] + 1), np.float32)
    wider[..., :-1], wider[..., -1, -1] = matrix, becomes_one
    return wider


def _relu(x: np.ndarray, out: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0, out=out)
