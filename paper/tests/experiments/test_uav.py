"""UAV: what is said of its curves, and which runs there are."""

import pytest
from curves_of_runs import rising_curves
from factorax_paper.experiments import find
from factorax_paper.experiments.uav import METHODS, Settings, plan


@pytest.mark.parametrize(("ends", "verdict"), [((-10, -30, -40, -50), "holds"), ((-10, -5, -40, -50), "holds in part")])
def test_the_claim_of_uav(ends, verdict):
    experiment = find("uav-4")
    settings = experiment.budgets["paper"]
    rows = rising_curves(**dict(zip(settings.methods, map(float, ends), strict=True)))
    (claim,) = experiment.claims(settings, experiment.summarise(settings, rows))
    assert claim.verdict == verdict
    assert "30 actions, 10 targets" in claim.claim
    assert (claim.source, bool(claim.chosen_by)) == ("ours", True)
    assert bool(claim.would_settle) == (verdict == "holds in part")
    figure = experiment.draw(settings, rows, experiment.summarise(settings, rows))
    assert len(figure.axes[0].lines) == 4


def test_the_runs_of_uav_differ_in_the_method_alone():
    runs = plan("5")(Settings(steps=800, seeds=2), 1)
    assert [t.seed for t in runs] == [2, 3] * 4
    assert len({t.name for t in runs}) == 8
    assert all("rddl:UAV_ippc2023/5" in t.arguments for t in runs)


@pytest.mark.parametrize("critic", ["target", "factor"])
def test_all_methods_of_ours_have_the_same_critic_and_settings(critic):
    """What is left after the method's own options is equal, option by option."""
    runs = plan("4")(Settings(steps=800, seeds=1, methods=METHODS[:3], critic=critic), 0)
    own = {"--variance-report", "--network", "complete", "--method", "ppo"}
    rest = [tuple(word for word in t.arguments if word not in own) for t in runs]
    assert len(set(rest)) == 1
    assert all(t.arguments[t.arguments.index("--critic") + 1] == critic for t in runs)
