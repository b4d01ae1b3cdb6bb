"""Tests over many seeds, for simulators whose random streams shift with the actions.

If streams shift, a target may have moved because other random numbers were drawn. A target that never moved shows no
edge, as usual; for all others it is *tested* whether the distribution of the target depends on the action. Nothing else
counts as evidence, not even a move while the generators were in the same state after each step: within a step, one draw
more for one quantity and one less for another leave the same state.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

from .._text import counted
from .batch import Batch
from .dependence import dependence_test
from .result import Discovery
from .score import detectable
from .simulator import Simulator

HOLD_RATES = (0.0, 0.03, 0.3)
"""How often the actions of the tests leave their usual value: rarely, so that their mean is informative."""
MIN_TEST_SAMPLES = 30
"""Minimum number of samples for the dependence test."""


class SeedComparison(NamedTuple):
    """The results of replays of many episodes for each pair of a factor and a target."""

    moved: np.ndarray
    """Whether the target moved at all, ``(n, m)``."""
    p_value: np.ndarray
    """p-values of the hypothesis that the distribution of the target does not depend on the factor, ``(n, m)``."""
    change: np.ndarray
    """Mean of |change of the target's sum over the episode|, ``(n, m)``."""
    paired: int
    """Number of seeds whose episodes were replayed for each factor."""
    unpaired: int
    """Number of further seeds, with one episode each."""
    not_finite: int
    """Number of episodes that were cut at a non-finite target."""


def network_over_seeds(simulator: Simulator, name: str, *, trials: int, seed: int, granted: np.ndarray) -> Discovery:
    """Return the network with p-values; edges in `granted`, ``(n, m)``, have p-value 0."""
    began = simulator.steps
    compared = compare_over_seeds(simulator, name, trials=trials, seed=seed)
    tested = compared.moved & ~granted
    net = simulator.network
    return Discovery(
        "interventional",
        "one-step" if name == "one-step" else "return",
        effect=np.where(compared.moved, compared.change, 0.0),
        p_value=np.where(granted, 0.0, np.where(tested, np.maximum(compared.p_value, 1e-300), 1.0)),
        samples=np.full(net.shape, compared.paired + compared.unpaired),
        actions=net.actions,
        targets=net.targets,
        loop="closed" if name == "closed-loop" else "open",
        lacks_reactions=name == "open-loop" and simulator.horizon > 1,
        effect_unit="mean |change of the target's sum over the episode|",
        notes=_notes(name, compared, int(tested.sum()), granted),
        steps=simulator.steps - began,
    )


def _notes(name: str, compared: SeedComparison, tested: int, granted: np.ndarray) -> tuple[str, ...]:
    others = f", and {compared.unpaired} others" * bool(compared.unpaired)
    notes = [
        f"{name}: {counted(compared.paired, 'seed was', 'seeds were')} replayed for each action{others}",
        f"{counted(tested, 'pair')} of {granted.size} changed, perhaps only because of other random numbers, and "
        f"{'was' if tested == 1 else 'were'} tested over these seeds",
    ]
    if granted.any():
        notes.append(f"{counted(int(granted.sum()), 'edge of start was', 'edges of start were')} taken for granted")
    if compared.unpaired and tested:
        smallest = min(detectable(compared.unpaired, granted.size), 1.0)
        notes.append(
            f"a lone edge among {granted.size} pairs is found with a probability of 80 % if its correlation is "
            f"{smallest:.2g} or more; use more trials to find weaker ones"
        )
    if compared.not_finite:
        notes.append(f"{counted(compared.not_finite, 'episode')} had non-finite targets, and were cut there")
    return tuple(notes)


def compare_over_seeds(simulator: Simulator, name: str, *, trials: int, seed: int) -> SeedComparison:
    """Change one factor at a time in `trials` episodes, then play as many steps again, each episode with its own seed.

    - *Paired*: the difference D of a target's sum between the two runs of a seed has mean zero if the target does not
      depend on the factor, whatever the streams do, because both runs have the same distribution given the other
      actions. Its product with the difference of the factor's actions (their mean rank over the episode, or its
      distance from the middle) is tested by Student's t, with a p-value of at least 2¹⁻ᵏ for k episodes in which D ≠
      0.
    - *Unpaired*, without a policy: in the other episodes all factors draw independently, and `dependence_test` is
      exact. The smaller of the two p-values is doubled.

    - `name`: ``"one-step"``, ``"open-loop"`` or ``"closed-loop"``.
    """
    n, m = simulator.network.shape
    rng = np.random.default_rng([seed, len(name), 1])
    moved, not_finite = np.zeros((n, m), bool), 0
    changes, before, after = [], [], []
    for number in range(trials):
        psi, actions, forced = _one_by_one(simulator, name, seed + number, rng)
        cut = _finite_steps(psi)
        not_finite += cut < psi.shape[1]
        differences = psi[1:, :cut] - psi[:1, :cut]
        moves = np.abs(differences).max(axis=1, initial=0.0) > simulator.least_change
        moved |= moves
        changes.append(np.where(moves, differences.sum(axis=1), 0.0))
        before.append(actions.mean(axis=0))
        after.append(forced.mean(axis=0))
    change = np.array(changes)
    # A policy's actions depend on the random numbers, as the targets do; only forced actions are independent of them.
    p_value = _paired(change, np.array(before), np.array(after), simulator.factor_of, both=simulator.policy is None)
    others = 0
    if simulator.policy is None:
        # As many steps again as the paired runs took.
        others = max(trials * (n + 1), MIN_TEST_SAMPLES)
        unpaired = _unpaired(simulator, name, range(seed + trials, seed + trials + others), rng)
        p_value = np.minimum(1.0, 2 * np.minimum(p_value, unpaired))
    return SeedComparison(
        moved=moved,
        p_value=p_value,
        change=np.abs(change).mean(axis=0),
        paired=trials,
        unpaired=others,
        not_finite=not_finite,
    )


