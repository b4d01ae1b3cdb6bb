"""The origin of a stored model: its path, the names of its problem and network, and its sizes, which have limits."""

import math
import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax

from .._checks import path_of
from .._files import MIB, read_json
from .._text import shown
from ..problems.registry import leads_to
from ..rollouts import episodes as episodes_
from ..spec import Spec
from . import checkpoints
from .devices import available_memory
from .named_networks import is_file

T = TypeVar("T")
SUFFIX = ".safetensors"
CHECKPOINTS = "checkpoints"
NETWORK_COPY = "network.json"
"""The copy of a network file in the folder of a run."""
MAX_CONFIG = MIB
MAX_ENVS = 2**20
"""Limits on the settings in files, which may be untrusted; those passed by the user have no such limits."""
MAX_STEPS = 2**30
"""Maximum number of steps of all environments in a rollout, n_envs × n_steps."""
MAX_LAYERS = 64
SLACK = 2**26
"""Number of bytes by which a model may exceed twice the size of its file."""
LEARNT = (".agent", ".optimiser", ".method", ".obs", ".reward")
"""Prefixes of arrays that must be finite to train with."""


class DamagedWarning(UserWarning):
    """Warns that the last checkpoint of a run cannot be read and the previous one is used."""


class Names(NamedTuple):
    """The names of a problem and a network, for `find_problem` and `find_network`; None if they have none."""

    problem: str | None
    network: str | None


def saved_as(path: str | os.PathLike[str]) -> Path:
    """Return the file that `FactoredPPO.save` writes: the path with the suffix .safetensors added if missing.

    >>> saved_as("models/chain").name
    'chain.safetensors'
    """
    path = path_of("path", path)
    return path if path.suffix == SUFFIX else path.with_name(path.name + SUFFIX)


