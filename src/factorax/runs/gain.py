"""Where a gain over vanilla PPO comes from: from a clipped ratio for every factor, or from the network K.

Factored PPO differs from vanilla PPO in two things: it clips a ratio for every factor in place of one for the whole
action, and it credits every factor with the targets that K names. Training with a complete K has the first and not the
second, so that

    factored − vanilla = (complete − vanilla) + (factored − complete)
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ..learning.config import WHO_STEPS
from .commands import train_command
from .compare import Group, checked_groups
from .statistics import iqm_difference

Role = Literal["vanilla", "complete", "factored"]
CONTROLS: tuple[Role, Role] = ("vanilla", "complete")
ENOUGH_SEEDS = 3
"""Fewer have no interval to speak of."""


def role_of(settings: Mapping[str, Any]) -> Role:
    """Return what runs with these settings are in a comparison: vanilla PPO, factored with all edges, or factored with
    K."""
    if settings["estimator"] == "vanilla":
        return "vanilla"
    return "complete" if settings["network"] == "complete" else "factored"


def split_gains(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Return the gain over vanilla of every group that is trained with its own K, and which part is K's.

    An entry has the names of the groups, and as far as they are there ``"gain"``, ``"per_factor_ratios"`` and ``"k"``:
    differences of interquartile means of the final returns, with 95 % bootstrap intervals. ``"differ"`` has settings,
    other than estimator and network, in which groups disagree: then there is no split. ``"train"`` has the commands
    that train what is missing.
    """
    by_role: dict[Role, list[Group]] = {"vanilla": [], "complete": [], "factored": []}
    for group in checked_groups(groups):
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
        nearest = min(by_role[role], key=lambda group: len(_differing(factored, group)))
        changed = _differing(factored, nearest)
        if changed:
            differ[role] = changed
        else:
            roles[role] = nearest
            entry[role] = nearest.name
    vanilla, complete = roles.get("vanilla"), roles.get("complete")
    for part, better, worse in (
        ("gain", factored, vanilla),
        ("per_factor_ratios", complete, vanilla),
        ("k", factored, complete),
    ):
        if better is not None and worse is not None:
            entry[part] = vars(iqm_difference(better.final, worse.final))
            entry["seeds"] = min(entry.get("seeds", len(better.final)), len(better.final), len(worse.final))
    missing: list[Role] = [role for role in CONTROLS if role not in roles]
    if differ:
        entry["differ"] = differ
    if missing:
        entry["train"] = {role: commands(factored, role) for role in missing}
    return entry


def _differing(a: Group, b: Group) -> dict[str, list[Any]]:
    """Return the settings in which two groups differ, other than their roles and who steps the environments."""
    left, right = a.settings, b.settings
    ignored = {"estimator", "network", "seed", *WHO_STEPS}
    return {
        key: [left.get(key), right.get(key)]
        for key in sorted(left.keys() | right.keys())
        if key not in ignored and left.get(key) != right.get(key)
    }


def commands(group: Group, role: Role) -> list[str]:
    """Return a command for every seed of a group that trains the same in another role.

    >>> settings = {"problem": "chain:8", "network": "own", "estimator": "factored", "n_steps": 64, "hidden": [32]}
    >>> group = Group("chain:8", steps=[0], returns=[[0.0]], settings=settings, folders=(Path("runs/a"),), seeds=(3,))
    >>> commands(group, "complete")
    ['factorax train chain:8 --preset none --network complete --n-steps 64 --hidden 32 --seed 3']
    """
    problem = str(group.settings["problem"])
    estimator = "vanilla" if role == "vanilla" else "factored"
    network = "complete" if role == "complete" else "own"
    lines = []
    for seed, folder in zip(group.seeds, group.folders, strict=True):
        out = ""
        if folder.parent != Path("runs"):
            label = problem.replace("/", "-").replace(":", "-")
            kind = "vanilla" if role == "vanilla" else "factored-complete"
            out = str(folder.parent / f"{label}-{kind}-{seed}")
        lines.append(train_command(group.settings, seed=seed, network=network, estimator=estimator, out=out))
    return lines


def explain(entry: Mapping[str, Any]) -> list[str]:
    """Return what `compare` says about one entry of `split_gains`: sentences, and the commands to run."""
    lines = []
    for role, changed in entry.get("differ", {}).items():
        said = ", ".join(f"{key} {a!r} against {b!r}" for key, (a, b) in changed.items())
        lines.append(f"no split: {entry['factored']} and the {role} runs differ in {said}. Want the same settings.")
    if "k" in entry and "gain" in entry:
        k = entry["k"]
        if entry["seeds"] < ENOUGH_SEEDS:
            verdict = f"K's part cannot be told with fewer than {ENOUGH_SEEDS} seeds of each"
        elif k["low"] > 0:
            verdict = "K adds to what per-factor ratios give"
        elif k["high"] < 0:
            verdict = "K costs return compared with a complete network"
        else:
            verdict = "K's part cannot be told from zero with these seeds"
        lines.append(f"{verdict}.")
    names = {
        "complete": "complete K with per-factor ratios, which tells what K adds",
        "vanilla": "vanilla PPO, which tells the whole gain",
    }
    for role, train in entry.get("train", {}).items():
        lines.append(f"There is no run with {names[role]}. To compare {entry['factored']} with it, train:")
        lines += [f"  {command}" for command in train]
    return lines
