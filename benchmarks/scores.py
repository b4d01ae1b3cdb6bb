"""Compare the returns of plain PPO with those of Stable-Baselines3, with the same settings and seeds.

    python -m benchmarks.scores        # every run that benchmarks/scores.json lacks, on all cores; then the table
    python -m benchmarks.scores --env Hopper-v5 --who stable-baselines3 --seeds 0 1 --out part.json    # some of them

The environments are those of Gymnasium. A run has one thread and is written as soon as it ends, so the command can be
stopped and started again. All 100 runs take some four hours of one core. Requires the extras `bench` and `conformance`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table

from factorax.ppo import Config, FactoredPPO
from factorax.runs import iqm, probability_of_improvement

RESULTS = Path(__file__).with_suffix(".json")
EPISODES = 20
SEEDS = 10
PARTS = 10
"""Number of parts of a training run whose mean return is stored; the last one is the score."""
WHO = {"stable-baselines3": 300.0, "factorax": 90.0}
"""The libraries, each with an upper bound on the seconds of a run with the settings `MUJOCO`."""
ONE_THREAD = {
    "CUDA_VISIBLE_DEVICES": "",
    "JAX_PLATFORMS": "cpu",
    "MUJOCO_GL": "disable",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}
MUJOCO = Config(  # the defaults of Stable-Baselines3's PPO, in one environment
    total_timesteps=300_000,
    n_envs=1,
    n_steps=2048,
    distribution="scale,initial_log_std=0.0",
    method="ppo",
    normalize_obs=True,
    normalize_reward=True,
)
SIDE_BY_SIDE: dict[str, Config] = {
    "HalfCheetah-v5": MUJOCO,
    "Hopper-v5": MUJOCO,
    "Walker2d-v5": MUJOCO,
    "Pendulum-v1": Config(
        total_timesteps=102_400,
        n_envs=4,
        n_steps=1024,
        learning_rate=1e-3,
        gamma=0.9,
        method="ppo",
        distribution="clip",
    ),
    "CartPole-v1": Config(
        total_timesteps=51_200,
        n_envs=8,
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        learning_rate=1e-3,
        gamma=0.98,
        gae_lambda=0.8,
        method="ppo",
    ),
}
Run = dict[str, Any]
Job = tuple[str, str, int]
"""Environment, library and seed."""
Act = Callable[[np.ndarray], Any]


def ours(env: str, config: Config, seed: int) -> tuple[Act, list[float | None]]:
    """Train with factorax; return the final policy without exploration, and the mean return in each part of
    training."""
    settings: dict[str, Any] = vars(config) | {"seed": seed}
    model = FactoredPPO(lambda: gym.make(env), **settings).learn(progress_bar=False)
    returns = [
        (i, float(row["rollout/ep_rew_mean"]), int(row["rollout/episodes"]))
        for i, row in enumerate(model.history)
        if row["rollout/episodes"]
    ]
    return lambda obs: model.predict(obs, deterministic=True)[0], by_part(returns, config)


def theirs(env: str, config: Config, seed: int) -> tuple[Act, list[float | None]]:
    """Do the same with Stable-Baselines3, whose `Monitor` records the returns."""
    from factorax_paper.harness.sb3_baseline import ppo
    from stable_baselines3.common.callbacks import BaseCallback  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.monitor import Monitor  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # pyright: ignore[reportMissingImports]

    returns: list[tuple[int, float, int]] = []

    class Note(BaseCallback):
        def _on_step(self) -> bool:
            rollout = (self.num_timesteps - 1) // config.rollout_steps
            returns.extend((rollout, info["episode"]["r"], 1) for info in self.locals["infos"] if "episode" in info)
            return True

    environments: Any = DummyVecEnv([lambda: Monitor(gym.make(env))] * config.n_envs)
    scaled = {"norm_obs": config.normalize_obs, "norm_reward": config.normalize_reward, "gamma": config.gamma}
    environments = VecNormalize(environments, **scaled)
    model = ppo(environments, config, seed).learn(config.total_timesteps, callback=Note())
    return lambda obs: model.predict(environments.normalize_obs(obs), deterministic=True)[0], by_part(returns, config)


def by_part(returns: Iterable[tuple[int, float, int]], config: Config) -> list[float | None]:
    """Return the mean return of the episodes that ended in each tenth of training; None for a part in which none ended.

    - `returns`: index of the rollout, mean return, and number of episodes.
    """
    rollouts = -(-config.total_timesteps // config.rollout_steps)
    total, episodes = np.zeros(PARTS), np.zeros(PARTS)
    for rollout, mean, count in returns:
        total[rollout * PARTS // rollouts] += mean * count
        episodes[rollout * PARTS // rollouts] += count
    return [round(t / n, 2) if n else None for t, n in zip(total, episodes, strict=True)]


def final_return(env: str, act: Act) -> float:
    """Return the mean return over episodes that start in the same states for all policies."""
    environment, returns = gym.make(env), []
    for episode in range(EPISODES):
        obs, _ = environment.reset(seed=1000 + episode)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = environment.step(act(obs))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return round(float(np.mean(returns)), 2)


def train(env: str, who: str, seed: int, steps: int | None = None) -> Run:
    """Train one run; return mean returns during training and after it, and the CPU seconds of training."""
    config = SIDE_BY_SIDE[env]
    config = config if steps is None else replace(config, total_timesteps=steps)
    began = time.process_time()
    act, curve = (ours if who == "factorax" else theirs)(env, config, seed)
    seconds = round(time.process_time() - began, 1)
    score = {"training": curve[-1], "final": final_return(env, act), "cpu_seconds": seconds}
    return {"env": env, "who": who, "seed": seed, "steps": config.total_timesteps} | score | {"curve": curve}


def read(path: Path) -> list[Run]:
    """Return the runs in a file; none if the file does not exist."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def write(path: Path, runs: Iterable[Run]) -> None:
    """Write runs atomically in a fixed order, one per line."""
    order = list(SIDE_BY_SIDE), list(WHO)
    ordered = sorted(runs, key=lambda r: (order[0].index(r["env"]), order[1].index(r["who"]), r["seed"]))
    part = path.with_suffix(".part")
    part.write_text("[\n" + ",\n".join(json.dumps(run) for run in ordered) + "\n]\n", encoding="utf-8")
    part.replace(path)


