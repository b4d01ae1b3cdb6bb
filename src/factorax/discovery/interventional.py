"""Discovery by intervention: replays of an episode that differ only in the actions of some factors.

An edge i → j is shown by two runs with the same seed that differ only in the actions of factor i, if target j differed;
or by two trials that suggested it independently. It is checked that random numbers do not differ
(`factorax.discovery.streams`); if they do, edges are tested over seeds (`factorax.discovery.over_seeds`).
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from .._checks import NotNegative, Range, check_each, checked, listed
from .._text import counted, some, warn
from ..structure import InfluenceNetwork, LaggedNetwork, StructureWarning
from ..structure.labels import edge_label
from ..structure.network import as_network
from .comparison_plan import plan
from .episode import Reruns, ShiftedError, names_of
from .group_testing import decode, likely, next_group, resolve, shown, suspects_of
from .over_seeds import network_over_seeds
from .result import Discovery
from .simulator import OPTIONS, Simulator
from .simulators import simulator_of
from .streams import Checking, Streams


def intervene(
    problem: Any,
    *,
    policy: Any = None,
    horizon: int = 100,
    trials: int = 20,
    groups: bool = True,
    one_step: bool = True,
    start: Any = None,
    streams: Checking = "check",
    exogenous: Sequence[int] = (),
    tolerance: float | None = None,
    seed: int = 0,
) -> Discovery:
    """Change the actions of factors, with random numbers and everything else fixed, and observe which targets change.

    - *one-step*: from the states of an episode, the targets of the step in which factors differ;
    - *open loop*: for the whole episode, while the other factors repeat their actions;
    - *closed loop*, if a `policy` is given: while the other factors react to their observations with the policy. The
      network then includes influence through other actors, as the gradient of such a policy requires.

    The result is the closed-loop network or, without a policy, the open-loop one; the others are in ``also``.

    **Arguments**

    - `problem`: a JAX `Problem`, or a function that returns a Gymnasium environment, which must be deterministic given
      the seed of its reset: this is checked.
    - `policy`: a trained `FactoredPPO`, or a function of a JAX key and an observation that returns a flat action.
    - `horizon`: number of steps of an episode.
    - `trials`: minimum number of episodes, each with its own seed, in which each pair without an edge is changed.
    - `groups`: whether several factors are changed at once (`factorax.discovery.group_testing`), or one at a time.
    - `one_step`: whether to find the one-step network as well.
    - `start`: a network whose edges are taken for granted: only edges that it *lacks* are searched for, which takes far
      fewer replays.
    - `streams`: ``"check"``: compare the random generators of an environment after each step with those of the run
      without intervention. If they differ, or cannot be observed although the seed matters, a warning is issued,
      ``found.streams`` tells so, and moved targets are tested over many seeds (`factorax.discovery.over_seeds`).
      ``"trust"``: assume that no action shifts the random numbers. ``"test"``: always test over seeds.
    - `tolerance`: the smallest change of a target that counts, relative to its `spread`: its standard deviation over
      the steps of a few episodes. Simulators with adaptive steps or iterative solvers couple everything a little: an
      action then changes targets that it does not influence by rounding errors. By default 0.001 for environments,
      and 0 for JAX problems, where every difference counts.
    - `exogenous`: indices in the flat observation that no action can change, such as the weather; if they differ,
      random numbers have shifted. For simulators whose generators cannot be reached.

    >>> from factorax.problems import chain
    >>> found = intervene(chain(4, delay=2), horizon=6, trials=3)
    >>> found.network() == chain(4).network, int(found.also["one-step"].found().sum())
    (True, 0)
    """
    check_each(OPTIONS, horizon=horizon, trials=trials, groups=groups, one_step=one_step, seed=seed)
    checked("streams", streams, Checking)
    checked("tolerance", tolerance, NotNegative | None)
    places = [checked("exogenous", each, Annotated[int, Range(0)])
              for each in listed("exogenous", exogenous, "places in the flat observation")]  # fmt: skip
    # Everything below may raise: the simulator may be a process.
    simulator = simulator_of(problem, horizon, policy, places)
    try:
        state = _check_repeats(simulator, seed, streams)
        tolerance = simulator.tolerance if tolerance is None else tolerance
        simulator.measure_spread(seed, tolerance)
        names = ["one-step"] * one_step + ["open-loop"] + ["closed-loop"] * (policy is not None)
        granted = np.zeros(simulator.network.shape, bool)
        if start is not None:
            granted = _fitting(start, "start", simulator).to_dense() > 0
        networks, by_tests = {}, streams == "test" or state == "unseen"
        if not by_tests:
            try:
                networks = {name: _network(simulator, name, trials, groups, seed, granted) for name in names}
            # Replays show nothing any more: start again with tests over seeds.
            except ShiftedError as shift:
                _warn_of_shift(simulator, shift)
                state, by_tests = "shifted", True
        if by_tests:
            networks = {name: network_over_seeds(simulator, name, trials=trials, seed=seed, granted=granted)
                        for name in names}  # fmt: skip
        networks = {name: replace(network, streams=state) for name, network in networks.items()}
    finally:
        simulator.close()
    main = networks.pop(names[-1])
    if "open-loop" in networks:
        _warn_of_answers(main, networks["open-loop"])
    return replace(main, also=networks)


def measure_lags(
    problem: Any, network: Any = None, *, horizon: int = 100, trials: int = 20, seed: int = 0
) -> LaggedNetwork:
    """Measure the lag of each edge in a simulator that is deterministic given a seed.

    In each of `trials` episodes, each factor in turn takes another action for one step, at a random time, with
    everything else fixed. The lag of an edge is the shortest observed time until its target changed; 0 if it never
    did, which is safe. A lag that is shorter in states that no episode visits is overestimated, and biases the
    gradient: use many trials, or lags from physics. Random numbers that shift with the actions can only shorten lags.

    - `network`: the network whose edges are measured; by default that of the problem. Other pairs get no lag.
    - `horizon`: number of steps of an episode; the change is in its first half.

    >>> from factorax.problems import chain
    >>> measure_lags(chain(3, delay=4), horizon=12, trials=3).lags
    array([[ 4,  4, -1],
           [-1,  4,  4],
           [-1, -1,  4]])
    """
    check_each(OPTIONS, horizon=horizon, trials=trials, seed=seed)
    simulator = simulator_of(problem, horizon)
    try:
        net = simulator.network if network is None else _fitting(network, "network", simulator)
        n, m = net.shape
        rng = np.random.default_rng(seed)
        never = horizon + 1
        first = np.full((n, m), never)
        groups = np.vstack([np.zeros((1, n), bool), np.eye(n, dtype=bool)])
        for trial in range(trials):
            base, at = simulator.sequence(rng, alike=trial % 2 == 0), int(rng.integers(max(horizon // 2, 1)))
            forced = base.copy()
            forced[at] = simulator.unlike(base[at : at + 1], rng)[0]
            psi = simulator.play(seed + trial, base, forced, groups)
            differs = psi[1:] != psi[0]
            first = np.minimum(first, np.where(differs.any(axis=1), differs.argmax(axis=1) - at, never))
    finally:
        simulator.close()
    first[first == never] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StructureWarning)  # already issued when the network was created
        return LaggedNetwork.from_lags(np.where(net.to_dense() > 0, first, -1), net.actions, net.targets)


WEAK_EFFECT = 1e-3
"""Effects below this share of a target's spread may be rounding errors of a simulator."""
SINGLE_FACTORS = 8
"""Number of factors that are changed one by one if such effects occur, to see how many there are."""


