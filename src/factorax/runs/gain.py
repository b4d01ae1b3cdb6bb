"""Attribution of a gain over vanilla PPO to per-factor ratios and to the network K.

Factored PPO differs from vanilla PPO in two ways: it clips one ratio per factor instead of one for the joint action,
and it credits each factor only with the targets that it influences in K. Training with a complete K has only the first
difference, so

    factored − vanilla = (complete − vanilla) + (factored − complete)
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ..ppo.config import different_settings
from ..ppo.methods import METHODS
from .compare import Group, check_groups, comparable_scores, default_settings, interval_or_mean
from .statistics import iqm_difference

Role = Literal["vanilla", "complete", "factored"]
CONTROLS: tuple[Role, Role] = ("vanilla", "complete")
ENOUGH_SEEDS = 3
"""Minimum number of seeds for a meaningful interval."""


def role_of(settings: Mapping[str, Any]) -> Role:
    """Return the role of runs with these settings: vanilla PPO, factored with all edges, or factored with K."""
    if settings["method"] == "ppo":
        return "vanilla"
    return "complete" if "complete" in (settings["network"], settings["method"]) else "factored"


def split_gains(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Return the gain over vanilla of each group trained with its own K, and the part that comes from K.

    Each entry has the names of the groups and, if the groups exist, ``"gain"``, ``"per_factor_ratios"`` and ``"k"``:
    differences of interquartile means with 95 % bootstrap intervals of what ``"of"`` says, as in `compare_groups`. With
    one seed there is only the gain, without an interval. ``"differ"`` lists settings
    other than method and network in which groups differ, which rules out a split. ``"train"`` lists the commands
    that train missing groups.
    """
    by_role: dict[Role, list[Group]] = {"vanilla": [], "complete": [], "factored": []}
    for group in check_groups(groups):
        # Groups that were not read from folders have no settings, and thus no role.
        if group.settings:
            by_role[role_of(group.settings)].append(group)
    return [_split(group, by_role) for group in by_role["factored"]]


def _split(factored: Group, by_role: dict[Role, list[Group]]) -> dict[str, Any]:
    entry: dict[str, Any] = {"factored": factored.name}
    roles: dict[Role, Group] = {}
    differ: dict[str, dict[str, list[Any]]] = {}
    for role in CONTROLS:
        if not by_role[role]:
            continue
        # Of several groups of a role, the one with the fewest other differences: ideally none.
        nearest = min(by_role[role], key=lambda group: len(_differences(factored, group)))
        changed = _differences(factored, nearest)
        if changed:
            differ[role] = changed
        else:
            roles[role] = nearest
            entry[role] = nearest.name
    if roles:
        members = {"factored": factored, **roles}
        entry["of"], each = comparable_scores([*members.values()])
        scores = dict(zip(members, each, strict=True))
        entry["seeds"] = min(map(len, each))
        for part, better, worse in (
            ("gain", "factored", "vanilla"),
            ("per_factor_ratios", "complete", "vanilla"),
            ("k", "factored", "complete"),
        ):
            # One seed per group measures the gain with noise, but a split of it would be noise alone.
            if better in scores and worse in scores and (part == "gain" or entry["seeds"] > 1):
                entry[part] = interval_or_mean(iqm_difference, scores[better], scores[worse])
    missing: list[Role] = [role for role in CONTROLS if role not in roles]
    if differ:
        entry["differ"] = differ
    if missing:
        entry["train"] = {role: commands(factored, role) for role in missing}
    return entry


def _differences(a: Group, b: Group) -> dict[str, list[Any]]:
    """Return the settings in which two groups differ, except for their roles and how environments are stepped."""
    first, second = a.settings, b.settings
    ignored = {"network", "seed"}
    if {first.get("method"), second.get("method")} <= {"ppo", "factored", "complete"}:
        ignored.add("method")  # that is what the roles differ in
    return {key: [first.get(key), second.get(key)] for key in different_settings(first, second, ignored)}


