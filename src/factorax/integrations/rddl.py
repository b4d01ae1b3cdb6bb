"""RDDL models as environments, with the influence network derived from the model."""

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from .._lazy import import_quietly
from .._text import counted, printable, some, warn
from ._rddl_dependencies import Dependencies
from ._rddl_influence import Influence, Reads, read_influence
from ._rddl_simulator import Constants, Streams
from ._rddl_terms import Terms


def influence(
    domain: Any,
    instance: Any = None,
    *,
    reads: Reads = "relevant",
    merge_constants: bool = False,
    python_functions: dict[str, Any] | None = None,
) -> Influence:
    """Return the influence networks of a model without creating an environment; arguments are as in `make`."""
    model = _model(domain, instance)
    with _naming(domain, instance):
        simulator = _import("pyRDDLGym.core.simulator").RDDLSimulator(model, python_functions=python_functions)
    with _naming(domain, instance, (RecursionError, KeyError)):
        dependencies = Dependencies(simulator)
        return read_influence(dependencies, Terms(dependencies, merge_constants=merge_constants), reads)


def named(text: str) -> "Callable[[], RDDLEnvironment]":
    """Return a function that creates the environment ``rddl:DOMAIN/INSTANCE``, given the text after the colon."""
    domain, _, instance = text.partition("/")
    return partial(make, domain, instance)


def make(
    domain: Any,
    instance: Any = None,
    *,
    time_left: bool = True,
    reads: Reads = "relevant",
    bounds: Mapping[str, tuple[Any, Any]] | None = None,
    merge_constants: bool = False,
    python_functions: dict[str, Any] | None = None,
) -> "RDDLEnvironment":
    """Return an environment from an RDDL model.

    **Arguments**

    - `domain`, `instance`: names in rddlrepository (``"UAV_ippc2023"``, ``"4"``), or paths of two files; or only a
      pyRDDLGym `RDDLLiftedModel`.
    - `time_left`: whether to append the remaining fraction of the horizon to the observation. The horizon is part of an
      RDDL problem: for an actor that observes it, the episode *terminates* there; otherwise it is *truncated*.
    - `reads`: which of the state variables that its targets depend on the actor of an action observes (`local`).
      ``"relevant"``: all of them. Any action that changes one of them then influences all targets of the actor, and the
      network has the corresponding edges. ``"uncoupled"``: only variables that cause no such edges, because they are
      changed only by actions that already influence all targets of the actor. The network is then that of the
      dynamics, but actors may observe little.
    - `bounds`: bounds of action fluents, such as ``{"release": (0, 10)}``, instead of those in the
      action-preconditions.
    - `merge_constants`: whether to merge all terms that non-fluents determine into one target (none if their sum is 0),
      instead of one target each.
    - `python_functions`: the functions that the model calls, by name. They must depend only on their arguments.
    """
    model, options = _model(domain, instance), {"objects_as_strings": False, "python_functions": python_functions}
    # pyRDDLGym warns that preconditions other than bounds are not enforced.
    with _naming(domain, instance), warnings.catch_warnings(action="ignore", category=UserWarning):
        simulation = _import("pyRDDLGym.core.env").RDDLEnv(model, None, vectorized=True, backend_kwargs=options)
    unknown = sorted(set(bounds or ()) - set(model.action_fluents))
    if unknown:
        raise ValueError(f"bounds: got {some(unknown)}, want action fluents: {some(sorted(model.action_fluents), 30)}")
    simulation._bounds.update(bounds or {})
    with _naming(domain, instance, (RecursionError, KeyError)):
        return RDDLEnvironment(simulation, time_left=time_left, reads=reads, merge_constants=merge_constants)


