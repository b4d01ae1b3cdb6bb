"""IPPO and MAPPO of JaxMARL, run from a checkout, because its package does not contain them.

The scripts are imported unchanged, and only their function `make_train` is called. They also import Hydra and OmegaConf
for their command line and wandb for logs. Empty modules replace these three, and nothing is logged, because that would
need one Python call per update and seed. Settings are read from the YAML files of JaxMARL.

All updates of a script are one scan, which takes minutes on a GPU. Here the scan is split: its function and its initial
state are intercepted, and `updates` scans a few updates at a time.
"""

import contextlib
import importlib.util
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import jax
import jax.experimental
import jax.numpy as jnp

FILES = {
    "ippo spread": ("IPPO/ippo_ff_mpe.py", "IPPO/config/ippo_ff_mpe.yaml"),
    "mappo spread": ("MAPPO/mappo_rnn_mpe.py", "MAPPO/config/mappo_homogenous_rnn_mpe.yaml"),
    "ippo mabrax": ("IPPO/ippo_ff_mabrax.py", "IPPO/config/ippo_ff_mabrax.yaml"),
}
"""Scripts and settings in the folder ``baselines`` of a checkout. There is no MAPPO with continuous actions."""


@dataclass
class Baseline:
    """A baseline that can be trained a few updates at a time, several seeds side by side."""

    start: Callable[[], Any]
    """Returns the state before the first update; every array has a leading axis of seeds."""
    updates: Callable[[Any, int], tuple[Any, jax.Array]]
    """Maps a state and a number of updates to the state after them and the returns ``(seeds, updates)`` that the script
    would log."""
    total: int
    """Number of updates of the whole training, over which the learning rate decays to 0."""
    rollout_steps: int
    """Number of steps per update, summed over all environments."""
    parameters: Callable[[Any], Any]
    """Maps a state to the parameters of the policies."""
    act: Callable[..., Any]
    """Maps the parameters of one seed, a key, the agents' observations ``(n, l)`` and a memory to actions ``(n, …)``
    and the new memory."""
    memory: Callable[[int], Any]
    """Maps the number of agents to the memory at the start of an episode."""


def settings_of(checkout: Path, name: str) -> dict[str, Any]:
    """Return the settings in a YAML file of JaxMARL."""
    import yaml  # pyright: ignore[reportMissingModuleSource]

    text = (checkout / "baselines" / FILES[name][1]).read_text(encoding="utf-8")
    return {key: _number(value) for key, value in yaml.safe_load(text).items()}


def _number(value: Any) -> Any:
    """Return texts such as 1e7 as numbers: YAML 1.1 reads them as text, OmegaConf as numbers."""
    with contextlib.suppress(ValueError):
        return float(value) if isinstance(value, str) else value
    return value


@contextlib.contextmanager
def _stand_ins() -> Iterator[None]:
    hydra, omegaconf, wandb = (ModuleType(name) for name in ("hydra", "omegaconf", "wandb"))
    hydra.main = lambda **_: lambda main: main  # pyright: ignore[reportAttributeAccessIssue]
    omegaconf.OmegaConf = None  # pyright: ignore[reportAttributeAccessIssue]
    stand_ins = {module.__name__: module for module in (hydra, omegaconf, wandb)}
    before = {name: sys.modules.get(name) for name in stand_ins}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:  # not `mock.patch.dict`, which would also remove modules that were imported in the meantime
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


def script(checkout: Path, name: str) -> ModuleType:
    """Return a script of JaxMARL as a module."""
    path = checkout / "baselines" / FILES[name][0]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise FileNotFoundError(f"jaxmarl: found no {path}, want the folder of a checkout of JaxMARL")
    module = importlib.util.module_from_spec(spec)
    with _stand_ins():
        spec.loader.exec_module(module)
    return module


