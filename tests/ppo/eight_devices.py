"""Run with eight devices: training on one of them and on all, of one seed and of several."""

import json
import sys
import tempfile
from pathlib import Path

import equinox as eqx
import jax
import numpy as np

from factorax.ppo import FactoredPPO
from factorax.problems import contextual_bandit, queues

SETTINGS = {"n_envs": 16, "n_steps": 10, "batch_size": 40, "n_epochs": 2, "hidden": (8,), "learning_rate": 1e-3}
NORMALISED = {"normalize_obs": True, "normalize_reward": True}


def leaves(model):
    """Everything that changes in training, as one vector each."""
    arrays = jax.tree.leaves(eqx.filter(model.state._replace(key=None), eqx.is_inexact_array))
    return [np.asarray(x, float).ravel() for x in arrays if x.size]


def difference(one, other):
    """The largest there is, over the largest number of its array."""
    return max(abs(a - b).max() / max(abs(a).max(), 1e-3) for a, b in zip(leaves(one), leaves(other), strict=True))


def trained(problem, **settings):
    return FactoredPPO(problem, **{**SETTINGS, **settings}).learn(3 * 160, progress_bar=False)


def main():
    assert len(jax.devices()) == 8
    comparison = {}
    grid = queues(2, 2, horizon=20)
    for name, problem, settings in [
        ("normalised", contextual_bandit(4), NORMALISED),
        ("shared", grid, {"policy": "shared", "critic": "factor"}),
    ]:
        one, all_of_them = (trained(problem, device=f"auto,count={n}", **settings) for n in (1, 8))
        comparison[name] = difference(one, all_of_them)
    program = all_of_them.compiled._programs["update", None].compile().as_text()
    states, obs, *_ = all_of_them.state.environments
    comparison["reduces"] = program.count("all-reduce")
    comparison["shares"] = [len(x.sharding.device_set) for x in (*jax.tree.leaves(states), obs)]
    comparison["pieces"] = [list(obs.shape), list(obs.addressable_shards[0].data.shape)]
    model = FactoredPPO("contextual-bandit:4", device="auto,count=8", total_timesteps=3 * 160, **SETTINGS, **NORMALISED)
    trained_states, _ = model.compiled.updates(model.compiled.init_seeds([0, 1]), 3)
    both = [model.with_state(trained_states, index=i) for i in range(2)]
    one = trained(contextual_bandit(4), device="auto,count=1", seed=1, **NORMALISED)
    comparison["seeds"] = difference(one, both[1])
    comparison["another seed"] = difference(*both)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.safetensors"
        both[1].save(file)
        loaded = FactoredPPO.load(file, contextual_bandit(4))
        comparison["loaded"] = difference(both[1], loaded)
        loaded.learn(160, reset_num_timesteps=False, progress_bar=False)
    json.dump(comparison, sys.stdout)


if __name__ == "__main__":
    main()
