"""Measure how long training takes until the policy is better than the controller gap-out in SUMO.

Training uses the preset `traffic` on the 3×3 grid, in the lane simulator or in SUMO with a process per environment. At
regular intervals, the most probable actions are scored in SUMO over ten episodes. Training ends when two consecutive
scores are better than the target. Its seconds include the import of JAX, compilation and the start of workers; the time
of the scores is counted separately. Nothing is extrapolated.
"""

import argparse
import json
import resource
import time
from dataclasses import asdict, dataclass
from typing import Any, Literal

TARGET = -154.0
"""The return of gap-out in SUMO: −153.9 ± 1.6."""
PROBLEM = "traffic:3x3"


@dataclass(frozen=True)
class Reached:
    """Result of one training."""

    simulator: str
    seed: int
    steps: int
    seconds: float
    """Wall-clock seconds of training."""
    cpu_seconds: float
    """CPU seconds of training, of all processes; those of workers count only after they have ended, so 0 in SUMO."""
    scoring: float
    """Seconds of the scores."""
    score: float
    """The last score."""
    reached: bool


def reach(
    simulator: Literal["lanes", "sumo"],
    seed: int = 0,
    *,
    target: float = TARGET,
    every: int = 8,
    limit: float = 900.0,
    **settings: Any,
) -> Reached:
    """Train until the policy is better than a target, or for `limit` seconds.

    - `every`: updates between two scores.
    - `settings`: settings that replace those of the preset.
    """
    start, cpu = time.perf_counter(), time.process_time()
    import factorax as fx
    from factorax.networks.policies import Agent
    from factorax.ppo import find_network
    from factorax.ppo.presets import read_preset
    from factorax.problems import find_problem

    preset = read_preset("traffic")
    problem = find_problem(PROBLEM if simulator == "lanes" else "sumo:3x3")
    options: dict[str, Any] = preset.settings | {"seed": seed} | settings
    if simulator == "sumo":
        options["rollouts"] = f"processes,workers={options['n_envs']}"  # a process can hold only one SUMO
    model = fx.FactoredPPO(problem, find_network(problem, preset.network or "own"), **options)
    _ = model.state  # part of training, not of the scores
    before, cpu_before = time.perf_counter(), time.process_time()
    judge = model.on(find_problem("sumo:3x3"))
    paused, paused_cpu = time.perf_counter() - before, time.process_time() - cpu_before
    scores: list[float] = []
    updates = 0

    def callback(model: Any, metrics: Any) -> bool | None:
        nonlocal paused, paused_cpu, updates
        updates += 1
        if updates % every:
            return None
        before, cpu_before = time.perf_counter(), time.process_time()
        judge.state = judge.state._replace(agent=Agent(model.state.agent.policy, judge.state.agent.critic))
        scores.append(judge.evaluate(10)["return"])
        paused += time.perf_counter() - before
        paused_cpu += time.process_time() - cpu_before
        done = len(scores) > 1 and min(scores[-2:]) > target
        return not (done or time.perf_counter() - start - paused > limit)

    model.learn(options["total_timesteps"], progress_bar=False, callback=callback)
    seconds, cpu_seconds = time.perf_counter() - start - paused, time.process_time() - cpu - paused_cpu
    model.close()
    judge.close()
    if simulator == "sumo":
        cpu_seconds += resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    reached = len(scores) > 1 and min(scores[-2:]) > target
    return Reached(simulator, seed, model.num_timesteps, seconds, cpu_seconds, paused, scores[-1], reached)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("simulator", choices=["lanes", "sumo"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--limit", type=float, default=900.0)
    parser.add_argument(
        "--settings", type=json.loads, default={}, help="settings that replace those of the preset, as JSON"
    )
    given = parser.parse_args()
    settings: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in given.settings.items()
    }
    result = reach(given.simulator, given.seed, every=given.every, limit=given.limit, **settings)
    print(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