def _one_by_one(
    simulator: Simulator, name: str, seed: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return targets ``(1 + n, T, m)`` without and with each factor changed, and the actions ``(T, c)`` of both."""
    n = simulator.network.shape[0]
    has_policy = simulator.policy is not None
    actions = simulator.acted(seed) if has_policy else simulator.sequence(rng, alike=False, rates=HOLD_RATES)
    forced, at = simulator.unlike(actions, rng, rates=HOLD_RATES), int(rng.integers(simulator.horizon))
    if name == "one-step":
        psi = simulator.play_once(seed, actions, forced, np.eye(n, dtype=bool), at)
        steps = slice(at, at + 1) if psi.shape[1] == 1 else slice(None)
        return psi, actions[steps], forced[steps]
    groups = np.vstack([np.zeros((1, n), bool), np.eye(n, dtype=bool)])
    return simulator.play(seed, None if name == "closed-loop" else actions, forced, groups), actions, forced


def _finite_steps(psi: np.ndarray) -> int:
    """Return the number of leading steps in which all targets of all runs ``(B, T, m)`` are finite."""
    finite = np.atleast_1d(np.isfinite(psi).all(axis=(0, 2)))
    return len(finite) if finite.all() else int(finite.argmin())


def _paired(
    change: np.ndarray, before: np.ndarray, after: np.ndarray, factor_of: np.ndarray, *, both: bool
) -> np.ndarray:
    """Return p-values ``(n, m)`` from changes of targets ``(S, n, m)`` and actions before and after, ``(S, c)``.

    `both`: whether the actions before may also be used.
    """
    change = change.astype(np.float64)  # in single precision, the smallest squares would underflow
    trials, n, m = change.shape
    place = stats.rankdata(np.vstack([before, after]), axis=0) / (2 * trials + 1)
    p_value = np.ones((n, m))
    if trials < 2:
        return p_value
    active = (change != 0).sum(axis=0)
    least = 0.5 ** np.maximum(active - 1, 0)
    # Bonferroni over the components of a factor and the two features of their actions.
    tests = 2 * np.bincount(factor_of, minlength=n)[:, None]
    for feature in (place, np.abs(place - 0.5)):
        contrast = feature[trials:] - (feature[:trials] if both else feature[trials:].mean(axis=0))
        for c, i in enumerate(factor_of):
            product = contrast[:, c, None] * change[:, i]
            squares = np.square(product).sum(axis=0)
            share = np.square(product.sum(axis=0)) / np.maximum(squares, 1e-300)  # up to `trials`
            t = np.sqrt(share * (trials - 1) / np.maximum(trials - share, 1e-12))
            p = np.where(squares > 0, np.maximum(2 * stats.t.sf(t, trials - 1), least[i]), 1.0)
            p_value[i] = np.minimum(p_value[i], p)
    return np.minimum(1.0, tests * p_value)


def _unpaired(simulator: Simulator, name: str, seeds: range, rng: np.random.Generator) -> np.ndarray:
    """Return p-values ``(n, m)`` of `dependence_test` on episodes with these seeds and independent actions."""
    n, m = simulator.network.shape
    nothing, sums, mean_actions = np.zeros((1, n), bool), [], []
    for seed in seeds:
        actions = simulator.sequence(rng, alike=False, rates=HOLD_RATES)
        if name == "one-step":
            at = int(rng.integers(simulator.horizon))
            actions[at] = simulator.sequence(rng, alike=False, rates=(1.0,))[at]  # independent of earlier actions
            psi = simulator.play_once(seed, actions, actions, nothing[:0], at)[0]
            sums.append(psi[at if len(psi) > 1 else 0])
            mean_actions.append(actions[at])
        else:
            psi = simulator.play(seed, actions, actions, nothing)[0]
            sums.append(psi[: _finite_steps(psi[None])].sum(axis=0))
            mean_actions.append(actions.mean(axis=0))
    samples, targets = np.array(mean_actions, float), np.nan_to_num(np.array(sums))
    # Ranks with random ties: uniform and independent of the targets if there is no edge.
    order = np.lexsort((rng.random(samples.shape), samples), axis=0).argsort(axis=0)
    uniforms = (order + 0.5) / len(samples)
    constant = np.ptp(samples, axis=0) == 0
    p = dependence_test(Batch(uniforms - 0.5, targets, uniforms)).p_value
    p = np.where(np.isnan(p) | constant[:, None], 1.0, p)
    p_value = np.ones((n, m))
    for c, i in enumerate(simulator.factor_of):
        p_value[i] = np.minimum(p_value[i], p[c])
    return np.minimum(1.0, np.bincount(simulator.factor_of, minlength=n)[:, None] * p_value)
