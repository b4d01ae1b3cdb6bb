"""EV2Gym: 25 charging points behind five transformers, with one target per interest.

The environment, its network **K = [I | I | M]** and why it is exact are described in `factorax_paper.ev2gym`.
Here, `check` shows by intervention that with local policies no target outside a charger's row of K changes, not even in
the last bit, while with a policy that observes everything most targets do. `train` and `compare` learn with K, with all
edges, with the joint ratio, and with Stable-Baselines3.

It needs packages that EV2Gym does not declare: ``pip install 'factorax-paper[ev2gym]'``, and 'factorax[bench]' for
`compare`.

    python paper/examples/ev2gym_chargers.py check  # or heuristics
    python paper/examples/ev2gym_chargers.py train --method factored --seed 0 --steps 24000
    python paper/examples/ev2gym_chargers.py compare --steps 24000 --workers 4 --out paper/examples/data/ev2gym.json
"""

import itertools
import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import tyro
from factorax_paper.ev2gym import CHARGERS, HELD_OUT, Chargers, global_seeds_kept, need

import factorax as fx
from factorax.runs import iqm, probability_of_improvement

# Is K exact? ----------------------------------------------------------------------------------------------------------


def moved(env: Chargers, day: int, *, is_local: bool = True, seed: int = 0) -> np.ndarray:
    """Return which targets change if one charger acts differently and the others follow their policies, ``(n, m)``.

    The policy is a random function of the local observation, or of the full observation. Day and noise are the same.
    """
    rng = np.random.default_rng(seed)
    noise, other = rng.normal(size=(2, 112, CHARGERS))
    index = env.indices if is_local else np.tile(range(*env.simulator.observation_space.shape), (CHARGERS, 1))
    mixing = rng.normal(size=index.shape) / np.sqrt(index.shape[1])

    def play(different: int | None) -> np.ndarray:
        (obs, _), rewards, ended = env.reset(options={"day": day}), [], False
        while not ended:
            inputs = obs[index].astype(float)
            logits = (mixing * inputs / (1 + np.abs(inputs))).sum(axis=1) + noise[len(rewards)]
            if different is not None:
                logits[different] = other[len(rewards), different]
            obs, _, ended, _, info = env.step(np.tanh(logits))
            rewards.append(info["vector_reward"])
        return np.array(rewards)

    usual = play(None)
    return np.array([(play(i) != usual).any(axis=0) for i in range(CHARGERS)])


def check() -> None:
    """Intervene on each charger, with common random numbers, and compare the changed targets with K."""
    fx.check_problem(Chargers)
    env = Chargers()
    edges = env.network.to_dense() > 0
    for name, is_local in (("local policies", True), ("a policy that sees everything", False)):
        effects = np.any([moved(env, day, is_local=is_local, seed=day) for day in range(3)], axis=0)
        print(f"{name}: {(effects & edges).sum()} of {edges.sum()} edges moved, {(effects & ~edges).sum()} others")


# Learning -------------------------------------------------------------------------------------------------------------

Method = Literal["factored", "complete", "vanilla", "sb3"]
"""With K; with all edges and one ratio per charger; with all edges and the joint ratio; Stable-Baselines3."""
PPO = {"n_steps": 112, "batch_size": 128, "n_epochs": 5, "learning_rate": 1e-3, "gae_lambda": 0.99}
N_ENVS, DISCOUNT, LOG_STD = 8, 0.995, -1.0
OURS = {"n_envs": N_ENVS, "gamma": DISCOUNT, "distribution": f"scale,initial_log_std={LOG_STD}"}
OURS |= {"policy": "shared,identity=8", "critic": "target", "normalize_obs": True, "normalize_reward": True}
Act = Callable[[Chargers, np.ndarray], np.ndarray]


def evaluate(act: Act, days: Sequence[int] = HELD_OUT) -> dict[str, float]:
    """Return the mean return on held-out days, and its parts."""
    env, total = Chargers(), np.zeros(len(Chargers.weights))
    for day in days:
        (obs, _), ended = env.reset(options={"day": day}), False
        while not ended:
            obs, _, ended, _, info = env.step(act(env, obs))
            total += info["vector_reward"] / len(days)
    profit, users, overload = (float(part.sum()) for part in np.split(total, [CHARGERS, 2 * CHARGERS]))
    return {"return": profit + users + overload, "profit": profit, "users": users, "overload": overload}