@dataclass
class _Evidence:
    """The evidence for the edges of one network, over all trials."""

    edges: np.ndarray
    trials: np.ndarray
    """Number of trials in which each pair was ruled out, ``(n, m)``."""
    speaks: np.ndarray
    """Number of observations of each pair: episodes in which the target did not change and, once the edge is known,
    tests in which only this factor can have changed it, ``(n, m)``."""
    change: np.ndarray
    """Sum of |change of the target's sum| over those tests, ``(n, m)``."""
    peak: np.ndarray
    """Sum of the largest |change of the target in a step| over those tests, ``(n, m)``."""
    slight: bool = False
    """Whether a target changed by less than the tolerance."""
    alone: int = 0
    """Number of pairs without an edge whose factor was changed alone to see how many change the target slightly."""
    slight_alone: int = 0
    """Number of those pairs that changed the target by less than the tolerance."""
    not_finite: list[str] = field(default_factory=list)

    def add(self, episode: Reruns) -> None:
        groups, moved, edges = episode.groups.astype(int), episode.moved, self.edges
        stayed = groups.T @ ~moved
        # With two known parents in the group, the change cannot be ascribed to one.
        sole = moved & (groups @ edges.astype(int) == 1)
        self.trials += stayed > 0
        self.speaks += np.where(edges, groups.T @ sole, stayed > 0)
        self.change += groups.T @ np.where(sole, episode.change, 0.0) * edges
        self.peak += groups.T @ np.where(sole, episode.peak, 0.0) * edges
        self.slight |= bool(episode.slight.any())

    def count_slight(self, episode: Reruns, rng: np.random.Generator) -> None:
        """Change a few factors one by one, and count the pairs whose target changes by less than the tolerance."""
        factors = rng.permutation(len(self.edges))[:SINGLE_FACTORS]
        episode.test(np.eye(len(self.edges), dtype=bool)[factors])
        self.edges = self.edges | shown(episode.groups, episode.moved)
        self.add(episode)
        left = ~self.edges[factors]
        single = episode.groups.sum(axis=1) == 1
        self.alone = int(left.sum())
        self.slight_alone = int((shown(episode.groups[single], episode.slight[single])[factors] & left).sum())


