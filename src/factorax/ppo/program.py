"""`Program`: a learner on this machine, which compiles the learner's functions."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from threading import Thread
from typing import Any, cast

import equinox as eqx
import jax
import numpy as np

from .._programs import OwnCompiled, OwnJit, compilation_settings, compile_untuned
from ..networks.jax_policy import JaxPolicy
from ..rollouts.in_jax import JaxCollector
from . import devices
from .config import Config
from .learner import Learner
from .metrics import Metrics
from .state import TrainState


def _one_by_one(init: Callable[[jax.Array], TrainState], seeds: jax.Array) -> TrainState:
    """Return the stacked states of several seeds. A loop, since a batch of QR decompositions is rounded differently."""
    rest: Any = None

    def one(seed: jax.Array) -> Any:
        nonlocal rest
        arrays, rest = eqx.partition(init(seed), eqx.is_array)
        return arrays

    return eqx.combine(jax.lax.map(one, seeds), rest)


class Program:
    """A learner on this machine: compilation, devices, memory checks and workers around its pure functions.

    Compiles once for all states of the same shapes; `Hyper` and the seed may differ. Each object compiles anew, so that
    a new model runs the code as it is now, and releases what it has compiled. `close` stops environments and workers.
    """

    def __init__(self, learner: Learner):
        # Nothing here may be reachable from the learner: JAX keeps functions of the learner with each compiled
        # function, and could then release neither. Hence the second collector.
        self.learner = learner
        self.collector = learner.new_collector()
        self._learn_from = OwnJit(learner.learn_from)
        self._init = OwnJit(learner.init)
        self._init_seeds = OwnJit(partial(_one_by_one, learner.init))
        self._updates: dict[int | None, Callable[[TrainState], Any]] = {}

    def init(self, seed: int) -> TrainState:
        """`Learner.init`; on a GPU as one program, since each of its hundred operations would be compiled there."""
        learner = self.learner
        if not self.collector.traced or not devices.saves_launches(learner.config, learner.devices):
            return learner.init(seed)
        return self._init(jax.device_put(np.uint32(seed)))

    def init_seeds(self, seeds: Sequence[int], *, prepare: bool = False) -> TrainState | None:
        """Return stacked states of several seeds, each as `init` returns it; on a GPU only, as one program.

        With `prepare`, `update_seeds` is traced while that program is compiled, and compiled in the background.
        """
        learner = self.learner
        if not self.collector.traced or not devices.saves_launches(learner.config, learner.devices):
            return None
        init, numbers = self._init_seeds, jax.device_put(np.array(seeds, np.uint32))
        with ThreadPoolExecutor(1) as thread:
            compiled = thread.submit(compile_untuned, init.lower(numbers))
            # Shapes have no device: they are compiled for the default one of JAX.
            if prepare and learner.config.device == "auto" and getattr(jax.config, "jax_default_device", None) is None:
                self._compiled_update(init.shapes(numbers), len(seeds))
            return OwnCompiled(compiled.result())(numbers)

    def update(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """Collect a rollout and learn from it."""
        state = devices.place(self.learner.devices, state, self.learner.config)
        if self.collector.traced:
            return self._compiled_update(state, None)(state)
        environments, key, transitions = self.collector.collect(
            self.learner.behaviour(state), state.environments, state.key
        )
        new, metrics = self._learn_from(state._replace(environments=environments, key=key), transitions)
        return new, metrics | self.collector.metrics()

    def update_seeds(self, states: TrainState) -> tuple[TrainState, Metrics]:
        """Update several states of a JAX problem, stacked along a first axis, in one program."""
        states = devices.place(self.learner.devices, states, self.learner.config, lead=1)
        return self._compiled_update(states, len(states.timesteps))(states)

    def _compiled_update(self, state: TrainState, seeds: int | None) -> Callable[[TrainState], Any]:
        """Return the compiled update of one state, or of several seeds."""
        update = self._updates.get(seeds)
        # If a program could not be compiled, try again: memory may have been freed since.
        if update is None or (isinstance(update, UpdateInParts) and update.failed):
            update = self._updates[seeds] = self._new_update(state, seeds)
        return update

    def prepare_evaluation(self, state: TrainState, episodes: int) -> None:
        """Compile the evaluation of a JAX problem in the background; does nothing on a CPU, which is busy with
        training."""
        if devices.saves_launches(self.learner.config, self.learner.devices):
            prepare = cast(JaxCollector, self.collector).prepare_episodes
            Thread(target=prepare, args=(self.learner.behaviour(state), episodes)).start()

    def _new_update(self, state: TrainState, seeds: int | None) -> Callable[[TrainState], Any]:
        """Compile the update of one state, or of several seeds; two programs compile in the background."""
        learner = self.learner
        if devices.saves_launches(learner.config, learner.devices):
            functions = learner.collect, learner.learn_from_traced
            # Products of our own layers take little of a rollout; convolutions of a user's module may not.
            tuned = isinstance(learner.worker_policy, JaxPolicy)
            return UpdateInParts(*functions, state, learner.config, seeds, tuned=tuned)
        parts = cast(JaxCollector, self.collector).parts
        if seeds is None and learner.devices is None and parts > 1:
            functions = partial(collect_part, learner, parts), partial(learn_from_parts, learner)
            return UpdateInParts(*functions, state, learner.config, None, parts)
        update = learner.update if seeds is None else eqx.filter_vmap(learner.update)
        return devices.compiled(update, state, learner.config, learner.devices, seeds=seeds)

    def compiled_act(self, state: TrainState, deterministic: bool = False) -> Callable[..., Any]:
        """Return the compiled `Learner.act`: maps the data of a key and raw observations ``(B, d)`` to flat actions.

        For a recurrent policy it also takes and returns the memory ``(B, h)``.
        """
        state = devices.place(self.learner.devices, state, self.learner.config)
        return self.collector.compiled_act(self.learner.behaviour(state), deterministic)

    def close(self) -> None:
        """Stop environments and workers; they are restarted when needed."""
        self.collector.close()


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