def baseline(checkout: Path, name: str, env_name: str, steps: int, seeds: int) -> Baseline:
    """Return a baseline for an environment, for training over this many steps, summed over all environments."""
    module = script(checkout, name)
    settings = settings_of(checkout, name) | {"TOTAL_TIMESTEPS": steps, "ENV_NAME": env_name}
    rollout_steps = int(settings["NUM_ENVS"]) * int(settings["NUM_STEPS"])
    total = steps // rollout_steps
    if total < 1:
        raise ValueError(f"steps: got {steps}, want at least {rollout_steps}, the steps of one update of {name}")
    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(seeds))
    update: Callable[..., Any] | None = None

    def first_state(train: Callable[[jax.Array], Any], key: jax.Array) -> Any:
        real = jax.lax.scan

        def scan(function: Any, init: Any, xs: Any = None, length: Any = None, **named: Any) -> Any:
            nonlocal update
            if xs is None and function.__name__ == "_update_step":
                update = function
                return init, None
            return real(function, init, xs, length, **named)

        with mock.patch.object(jax.lax, "scan", scan):
            return train(key)["runner_state"]

    def start() -> Any:
        if name == "ippo mabrax":
            inits = jax.vmap(lambda key: jax.random.fold_in(key, 1))(keys)
            # Not inside one jit: `make_train` selects an agent by an index that it computes in JAX.
            return jax.vmap(lambda init, key: first_state(module.make_train(dict(settings), init), key))(inits, keys)
        train = module.make_train(dict(settings))
        return jax.jit(jax.vmap(lambda key: first_state(train, key)))(keys)

    def quiet_start() -> Any:
        with _no_logs():
            state = start()
        if update is None:
            raise RuntimeError(f"{name}: found no scan of a function _update_step, which JaxMARL's scripts have had")
        # Counters start as Python numbers; without this conversion, the updates would be compiled twice.
        return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, leaf.dtype), state)

    def some(state: Any, length: int) -> Any:
        def one(state: Any, _: None) -> Any:
            assert update is not None
            state, metrics = update(state, None)
            returns = metrics["returned_episode_returns"]  # MAPPO logs one value per step and agent, IPPO a mean
            return state, returns[-1].mean() if returns.ndim else returns

        return jax.lax.scan(one, state, None, length)

    compiled = jax.jit(lambda state, length: jax.vmap(lambda each: some(each, length))(state), static_argnums=1)

    def updates(state: Any, length: int) -> Any:
        with _no_logs():
            return compiled(state, length)

    if name == "mappo spread":
        size = int(settings["GRU_HIDDEN_DIM"])

        def recurrent(parameters: Any, key: jax.Array, observed: jax.Array, memory: Any) -> Any:
            network = module.ActorRNN(_outputs(parameters), config=settings)
            resets = jnp.zeros((1, len(observed)), bool)
            memory, policy = network.apply(parameters, memory, (observed[None], resets))
            return policy.sample(seed=key)[0], memory

        return Baseline(
            quiet_start,
            updates,
            total,
            rollout_steps,
            lambda state: state[0][0][0].params,
            recurrent,
            lambda n: jnp.zeros((n, size)),
        )

    def feed_forward(parameters: Any, key: jax.Array, observed: jax.Array, memory: Any) -> Any:
        network = module.ActorCritic(_outputs(parameters), activation=settings["ACTIVATION"])
        return network.apply(parameters, observed)[0].sample(seed=key), memory

    return Baseline(
        quiet_start, updates, total, rollout_steps, lambda state: state[0].params, feed_forward, lambda n: None
    )


@contextlib.contextmanager
def _no_logs() -> Iterator[None]:
    """Disable logs, and what some scripts print while they are traced."""
    with mock.patch.object(jax.experimental, "io_callback"), contextlib.redirect_stdout(io.StringIO()):
        yield


def _outputs(parameters: Any) -> int:
    """Return the number of outputs of a policy: the size of the last layer of its actor, the third one."""
    return parameters["params"]["Dense_2"]["bias"].shape[-1]
