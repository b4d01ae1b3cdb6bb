"""What K bought: terms by factor from the metrics or from a rollout, and who gains most."""

import numpy as np
import pytest
from runs.report.run_folders import improving, write_run
from small_settings import SMALL

from factorax import runs
from factorax.ppo import Config
from factorax.runs.report.inputs import read_inputs
from factorax.runs.report.networks import spec_of
from factorax.runs.report.variance import credit_section, measure_terms

TERMS = {
    "vanilla": [4.0, 8.0, 2.0],
    "factored": [2.0, 2.0, 2.0],
    "delta": [2.0, 6.0, 0.0],
    "quadratic": [1.0, 1.0, 1.0],
    "linear": [0.0, 0.0, 0.0],
    "covariance": [1.0, 5.0, -1.0],
    "alpha": [0.5, 0.5, 0.5],
    "bias": [0.0, 0.1, -0.1],
    "ratio": 14 / 6,
}


def test_terms_that_training_logged_are_shown_by_factor(tmp_path):
    rows = [row | {f"variance/{name}": value for name, value in TERMS.items()} for row in improving(3)]
    (run,) = read_inputs([write_run(tmp_path / "run", updates=3, metrics=rows)])
    spec = spec_of(run)
    section = credit_section("group", run, spec, {})
    assert section["source"] == "logged in the last update, at 48 steps"
    assert section["ratio"] == pytest.approx(14 / 6, rel=1e-3)
    assert section["terms"][1] == {"factor": spec.network.static.actions[1]} | {
        name: values[1] for name, values in TERMS.items() if name != "ratio"
    }
    assert [gain["factor"] for gain in section["gains"]["most"]] == [spec.network.static.actions[k] for k in (1, 0, 2)]
    assert section["gains"]["most"][0]["share"] == 0.75
    assert [each["name"] for each in section["snr"]] == list(spec.network.static.actions)
    assert section["explained"]["of"] == "target"
    assert measure_terms(run, spec, None, []) == {}


def test_without_terms_and_without_a_checkpoint_the_section_says_what_k_drops(tmp_path):
    (run,) = read_inputs([write_run(tmp_path / "run")])
    section = credit_section("group", run, spec_of(run), {})
    assert "terms" not in section
    assert section["drops"]
    (run,) = read_inputs([write_run(tmp_path / "complete", network="complete")])
    assert not credit_section("group", run, spec_of(run), {})["drops"]


@pytest.mark.slow
def test_a_rollout_of_the_last_checkpoint_is_measured_and_the_folder_stays_as_it_was(tmp_path):
    runs.train("contextual-bandit:3", Config(total_timesteps=48, **SMALL), tmp_path / "run", progress_bar=False)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    (run,) = read_inputs([tmp_path / "run"])
    notes = []
    terms = measure_terms(run, spec_of(run), None, notes)
    assert notes == []
    assert {name.removeprefix("variance/") for name in terms} == TERMS.keys()
    np.testing.assert_allclose(
        terms["variance/delta"], terms["variance/vanilla"] - terms["variance/factored"], rtol=1e-4
    )
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before
    (tmp_path / "run" / "checkpoints" / "last.safetensors").write_bytes(b"damaged")
    assert measure_terms(run, spec_of(run), None, notes) == {}
    assert "could not be measured" in notes[0]