class RDDLEnvironment(gym.Env[np.ndarray, dict[str, Any]]):
    """An RDDL model with its reward split into terms.

    - **Observation**: a flat ``Box`` of 32-bit floats: the state fluents, or the observed fluents if the model has them
      (zeros after a reset); objects as their index. If requested, the last entry is the remaining fraction of the
      horizon.
    - **Action**: a ``Dict`` with an entry per action fluent: ``Box`` for reals, ``MultiBinary`` for booleans,
      ``MultiDiscrete`` for integers and objects, ``Discrete`` for those without parameters. If the model allows at most
      k concurrent actions (max-nondef-actions), the first k that are not the default are executed.
    - **Reward**: that of the model. Its terms are in ``info["vector_reward"]``: the summands of the reward, with one
      target per object that it sums over, named after the fluents that it reads: ``temp[?h=h1]``. `weights` are ones.
    - **End**: *terminated* by the model's termination condition, or by its horizon if the remaining time is observed;
      *truncated* by the horizon otherwise, or by a violated state invariant, after which the model is undefined.
    - **Random numbers**: each random variable of the model has its own stream, which depends only on the seed, the step
      and the object. Two episodes with one seed differ only by the effects of actions.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self, simulation: Any, *, time_left: bool = True, reads: Reads = "relevant", merge_constants: bool = False
    ):
        self.rddl, self.time_left = simulation, time_left
        simulator = simulation.sampler
        simulator.rng = np.random.default_rng()  # unseeded pyRDDLGym simulators share one generator
        # A method rather than a lambda: in a deep copy of the environment it tells the time of the copy.
        self._streams = Streams(simulator, self._timestep)
        Constants(simulator)  # after the streams, which also replace methods of the simulator
        dependencies = Dependencies(simulator)
        self._terms = simulator.sample_reward = Terms(dependencies, merge_constants=merge_constants)
        self.influence = read_influence(dependencies, self._terms, reads)
        self.network, self.one_step_network = self.influence.network, self.influence.one_step_network
        n, m = self.network.shape
        self.weights = np.ones(m)
        self.discount: float = simulation.discount
        self.horizon: int = simulation.horizon
        self.reward_space = gym.spaces.Box(-np.inf, np.inf, (m,), np.float64)
        self._defaults = {name: np.asarray(simulator.noop_actions[name]) for name in sorted(simulator.noop_actions)}
        self.action_space = gym.spaces.Dict(
            {name: _space(name, simulation, default) for name, default in self._defaults.items()}
        )
        # None if it does not bind, which is the common case and saves a pass over the actions in each step.
        self._limit = simulation.max_allowed_actions if simulation.max_allowed_actions < n else None
        self._names = simulation.model.observ_fluents or simulation.model.state_fluents
        self._size = len(self.influence.observed)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (self._size + time_left,), np.float32)
        reads_time = np.pad(self.influence.reads, ((0, 0), (0, int(time_left))), constant_values=True)
        order = np.argsort(~reads_time, axis=1, kind="stable")[:, : max(1, int(reads_time.sum(axis=1).max()))]
        self._local = order, np.take_along_axis(reads_time, order, axis=1).astype(np.float32)
        self._has_warned, simulation.done = False, True

    @property
    def observation_names(self) -> tuple[str, ...]:
        """The name of each number of an observation: a fluent with its objects, or the remaining time."""
        return (*self.influence.observed, *(["time left"] if self.time_left else []))

    def local(self, obs: Any) -> Any:
        """Return the local observation of the actor of each action, ``(..., n, l)`` from ``(..., d)``, padded with
        zeros."""
        index, mask = self._local
        return obs[..., index] * mask

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        fluents, _ = self.rddl.reset(seed=seed)
        self._streams.start()
        return self._flat(fluents), {}

    def step(self, action: dict[str, Any]) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Step the environment with an action."""
        rddl, simulator = self.rddl, self.rddl.sampler
        if rddl.done:
            raise RuntimeError("step: the episode has ended or not started; call reset() first")
        actions = self._to_simulator(action)
        # The rest is RDDLEnv.step without its conversion of actions, which costs more than everything added here.
        fluents, reward, terminated = simulator.step(actions if self._limit is None else self._within_limit(actions))
        rddl.state, rddl.timestep = simulator.states, rddl.timestep + 1
        truncated = not simulator.check_state_invariants(silent=True)
        if truncated:
            self._warn_of_invariant()
        elif rddl.timestep == self.horizon:
            # An actor that observes the time can tell that nothing follows: the value there is 0.
            terminated = terminated or self.time_left
            truncated = not terminated
        rddl.done = terminated or truncated
        return self._flat(fluents), reward, terminated, truncated, {"vector_reward": self._terms.vector}

    def close(self) -> None:
        """Close the pyRDDLGym environment."""
        self.rddl.close()

    def _timestep(self) -> int:
        return self.rddl.timestep

    def _to_simulator(self, action: dict[str, Any]) -> dict[str, np.ndarray]:
        """Return the action as arrays of the simulator's shapes and types."""
        try:
            return {
                name: np.asarray(action[name], default.dtype).reshape(default.shape)
                for name, default in self._defaults.items()
            }
        except (IndexError, KeyError, TypeError, ValueError) as error:
            want = ", ".join(f"{name}: {default.shape}" for name, default in self._defaults.items())
            raise ValueError(
                f"action: got {type(action).__name__}, want a dictionary of arrays of shapes {{{want}}} ({error!r})"
            ) from error

    def _flat(self, fluents: dict[str, Any]) -> np.ndarray:
        flat = np.zeros(self._size + self.time_left, np.float32)
        at = 0
        for name in self._names:
            values = np.ravel(fluents[name])
            if values.dtype != object:  # None before the first step, when nothing is observed
                flat[at : at + values.size] = values
                at += values.size
        if self.time_left:
            flat[-1] = 1 - self.rddl.timestep / self.horizon
        return flat

    def _within_limit(self, actions: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the actions with all but the first that are not the default replaced by the default."""
        left: Any = self._limit
        allowed = {}
        for name, values in actions.items():
            default = self._defaults[name]
            acts = np.ravel(values != default)
            acts &= np.cumsum(acts) <= left
            allowed[name] = np.where(acts.reshape(default.shape), values, default)
            left -= int(acts.sum())
        return allowed

    def _warn_of_invariant(self) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        warn(
            f"a state invariant of {self.rddl.model.instance_name!r} was violated after "
            f"{counted(self.rddl.timestep, 'step')}, and the episode ends; the influence network assumes that "
            "invariants hold. Bound the actions, or make the condition a termination condition"
        )


def _space(name: str, simulation: Any, default: np.ndarray) -> gym.Space:
    """Return the Gymnasium space of an action fluent."""
    shape, kind, objects = default.shape, simulation.model.action_ranges[name], simulation.model.type_to_objects
    low, high = (0, len(objects[kind]) - 1) if kind in objects else simulation._bounds[name]
    low, high = (np.broadcast_to(bound, shape) for bound in (low, high))
    if kind == "real":
        return gym.spaces.Box(low.astype(np.float32), high.astype(np.float32), shape, np.float32)
    if kind == "bool":
        return gym.spaces.MultiBinary(shape) if shape else gym.spaces.Discrete(2)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError(
            f"domain: the action fluent {name!r} is an integer without bounds, want a finite number of choices; pass "
            f"its bounds, as in bounds={{{name!r}: (0, 9)}}, or add them to the action-preconditions"
        )
    first, count = np.ceil(low).astype(np.int64), (np.floor(high) - np.ceil(low) + 1).astype(np.int64)
    if not shape:
        return gym.spaces.Discrete(int(count), start=int(first))
    return gym.spaces.MultiDiscrete(count, start=first)


def _import(module: str) -> Any:
    try:
        return import_quietly(module)
    except ImportError as error:
        raise ImportError(f"{error}; RDDL models need the extra packages of factorax[rddl]") from error


def _model(domain: Any, instance: Any) -> Any:
    """Return a model from names or files, or unchanged."""
    compiler = _import("pyRDDLGym.core.compiler.model")
    if isinstance(domain, compiler.RDDLLiftedModel):
        if instance is not None:
            raise ValueError(f"instance: got {instance!r}, want None: the model already has one")
        return domain
    if not isinstance(domain, str | Path):
        raise TypeError(f"domain: got {type(domain).__name__}, want a name, a path or an RDDLLiftedModel")
    if not isinstance(instance, str | Path | int):
        raise TypeError(f"instance: got {type(instance).__name__}, want a name, as '1', or the path of a file")
    paths = [_file(name, what) for name, what in ((domain, "domain"), (instance, "instance"))]
    if None in paths:
        if any(paths):
            got = "domain" if paths[0] else "instance"
            raise ValueError(f"domain, instance: only the {got} is a file; want two files, or two names")
        paths = _from_repository(str(domain), str(instance))
    read = _import("pyRDDLGym.core.parser.reader").RDDLReader
    parser = _import("pyRDDLGym.core.parser.parser").RDDLParser(lexer=None, verbose=False)
    # Otherwise the parser warns of tokens that RDDL does not use, and leaves a file open.
    options: dict[str, Any] = {"debug": False, "errorlog": _import("ply.yacc").NullLogger()}
    try:
        parser.build(**options)
    except (AttributeError, SyntaxError):  # another process was writing the parser tables at the same time
        parser.build(**options, tabmodule="tables_in_memory", write_tables=False)
    with _naming(domain, instance):
        return compiler.RDDLLiftedModel(parser.parse(read(*map(str, paths)).rddltxt))


@contextlib.contextmanager
def _naming(domain: Any, instance: Any, kinds: tuple[type[Exception], ...] = (Exception,)) -> Iterator[None]:
    """Convert errors of pyRDDLGym to a ValueError of one line, which names the files of the model."""
    try:
        yield
    except kinds as error:
        lines = re.sub(r"\x1b\[\d+m", "", str(error)).splitlines()
        marked = next((line for line in lines if line.lstrip().startswith(">>")), "")  # the line with a syntax error
        cause = f"{type(error).__name__}: {' '.join(' '.join([*lines[:1], marked]).split())}"
        names = "the model" if instance is None else f"{str(domain)!r}, {str(instance)!r}"
        hint = "; its expressions are nested too deeply" if isinstance(error, RecursionError) else ""
        raise ValueError(f"domain, instance: cannot read {names} ({printable(cause):.300}){hint}") from error


def _file(name: str | Path | int, what: str) -> Path | None:
    """Return the path of a file, or None if it can only be a name in rddlrepository."""
    path = Path(str(name))
    if path.is_file():
        return path
    if isinstance(name, Path) or path.suffix == ".rddl" or len(path.parts) > 1:
        raise FileNotFoundError(f"{what}: no file {str(path)!r}")
    return None


def _from_repository(domain: str, instance: str) -> list[Any]:
    """Return the paths of the files of a model of rddlrepository."""
    manager = _import("rddlrepository").RDDLRepoManager()
    names = manager.list_problems()
    if domain not in names:
        near = get_close_matches(domain, names, cutoff=0.4) or names
        raise ValueError(
            f"domain: got {domain!r}, want a name in rddlrepository, such as {some(near, 3)}, or the path of a file"
        )
    problem = manager.get_problem(domain)
    if instance not in problem.instances:
        raise ValueError(f"instance: got {instance!r}, want one of {some(problem.instances, 30)} for {domain!r}")
    return [problem.get_domain(), problem.get_instance(instance)]