def _fitting(network: Any, argument: str, simulator: Simulator) -> InfluenceNetwork:
    """Return a network; raise ValueError unless it has the shape of the problem's own."""
    network, want = as_network(network, argument), simulator.network.shape
    if network.shape != want:
        raise ValueError(f"{argument}: got shape {network.shape}, want {want}, the shape of the problem's network")
    return network


def _network(simulator: Simulator, name: str, trials: int, groups: bool, seed: int, granted: np.ndarray) -> Discovery:
    n, m = simulator.network.shape
    counts, sums = np.zeros((2, n, m), int), np.zeros((2, n, m))
    evidence = _Evidence(granted.copy(), trials=counts[0], speaks=counts[1], change=sums[0], peak=sums[1])
    began = simulator.steps
    # Other numbers for each network, the same for each call.
    rng = np.random.default_rng([seed, len(name)])

    def episode(number: int) -> Reruns:
        return Reruns(simulator=simulator, name=name, seed=seed + number, rng=rng, not_finite=evidence.not_finite)

    pending, number = [], 0
    # With edges to start from, plans rule out many pairs at once from the first episode on.
    if groups and not granted.any():
        pending = _look_around(episode, evidence, trials, rng)
        number = 1 + len(pending)
    while pending or (evidence.trials[~evidence.edges] < trials).any():
        if not pending:
            pending, number = [episode(number)], number + 1
        current = pending.pop(0)
        if groups:
            need = np.where(current.ruled_out, 0, np.maximum(trials - evidence.trials, 0))
            _go_on(current, evidence, plan(evidence.edges, need, rng, current.runs, all_pairs=current.all_pairs), rng)
        else:
            evidence.edges = evidence.edges | current.test(np.eye(n, dtype=bool))
        evidence.add(current)
    if evidence.slight:
        evidence.count_slight(episode(number), rng)
        number += 1
    discovery = _discovery(simulator, name, evidence, number, simulator.steps - began)
    if name != "one-step":
        _warn_of_weak(discovery, evidence)
    if granted.any():
        new = int((~granted & evidence.edges).sum())
        known = counted(int(granted.sum()), "edge of start was", "edges of start were")
        note = f"{known} taken for granted, and {new} found"
        return replace(discovery, notes=(*discovery.notes, note))
    return discovery