def missing(runs: Iterable[Run], jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs without a run, the longest first."""
    done = {(run["env"], run["who"], run["seed"]) for run in runs}
    return sorted((job for job in jobs if job not in done), key=lambda job: -longest(job[0], WHO[job[1]]))


def longest(env: str, seconds: float) -> float:
    """Return an upper bound on the seconds of a run, scaled from runs with the settings `MUJOCO`."""
    return seconds * SIDE_BY_SIDE[env].total_timesteps / MUJOCO.total_timesteps


def run_here(jobs: list[Job], out: Path, steps: int | None) -> None:
    """Train the jobs in this process, one after another."""
    runs = read(out)
    for job in missing(runs, jobs):
        runs.append(train(*job, steps=steps))
        write(out, runs)
        print(json.dumps(runs[-1]), file=sys.stderr, flush=True)


def run_all(jobs: list[Job], out: Path, *, steps: int | None, processes: int, minutes: float) -> None:
    """Train in processes with one thread each; runs that are not expected to end within these minutes are not
    started."""
    runs, taken, writing, deadline = read(out), dict(WHO), Lock(), time.monotonic() + 60 * minutes

    def one(job: Job) -> None:
        env, who, seed = job
        began = time.monotonic()
        if began + longest(env, taken[who]) > deadline:
            return
        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder, "part.json")
            command = [sys.executable, "-m", "benchmarks.scores", "--env", env, "--who", who, "--seeds", str(seed)]
            command += ["--out", str(part)] + ([] if steps is None else ["--steps", str(steps)])
            subprocess.run(command, env=os.environ | ONE_THREAD, check=True, stdout=subprocess.DEVNULL)
            with writing:
                runs.extend(read(part))
                write(out, runs)
                if SIDE_BY_SIDE[env] is MUJOCO:
                    taken[who] = 1.1 * (time.monotonic() - began)

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(one, missing(runs, jobs)))


def table(runs: list[Run]) -> Table:
    """Return the table of interquartile means with intervals, for every environment."""
    title = "interquartile mean [95 %]; P: probability that ours is higher [95 %]"
    columns = "last tenth of training", "final policy, no exploration", "seconds of one core"
    shown = Table("", "", "seeds", *columns, title=title)
    for env in SIDE_BY_SIDE:
        rows = {who: [run for run in runs if run["env"] == env and run["who"] == who] for who in reversed(WHO)}
        if not all(rows.values()):
            continue
        for who, own in rows.items():
            cells = (str(iqm([run[kind] for run in own])) for kind in ("training", "final"))
            shown.add_row(env, who, str(len(own)), *cells, f"{np.median([run['cpu_seconds'] for run in own]):.0f}")
        ours, theirs = rows["factorax"], rows["stable-baselines3"]
        chance = (
            f"P {probability_of_improvement([r[kind] for r in ours], [r[kind] for r in theirs])}"
            for kind in ("training", "final")
        )
        shown.add_row("", "", "", *chance, "", end_section=True)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", nargs="+", choices=SIDE_BY_SIDE, default=list(SIDE_BY_SIDE))
    parser.add_argument("--who", choices=WHO, help="train only this library, in this process")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(SEEDS)))
    parser.add_argument("--out", type=Path, default=RESULTS, help="file to read runs from and to add runs to")
    parser.add_argument("--steps", type=int, help="number of steps per run, for a quick trial")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="do not start runs that would end later than this"
    )
    args = parser.parse_args()
    jobs = [(env, who, seed) for who in WHO for env in args.env for seed in args.seeds]
    if args.who:
        run_here([job for job in jobs if job[1] == args.who], args.out, args.steps)
        return
    run_all(jobs, args.out, steps=args.steps, processes=args.processes, minutes=args.minutes)
    Console(width=150).print(table(read(args.out)))


if __name__ == "__main__":
    main()
