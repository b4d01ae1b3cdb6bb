"""JaxMARL's own IPPO and MAPPO, run from a checkout of JaxMARL, whose package does not ship them.

Their scripts are imported as they are, and only `make_train` of each is called. They also import Hydra and OmegaConf
for their command line and wandb for logs; empty modules stand in for these three, and nothing is logged, which would
take a call of Python for every update and seed. Their settings are read from their YAML files.
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
import numpy as np

FILES = {
    "ippo spread": ("IPPO/ippo_ff_mpe.py", "IPPO/config/ippo_ff_mpe.yaml"),
    "mappo spread": ("MAPPO/mappo_rnn_mpe.py", "MAPPO/config/mappo_homogenous_rnn_mpe.yaml"),
    "ippo ant": ("IPPO/ippo_ff_mabrax.py", "IPPO/config/ippo_ff_mabrax.yaml"),
}
"""Scripts and settings in the folder ``baselines`` of a checkout. There is no MAPPO for MABrax."""


@dataclass
class Trained:
    """Policies of several seeds after training."""

    parameters: Any
    """With an axis of seeds in front of every array."""
    act: Callable[..., Any]
    """From the parameters of one seed, a key, what the agents see ``(n, l)`` and a memory to their actions ``(n, …)``
    and the memory after them."""
    memory: Callable[[int], Any]
    """From the number of agents to the memory at the start of an episode."""
    curve: np.ndarray
    """The return of the last episodes in every update, ``(seeds, updates)``."""


def settings_of(checkout: Path, name: str) -> dict[str, Any]:
    """The settings in a YAML file of JaxMARL."""
    import yaml  # pyright: ignore[reportMissingModuleSource]

    text = (checkout / "baselines" / FILES[name][1]).read_text(encoding="utf-8")
    return {key: _number(value) for key, value in yaml.safe_load(text).items()}


def _number(value: Any) -> Any:
    """YAML 1.1 reads 1e7 as a text, and OmegaConf as a number."""
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
    finally:  # not by `mock.patch.dict`, which would also drop what was imported meanwhile
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


def _with_metrics(train: Callable[[jax.Array], Any]) -> Callable[[jax.Array], Any]:
    """MAPPO's function, with what it would log of every update as ``"metrics"``: its last scan collects that, and the
    function drops it."""
    real = jax.lax.scan

    def with_metrics(key: jax.Array) -> Any:
        metrics: Any = None

        def scan(*arguments: Any, **named: Any) -> Any:
            nonlocal metrics
            carry, metrics = real(*arguments, **named)
            return carry, metrics

        with mock.patch.object(jax.lax, "scan", scan):
            results = train(key)
        returned = metrics["returned_episode_returns"][:, -1].mean(axis=-1)
        return results | {"metrics": {"returned_episode_returns": returned}}

    return with_metrics


def script(checkout: Path, name: str) -> ModuleType:
    """A script of JaxMARL as a module."""
    path = checkout / "baselines" / FILES[name][0]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise FileNotFoundError(f"jaxmarl: found no {path}, want the folder of a checkout of JaxMARL")
    module = importlib.util.module_from_spec(spec)
    with _stand_ins():
        spec.loader.exec_module(module)
    return module


def train(checkout: Path, name: str, steps: int, seeds: int) -> Trained:
    """Train a baseline with several seeds side by side, for this many steps of all environments."""
    module, settings = script(checkout, name), settings_of(checkout, name) | {"TOTAL_TIMESTEPS": steps}
    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(seeds))
    no_logs = mock.patch.object(jax.experimental, "io_callback")
    with no_logs, contextlib.redirect_stdout(io.StringIO()):  # some print what they trace
        if name == "ippo ant":
            inits = jax.vmap(lambda key: jax.random.fold_in(key, 1))(keys)
            # Not under one jit: `make_train` chooses an agent by an index that it computes in JAX.
            results = jax.vmap(lambda init, key: jax.jit(module.make_train(dict(settings), init))(key))(inits, keys)
        else:
            train = module.make_train(settings)
            results = jax.jit(jax.vmap(_with_metrics(train) if name == "mappo spread" else train))(keys)
    jax.block_until_ready(results)
    curve = np.asarray(results["metrics"]["returned_episode_returns"])
    if name == "mappo spread":
        actor, _ = results["runner_state"][0][0]
        size = int(settings["GRU_HIDDEN_DIM"])
        network = module.ActorRNN(_outputs(actor.params), config=settings)

        def recurrent(parameters: Any, key: jax.Array, seen: jax.Array, memory: Any) -> Any:
            memory, policy = network.apply(parameters, memory, (seen[None], jnp.zeros((1, len(seen)), bool)))
            return policy.sample(seed=key)[0], memory

        memory = lambda n: jnp.zeros((n, size))  # noqa: E731
        return Trained(actor.params, recurrent, memory, curve)
    parameters = results["runner_state"][0].params
    network = module.ActorCritic(_outputs(parameters), activation=settings["ACTIVATION"])

    def feed_forward(parameters: Any, key: jax.Array, seen: jax.Array, memory: Any) -> Any:
        return network.apply(parameters, seen)[0].sample(seed=key), memory

    return Trained(parameters, feed_forward, lambda n: None, curve)


def _outputs(parameters: Any) -> int:
    """The actions of a policy: outputs of the last layer of its actor, the third one."""
    return parameters["params"]["Dense_2"]["bias"].shape[-1]