def _look_around(
    episode: Callable[[int], Reruns], evidence: _Evidence, trials: int, rng: np.random.Generator
) -> list[Reruns]:
    """Start several episodes, find the first edges in the most informative one, and return the other episodes.

    The same few factors are changed in all of them, and the episode in which they change the most targets is chosen. An
    edge suggested there by elimination is accepted if a second episode suggests it as well, or if it is confirmed.
    """
    n = len(evidence.edges)
    started, rate = [episode(number) for number in range(1 + min(n // 12, 9, max(trials - 1, 1)))], 0.5
    if len(started) > 1:  # otherwise there are few factors, which are all changed one by one
        few = np.isin(np.arange(n), rng.choice(n, 1 + n // 16, replace=False))
        started.sort(key=lambda episode: -int(episode.test(few[None]).sum()))
        rate = 1 - float(1 - np.mean([episode.moved for episode in started])) ** (1 / few.sum())
    best, *others = started
    first = resolve(best.test, evidence.edges, rng, rate)
    edges = shown(best.groups, best.moved)
    if (first.edges & ~edges).any():
        other = resolve(others[0].test, edges, rng, rate)
        edges = edges | (first.edges & other.edges)
        edges |= best.confirm(first.edges & ~edges)
        edges |= others[0].confirm(other.edges & ~edges)
    evidence.edges = edges
    evidence.add(best)
    return others


def _go_on(episode: Reruns, evidence: _Evidence, planned: np.ndarray, rng: np.random.Generator) -> None:
    """Test groups that should change no new target; if one does, search for the factor that caused it."""
    n = len(evidence.edges)
    if len(planned):
        episode.test(planned)
    looked = len(episode.runs)
    while True:
        trial = decode(episode.groups, episode.moved, evidence.edges)
        suggested = trial.edges & ~evidence.edges
        if suggested.any():
            evidence.edges = evidence.edges | episode.confirm(suggested)
            wrong = suggested & ~evidence.edges
            if wrong.any() and not _one_by_one(episode, evidence, np.atleast_1d(wrong.any(axis=1)), 0):
                return
            continue
        _, suspects, tests = suspects_of(trial)
        if len(tests) and len(episode.runs) - looked > n / 4:  # after this many runs, testing one by one costs the same
            _one_by_one(episode, evidence, np.atleast_1d(suspects.any(axis=1)), 0)
        elif len(tests):
            # A likely suspect is changed alone, which decides; otherwise test the most informative group.
            factor = likely(trial, evidence.edges)
            of_factor = tests[suspects[factor.argmax()]] if factor.any() else tests
            # The run in most of these tests: the factors changed in it are one part of their groups, the other part is
            # tested as well.
            run = int(np.bincount(episode.pairs[of_factor].ravel()).argmax()) if episode.all_pairs else 0
            if not _one_by_one(episode, evidence, factor, run):
                episode.flip(run, next_group(trial, rng))
        elif trial.unexplained.any():
            # A target changed although all suspects are ruled out: changes cancelled or hid each other.
            groups = np.where(trial.unexplained.any(axis=1), episode.groups.sum(axis=1), n + 1)
            test = groups.argmin()
            if not _one_by_one(episode, evidence, episode.groups[test], episode.pairs[test, 0]):
                return
        else:
            return


def _one_by_one(episode: Reruns, evidence: _Evidence, factors: np.ndarray, run: int) -> bool:
    """Change each of these factors alone, starting from this run, unless that was done before; return whether any was
    left."""
    left = factors & ~episode.groups[episode.groups.sum(axis=1) == 1].any(axis=0)
    if left.any():
        alone = np.eye(len(left), dtype=bool)[left]
        episode.test(episode.runs[run] ^ alone, like=run)
        evidence.edges = evidence.edges | shown(episode.groups, episode.moved)
    return bool(left.any())


def _discovery(simulator: Simulator, name: str, evidence: _Evidence, trials: int, steps: int) -> Discovery:
    edges, net, tests = evidence.edges, simulator.network, np.maximum(evidence.speaks, 1)
    peak, spread = np.where(edges, evidence.peak / tests, 0.0), simulator.spread
    relative = np.where(spread > 0, peak / np.where(spread > 0, spread, 1.0), 1.0 * (peak > 0))
    notes = [
        f"{name}: {counted(trials, 'episode')} of {counted(simulator.horizon, 'step')}, {steps:,} simulated steps in "
        "total"
    ]
    if not edges.all():
        least = int(evidence.trials[~edges].min())
        notes.append(
            f"each pair without an edge was tested in {counted(least, 'episode')} or more: with 95 % confidence, the "
            f"action changes the target in less than {1 - 0.05 ** (1 / max(least, 1)):.0%} of such episodes"
        )
    still, idle = np.atleast_1d(~edges.any(axis=0)), np.atleast_1d(~edges.any(axis=1))
    if still.any():
        notes.append(f"never changed: target {some(names_of(net.targets, still))}")
    if idle.any():
        notes.append(f"changed no target: action {some(names_of(net.actions, idle))}")
    if evidence.slight_alone:
        notes.append(f"{_slight(evidence)}, as rounding does; tolerance=0 makes every change an edge")
    weak = int(_is_weak(relative).sum())
    if weak:
        notes.append(
            f"{counted(weak, 'edge changes', 'edges change')} the target by less than {WEAK_EFFECT:.1%} of its spread: "
            "real but negligible influence, or rounding and step sizes of a solver, which "
            f"tolerance={WEAK_EFFECT:g} leaves out"
        )
    if evidence.not_finite:
        notes.append(
            f"{counted(len(evidence.not_finite), 're-run')} had non-finite targets, the first at "
            f"{evidence.not_finite[0]}; later steps were not compared"
        )
    return Discovery(
        "interventional",
        "one-step" if name == "one-step" else "return",
        effect=np.where(edges, evidence.change / tests, 0.0),
        relative=relative,
        p_value=np.where(edges, 0.0, 1.0),
        samples=np.maximum(evidence.speaks, edges),
        actions=net.actions,
        targets=net.targets,
        loop="closed" if name == "closed-loop" else "open",
        lacks_reactions=name == "open-loop" and simulator.horizon > 1,
        effect_unit="mean |change of the target's sum over the episode|",
        notes=tuple(notes),
        steps=steps,
    )


def _check_repeats(simulator: Simulator, seed: int, streams: Checking) -> Streams:
    """Raise unless the same seed and actions give the same targets, in all the ways in which the simulator will be run.

    Returns whether it can be detected that random streams are held; this is then checked unless they are trusted.
    """
    rng = np.random.default_rng(seed)
    n = simulator.network.shape[0]
    actions = simulator.sequence(rng, alike=False) if simulator.policy is None else simulator.acted(seed)
    # A policy is played in another program, or through other wrappers, than repeated actions.
    for base in [actions] + [None] * (simulator.policy is not None):
        first, again = (simulator.play(seed, base, actions, np.zeros((1, n), bool))[0] for _ in range(2))
        differs = ~((first == again) | (np.isnan(first) & np.isnan(again)))
        if differs.any():
            t = int(differs.any(axis=1).argmax())
            raise ValueError(
                f"problem: two episodes with seed {seed} and the same actions differ in step {t}, target "
                f"{some(names_of(simulator.network.targets, differs[t]))}; want a deterministic simulator, i.e. "
                "one that draws only from the generator that reset(seed=…) seeds. Otherwise use a "
                "method that works on data: method='score' or 'dependence'"
            )
        if not np.isfinite(first[0]).all():
            bad = names_of(simulator.network.targets, ~np.isfinite(first[0]))
            raise ValueError(f"problem: target {some(bad)} is not finite in step 0 with the seed {seed}; want numbers")
    if streams == "trust":
        return "trusted"
    state = simulator.watch_streams(seed, actions)
    if state == "unseen" and streams == "check":
        warn(
            "problem: the targets depend on the seed, but no random generator that reset(seed=…) seeds can be reached. "
            "Shifts of random numbers by actions cannot be detected, so edges are tested over seeds. Draw from "
            "self.np_random, name observations that are exogenous=…, or use streams='trust' if you know that no action "
            "shifts them"
        )
    return state


def _warn_of_shift(simulator: Simulator, shift: ShiftedError) -> None:
    names = some(names_of(simulator.network.actions, shift.factors))
    warn(
        f"problem: the random numbers of the simulator shift with the actions: with other actions of {names}, "
        f"other numbers were drawn by the end of step {shift.step} (compared: {simulator.watched}). Targets that no "
        "action influences may move as well, so moved targets are tested over seeds, at a false-discovery rate. To "
        "show edges directly, use one generator per random quantity, or draw the same number of values in each step"
    )


def _is_weak(relative: np.ndarray) -> np.ndarray:
    return (relative > 0) & (relative < WEAK_EFFECT)


def _slight(evidence: _Evidence) -> str:
    return (
        f"of {counted(evidence.alone, 'pair')} without an edge that were looked at one by one, {evidence.slight_alone} "
        "changed the target by less than the tolerance"
    )


def _warn_of_weak(found: Discovery, evidence: _Evidence) -> None:
    """Warn if at least half of the edges, or of the pairs without one, change so little that it may be rounding."""
    assert found.relative is not None
    weak, edges = int(_is_weak(found.relative).sum()), int(evidence.edges.sum())
    if weak and 2 * weak >= edges:
        warn(
            f"problem: {weak} of {counted(edges, 'edge')} change the target by less than {WEAK_EFFECT:.1%} of its "
            "spread. If the simulator solves equations iteratively or chooses its time steps, this may be rounding "
            f"rather than influence; leave such edges out with tolerance={WEAK_EFFECT:g}"
        )
    if evidence.slight_alone and 2 * evidence.slight_alone >= evidence.alone:
        warn(
            f"problem: {_slight(evidence)}. This is how rounding and common time steps of a solver show; if the "
            "influence is real, pass a smaller tolerance"
        )


def _warn_of_answers(closed: Discovery, opened: Discovery) -> None:
    more = closed.found() & ~opened.found()
    if more.any():
        i, j = np.argwhere(more)[0]
        edge = edge_label(closed.actions[i], closed.targets[j])
        warn(
            f"policy: {counted(int(more.sum()), f'edge, {edge}, exists', f'edges, such as {edge}, exist')} only "
            "because other actors react to what an action changes: with replayed actions there is no edge, and a "
            "network without it biases the gradient of this policy. Use local observations, or the "
            "closed-loop network"
        )
