"""Files of models: by which name they are found, and what they say of their problem."""

import gymnasium as gym
import numpy as np
import pytest
from small_settings import SMALL

import factorax as fx
from factorax import runs
from factorax.ppo import Config, FactoredPPO, checkpoints
from factorax.ppo.model_files import DamagedWarning, checked_settings, existing, named_in
from factorax.problems import chain


@pytest.mark.slow
def test_a_model_made_from_names_is_loaded_without_a_problem(tmp_path):
    model = FactoredPPO("chain:3,delay=2", "near", policy="shared", **SMALL)
    model.save(tmp_path / "lights")
    again = FactoredPPO.load(tmp_path / "lights")
    assert (again.names, again.config) == (model.names, model.config)
    assert again.network == model.network
    other = FactoredPPO.load(tmp_path / "lights", learning_rate=1.0, n_envs=4)
    assert other.config.learning_rate == 1.0
    assert float(other.state.hyper.learning_rate) == 1.0


def test_without_a_name_the_error_says_what_it_was_trained_on(tmp_path):
    FactoredPPO(lambda: gym.make("CartPole-v1"), **SMALL).save(tmp_path / "pole")
    with pytest.raises(ValueError, match=r"does not name the problem .*sizes: observation space Box\(.*Discrete\(2\)"):
        FactoredPPO.load(tmp_path / "pole")
    assert FactoredPPO.load(tmp_path / "pole", "CartPole-v1").num_timesteps == 0


@pytest.mark.slow
def test_a_run_is_loaded_with_its_copy_of_the_network(tmp_path, monkeypatch):
    """The file that the user named may be gone, or another one."""
    monkeypatch.chdir(tmp_path)
    fx.InfluenceNetwork.identity(3).save("K.json")
    config = Config(total_timesteps=24, **SMALL)
    runs.train("contextual-bandit:3", config, tmp_path / "run", network="K.json", progress_bar=False)
    (tmp_path / "K.json").unlink()
    assert FactoredPPO.load(tmp_path / "run").network == fx.InfluenceNetwork.identity(3)


def test_another_problem_is_refused_with_the_sizes_of_both(tmp_path):
    FactoredPPO(chain(3), **SMALL).save(tmp_path / "chain")
    with pytest.raises(ValueError, match=r"on another problem: .*factors 3 there, 4 here; targets 3 there, 4 here"):
        FactoredPPO.load(tmp_path / "chain", chain(4))


def test_what_was_given_has_to_be_given_again(tmp_path):
    network = np.roll(np.eye(4), 1, axis=0)
    FactoredPPO("contextual-bandit:4", network, weights=[1, 2, 3, 4], **SMALL).save(tmp_path / "m")
    with pytest.raises(ValueError, match=r"network: .* was trained with custom network, which is not in the file"):
        FactoredPPO.load(tmp_path / "m")
    with pytest.raises(ValueError, match=r"weights: .* was trained with custom weights"):
        FactoredPPO.load(tmp_path / "m", network=network)
    again = FactoredPPO.load(tmp_path / "m", network=network, weights=[1, 2, 3, 4])
    np.testing.assert_array_equal(again.network.to_dense(), network)


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["chain:3", "CartPole-v1"])
def test_another_number_of_environments_begins_new_episodes(tmp_path, problem):
    FactoredPPO(problem, **SMALL).learn(48, progress_bar=False).save(tmp_path / "m")
    more = FactoredPPO.load(tmp_path / "m", n_envs=8)
    assert more.num_timesteps == 48
    more.learn(48, reset_num_timesteps=False, progress_bar=False)
    assert more.num_timesteps == 96


def test_names_that_run_code_are_for_the_user_to_say(tmp_path):
    FactoredPPO("factorax.problems:chain", **SMALL).save(tmp_path / "chain")
    with pytest.raises(ValueError, match="which leads to code to be run; if you trust it, confirm"):
        FactoredPPO.load(tmp_path / "chain")
    assert FactoredPPO.load(tmp_path / "chain", "factorax.problems:chain").names[0] == "factorax.problems:chain"


def test_where_a_file_is_looked_for(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"path: no file '.*m' or '.*m.safetensors'"):
        existing(tmp_path / "m")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=r"no checkpoint in '.*run'"):
        existing(tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / "previous.safetensors").touch()
    assert [path.name for path in existing(tmp_path / "run")] == ["previous.safetensors"]