def existing(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a model: the path itself or with the suffix; for a run folder, its last two checkpoints."""
    path = path_of("path", path)
    tried = [path, saved_as(path)]
    if path.is_dir():
        tried = [path / CHECKPOINTS / f"{name}{SUFFIX}" for name in ("last", "previous")]
    files = [each for each in dict.fromkeys(tried) if each.exists()]
    if not files and path.is_dir():
        raise FileNotFoundError(f"path: no checkpoint in {str(path)!r}; want the folder of a run that has been trained")
    if not files:
        raise FileNotFoundError(f"path: no file {' or '.join(repr(str(each)) for each in dict.fromkeys(tried))}")
    return files if path.is_dir() else files[:1]


def first_intact(files: list[Path], read: Callable[[Path], T]) -> T:
    """Return the result of `read` for the first file, or for the next, with a warning, if the first is damaged.

    If none can be read, the first error is raised.
    """
    first_error: ValueError | None = None
    for file in files:
        try:
            result = read(file)
        except ValueError as error:
            first_error = first_error or error
            continue
        if first_error is not None:
            warnings.warn(f"{first_error}; continuing from {str(file)!r}", DamagedWarning, stacklevel=3)
        return result
    raise first_error or ValueError("files: got none")


def shapes_of(tree: Any) -> list[Any]:
    """Return the shapes of all arrays of a tree."""
    return [x.shape for x in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def save_model(
    path: str | os.PathLike[str],
    spec: Spec,
    config: Any,
    state: Any,
    *,
    names: tuple[str | None, ...] = (None, None),
    given: list[str] | None = None,
    episodes: Any = None,
) -> None:
    """Write the state of a `Learner` and its settings to a file.

    - `config`: the settings; of several seeds that share a learner, those of this one.
    - `names`: of the problem and the network, if they have any; `given`: names of arguments that are objects.
    - `episodes`: the episodes in progress that are played outside JAX.
    """
    problem, network = names
    about = {"config": config.to_json(), "timesteps": int(state.timesteps), "problem": problem}
    about |= {"network": network, "given": given or [], "trained_on": sizes(spec)}
    about["modules"] = state.agent.module_names
    arrays = {} if episodes is None else episodes_.to_arrays(episodes)
    # The reader chooses the settings, so those that are leaves of the state are not written.
    checkpoints.save(saved_as(path), state._replace(hyper=None), about, arrays)


def sizes(spec: Spec) -> dict[str, Any]:
    """Return the sizes in which two problems must agree, for a message."""
    return {
        "observation space": str(spec.observation_space),
        "action space": str(spec.action_space),
        "factors": spec.n_factors,
        "targets": spec.n_targets,
    }


def given(**arguments: Any) -> list[str]:
    """Return the names of arguments that are objects, which a file does not hold and `load` needs again.

    An initialiser is not needed again, because the file has the weights.
    """
    is_object = lambda value: value is not None and not isinstance(value, str)  # noqa: E731
    return [name for name, value in arguments.items() if name != "init" and is_object(value)]


def check_given(path: Path, **arguments: Any) -> None:
    """Raise ValueError if the model was trained with objects instead of names, and they are not passed again."""
    about = checkpoints.about(path)
    needed, modules = about.get("given", []), about.get("modules")
    for name, value in arguments.items():
        if isinstance(needed, list) and name in needed and value is None:
            module = modules.get(name) if isinstance(modules, dict) else None
            class_name = f" (it was {shown(module)})" if isinstance(module, str) else ""
            raise ValueError(
                f"{name}: {str(path)!r} was trained with custom {name}, which is not in the file{class_name}; pass it "
                f"again, as in FactoredPPO.load(path, problem, {name}=…)"
            )


def restored(path: Path, state: Any, n_envs: int, spec: Spec) -> tuple[Any, list[episodes_.Episode] | None]:
    """Return the state of a model from a file, with the arrays of `state` replaced, and the episodes in progress.

    Episodes are those played outside JAX. If the file has another number of environments, new episodes start.
    """
    try:
        config = checkpoints.about(path).get("config")
        other_envs = not isinstance(config, dict) or config.get("n_envs") != n_envs
        keep = (".environments", ".discounted") if other_envs else ()
        state, arrays = checkpoints.load(path, state, keep=keep, finite=LEARNT)
    except ValueError as error:
        raise ValueError(f"{error}{_differences(path, spec)}") from None
    # Episodes in progress belong to their environments; what was learnt does not.
    if other_envs or not arrays:
        return state, None
    try:
        memory = state.agent.policy.memory
        return state, episodes_.from_arrays(arrays, n_envs, spec.n_inputs, len(spec.components), memory)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; was it written with other settings?") from error


def _differences(path: Path, spec: Spec) -> str:
    """Return how the problem of a file differs from another one, as the end of a message; empty if unknown."""
    try:
        told, sizes_here = checkpoints.about(path).get("trained_on"), sizes(spec)
    except ValueError:
        return ""
    if not isinstance(told, dict) or told == sizes_here:
        return ""
    other = [
        f"{name} {told.get(name)} there, {size} here" for name, size in sizes_here.items() if told.get(name) != size
    ]
    return f". It was trained on another problem: {'; '.join(other)}"


def named_in(path: Path, trusted: str | None = None) -> Names:
    """Return the names stored in a file of a model, or in the run folder that it belongs to.

    Raises ValueError if there are none, with the sizes of the problem; and if a name refers to code or files elsewhere,
    unless the name of the problem is passed as `trusted`.
    """
    about, names = checkpoints.about(path), Names(None, None)
    if path.parent.name == CHECKPOINTS:  # the folder first: it has a copy of a network that was a file
        folder = path.parent.parent
        with suppress(OSError, ValueError, KeyError, TypeError):
            content = read_json(folder / "config.json", MAX_CONFIG)
            problem, network = content["problem"], content["network"]
            if isinstance(problem, str) and isinstance(network, str):
                names = Names(problem, network_of_run(folder, network))
    if names.problem is None:
        names = Names(about.get("problem"), about.get("network"))
        if names.network is not None and is_file(names.network):
            raise ValueError(
                f"network: {str(path)!r} was trained with the file {names.network!r}, which may differ here; "
                f"pass it again, as in FactoredPPO.load(path, problem, network={names.network!r})"
            )
    if names.problem is None:
        told = about.get("trained_on")
        described = ", ".join(f"{key} {value}" for key, value in told.items()) if isinstance(told, dict) else "unknown"
        raise ValueError(
            f"problem: {str(path)!r} does not name the problem it was trained on; pass it, as in "
            f"FactoredPPO.load(path, problem). Its sizes: {described}"
        )
    check_trusted(names.problem, trusted, f"problem: {str(path)!r}")
    return names


def check_trusted(problem: str, trusted: str | None, where: str) -> None:
    """Raise ValueError if the name of a problem in a file refers to code or files and is not the one that the user
    trusts.

    `where` is the start of the message.
    """
    outside = leads_to(problem)
    if outside and problem != trusted:
        raise ValueError(
            f"{where} was trained on {problem!r}, which leads to {outside}; if you trust it, confirm with --problem "
            f"{problem}, or with trusted={problem!r} in Python"
        )


def network_of_run(folder: Path, network: str) -> str:
    """Return the name of a run's network, which is the copy in its folder if it was a file."""
    if not is_file(network):
        return network
    return ("adaptive:" if network.startswith("adaptive:") else "") + str(folder / NETWORK_COPY)


def checked_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a file without those that only the user may choose; raise ValueError if one is too large.

    The address of a Ray cluster is such a setting: whoever runs the cluster can run code in connected processes. A
    custom initialiser is not in a file, and not needed, because the file has the weights.
    """
    n_envs, n_steps, layers = settings["n_envs"], settings["n_steps"], len(settings["hidden"])
    if n_envs > MAX_ENVS:
        raise ValueError(f"n_envs: got {n_envs:,} from a file, want at most {MAX_ENVS:,}")
    if n_envs * n_steps > MAX_STEPS:
        raise ValueError(
            f"n_steps: got {n_steps:,} × {n_envs:,} environments from a file, want at most {MAX_STEPS:,} steps"
        )
    if layers > MAX_LAYERS:
        raise ValueError(f"hidden: got {layers:,} layers from a file, want at most {MAX_LAYERS}")
    rollouts, architecture = settings["rollouts"], settings["architecture"]
    if hasattr(rollouts, "address"):
        settings = settings | {"rollouts": replace(rollouts, address="")}
    if architecture.init == "custom":
        settings = settings | {"architecture": replace(architecture, init="orthogonal")}
    return settings


def check_size(path: Path, learner: Any) -> None:
    """Raise ValueError if the state of a `Learner` would take much more memory than its file."""
    # Before anything is allocated: a small file may name settings that take all memory.
    leaves = jax.tree.leaves(eqx.filter_eval_shape(learner.init))
    size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves if hasattr(leaf, "dtype"))
    there, free = path.stat().st_size, available_memory(learner.config)
    if size > min(2 * there + SLACK, size if free is None else free):  # a large file may be sparse
        raise ValueError(
            f"{path}: has {there:,} bytes, but a model with its settings takes {size:,}; want the settings it was "
            "written with"
        )
