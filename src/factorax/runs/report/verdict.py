"""The verdict: what was trained, the return it reached, the baselines, and the part of the gain that comes from K."""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...plugins import family_of, imported, reference_controller
from ...structure.labels import counted
from ..compare import Group
from ..gain import ENOUGH_SEEDS, role_of, split_gains
from ..statistics import Interval, iqm, normal_mean
from .curves import GroupCurves
from .sources import RunSource

_NAMES = {"vanilla": "vanilla PPO", "complete": "factored PPO with a complete K", "factored": "factored PPO"}


@dataclass(frozen=True)
class Verdict:
    """Sentences about one group of runs, or one experiment or discovery."""

    title: str
    sentences: tuple[str, ...]
    commands: tuple[str, ...] = ()
    """Commands that train what is missing for a comparison."""
    more: tuple[str, ...] = ()
    """Further remarks for the reader."""


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ only in their seed, with their settings and curves."""

    name: str
    runs: tuple[RunSource, ...]
    settings: Mapping[str, Any]
    curves: GroupCurves | None
    has_every_edge: bool = False
    """Whether K is complete, so that no target is dropped from any credit."""

    @property
    def problem(self) -> str:
        """The name of the problem of the runs."""
        return str(self.settings["problem"])

    @property
    def compared(self) -> Group | None:
        """The group in the form of `compare`, at the points that all runs have reached; None without returns."""
        if self.curves is None:
            return None
        runs = [
            each for each in self.runs if each.curves is not None and np.isfinite(each.curves.returns).any()
        ]  # only runs with curves
        reached = np.isfinite(self.curves.runs).all(axis=0)
        if not reached.any():
            return None
        return Group(
            self.name,
            self.curves.steps[reached],
            self.curves.runs[:, reached],
            settings=dict(self.settings),
            seeds=tuple(run.seed for run in runs),
            folders=tuple(run.path for run in runs),
        )


def run_verdicts(
    groups: Sequence[RunGroup], *, play: bool, baselines: dict[str, Interval], notes: list[str]
) -> list[Verdict]:
    """Return a verdict for each group that is factored with its own K, or for each group if there is none.

    - `play`: whether the reference controller of the problem may be simulated.
    - `baselines`: known returns of the controller by problem; new ones are added.
    """
    usable = [(group, compared) for group in groups if (compared := group.compared) is not None]
    named = [replace(compared, name=f"{i}") for i, (_, compared) in enumerate(usable)]  # names may be equal
    gains = {entry["factored"]: entry for entry in split_gains(named)} if named else {}
    chosen = [i for i, (group, _) in enumerate(usable) if role_of(group.settings) == "factored"]
    verdicts = []
    for i in chosen or range(len(usable)):
        group, compared = usable[i]
        entry = gains.get(str(i), {})
        vanilla = usable[int(entry["vanilla"])][1] if "vanilla" in entry else None
        reached, how = _reached(group, compared)
        baseline = _baseline(group, vanilla, play, baselines, notes)
        sentences = [f"{_trained(group, compared)} reached {reached} per episode ({how}), {baseline}."]
        role = "complete" if group.has_every_edge and role_of(group.settings) == "factored" else role_of(group.settings)
        sentences.append(_parts(entry, role))
        sentences = [with_minus(sentence) for sentence in sentences]
        commands = tuple(line for lines in entry.get("train", {}).values() for line in lines[:ENOUGH_SEEDS])
        verdicts.append(Verdict(group.name, tuple(sentences), commands))
    for group in groups:
        if group.compared is None:
            verdicts.append(Verdict(group.name, (_untold(group),)))
    return verdicts


def with_minus(text: str) -> str:
    """Return text with minus signs instead of hyphens before numbers.

    >>> with_minus("seed-0 reached -105 [-114, -94.8]")
    'seed-0 reached −105 [−114, −94.8]'
    """
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


def _untold(group: RunGroup) -> str:
    return f"{_capital(_NAMES[role_of(group.settings)])} on {group.problem}: no episode has ended yet."


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _trained(group: RunGroup, compared: Group) -> str:
    method = _NAMES[role_of(group.settings)]
    network = str(group.settings["network"])
    with_network = "" if network in ("own", "complete") else f" with the network {network}"
    return (
        f"{_capital(method)} on {group.problem}{with_network}, trained with {counted(len(compared.returns), 'seed')} "
        f"for {int(compared.steps[-1]):,} steps{' each' if len(compared.returns) > 1 else ''},"
    )


def _reached(group: RunGroup, compared: Group) -> tuple[Interval, str]:
    """Return the final return with its interval, and a description of the interval."""
    if len(compared.returns) > 1:
        return iqm(compared.final), f"interquartile mean of {len(compared.returns)} seeds, 95 % interval"
    run = next((run for run in group.runs if run.score is not None and len(run.score["episodes"]) > 1), None)
    if run is not None and run.score is not None:
        episodes = run.score["episodes"]
        return normal_mean(episodes), f"{len(episodes)} episodes of the final policy, 95 % interval; one seed"
    last = compared.returns[0, -max(1, compared.returns.shape[1] // 10) :]
    return normal_mean(last), "one seed, 95 % interval over the last tenth of its updates"


def _baseline(
    group: RunGroup, vanilla: Group | None, play: bool, baselines: dict[str, Interval], notes: list[str]
) -> str:
    """Return the baselines: vanilla PPO with the same settings and a controller if available, otherwise the untrained
    policy."""
    parts = []
    if vanilla is not None:
        seeds = counted(len(vanilla.final), "seed")
        parts.append(f"{iqm(vanilla.final)} of vanilla PPO with the same settings ({seeds})")
    family, controller = family_of(group.problem), reference_controller(group.problem)
    if family is not None and family.returns and controller and play and group.problem not in baselines:
        try:
            with warnings.catch_warnings(action="ignore"):
                returns = imported(family.returns)(controller, group.problem, episodes=10, seed=0)
            if returns is not None:
                baselines[group.problem] = normal_mean(returns)
        except (ValueError, FloatingPointError) as error:
            notes.append(f"the controller {controller} could not be scored: {error}")
    if group.problem in baselines:
        parts.append(f"{baselines[group.problem]} of the controller {controller} (10 episodes)")
    first = [run.curves.initial for run in group.runs if run.curves is not None and np.isfinite(run.curves.initial)]
    if not parts and first:
        parts.append(f"{np.mean(first):.4g} of the untrained policy in its first updates")
    return f"against {' and '.join(parts)}" if parts else "with no baseline"


def _parts(entry: Mapping[str, Any], role: str) -> str:
    """Return the parts of the gain over vanilla PPO that come from K and from clipping a ratio per factor."""
    if role == "vanilla":
        return "It has no influence network: train factored PPO on the same problem to see the effect of K."
    if role == "complete":
        return (
            "Its K has every edge, so no target is dropped: the only difference to vanilla PPO is the clipping of one "
            "ratio per factor."
        )
    if "k" in entry and "gain" in entry:
        gain, clipping, k = (Interval(**entry[part]) for part in ("gain", "per_factor_ratios", "k"))
        few = (
            f" With fewer than {ENOUGH_SEEDS} seeds the intervals are unreliable."
            if entry["seeds"] < ENOUGH_SEEDS
            else ""
        )
        return f"Of the gain of {gain} over vanilla PPO, {clipping} comes from per-factor clipping and {k} from K.{few}"
    if "k" in entry:
        return (
            f"K adds {Interval(**entry['k'])} compared with a complete K; the total gain requires runs of vanilla PPO."
        )
    if "gain" in entry:
        return (
            f"The gain over vanilla PPO is {Interval(**entry['gain'])}; splitting it into the parts of K and of "
            "per-factor clipping requires runs with a complete K."
        )
    differ = entry.get("differ", {})
    if differ:
        roles = " and ".join(_NAMES[role] for role in differ)
        keys = ", ".join(sorted({key for changed in differ.values() for key in changed})[:4])
        return f"It cannot be compared with the runs of {roles}, because their settings differ ({keys})."
    return (
        "Splitting the gain into the parts of K and of per-factor clipping requires runs of vanilla PPO and of a "
        "complete K with the same settings."
    )