@pytest.mark.parametrize("config", ["[]", '{"problem": 3, "network": "own"}', "{", '{"problem": "chain:3"}'])
def test_settings_of_a_folder_that_make_no_sense(tmp_path, config):
    (tmp_path / "config.json").write_text(config)
    path = tmp_path / "checkpoints" / "last.safetensors"
    path.parent.mkdir()
    checkpoints.save(path, {}, {})
    with pytest.raises(ValueError, match="does not name the problem it was trained on"):
        named_in(path)


def test_names_of_files_are_for_the_user_to_say(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fx.InfluenceNetwork.identity(3).save("K.json")
    for network in ("K.json", "adaptive:K.json", "./K.json"):
        FactoredPPO("contextual-bandit:3", network, **SMALL).save("m")
        with pytest.raises(ValueError, match=r"network: 'm.safetensors' was trained with the file '.*K.json'.*pass it"):
            FactoredPPO.load("m")
    assert FactoredPPO.load("m", "contextual-bandit:3", "K.json").names == ("contextual-bandit:3", "K.json")


@pytest.mark.parametrize("problem", ["sumo:a.net.xml,a.rou.xml", "rddl:a.rddl/b.rddl", "mine:make"])
def test_problems_that_lead_elsewhere_are_trusted_by_name(tmp_path, problem):
    path = tmp_path / "m.safetensors"
    checkpoints.save(path, {}, {"problem": problem, "network": "own"})
    for trusted in (None, "chain:3"):
        with pytest.raises(ValueError, match=rf"confirm with .*trusted='{problem}'"):
            named_in(path, trusted)
    assert named_in(path, problem) == (problem, "own")


def test_a_trusted_problem_keeps_the_network_of_the_file(tmp_path):
    FactoredPPO("factorax.problems:chain", "near", **SMALL).save(tmp_path / "m")
    again = FactoredPPO.load(tmp_path / "m", trusted="factorax.problems:chain")
    assert again.names == ("factorax.problems:chain", "near")


def test_a_run_with_a_damaged_checkpoint_is_loaded_from_the_one_before(tmp_path):
    out = tmp_path / "run"
    runs.train("contextual-bandit:3", Config(total_timesteps=24, **SMALL), out, progress_bar=False)
    last = out / "checkpoints" / "last.safetensors"
    last.with_name("previous.safetensors").write_bytes(last.read_bytes())
    data = bytearray(last.read_bytes())
    data[-5] ^= 1
    last.write_bytes(data)
    with pytest.warns(DamagedWarning, match="checksum .* continuing from"):
        assert FactoredPPO.load(out).num_timesteps == 24
    with pytest.raises(ValueError, match="checksum"):
        FactoredPPO.load(last)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_envs": 2**20 + 1}, r"n_envs: got 1,048,577 from a file, want at most 1,048,576"),
        ({"n_envs": 2**20, "n_steps": 2**11}, r"n_steps: got 2,048 × 1,048,576 environments from a file, want"),
        ({"hidden": (4,) * 65}, r"hidden: got 65 layers from a file, want at most 64"),
    ],
)
def test_what_is_too_large(settings, message):
    with pytest.raises(ValueError, match=message):
        checked_settings(vars(Config(batch_size=1, **settings)))


def test_what_is_large_and_meant():
    large = vars(Config(n_envs=4096, n_steps=1024, hidden=(1024,) * 4))
    assert checked_settings(large) == large


def test_the_address_of_a_cluster_is_the_users_alone():
    """Whoever runs a Ray cluster runs code in the processes that connect to it."""
    settings = vars(Config(rollouts="ray,address=stranger:6379"))
    assert str(checked_settings(settings)["rollouts"]) == "ray"


@pytest.mark.slow
def test_a_model_is_no_larger_than_its_file_unless_the_user_says_so(tmp_path, monkeypatch):
    FactoredPPO("contextual-bandit:3", **SMALL).save(tmp_path / "m")
    monkeypatch.setattr("factorax.ppo.model_files.SLACK", 2**10)
    assert FactoredPPO.load(tmp_path / "m").config.n_envs == 4
    with pytest.raises(ValueError, match=r"has [\d,]+ bytes, but a model with its settings takes [\d,]+"):
        FactoredPPO.load(tmp_path / "m", hidden=(512, 512))
    assert FactoredPPO.load(tmp_path / "m", n_envs=4096).config.n_envs == 4096
