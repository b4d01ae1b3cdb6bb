"""Train on a RESCO network and evaluate on seeds that are not used for training; run with ``python -m``.

The training environment runs in a worker process, because libsumo allows one simulation per process and this process
runs the evaluations. A training that was stopped continues from the last model in its folder.
"""

import json
import time
from collections.abc import Callable, Container
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from factorax_traffic.city import CityEnv
from factorax_traffic.city.controllers import play_in
from factorax_traffic.city.resco import maker

from factorax._files import MIB, read_json, write_whole
from factorax.ppo import FactoredPPO
from factorax.ppo.presets import read_preset

FIRST_SEED = 900_001
"""First evaluation seed. Seeds of training episodes are drawn at random below 2³¹, so the probability that an
evaluation seed is among them is about 10⁻⁶."""
GRIDLOCK = 100.0
"""Mean delay in seconds above which an episode counts as gridlock: more than the delay of any fixed programme."""
PRESET = "resco"
"""Preset of all trainings."""


@dataclass(frozen=True)
class CityTraining:
    """A training and its evaluations."""

    city: str = "cologne8"
    """Name of a network of RESCO."""
    out: Path = Path("city")
    """Folder for the result and the model."""
    network: str = "incident"
    """Preset of the influence network."""
    episodes: int = 100
    seed: int = 0
    settings: str = "{}"
    """Settings of `FactoredPPO` that differ from the preset, as JSON."""
    environment: str = "{}"
    """Settings of `CityEnv`, as JSON."""
    evaluations: int = 10
    """Number of evaluations at the end of training, after every `every` episodes; each plays all evaluation seeds."""
    every: int = 1
    early: int = 0
    """Number of episodes between earlier evaluations on one seed; 0 for none."""
    seeds: int = 10
    """Number of evaluation seeds for the last evaluations."""
    played: int = 0
    """Number of seeds per evaluation, cycling through the evaluation seeds; 0 for all."""
    first_seed: int = FIRST_SEED
    """First evaluation seed; the others follow it."""
    seconds: float = 0.0
    """Stop training after this many seconds and keep the results so far; 0 for no limit."""
    patience: int = 300
    """Seconds without movement of a car after which a training episode ends; 0 for never."""
    workers: int = 1
    transfer: tuple[str, ...] = ()
    """Networks on which the trained policy is evaluated without further training."""


