"""Measurement of lags: one action is changed in one step, and the first step in which each target differs is found."""

import warnings
from typing import Any

import numpy as np

from .._checks import check_each
from ..structure import LaggedNetwork, StructureWarning
from ..structure.network import as_network
from .simulator import OPTIONS
from .simulators import simulator_of


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
        net = simulator.network if network is None else as_network(network, "network")
        n, m = simulator.network.shape
        if net.shape != (n, m):
            raise ValueError(f"network: got shape {net.shape}, want ({n}, {m}), the shape of the problem's network")
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
