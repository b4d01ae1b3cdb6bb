"""Checkpoints: training resumes bit for bit, and damaged files are refused."""

from functools import partial

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_settings import SMALL

from factorax.ppo import FactoredPPO, checkpoints
from factorax.problems import chain

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
    other = model(make, rollouts="processes,workers=2", **settings)
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


@pytest.mark.parametrize("number", [0, 2, None])
def test_other_formats_are_refused(tmp_path, monkeypatch, number):
    monkeypatch.setattr(checkpoints, "FORMAT", number)
    checkpoints.save(tmp_path / "m.safetensors", {"x": jnp.ones(2)}, {})
    monkeypatch.undo()
    with pytest.raises(ValueError, match=f"format {number}, want 1"):
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
    with pytest.raises(ValueError, match="checksum"):
        checkpoints.arrays(path, "")
