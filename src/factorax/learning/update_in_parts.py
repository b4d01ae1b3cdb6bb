"""An update as two programs, the rollout and the learning, and a rollout that several threads collect."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, cast

import equinox as eqx
import jax
import numpy as np

from .._programs import OwnCompiled, OwnJit, compilation_settings, compile_untuned
from ..rollouts.in_jax import JaxCollector
from . import devices
from .config import Config
from .learner import Learner
from .metrics import Metrics
from .state import TrainState


class UpdateInParts:
    """An update as two programs that are compiled at the same time, in the background: the rollout, and the learning.

    XLA compiles one program mostly in one thread, and takes as long for the lane simulator as for ten epochs. The
    second program is traced while the first is compiled. A call waits for both.

    On a CPU, a rollout may have several parts: ``collect(state, i)`` returns part i, and ``learn`` receives the state
    and all parts. Several threads call it, because XLA runs the calls of one thread one after another.
    """

    def __init__(
        self,
        collect: Callable[..., Any],
        learn: Callable[..., Any],
        state: TrainState,
        config: Config,
        seeds: int | None,
        parts: int = 1,
        *,
        tuned: bool = True,
    ):
        """Trace both and start compiling, for states like this one, of arrays or shapes; as in `compiled`.

        - `tuned`: whether XLA times variants of the matrix products of the rollout on a GPU (`compile_untuned`).
        """
        over: Any = (lambda function: function) if seeds is None else eqx.filter_vmap
        first, second = OwnJit(over(collect)), OwnJit(over(learn))
        self._numbers = [jax.device_put(np.int32(i)) for i in range(parts)] if parts > 1 else []
        number = self._numbers[:1]
        threads = ThreadPoolExecutor(2)
        rollout = first.lower(state, *number)
        self._rollout = threads.submit(rollout.compile) if tuned else threads.submit(compile_untuned, rollout)
        collected = first.shapes(state, *number)
        received = (state, [collected] * parts) if number else collected
        self._learning = threads.submit(second.lower(*received).compile)
        threads.shutdown(wait=False)
        self._threads = ThreadPoolExecutor(parts)
        self._config, self._seeds = config, seeds

    @property
    def failed(self) -> bool:
        """Whether a program could not be compiled, so that calls raise the error."""
        return any(each.done() and each.exception() is not None for each in (self._rollout, self._learning))

    @cached_property
    def _programs(self) -> tuple[OwnCompiled, OwnCompiled]:
        rollout, learning = self._rollout.result(), self._learning.result()
        devices.check_program(learning, self._config, self._seeds)
        return OwnCompiled(rollout), OwnCompiled(learning)

    def __call__(self, state: TrainState) -> Any:
        """Return the new state and the metrics."""
        rollout, learning = self._programs
        if not self._numbers:
            return learning(*rollout(state))
        # Settings of JAX within a `with` statement, such as `jax.debug_nans`, are those of this thread alone.
        same = self._threads.submit(compilation_settings).result() == compilation_settings()
        over = self._threads.map if same else map

        def collect(number: jax.Array) -> Any:
            # XLA gives the learning one core instead of two if it is called before its arguments exist.
            return jax.block_until_ready(rollout(state, number))

        return learning(state, list(over(collect, self._numbers)))


def collect_part(learner: Learner, parts: int, state: TrainState, number: jax.Array) -> tuple[Any, jax.Array, Any]:
    """Return one of several parts of a rollout of a JAX problem, as `JaxCollector.collect_part`. A pure function."""
    collector = cast(JaxCollector, learner.collector)
    return collector.collect_part(learner.behaviour(state), state.environments, state.key, number, parts)


def learn_from_parts(learner: Learner, state: TrainState, parts: Sequence[Any]) -> tuple[TrainState, Metrics]:
    """`Learner.learn_from_traced`, given all parts of a rollout."""
    environments, key, transitions = JaxCollector.joined(parts)
    return learner.learn_from_traced(state._replace(environments=environments, key=key), transitions)
