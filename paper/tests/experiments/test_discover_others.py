"""Third-party problems: nothing is found outside the network read from the model; and what the claims say of it."""

import io
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from factorax_paper import commands
from factorax_paper.experiments import discover_others, find
from factorax_paper.experiments.discover_others import Settings
from factorax_paper.harness import experiment
from factorax_paper.harness.experiment import reproduce
from rich.console import Console

import factorax as fx


@pytest.mark.rddl
@pytest.mark.filterwarnings("ignore")  # both packages warn a lot
def test_uav(tmp_path):
    pytest.importorskip("pyRDDLGym", reason="pyRDDLGym is an extra: factorax[rddl]")
    settings = Settings(instances=("2", "3"), horizon=8, trials=5, days=0)
    summary = reproduce(
        find("discover-others"), settings=settings, out=tmp_path / "out", console=Console(file=io.StringIO())
    )
    assert {name: (row["edges"], row["found"], row["outside"]) for name, row in summary.items()} == {
        "UAV 2": (6, 6, 0),
        "UAV 3": (6, 6, 0),  # its first craft is steered by nobody
    }
    claims = json.loads((tmp_path / "out" / "summary.json").read_text())["claims"]
    assert [claim["verdict"] for claim in claims] == ["holds", "holds"]


@pytest.mark.ev2gym
@pytest.mark.filterwarnings("ignore")
def test_ev2gym():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("ev2gym.models.ev2gym_env", reason="EV2Gym is an extra: factorax[ev2gym]",
                            exc_type=ImportError)  # fmt: skip
    make = discover_others.chargers
    found = fx.discover(make, horizon=112, trials=1, one_step=False)
    truth = make().network.to_dense() > 0
    assert not (found.found() & ~truth).any()
    assert (found.found() & truth)[:, :50].sum() >= 25  # profit at least moves wherever a car came


def test_claims_of_hand_made_summaries():
    row = {"edges": 6, "found": 6, "outside": 0, "apart": 6, "trials": 20, "steps": 100}
    summary = {"UAV 2": dict(row), "EV2Gym": row | {"found": 3}}
    assert [claim.verdict for claim in discover_others.claims(Settings(), summary)] == ["holds", "holds in part"]
    summary["UAV 2"]["outside"] = 1
    assert discover_others.claims(Settings(), summary)[0].verdict == "holds in part"


def test_days_can_be_changed_on_the_command_line(factorax, monkeypatch, tmp_path):
    """As the message above promises: without EV2Gym nothing of it is needed."""
    monkeypatch.chdir(tmp_path)
    asked = {}
    monkeypatch.setattr(experiment, "reproduce", lambda *_, **options: asked.update(options) or {})
    monkeypatch.setattr(commands, "collected", lambda folders: [])
    code, _, error = factorax("reproduce", "discover-others", "--budget", "paper", "--set", "days=0")
    assert (code, error) == (0, "")
    assert asked["change"] == {"days": 0}
    assert asked["out"] == Path("out/discover-others-paper-0-days-0")
    assert [part.name for part in discover_others.parts(Settings(days=0), 0)] == ["UAV 2", "UAV 3", "UAV 4"]
    assert [part.name for part in discover_others.parts(Settings(), 0)][-1] == "EV2Gym"


def test_the_table_has_every_pair():
    result = {"model": np.eye(2, dtype=bool), "found": np.array([[1, 1], [0, 0]]) > 0}
    result |= {"samples": np.full((2, 2), 3), "steps": np.array(10)}
    settings = Settings(instances=("2",), days=0)
    table = discover_others.tabulate(settings, 0, [result])
    row = discover_others.summarise(settings, table)["UAV 2"]
    assert (row["edges"], row["found"], row["outside"], row["apart"], row["trials"]) == (2, 1, 1, 2, 3)
