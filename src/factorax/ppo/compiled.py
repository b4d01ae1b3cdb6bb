"""Compilation, devices and seeds: one program per model, which makes as many updates as take about half a second.

A learner's functions are pure, and `jax.jit` would do. This file adds what a long training on real machines needs:
programs that are released with the model, a check of the device's memory before training, several updates or several
seeds in one call, and the distribution of environments over devices. Programs are compiled anew for every model, so
that it runs the code as it is now; equal ones are found in JAX's cache on disk.
"""

import dataclasses
import os
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from .devices import available_memory, check_memory, device_mesh, local_devices, placed_samples, shardings
from .learner import Learner
from .state import TrainState

MAX_UPDATES = 64
"""Maximum number of updates in one call of a program."""
MAX_METRICS = 2**24
"""Maximum number of values of metrics in one call of a program."""


class Program:
    """A function compiled for arguments like these, of arrays or shapes; released with this object.

    Arguments may be any trees; what is not an array is part of the program.
    """

    def __init__(self, function: Callable[..., Any], *like: Any):
        arrays, rest = eqx.partition(like, lambda x: eqx.is_array(x) or isinstance(x, jax.ShapeDtypeStruct))
        results: list[Any] = []

        def run(arrays: Any) -> Any:
            out, other = eqx.partition(function(*eqx.combine(arrays, rest)), eqx.is_array)
            # What is not an array is known only here, while JAX traces, and a program cannot return it.
            results.append(other)
            return out

        self._lowered = jax.jit(run, compiler_options=_compiler_options()).lower(arrays)
        self._compiled: Any = None
        self.shapes = eqx.combine(self._lowered.out_info, results[0])
        """What the function returns, with shapes in place of arrays."""
        self._rest = results[0]

    def compile(self) -> Any:
        """Compile the program, once."""
        if self._compiled is None:
            self._compiled = self._lowered.compile()
        return self._compiled

    def __call__(self, *args: Any) -> Any:
        """Run the program."""
        return eqx.combine(self.compile()(eqx.filter(args, eqx.is_array)), self._rest)


@cache
def _compiler_options() -> dict[str, Any] | None:
    """Return the options for programs on a CPU: with level 3 of LLVM, XLA's default, an update takes 1.1 to 1.5 times
    as long to compile, and as long to run. None where XLA does not know the option, or the user has chosen one."""
    option: Any = {"xla_backend_optimization_level": 2}
    is_chosen = next(iter(option)) in os.environ.get("XLA_FLAGS", "")
    if is_chosen or jax.default_backend() != "cpu" or jax.config.read("jax_disable_most_optimizations"):
        return None
    try:
        jax.jit(lambda x: x).lower(jax.ShapeDtypeStruct((), "float32")).compile(compiler_options=option)
    except Exception:  # of different types in different versions
        return None
    return option


