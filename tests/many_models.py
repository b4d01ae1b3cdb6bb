"""``python many_models.py same|different|of one's own|host``: train many models in one process.

A line for every model: memory maps, resident memory in MiB, and programs compiled so far.
"""

import gc
import json
import sys
import warnings

import jax
import jax.monitoring

jax.config.update("jax_disable_most_optimizations", True)
warnings.simplefilter("ignore")
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: compiled.append(event) if event.endswith("backend_compile_duration") else None
)

from factorax import _programs  # noqa: E402
from factorax.learning import FactoredPPO, program  # noqa: E402
from factorax.problems import Problem, contextual_bandit  # noqa: E402

SETTINGS = {"n_envs": 2, "n_steps": 4, "batch_size": 8, "n_epochs": 1, "hidden": (4,)}


def resident() -> float:
    with open("/proc/self/status", encoding="utf-8") as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1]) / 1024


def maps() -> int:
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sum(1 for _ in file)


def of_ones_own() -> Problem:
    """A problem of which nobody can say whether it is the same as another."""

    class Reset:
        def __call__(self, key):
            return contextual_bandit(2).reset(key)

    problem = contextual_bandit(2)
    object.__setattr__(problem, "reset", Reset())
    return problem


def problem(kind: str, i: int) -> Problem | str:
    if kind == "host":
        return "CartPole-v1"
    if kind == "own":
        return of_ones_own()
    return contextual_bandit(2 + i % 15 if kind == "different" else 2)


def main(kind: str, models: int) -> None:
    for i in range(models):
        model = FactoredPPO(problem(kind, i), seed=i, learning_rate=1e-3 * (1 + i), **SETTINGS)
        model.learn(16, progress_bar=False)
        model.evaluate(2)
        model.predict(model.observation_space.sample())
        model.close()
        del model
        gc.collect()
        print(json.dumps([maps(), resident(), len(compiled)]), flush=True)


if __name__ == "__main__":
    _programs.ENOUGH = program._kept.size = 2  # soon, for the sake of the test
    main(sys.argv[1], int(sys.argv[2]))
