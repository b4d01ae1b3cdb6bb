"""Networks in reports: edges, changes over training, evidence, suspects, and the map."""

import numpy as np
import pytest
from runs.report.run_folders import improving, write_run
from small_settings import SMALL

import factorax as fx
from factorax import runs
from factorax.discovery.result import Discovery
from factorax.ppo import Config
from factorax.problems import find_problem
from factorax.runs.report.inputs import read_inputs
from factorax.runs.report.networks import discovered_network, evidence, fits, run_network, spec_of


def view(folder, **options):
    (run,) = read_inputs([write_run(folder, **options)])
    return run_network("net", run, spec_of(run))


def test_edges_and_names_are_those_of_the_network(tmp_path):
    shown = view(tmp_path / "run", problem="chain:3")
    network = find_problem("chain:3").network
    assert shown["actions"] == list(network.actions)
    assert shown["targets"] == list(network.targets)
    np.testing.assert_array_equal(shown["edges"], np.argwhere(network.to_dense() > 0))
    assert shown["n_edges"] == len(shown["edges"])
    assert shown["layout"] is None
    assert shown["soft"] is None


def test_an_adaptive_network_is_complete_at_first_and_changes_by_the_names_in_the_metrics(tmp_path):
    network = find_problem("chain:3").network
    a, t = network.actions, network.targets
    rows = [*improving(4)]
    rows[1]["network/went"] = [f"{a[0]} → {t[2]}", f"{a[1]} → {t[2]}", "unknown → edge"]
    rows[3]["network/came"] = [f"{a[0]} → {t[2]}"]
    shown = view(tmp_path / "run", network="adaptive", metrics=rows)
    assert len(shown["edges"]) == 9
    assert shown["events"] == [
        {"step": 32, "came": [], "went": [[0, 2], [1, 2]]},
        {"step": 64, "came": [[0, 2]], "went": []},
    ]


def test_a_curriculum_changes_with_its_stages(tmp_path):
    shown = view(tmp_path / "run", problem="chain:3", network="curriculum:near,complete", updates=20)
    before = len(shown["edges"])
    complete = shown["shape"][0] * shown["shape"][1]
    assert before < complete
    changes = [len(event["came"]) - len(event["went"]) for event in shown["events"]]
    assert before + sum(changes) == complete


def test_a_discovery_gives_evidence_to_networks_of_its_names():
    p_value = np.array([[1e-4, 0.5], [np.nan, 2e-4]])
    found = Discovery(
        "score", "return", effect=np.eye(2), p_value=p_value, samples=np.full((2, 2), 100), effect_unit="sd"
    )
    shown = discovered_network("found", found)
    assert shown["edges"] == [[0, 0], [1, 1]]
    told = evidence(found)
    assert told["pairs"] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert told["p_value"] == [1e-4, 0.5, None, 2e-4]
    assert told["unit"] == "sd"
    assert fits(shown, found)
    other = Discovery("score", "return", effect=np.eye(3), p_value=np.eye(3), samples=np.ones((3, 3)))
    assert not fits(shown, other)
    assert not fits({"shape": [600, 600]}, found)


def test_problems_that_lead_elsewhere_are_made_only_if_they_are_trusted(tmp_path):
    (run,) = read_inputs([write_run(tmp_path / "run", problem="os:getcwd")])
    with pytest.raises(ValueError, match="leads to code to be run"):
        spec_of(run)
    (run,) = read_inputs([write_run(tmp_path / "odd", problem="nothing:here")])
    with pytest.raises(ValueError, match="nothing:here"):
        spec_of(run, "nothing:here")


@pytest.mark.slow
def test_edges_that_the_test_of_training_suspects_are_named(tmp_path):
    """A bandit whose network lacks the edge of its first action: the test finds it within a few rollouts."""
    own = find_problem("contextual-bandit:3").network
    matrix = own.to_dense().copy()
    matrix[0], matrix[1] = [False, True, False], [True, True, False]
    fx.InfluenceNetwork(matrix, own.actions, own.targets).save(tmp_path / "k.json")
    settings = SMALL | {"n_envs": 64, "batch_size": 96}
    config = Config(total_timesteps=64 * 6 * 8, **settings)
    with pytest.warns(fx.structure.StructureWarning, match="the data show that"):
        runs.train(
            "contextual-bandit:3", config, tmp_path / "run", network=str(tmp_path / "k.json"), progress_bar=False
        )
    (run,) = read_inputs([tmp_path / "run"])
    shown = run_network("net", run, spec_of(run))
    assert [(i, j) for i, j, _ in shown["suspects"]] == [(0, 0)]
    assert shown["suspects"][0][2] < 1e-3
    assert any("the data show that" in warning for warning in run.warnings)