class Compiled:
    """The functions of a learner as programs on the devices of this machine.

    Nothing here may be reachable from the learner: JAX keeps functions of the learner with each program, and could then
    release neither. Hence the collector of its own.
    """

    def __init__(self, learner: Learner):
        mesh = device_mesh(learner.config) if learner.spec.is_jax else None
        self.mesh = mesh
        self.learner = learner if mesh is None else dataclasses.replace(learner, place=placed_samples(mesh))
        self.collector = learner.new_collector()
        self._programs: dict[Any, Program] = {}
        self.max_updates = 1
        """Maximum number of updates in one call, known once they have been compiled."""

    def _program(self, name: Any, function: Callable[..., Any], *like: Any) -> Program:
        if name not in self._programs:
            program = self._programs[name] = Program(function, *like)
            self._check_memory(program)
        return self._programs[name]

    def init(self, seed: int) -> TrainState:
        """Return the state before training, on its devices."""
        return self._placed(self.learner.init(seed))

    def init_seeds(self, seeds: Sequence[int]) -> TrainState:
        """Return the stacked states of several seeds, each as `init` returns it.

        Their updates are compiled at the same time, in another thread.
        """
        numbers = jax.device_put(np.array(seeds, np.uint32))
        init = Program(_one_by_one(self.learner.init), numbers)
        updates = Program(self._many(len(seeds)), init.shapes, jax.ShapeDtypeStruct((), np.int32))
        thread = threading.Thread(target=updates.compile)
        thread.start()
        states = init(numbers)
        thread.join()
        # Compiles again, and raises here, if compilation failed in the thread.
        self._check_memory(updates)
        self._programs["update", len(seeds)] = updates
        return self._placed(states, lead=1)

    def updates(self, state: TrainState, count: int = 1) -> tuple[TrainState, Any]:
        """Make up to `max_updates` updates of a JAX problem, for one state or several stacked ones.

        Returns the state, and the metrics of all updates, with an axis of `max_updates` in front: the first `count` are
        set. Neither is waited for.
        """
        seeds = len(state.timesteps) if state.timesteps.ndim else None
        state = self._placed(state, lead=state.timesteps.ndim)
        number = jax.device_put(np.int32(count))
        return self._program(("update", seeds), self._many(seeds), state, number)(state, number)

    def _many(self, seeds: int | None) -> Callable[[TrainState, jax.Array], Any]:
        """Return a function that makes a number of updates, at most `max_updates`."""
        update = self.learner.update if seeds is None else eqx.filter_vmap(self.learner.update)

        def many(state: TrainState, count: jax.Array) -> Any:
            shapes = eqx.filter_eval_shape(update, state)[1]
            like, names = ravel_pytree(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes))
            self.max_updates = min(MAX_UPDATES, max(1, MAX_METRICS // like.size))
            arrays, rest = eqx.partition(state, eqx.is_array)

            def one(i: jax.Array, carry: Any) -> Any:
                arrays, rows = carry
                new, metrics = update(eqx.combine(arrays, rest))
                # Placed as it came in, so that the next call moves nothing between devices.
                new = self._constrained(new, lead=0 if seeds is None else 1)
                # As one row: writing thirty metrics one by one takes as many kernels, which a GPU starts one by one.
                return eqx.filter(new, eqx.is_array), rows.at[i].set(ravel_pytree(metrics)[0])

            # A loop with a traced number of steps, so that one program serves a single update and many.
            rows = jnp.zeros((self.max_updates, like.size), like.dtype)
            arrays, rows = jax.lax.fori_loop(0, count, one, (arrays, rows))
            return eqx.combine(arrays, rest), jax.vmap(names)(rows)

        return many

    def learn_from(self, state: TrainState, transitions: Any) -> tuple[TrainState, Any]:
        """`Learner.learn_from`, compiled for transitions of these shapes."""
        state = self._placed(state)
        name = jax.tree.structure(transitions), tuple(np.shape(x) for x in jax.tree.leaves(transitions))
        return self._program(name, self.learner.learn_from, state, jax.device_put(transitions))(
            state, jax.device_put(transitions)
        )

    def act(self, state: TrainState, deterministic: bool = False) -> Callable[..., Any]:
        """Return the compiled `Learner.act`: maps the data of a key and raw observations ``(B, d)`` to flat actions.

        For a recurrent policy it also takes and returns the memory ``(B, h)``.
        """
        return self.collector.compiled_act(self.learner.behaviour(self._placed(state)), deterministic)

    def close(self) -> None:
        """Stop environments and workers; they are started again when needed."""
        self.collector.close()

    def _placed(self, state: TrainState, lead: int = 0) -> TrainState:
        """Return a state on its devices; `lead` is the number of axes before those of a single state."""
        c = self.learner.config
        if self.mesh is None:
            return state if c.device.name == "auto" else jax.device_put(state, local_devices(c)[0])
        arrays, rest = eqx.partition(state, eqx.is_array)
        return eqx.combine(jax.tree.map(jax.device_put, arrays, shardings(self.mesh, arrays, lead)), rest)

    def _constrained(self, state: TrainState, lead: int) -> TrainState:
        """Return a traced state on its devices."""
        if self.mesh is None:
            return state
        arrays, rest = eqx.partition(state, eqx.is_array)
        where = shardings(self.mesh, arrays, lead)
        return eqx.combine(jax.tree.map(jax.lax.with_sharding_constraint, arrays, where), rest)

    def _check_memory(self, program: Program) -> None:
        """Raise MemoryError if a program needs more memory than the device has."""
        c, sizes = self.learner.config, program.compile().memory_analysis()
        if sizes is None:  # not available on some backends
            return
        parts = sizes.argument_size_in_bytes, sizes.output_size_in_bytes, sizes.temp_size_in_bytes
        needed, free = sum(parts) - sizes.alias_size_in_bytes, available_memory(c)
        check_memory(needed, free, c)


def _one_by_one(init: Callable[[jax.Array], TrainState]) -> Callable[[jax.Array], TrainState]:
    """Return a function from seeds to stacked states."""

    def states(seeds: jax.Array) -> TrainState:
        rest: list[Any] = []

        def one(seed: jax.Array) -> Any:
            arrays, other = eqx.partition(init(seed), eqx.is_array)
            rest.append(other)
            return arrays

        # A loop, since a batch of QR decompositions is rounded otherwise, and a seed must not depend on the others.
        return eqx.combine(jax.lax.map(one, seeds), rest[0])

    return states
