"""Reconstruct the command that trains a run from its settings."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from .compare import default_settings


def train_command(
    settings: Mapping[str, Any], *, seed: int, network: str, estimator: str, out: str = "", extra: Sequence[str] = ()
) -> str:
    """Return the command that trains with these settings: the fields of a `Config` and ``"problem"``.

    A schedule, which only Python accepts, is mentioned in a comment after the command.

    >>> settings = {"problem": "chain:8", "n_steps": 64, "hidden": [32]}
    >>> train_command(settings, seed=3, network="own", estimator="factored", out="runs/a")
    'factorax train chain:8 --preset none --n-steps 64 --hidden 32 --seed 3 --out runs/a'
    """
    words = ["factorax", "train", str(settings["problem"]), "--preset", "none"]  # all settings follow
    words += ["--estimator", estimator] if estimator != "factored" else []
    words += ["--network", network] if network != "own" else []
    note = ""
    for name, default in default_settings().items():
        value = settings.get(name, default)
        if value == default or name in ("estimator", "seed"):
            continue
        option = name.replace("_", "-")
        if isinstance(default, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        elif isinstance(value, list) and not isinstance(default, list):
            note = f"  # and the schedule of {name}, which only Python accepts"
        else:
            words += [f"--{option}", *map(str, value if isinstance(value, list) else [value])]
    return shlex.join([*words, "--seed", str(seed), *(["--out", out] if out else []), *extra]) + note