@dataclass
class Result:
    """Results of a training."""

    training: dict[str, Any]
    trips: int = 0
    episodes: list[float] = field(default_factory=list)
    """Mean delay of the training episodes, seconds, from the sum of targets; one that was ended early counts with what
    it had."""
    evaluated: list[dict[str, Any]] = field(default_factory=list)
    """Evaluations: the number of training episodes before each, and delays, collisions and teleports by seed."""
    transfer: dict[str, list[float]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    entropy: list[float] = field(default_factory=list)
    kl: list[float] = field(default_factory=list)
    explained: list[float] = field(default_factory=list)
    done: bool = False

    def resume(self, out: Path, episodes: int, last_ones: Container[int]) -> None:
        """Continue the result in a folder after this many episodes, the number of the restored model.

        - `last_ones`: numbers of episodes of the last evaluations; an evaluation made because a training was stopped is
          not one of them.
        """
        earlier = read_json(out / "result.json", 64 * MIB)
        self.trips, self.seconds = earlier["trips"], earlier["seconds"]
        self.episodes = earlier["episodes"][:episodes]
        updates = len(earlier["entropy"]) * len(self.episodes) // max(len(earlier["episodes"]), 1)
        self.entropy, self.kl, self.explained = (earlier[name][:updates] for name in ("entropy", "kl", "explained"))
        self.evaluated = [
            row | {"final": row["final"] and row["episode"] in last_ones}
            for row in earlier["evaluated"]
            if row["episode"] <= episodes
        ]

    def write(self, out: Path) -> None:
        """Write ``result.json``."""
        rounded = json.loads(json.dumps(asdict(self), default=str), parse_float=lambda text: round(float(text), 4))
        write_whole(out / "result.json", lambda file: file.write(json.dumps(rounded).encode()))


def evaluation_seeds(first: int, count: int) -> tuple[int, ...]:
    """Return the seeds of the episodes of an evaluation.

    >>> evaluation_seeds(900_001, 3)
    (900001, 900002, 900003)
    """
    return tuple(range(first, first + count))


def trained(model: FactoredPPO) -> Callable[[CityEnv], Callable[[np.ndarray], np.ndarray]]:
    """Return the controller that takes the most probable phases of a trained policy."""
    return lambda env: lambda obs: np.asarray(model.predict(obs, deterministic=True)[0])


def main(training: CityTraining) -> Result:
    """Train, evaluate and write the result."""
    t = training
    t.out.mkdir(parents=True, exist_ok=True)
    make = maker(t.city, network=t.network, **json.loads(t.environment))
    changes = json.loads(t.settings)
    env = make()
    decisions = env.horizon // env.interval
    # An update is one episode of each environment, so that evaluations can follow single episodes.
    preset = {name: value for name, value in read_preset(PRESET).settings.items() if name != "total_timesteps"}
    sizes = {"n_envs": t.workers, "n_steps": decisions, "batch_size": min(preset["batch_size"], decisions)}
    settings = preset | sizes | changes
    seeds = evaluation_seeds(t.first_seed, max(t.seeds, 10))
    last_ones = {t.episodes - i * t.every for i in range(t.evaluations)}
    # The score of an episode in training is the sum of its targets.
    without_trips = partial(make, trips=False, patience=t.patience)
    model = FactoredPPO(without_trips, rollouts=f"processes,workers={t.workers}", seed=t.seed, **settings)
    result = Result({**asdict(t), "out": t.out.name, "settings": changes, "environment": json.loads(t.environment)})
    if (t.out / "model.safetensors").exists():  # what was recorded after the last saved model is repeated
        model.restore(t.out / "model.safetensors")
        result.resume(t.out, model.num_timesteps // decisions, last_ones)
    started = time.perf_counter()
    spent = {"learning": 0.0, "evaluating": 0.0}
    earlier = dict(result.seconds)

    def evaluate(seeds: tuple[int, ...], final: bool) -> None:
        before = time.perf_counter()
        scores = [play_in(env, trained(model), seed) for seed in seeds]
        result.trips = scores[0].trips
        result.evaluated.append(
            {
                "episode": len(result.episodes),
                "final": final,
                "delays": [score.delay for score in scores],
                "arrived": [score.arrived for score in scores],
                "collisions": sum(score.collisions for score in scores),
                "teleports": sum(score.teleports for score in scores),
            }
        )
        spent["evaluating"] += time.perf_counter() - before

    def after_update(model: FactoredPPO, metrics: dict[str, Any]) -> bool:
        previous = len(result.episodes)
        loss = -float(metrics["rollout/ep_rew_mean"]) / env.scale
        result.episodes += [loss / max(result.trips, 1)] * t.workers
        result.entropy.append(float(metrics.get("train/entropy_loss", np.nan)))
        result.kl.append(float(metrics.get("train/kl", np.nan)))
        result.explained.append(float(metrics.get("train/explained_variance", np.nan)))
        for episode in range(previous + 1, len(result.episodes) + 1):
            if episode in last_ones:
                first = (episode * t.played) % t.seeds
                turn = [seeds[(first + i) % t.seeds] for i in range(t.played or t.seeds)]
                evaluate(tuple(turn), True)
            elif t.early and episode % t.early == 0:
                evaluate((seeds[episode // t.early % 10],), False)
        spent["learning"] = time.perf_counter() - started - spent["evaluating"]
        result.seconds = {name: value + earlier.get(name, 0.0) for name, value in spent.items()}
        if len(result.episodes) % 5 < t.workers or len(result.episodes) in last_ones:
            result.write(t.out)
            model.save(t.out / "model")
        return not t.seconds or time.perf_counter() - started < t.seconds

    try:
        if not result.evaluated:
            evaluate(seeds[:1], False)  # before training; also counts the trips
        left = t.episodes * decisions - model.num_timesteps
        model.learn(left, callback=after_update, reset_num_timesteps=False, progress_bar=False)
        if not any(row["final"] and row["episode"] == len(result.episodes) for row in result.evaluated):
            evaluate(seeds[: t.seeds], True)  # stopped before the end
        result.write(t.out)
        model.save(t.out / "model")
        env.close()
        for city in t.transfer:
            make_other = maker(city, network=t.network, **json.loads(t.environment))
            moved = model.on(make_other)
            other = make_other()
            result.transfer[city] = [play_in(other, trained(moved), seed).delay for seed in seeds[: t.seeds]]
            other.close()
        result.done = True
    finally:
        result.write(t.out)
        model.close()
        env.close()
    return result


if __name__ == "__main__":
    main(tyro.cli(CityTraining))
