"""Run folders that are written, not trained: reports read what is in them."""

import json

import numpy as np

from factorax.ppo import Config


def write_run(folder, *, problem="chain:3", network="own", updates=20, seed=0, level=0.0, metrics=None, **settings):
    """A folder with settings and metrics of a run that improves from −10 to `level`; `metrics` replaces the rows."""
    folder.mkdir(parents=True)
    config = Config(seed=seed, n_envs=2, n_steps=8, batch_size=16, total_timesteps=16 * updates, **settings)
    content = {"format": 1, "problem": problem, "network": network, "config": config.to_json()}
    (folder / "config.json").write_text(json.dumps(content))
    rows = metrics if metrics is not None else [*improving(updates, seed=seed, level=level)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def improving(updates, *, seed=0, level=0.0, targets=3, episodes=2):
    """Rows of metrics whose return rises from −10 to `level`, with noise, split among the targets."""
    rng = np.random.default_rng(seed)
    for k in range(updates):
        share = (k + 1) / updates
        total = -10 + (level + 10) * share + rng.normal(scale=0.1)
        each = [total / targets + 0.1 * j for j in range(targets)]
        yield {
            "rollout/ep_rew_mean": sum(each),
            "rollout/ep_targets_mean": each,
            "rollout/episodes": episodes,
            "factor/gradient_snr": [0.01 * (j + 1) * share for j in range(targets)],
            "target/explained_variance": [share - 0.1 * j for j in range(targets)],
            "time/total_timesteps": 16 * (k + 1),
            "time/iterations": k + 1,
            "time/time_elapsed": 0.5 * (k + 1),
        }
