"""Tables of curves, for tests of what is said of trainings."""

import numpy as np
from factorax_paper.harness import trainings
from factorax_paper.harness.trainings import train


def rising_curves(**ends):
    """Curves of three seeds that end at these returns."""
    plan = [train(method, "chain:3", seed=seed, steps=400) for method in ends for seed in range(3)]
    results = []
    for method, end in ends.items():
        for seed in range(3):
            returns = np.linspace(-100, end + seed, 40)
            one = {name: np.array([end]) for name in ("final", "sampled", "sumo")}
            one["variance_ratio"] = np.array([2.0 if method == next(iter(ends)) else np.nan])
            results.append({"steps": np.arange(10, 401, 10)[None], "returns": returns[None]} | one)
    return trainings.curves(plan, results, points=20)
