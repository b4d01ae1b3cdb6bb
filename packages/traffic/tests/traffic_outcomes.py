"""Made-up outcomes of the traffic study, for tests of what it says about them."""

import dataclasses

import numpy as np
from factorax_paper.experiments import find, traffic_2x6, traffic_3x3
from factorax_paper.harness import traffic_study


def _results(runs, settings, ends, sumo=True):
    """Curves that rise from −300 to the returns of each method, a little apart for every seed."""
    results = []
    for training in runs:
        finals = np.array([ends[method] + 2 * (seed / (settings.seeds - 1)) - 1 for method, seed in training.labels])
        curves = -300 + (finals[:, None] + 300) * np.linspace(0, 1, settings.iterations)
        steps = np.tile(20_000 * np.arange(1, settings.iterations + 1), (len(finals), 1))
        nothing = np.full(len(finals), np.nan)
        scores = {"final": finals, "sampled": finals, "sumo": finals if sumo else nothing, "variance_ratio": nothing}
        results.append({"steps": steps, "returns": curves} | scores)
    return [*results, {"returns": np.array([[-153.0, -154.0], [-233.0, -233.0], [-370.0, -360.0]])}]


def traffic_outcome(name, ends, **options):
    """Experiment, settings, table and summary of runs that end with these returns, of the first methods in order."""
    one, methods = find(name), {"traffic-3x3": traffic_3x3.METHODS, "traffic-2x6": traffic_2x6.METHODS}[name]
    ends = dict(zip(methods, ends, strict=False))
    settings = dataclasses.replace(one.budgets["paper"], iterations=30, methods=tuple(ends))
    rows, columns = (int(n) for n in name.removeprefix("traffic-").split("x"))
    runs = traffic_study.plan(rows, columns, methods)(settings, 0)
    table = one.tabulate(settings, 0, _results(runs, settings, ends, **options))
    return one, settings, table, one.summarise(settings, table)
