"""Made-up outcomes of the traffic study, for tests of what it says about them."""

import dataclasses

import numpy as np

from factorax.experiments import find


def _results(settings, ends, sumo=True):
    """Curves that rise from −300 to these returns, a little apart for every seed."""
    results = []
    for end in ends:
        finals = end + np.linspace(-1, 1, settings.seeds)
        curves = -300 + (finals[:, None] + 300) * np.linspace(0, 1, settings.iterations)
        steps = np.tile(20_000 * np.arange(1, settings.iterations + 1), (settings.seeds, 1))
        scores = {"final": finals, "sampled": finals, "sumo": finals if sumo else np.full(settings.seeds, np.nan)}
        results.append({"steps": steps, "returns": curves, "variance_ratio": np.full(settings.seeds, np.nan)} | scores)
    return [*results, {"returns": np.array([[-153.0, -154.0], [-233.0, -233.0], [-370.0, -360.0]])}]


def traffic_outcome(name, ends, **options):
    """Experiment, settings, table and summary of runs that end with these returns."""
    one = find(name)
    settings = dataclasses.replace(one.budgets["paper"], iterations=30)
    table = one.tabulate(settings, 0, _results(settings, ends, **options))
    return one, settings, table, one.summarise(settings, table)
