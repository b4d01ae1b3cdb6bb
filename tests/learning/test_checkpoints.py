"""Checkpoints: training resumes bit for bit, and files of the format before are still read."""

import json
from functools import partial
from pathlib import Path

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_settings import SMALL

from factorax.learning import FactoredPPO, checkpoints
from factorax.problems import chain, contextual_bandit

CHAIN = chain(3, delay=2, horizon=6)


def model(problem, network=None, **settings):
    return FactoredPPO(problem, network, **SMALL | settings)


def test_a_host_resumes_from_a_file_bit_for_bit(tmp_path):
    """In the middle of episodes, whose first steps are replayed, by other workers than those that started them."""
    make, settings = partial(gym.make, "CartPole-v1"), {"normalize_obs": True, "normalize_reward": True}
    whole = model(make, **settings).learn(96, progress_bar=False)
    part = model(make, **settings).learn(48, progress_bar=False)
    part.save(tmp_path / "m.safetensors")
    assert max(episode.length for episode in part._episodes) > 6  # some began before the last rollout
    other = model(make, rollouts="processes", workers=2, **settings)
    other.restore(tmp_path / "m.safetensors")
    other.learn(48, reset_num_timesteps=False, progress_bar=False).close()
    for a, b in zip(*(jax.tree.leaves(eqx.filter(m.state.agent, eqx.is_array)) for m in (whole, other)), strict=True):
        np.testing.assert_array_equal(a, b)
    for name in ("rollout/ep_rew_mean", "train/loss"):
        assert whole.history[-1].get(name) == other.history[-1].get(name)
    with pytest.raises(ValueError, match="was it written with other settings"):
        model(make, hidden=(9,), **settings).restore(tmp_path / "m.safetensors")


@pytest.mark.slow
def test_a_jax_model_resumes_from_a_file_bit_for_bit(tmp_path):
    ppo = model(CHAIN, policy="shared", critic="factor").learn(48, progress_bar=False)
    ppo.save(tmp_path / "m.safetensors")
    other = FactoredPPO.load(tmp_path / "m.safetensors", CHAIN)
    assert other.config == ppo.config
    a, b = (
        m.learn(24, reset_num_timesteps=False, progress_bar=False).evaluate(4, seed=3)["episodes"] for m in (ppo, other)
    )
    np.testing.assert_array_equal(a, b)
    assert len(other.history) == 1
    with pytest.raises(ValueError, match=r"checkpoint of something else|was it written with other settings"):
        FactoredPPO.load(tmp_path / "m.safetensors", chain(4))


DATA = Path(__file__).with_name("data")
"""Checkpoints that the version before format 3 wrote, and what its models predicted and learnt next."""
EXPECTED = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
EARLIER = {
    "shared": (CHAIN, None),
    "adaptive": (contextual_bandit(3), "adaptive"),
    "missing_edges": (contextual_bandit(3), None),
    "host": (partial(gym.make, "Pendulum-v1"), None),
}


def assert_agent(ppo, expected):
    leaves = [np.asarray(x).ravel() for x in jax.tree.leaves(eqx.filter(ppo.state.agent, eqx.is_array))]
    for ours, theirs in zip(leaves, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", EARLIER)
def test_a_checkpoint_of_format_2_is_loaded_and_trained_further(name):
    expected = EXPECTED[name]
    ppo = FactoredPPO.load(DATA / f"{name}.safetensors", *EARLIER[name])
    assert ppo.num_timesteps == expected["timesteps"]
    assert_agent(ppo, expected["agent"])
    np.testing.assert_array_equal(np.asarray(ppo.network.to_dense(), float), expected["network"])
    predictions, _ = ppo.predict(np.float32(expected["observations"]), deterministic=True)
    np.testing.assert_allclose(np.asarray(predictions, float), expected["predictions"], rtol=1e-4, atol=1e-6)
    step = ppo.config.n_envs * ppo.config.n_steps
    ppo.learn(step, reset_num_timesteps=False, progress_bar=False).close()
    assert ppo.num_timesteps == expected["timesteps"] + step
    assert_agent(ppo, expected["agent_after"])  # its optimiser, keys and episodes continue as well


@pytest.mark.slow
def test_what_format_2_knew_besides_the_agent():
    adaptive, missing, host = (
        FactoredPPO.load(DATA / f"{name}.safetensors", *EARLIER[name]) for name in ("adaptive", "missing_edges", "host")
    )
    assert adaptive.network.n_edges == 4 < adaptive.spec.network.static.n_edges
    assert int(adaptive.state.network.rollouts) == 12
    assert float(jnp.abs(missing.state.missing_edges.product).sum()) == pytest.approx(EXPECTED["missing_edges"]["sums"])
    assert host.config.bounded == "tanh"  # it was called squash
    assert [episode.length for episode in host._episodes] == [21, 21]  # in the middle of episodes


def test_a_checkpoint_of_format_2_is_written_as_one_of_format_5(tmp_path):
    ppo = FactoredPPO.load(DATA / "adaptive.safetensors", *EARLIER["adaptive"])
    ppo.save(tmp_path / "m.safetensors")
    assert checkpoints.about(DATA / "adaptive.safetensors")["format"] == 2
    assert checkpoints.about(tmp_path / "m.safetensors")["format"] == checkpoints.FORMAT == 5
    again = FactoredPPO.load(tmp_path / "m.safetensors", *EARLIER["adaptive"])
    for a, b in zip(*(jax.tree.leaves(m.state._replace(key=None)) for m in (ppo, again)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("number", [1, 6, None])
def test_other_formats_are_refused(tmp_path, monkeypatch, number):
    monkeypatch.setattr(checkpoints, "FORMAT", number)
    checkpoints.save(tmp_path / "m.safetensors", {"x": jnp.ones(2)}, {})
    monkeypatch.undo()
    with pytest.raises(
        ValueError, match=f"format {number}, want 5 or an earlier one down to 2; it is of another version"
    ):
        checkpoints.load(tmp_path / "m.safetensors", {"x": jnp.ones(2)})


def test_arrays_are_read_without_a_model_and_only_from_whole_files(tmp_path):
    path = tmp_path / "m.safetensors"
    tree = {"sums": {"a": jnp.arange(3.0), "b": jnp.zeros((2, 2))}, "other": jnp.ones(1)}
    checkpoints.save(path, tree, {})
    stored = checkpoints.arrays(path, "['sums']")
    assert set(stored) == {"['a']", "['b']"}
    np.testing.assert_array_equal(stored["['a']"], [0, 1, 2])
    assert checkpoints.arrays(path, "nothing") == {}
    with pytest.raises(ValueError, match="want at most 10"):
        checkpoints.arrays(path, "", limit=10)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match="its checksum does not match"):
        checkpoints.arrays(path, "")
