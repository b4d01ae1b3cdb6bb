"""Bias and variance of a light's gradient: from batches to verdicts."""

from itertools import pairwise

import pytest
from factorax_paper.experiments.traffic_2x6 import METHODS
from factorax_paper.experiments.traffic_gradients import EXPERIMENT, GRIDS, STAGES, Settings
from factorax_paper.harness import traffic_study
from factorax_paper.harness.parts import Progress
from factorax_traffic import lanes

from factorax.ppo import Config
from factorax.ppo.presets import read_preset


@pytest.mark.slow
@pytest.mark.parametrize("name", GRIDS)
def test_from_batches_to_a_verdict(name):
    settings = Settings((name,), n_envs=2, batches=3, iterations=1, steps=16)
    grid = GRIDS[name]
    (part,) = EXPERIMENT.parts(settings, 0)
    ticks = []
    table = EXPERIMENT.tabulate(settings, 0, [part.compute(Progress(None, ticks.append))])
    assert ticks == sorted(ticks)
    assert ticks[-1] == pytest.approx(1)
    assert len(table["signal"]) == 2 * len(grid.networks) * grid.rows * grid.columns
    summary = EXPERIMENT.summarise(settings, table)
    assert summary[name]["trained"][grid.exact]["bias"] == 0
    assert summary[name]["trained"][grid.exact]["variance"] == pytest.approx(1)
    assert len(EXPERIMENT.draw(settings, table, summary).axes) == 2
    (claim,) = EXPERIMENT.claims(settings, summary)
    assert claim.chosen_by


def test_the_levels_have_the_settings_of_fig_5b_and_are_nested():
    """Those of the preset of ``traffic-2x6``, but for what shapes minibatches."""
    grid, preset = GRIDS["2x6"], read_preset(traffic_study.LITERAL).config
    ours, theirs = Config(method=grid.config["method"]).method, preset.method
    for name in ("ratio", "kl_coef", "kl_target", "bootstrap"):
        assert getattr(ours, name) == getattr(theirs, name)
    for name, value in grid.config.items():
        assert name == "method" or value == (1e9 if name == "max_grad_norm" else getattr(preset, name))
    (training,) = traffic_study.plan(2, 6, METHODS)(traffic_study.Settings(("n = 0",)), 0)
    assert training.arguments[1].endswith("action=" + grid.problem["action"])
    problem = lanes(2, 6)
    edges = [problem.influence(preset, **options).to_dense() for preset, options in grid.networks.values()]
    assert all((a <= b).all() and (a != b).any() for a, b in pairwise(edges))


@pytest.mark.parametrize(
    ("near", "verdict"),
    [((0.5, 0.2), "holds"), ((0.5, 1.8), "holds in part"), ((2.5, 0.2), "does not hold")],
)
def test_near_streets_must_lower_variance_and_error(near, verdict):
    """Against a complete network of variance 2 and no bias."""
    pairs = dict.fromkeys(GRIDS["3x3"].networks, (1.0, 0.0)) | {"incident": near, "complete": (2.0, 0.0)}
    rows = {name: row(*pair) for name, pair in pairs.items()}
    (claim,) = EXPERIMENT.claims(Settings(("3x3",)), {"3x3": {"trained": rows}})
    assert claim.verdict == verdict
    assert bool(claim.would_settle) == (verdict == "holds in part")


def row(variance, bias, error=0.01):
    errors = dict.fromkeys(("bias_error", "variance_error", "bias_step_error", "variance_step_error"), error)
    return {"variance": variance, "bias": bias, "error": variance + bias} | errors


@pytest.mark.parametrize(
    ("biases", "variances", "verdict"),
    [
        ([6, 5, 4, 3, 2, 1, 0], [1, 2, 3, 4, 5, 6, 7], "holds"),
        ([6, 5, 4, 4.01, 2, 1, 0], [1, 2, 3, 4, 5, 6, 7], "holds in part"),  # a step within two standard errors
        ([6, 5, 4, 3, 2, 1, 0], [7, 6, 5, 4, 3, 2, 1], "holds in part"),
        ([0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1], "does not hold"),
    ],
)
def test_every_step_of_n_must_be_beyond_its_error(biases, variances, verdict):
    levels = dict(zip(GRIDS["2x6"].levels, map(row, variances, biases), strict=True))
    (claim,) = EXPERIMENT.claims(Settings(("2x6",)), {"2x6": dict.fromkeys(STAGES, levels)})
    assert claim.verdict == verdict
    assert ("Steps within two standard errors" in claim.ours) == (verdict != "holds")
