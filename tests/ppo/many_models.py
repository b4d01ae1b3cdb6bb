"""``python many_models.py same|different|host N``: train N models in one process.

A line for every model: memory maps, and resident memory in MiB.
"""

import gc
import json
import sys
import warnings

import jax

jax.config.update("jax_disable_most_optimizations", True)
warnings.simplefilter("ignore")
from factorax.ppo import FactoredPPO  # noqa: E402
from factorax.problems import contextual_bandit  # noqa: E402

SETTINGS = {"n_envs": 2, "n_steps": 4, "batch_size": 8, "n_epochs": 1, "hidden": (4,)}


def resident() -> float:
    with open("/proc/self/status", encoding="utf-8") as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1]) / 1024


def maps() -> int:
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sum(1 for _ in file)


def main(kind: str, models: int) -> None:
    for i in range(models):
        problem = "CartPole-v1" if kind == "host" else contextual_bandit(2 + i % 30 if kind == "different" else 2)
        model = FactoredPPO(problem, seed=i, learning_rate=1e-3 * (1 + i), **SETTINGS)
        model.learn(16, progress_bar=False)
        model.evaluate(2)
        model.predict(model.observation_space.sample())
        model.close()
        del model
        gc.collect()
        print(json.dumps([maps(), resident()]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
