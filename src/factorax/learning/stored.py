"""What a file of a model says about where it comes from: its path, the names of its problem and network, its sizes."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from ..problems.registry import runs_code
from ..spec import Spec
from . import checkpoints
from .named_networks import is_file

SUFFIX = ".safetensors"
NETWORK_COPY = "network.json"
"""The copy of a network that was a file, in the folder of a run."""


class Names(NamedTuple):
    """The names of a problem and a network, as `find_problem` and `find_network` know them; None if they have none."""

    problem: str | None
    network: str | None


def saved_as(path: str | os.PathLike[str]) -> Path:
    """The file that `FactoredPPO.save` writes: with the suffix .safetensors, which is added if it is missing.

    >>> saved_as("models/chain").name
    'chain.safetensors'
    """
    path = Path(path)
    return path if path.suffix == SUFFIX else path.with_name(path.name + SUFFIX)


def existing(path: str | os.PathLike[str]) -> Path:
    """The file of a model: the path itself, with the suffix, or the last checkpoint if it is the folder of a run."""
    path = Path(path)
    tried = [path, saved_as(path)]
    if path.is_dir():
        tried = [path / "checkpoints" / f"{name}{SUFFIX}" for name in ("last", "previous")]
    for each in tried:
        if each.is_file():
            return each
    raise FileNotFoundError(f"path: no file {' or '.join(repr(str(each)) for each in dict.fromkeys(tried))}")


def sizes(spec: Spec) -> dict[str, Any]:
    """What a problem must agree in with another one, for a message."""
    return {
        "observation space": str(spec.observation_space),
        "action space": str(spec.action_space),
        "factors": spec.n_factors,
        "targets": spec.n_targets,
    }


def check_given(path: Path, **arguments: Any) -> None:
    """Raise ValueError if the model was trained with arguments that were not names, and they are not given again."""
    needed = checkpoints.about(path).get("given", [])
    for name, value in arguments.items():
        if isinstance(needed, list) and name in needed and value is None:
            raise ValueError(
                f"{name}: {str(path)!r} was trained with {name} of its own, which is not in the file; give it again, "
                f"as in FactoredPPO.load(path, problem, {name}=…)"
            )


def n_envs_in(path: Path) -> Any:
    """The number of environments that a file was trained with."""
    config = checkpoints.about(path).get("config")
    return config.get("n_envs") if isinstance(config, dict) else None


def differences(path: Path, spec: Spec) -> str:
    """How the problem that a file was trained on differs from another one, as the end of a message; empty if it does
    not, or the file does not say."""
    told, sizes_here = checkpoints.about(path).get("trained_on"), sizes(spec)
    if not isinstance(told, dict) or told == sizes_here:
        return ""
    other = [
        f"{name} {told.get(name)} there, {size} here" for name, size in sizes_here.items() if told.get(name) != size
    ]
    return f". It was trained on another problem: {'; '.join(other)}"


def named_in(path: Path) -> Names:
    """The names that a file of a model holds, or the folder of the run that it belongs to.

    Raises ValueError where there are none, with the sizes of the problem; and where the name of the problem would run
    code, which is for the user to say.
    """
    about = checkpoints.about(path)
    names = _names_of_run(path.parent.parent)  # first, for the folder has a copy of a network that was a file
    if names.problem is None:
        names = Names(about.get("problem"), about.get("network"))
    if names.problem is None:
        told = about.get("trained_on")
        described = ", ".join(f"{key} {value}" for key, value in told.items()) if isinstance(told, dict) else "unknown"
        raise ValueError(
            f"problem: {str(path)!r} does not name the problem it was trained on; give it, as in "
            f"FactoredPPO.load(path, problem). Its sizes: {described}"
        )
    if runs_code(names.problem):
        raise ValueError(
            f"problem: {str(path)!r} was trained on {names.problem!r}, which is code to be run; if you trust it, say "
            f"so with FactoredPPO.load(path, {names.problem!r})"
        )
    return names


def _names_of_run(folder: Path) -> Names:
    """The names in the settings of a run folder."""
    try:
        content = json.loads((folder / "config.json").read_bytes())
        problem, network = content["problem"], content["network"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return Names(None, None)
    if not isinstance(problem, str) or not isinstance(network, str):
        return Names(None, None)
    return Names(problem, network_of_run(folder, network))


def network_of_run(folder: Path, network: str) -> str:
    """The name of a run's network, which is the copy in its folder if it was a file."""
    if not is_file(network):
        return network
    return ("adaptive:" if network.startswith("adaptive:") else "") + str(folder / NETWORK_COPY)