def commands(group: Group, role: Role) -> list[str]:
    """Return one command per seed of a group that trains the same problem in another role.

    >>> settings = {"problem": "chain:8", "network": "own", "method": "factored", "n_steps": 64, "hidden": [32]}
    >>> group = Group("chain:8", steps=[0], returns=[[0.0]], settings=settings, folders=(Path("runs/a"),), seeds=(3,))
    >>> commands(group, "complete")
    ['factorax train chain:8 --preset none --network complete --n-steps 64 --hidden 32 --seed 3']
    """
    problem = str(group.settings["problem"])
    method = "ppo" if role == "vanilla" else "factored"
    network = "complete" if role == "complete" else "own"
    lines = []
    for seed, folder in zip(group.seeds, group.folders, strict=True):
        out = ""
        # Next to the runs that they are compared with, where `train` would not write by itself.
        if folder.parent != Path("runs"):
            label = re.sub("[/:,]", "-", problem)
            kind = "ppo" if role == "vanilla" else "factored-complete"
            out = str(folder.parent / f"{label}-{kind}-{seed}")
        lines.append(train_command(group.settings, seed=seed, network=network, method=method, out=out))
    return lines


def train_command(
    settings: Mapping[str, Any], *, seed: int, network: str, method: str, out: str = "", extra: Sequence[str] = ()
) -> str:
    """Return the command that trains with these settings: the fields of a `Config` and ``"problem"``.

    A schedule, which only Python accepts, is mentioned in a comment after the command.

    >>> settings = {"problem": "chain:8", "n_steps": 64, "hidden": [32]}
    >>> train_command(settings, seed=3, network="own", method="factored", out="runs/a")
    'factorax train chain:8 --preset none --n-steps 64 --hidden 32 --seed 3 --out runs/a'
    """
    words = ["factorax", "train", str(settings["problem"]), "--preset", "none"]  # all settings follow
    words += ["--method", method] if method != "factored" else []
    words += ["--network", network] if network != "own" else []
    note = ""
    for name, default in default_settings().items():
        value = settings.get(name, default)
        is_default = value == default and name not in METHODS.read(method).settings  # which would replace it
        if is_default or name in ("method", "seed"):
            continue
        option = name.replace("_", "-")
        if isinstance(default, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        elif isinstance(value, list) and not isinstance(default, list):
            note = f"  # and the schedule of {name}, which only Python accepts"
        else:
            words += [f"--{option}", *map(str, value if isinstance(value, list) else [value])]
    return shlex.join([*words, "--seed", str(seed), *(["--out", out] if out else []), *extra]) + note


def explain(entry: Mapping[str, Any]) -> list[str]:
    """Return the sentences and commands that `compare` prints for one entry of `split_gains`."""
    lines = []
    for role, changed in entry.get("differ", {}).items():
        differences = ", ".join(f"{key} {a!r} against {b!r}" for key, (a, b) in changed.items())
        lines.append(
            f"no split: {entry['factored']} and the {role} runs differ in {differences}. Want the same settings."
        )
    if entry.get("seeds") == 1:
        lines.append(f"one seed per group does not tell what K adds: train {ENOUGH_SEEDS} or more.")
    elif "k" in entry and "gain" in entry:
        k = entry["k"]
        if entry["seeds"] < ENOUGH_SEEDS:
            verdict = f"the part of K cannot be estimated with fewer than {ENOUGH_SEEDS} seeds per group"
        elif k["low"] > 0:
            verdict = "K increases the return beyond per-factor ratios"
        elif k["high"] < 0:
            verdict = "K reduces the return compared with a complete network"
        else:
            verdict = "the part of K is not significantly different from zero with these seeds"
        lines.append(f"{verdict}.")
    names = {
        "complete": "complete K with per-factor ratios, which shows the effect of K",
        "vanilla": "vanilla PPO, which shows the total gain",
    }
    for role, train in entry.get("train", {}).items():
        lines.append(f"There is no run with {names[role]}. To compare {entry['factored']} with it, train:")
        lines += [f"  {command}" for command in train]
    return lines
