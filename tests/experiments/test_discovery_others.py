"""Problems of others: nothing is found outside the network read from the model; and what the claims say of it."""

import io
import json
import warnings

import numpy as np
import pytest
from rich.console import Console

import factorax as fx
from factorax.experiments import discovery_others, find
from factorax.experiments.discovery_others import Settings
from factorax.experiments.experiment import reproduce


@pytest.mark.rddl
@pytest.mark.filterwarnings("ignore")  # of their own they have many
def test_uav(tmp_path):
    pytest.importorskip("pyRDDLGym", reason="pyRDDLGym is an extra: factorax[rddl]")
    settings = Settings(("2", "3"), horizon=8, trials=5, days=0)
    experiment = find("discover-others")
    summary = reproduce(experiment, settings=settings, out=tmp_path / "out", console=Console(file=io.StringIO()))
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
    make = discovery_others.chargers()
    found = fx.discover(make, horizon=112, trials=1, one_step=False)
    truth = make().network.to_dense() > 0
    assert not (found.found() & ~truth).any()
    assert (found.found() & truth)[:, :50].sum() >= 25  # profit at least moves wherever a car came


def test_claims_of_hand_made_summaries():
    row = {"edges": 6, "found": 6, "outside": 0, "apart": 6, "trials": 20, "steps": 100}
    summary = {"UAV 2": dict(row), "EV2Gym": row | {"found": 3}}
    assert [claim.verdict for claim in discovery_others.claims(Settings(), summary)] == ["holds", "holds in part"]
    summary["UAV 2"]["outside"] = 1
    assert discovery_others.claims(Settings(), summary)[0].verdict == "holds in part"


def test_what_is_missing_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(discovery_others.factorax, "__file__", str(tmp_path / "src" / "factorax" / "__init__.py"))
    with pytest.raises(FileNotFoundError, match="runs the example of the repository"):
        discovery_others.chargers()
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "ev2gym_chargers.py").write_text("import no_such_simulator")
    monkeypatch.delitem(discovery_others.sys.modules, "ev2gym_chargers", raising=False)
    with pytest.raises(ImportError, match=r"EV2Gym needs the extra packages of factorax\[ev2gym\]"):
        discovery_others.chargers()


def test_the_table_has_every_pair():
    result = {"model": np.eye(2, dtype=bool), "found": np.array([[1, 1], [0, 0]]) > 0}
    result |= {"samples": np.full((2, 2), 3), "steps": np.array(10)}
    settings = Settings(("2",), days=0)
    table = discovery_others.tabulate(settings, 0, [result])
    row = discovery_others.summarise(settings, table)["UAV 2"]
    assert (row["edges"], row["found"], row["outside"], row["apart"], row["trials"]) == (2, 1, 1, 2, 3)
