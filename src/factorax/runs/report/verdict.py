"""The verdict: what was trained, the return it reached, the baselines, and the part of the gain that comes from K."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._text import counted
from ...plugins import family_of, imported, reference_controller
from ..compare import Group, comparable_scores, short_name
from ..gain import ENOUGH_SEEDS, role_of, split_gains
from ..statistics import Interval, iqm, normal_mean, short_number
from .curves import GroupCurves
from .inputs import DiscoveryInput, RunInput, errors_as_notes

_NAMES = {"vanilla": "vanilla PPO", "complete": "factored PPO with a complete K", "factored": "factored PPO"}


@dataclass(frozen=True)
class Verdict:
    """Sentences about one group of runs, or one discovery."""

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
    runs: tuple[RunInput, ...]
    settings: Mapping[str, Any]
    curves: GroupCurves | None
    has_every_edge: bool = False
    """Whether K is complete, so that no target is dropped from any credit."""

    @property
    def problem(self) -> str:
        """The name of the problem of the runs."""
        return str(self.settings["problem"])

    @property
    def as_group(self) -> Group | None:
        """The group in the form of `compare`, at the points that all runs have reached; None without returns."""
        if self.curves is None:
            return None
        runs = [
            each for each in self.runs if each.curves is not None and np.isfinite(each.curves.returns).any()
        ]  # only runs with curves
        evaluations = [each.evaluation for each in runs]
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
            evaluations=tuple(float(np.mean(each)) for each in evaluations) if all(evaluations) else (),
        )


def run_verdicts(
    groups: Sequence[RunGroup], *, play: bool, baselines: dict[str, Interval], notes: list[str]
) -> list[Verdict]:
    """Return a verdict for each group that is factored with its own K, or for each group if there is none.

    - `play`: whether the reference controller of the problem may be simulated.
    - `baselines`: known returns of the controller by problem; new ones are added.
    """
    usable = [(group, compared) for group in groups if (compared := group.as_group) is not None]
    named = [replace(compared, name=f"{i}") for i, (_, compared) in enumerate(usable)]  # names may be equal
    gains = {entry["factored"]: entry for entry in split_gains(named)} if named else {}
    # Vanilla runs and those with a complete K are baselines; alone, they have verdicts of their own.
    chosen = [i for i, (group, _) in enumerate(usable) if role_of(group.settings) == "factored"]
    verdicts = []
    for i in chosen or range(len(usable)):
        group, compared = usable[i]
        entry = gains.get(str(i), {})
        vanilla = usable[int(entry["vanilla"])][1] if "vanilla" in entry else None
        controller = _controller(group.problem, play, baselines, notes)
        sentences = [f"{_subject(group, compared)} {_result(group, compared, vanilla, entry, controller)}."]
        role = "complete" if group.has_every_edge and role_of(group.settings) == "factored" else role_of(group.settings)
        sentences.append(_parts(entry, role))
        sentences = [with_minus(sentence) for sentence in sentences]
        commands = tuple(line for lines in entry.get("train", {}).values() for line in lines[:ENOUGH_SEEDS])
        verdicts.append(Verdict(group.name, tuple(sentences), commands))
    for group in groups:
        if group.as_group is None:
            method, problem = _capital(_NAMES[role_of(group.settings)]), short_name(group.problem)
            verdicts.append(Verdict(group.name, (f"{method} on {problem}: no episode has ended yet.",)))
    return verdicts


def with_minus(text: str) -> str:
    """Return text with minus signs instead of hyphens before numbers.

    >>> with_minus("seed-0 reached -105 [-114, -94.8]")
    'seed-0 reached −105 [−114, −94.8]'
    """
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _subject(group: RunGroup, compared: Group) -> str:
    method = _NAMES[role_of(group.settings)]
    network = str(group.settings["network"])
    with_network = "" if network in ("own", "complete") else f" with the network {network}"
    seeds = counted(len(compared.returns), "seed")
    return (
        f"{_capital(method)} on {short_name(group.problem)}{with_network}, trained with {seeds} "
        f"for {int(compared.steps[-1]):,} steps{' each' if len(compared.returns) > 1 else ''},"
    )


def _result(
    group: RunGroup, compared: Group, vanilla: Group | None, entry: Mapping[str, Any], controller: Interval | None
) -> str:
    """Return the final return of a group and its baselines, all from evaluations or all from training: vanilla PPO with
    the same settings and a controller if there are any, otherwise the untrained policy."""
    first = [run.curves.initial for run in group.runs if run.curves is not None and np.isfinite(run.curves.initial)]
    # Returns of evaluations and of training are never compared with each other: exploration makes the latter worse.
    of = entry["of"] if vanilla is not None else comparable_scores([compared])[0]
    of = "training" if vanilla is None and controller is None and first else of
    parts = []
    if vanilla is not None:
        seeds = counted(len(vanilla.returns), "seed")
        parts.append(f"{_estimate(_scores(vanilla, of))} of vanilla PPO with the same settings ({seeds})")
    reference = f"{controller} of the controller {reference_controller(group.problem)} (10 episodes)"
    if controller is not None and of == "evaluation":
        parts.append(reference)
    if not parts and first:
        parts.append(f"{short_number(float(np.mean(first)))} of the untrained policy in its first updates")
    how = "in the evaluation of its final policy" if of == "evaluation" else "over the last tenth of its training"
    seeds = len(compared.returns)
    how += f"; interquartile mean of {seeds} seeds, 95 % interval" if seeds > 1 else "; one seed, so no interval"
    text = f"reached {_estimate(_scores(compared, of))} per episode ({how}), "
    text += f"against {' and '.join(parts)}" if parts else "with no baseline"
    if of == "training" and compared.evaluations:
        text += f"; in its evaluation, the final policy reached {_estimate(_scores(compared, 'evaluation'))}"
    if of == "training" and controller is not None:
        text += f"; only an evaluation can be compared with the {reference}"
    return text


def _scores(group: Group, of: str) -> np.ndarray:
    return np.array(group.evaluations) if of == "evaluation" else group.final


def _estimate(scores: np.ndarray) -> str:
    """Return the interquartile mean over seeds with its interval, or the score of a single seed."""
    return str(iqm(scores)) if len(scores) > 1 else short_number(float(scores[0]))


def _controller(problem: str, play: bool, baselines: dict[str, Interval], notes: list[str]) -> Interval | None:
    """Return the return of the reference controller of a problem, which is simulated if `play` is true."""
    family, controller = family_of(problem), reference_controller(problem)
    if play and problem not in baselines and family is not None and family.returns and controller:
        with errors_as_notes(notes, f"the controller {controller} could not be scored"):
            returns = imported(family.returns)(controller, problem, episodes=10, seed=0)
            if returns is not None:
                baselines[problem] = normal_mean(returns)
    return baselines.get(problem)


def _parts(entry: Mapping[str, Any], role: str) -> str:
    """Return the parts of the gain over vanilla PPO that come from K and from clipping a ratio per factor."""
    if role == "vanilla":
        return "It has no influence network: train factored PPO on the same problem to see the effect of K."
    if role == "complete":
        return (
            "Its K has every edge, so no target is dropped: the only difference to vanilla PPO is the clipping of one "
            "ratio per factor."
        )
    if entry.get("seeds") == 1:
        return f"One seed per method does not tell what K adds: train {ENOUGH_SEEDS} or more."
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


def discovery_verdict(source: DiscoveryInput) -> Verdict:
    """Return what a discovery found, and its guarantee."""
    about, edges, *more = (line for line in str(source.discovery).split("\n") if line)
    promise = next((line for line in more if line.startswith("What it says")), "")
    sentences = (f"Discovery, {about}: {edges}.", *([promise] if promise else []))
    return Verdict(source.path.name, sentences, more=tuple(line for line in more if line != promise))