def heuristics() -> dict[str, dict[str, float]]:
    """Evaluate the policies that come with EV2Gym, which ignore prices and transformers."""
    results, policies = {}, need("ev2gym.baselines.heuristics")
    for name in ("ChargeAsFastAsPossible", "ChargeAsLateAsPossible", "DoNothing", "RandomAgent"):
        policy = getattr(policies, name)()
        with global_seeds_kept():
            np.random.seed(0)  # noqa: NPY002
            results[name] = evaluate(lambda env, obs, policy=policy: policy.get_action(env.simulator))
        print(f"{name:<34}" + "".join(f"{key} {value:8.1f}  " for key, value in results[name].items()))
    return results


def train(method: Method = "factored", seed: int = 0, steps: int = 24_000) -> dict[str, Any]:
    """Train with one method and one seed; evaluate the most probable actions on held-out days."""
    started, result = time.perf_counter(), {"method": method, "seed": seed}
    act = train_theirs(seed, steps) if method == "sb3" else train_ours(method, seed, steps, result)
    result |= {"seconds": round(time.perf_counter() - started), **evaluate(act)}
    print("  ".join(f"{key} {round(value, 1) if isinstance(value, float) else value}" for key, value in result.items()))
    return result


def train_ours(method: Method, seed: int, steps: int, result: dict[str, Any]) -> Act:
    """Train one policy for all chargers on local observations, with K or with all edges."""
    settings = PPO | OURS | {"seed": seed, "method": "ppo" if method == "vanilla" else "factored"}
    settings["variance_report"] = method == "factored"
    network = None if method == "factored" else fx.InfluenceNetwork.complete(CHARGERS, len(Chargers.weights))
    model = fx.FactoredPPO(Chargers, network, **settings)
    model.learn(steps, progress_bar=False)
    if "variance/ratio" in model.history[0]:
        result["variance_ratio"] = float(np.median([row["variance/ratio"] for row in model.history]))
    return lambda env, obs: model.predict(obs, deterministic=True)[0]


def train_theirs(seed: int, steps: int) -> Act:
    """Train Stable-Baselines3 with the same settings, on the scalar reward and the full observation."""
    import torch  # pyright: ignore[reportMissingImports]
    from stable_baselines3 import PPO as TheirPPO  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.env_util import make_vec_env  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.vec_env import VecNormalize  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)  # with small networks, more threads are slower on busy cores
    envs = VecNormalize(make_vec_env(Chargers, n_envs=N_ENVS, seed=seed), gamma=DISCOUNT)
    settings: dict[str, Any] = PPO | {"gamma": DISCOUNT, "policy_kwargs": {"log_std_init": LOG_STD}}
    model = TheirPPO("MlpPolicy", envs, seed=seed, device="cpu", **settings).learn(steps)
    return lambda env, obs: model.predict(envs.normalize_obs(obs), deterministic=True)[0]


def compare(seeds: int = 25, steps: int = 24_000, out: Path = Path("ev2gym.json"), workers: int = 1) -> None:
    """Compare all methods on the same seeds and days; write a file after each run, and print 95 % intervals.

    Runs with the same number of steps in the file are kept, so the same command resumes. Without Stable-Baselines3 its
    rows are left out. `workers` processes train at a time.
    """
    stored = json.loads(out.read_text()) if out.exists() else {"steps": steps, "runs": []}
    if stored["steps"] != steps:
        raise ValueError(f"out: {out} contains runs of {stored['steps']} steps, want {steps}; choose another file")
    baselines, runs = stored.get("heuristics") or heuristics(), stored["runs"]
    done = {(run["seed"], run["method"]) for run in runs}
    methods: list[Any] = [m for m in get_args(Method) if m != "sb3" or find_spec("stable_baselines3") is not None]
    missing = [job for job in itertools.product(range(seeds), methods) if job not in done]
    # Spawned processes, because JAX does not survive a fork.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(train, method, seed, steps) for seed, method in missing]):
            runs.append(future.result())
            runs.sort(key=lambda run: (run["seed"], get_args(Method).index(run["method"])))
            text = json.dumps({"steps": steps, "runs": runs, "heuristics": baselines}, indent=1) + "\n"
            (part := out.with_suffix(".part")).write_text(text)
            part.replace(out)
    returns = {name: [run["return"] for run in runs if run["method"] == name] for name in methods}
    for name, each in returns.items():
        x, p = iqm(each), probability_of_improvement(returns["factored"], each)
        better = "" if name == "factored" else f"factored is better: {p.mean:.2f} [{p.low:.2f}, {p.high:.2f}]"
        print(f"{name:<12}{x.mean:8.0f} [{x.low:.0f}, {x.high:.0f}]   {better}")


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"check": check, "heuristics": heuristics, "train": train, "compare": compare})
