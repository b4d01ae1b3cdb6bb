"""The experiments ``uav-4`` and ``uav-5``: ten and forty aircraft of an RDDL model, with the network read from it.

The problem is UAV of the IPPC 2023 competition in rddlrepository: each aircraft has three actions and a distance to its
goal. All methods have the same settings, steps and seeds. Our methods also have the same critic, by default one network
that predicts the return of each target from the whole observation, so they differ only in credit and ratios.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from matplotlib.figure import Figure

from factorax.runs.compare import draw_curves
from factorax.runs.statistics import Interval

from ..harness import trainings
from ..harness.claims import OURS, Claim, verdict
from ..harness.experiment import Experiment
from ..harness.parts import Arrays
from ..harness.table import Table, where
from ..harness.trainings import Training, train

FACTORED, COMPLETE, VANILLA, OTHER = "factored", "all edges", "vanilla", "Stable-Baselines3"
METHODS = (FACTORED, COMPLETE, VANILLA, OTHER)
_COMMON = {
    "n_envs": 8,
    "n_steps": 100,
    "batch_size": 200,
    "n_epochs": 10,
    "learning_rate": 3e-3,
    "gamma": 0.95,
    "gae_lambda": 0.95,
}
_OURS = ["--policy", "independent", "--distribution", "tanh", "--normalize-obs", "--normalize-reward"]


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment."""

    steps: int
    """Number of training steps, summed over all environments."""
    seeds: int = 10
    methods: tuple[str, ...] = METHODS
    critic: Literal["target", "factor"] = "target"
    """Critic of all our methods: one value per target, or one per factor for its credit."""


def plan(instance: str) -> Callable[[Settings, int], list[Training]]:
    """Return the function from (settings, seed) to the runs on an instance."""
    problem = f"rddl:UAV_ippc2023/{instance}"
    common = [text for name, value in _COMMON.items() for text in (f"--{name.replace('_', '-')}", value)]
    common += ["--hidden", 32, 32]
    options = {
        FACTORED: ["--variance-report"],
        COMPLETE: ["--network", "complete"],
        VANILLA: ["--method", "ppo"],
    }

    def runs(settings: Settings, seed: int) -> list[Training]:
        seeds = range(seed * settings.seeds, (seed + 1) * settings.seeds)
        return [training(method, s, settings) for method in settings.methods for s in seeds]

    def training(method: str, seed: int, settings: Settings) -> Training:
        steps = settings.steps
        # One critic setting for all: the gain must not be that of another critic.
        if method in options:
            ours = *common, *_OURS, "--critic", settings.critic
            return train(method, problem, *ours, *options[method], seed=seed, steps=steps)
        arguments = (problem, "--seed", seed, "--total-timesteps", steps, *common)
        return Training(
            method=method,
            seed=seed,
            steps=steps,
            module="factorax_paper.harness.sb3_baseline",
            arguments=tuple(map(str, arguments)),
        )

    return runs


def _enumerated(names: Sequence[str]) -> str:
    """Return names as text, with *and* before the last.

    >>> _enumerated(["a", "b", "c"])
    'a, b and c'
    """
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def experiment(instance: str, crafts: int, steps: int) -> Experiment:
    """Return the experiment on one instance."""
    runs = plan(instance)

    def tabulate(settings: Settings, seed: int, results: list[Arrays]) -> Table:
        """Return a row for each run and point of its curve."""
        return trainings.curves(runs(settings, seed), results)

    def summarise(settings: Settings, table: Table) -> dict[str, Any]:
        """Return interquartile means over seeds."""
        return {"methods": trainings.summary(table, settings.methods)}

    def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
        """Draw learning curves."""
        figure = draw_curves([trainings.group(where(table, method=m), m) for m in settings.methods])
        figure.suptitle(f"UAV {instance}: {crafts} craft, {3 * crafts} actions, {crafts} targets", fontsize=10)
        return figure

    def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
        """Return the claims: factored wins against all others."""
        rows = summary["methods"]
        others = [m for m in settings.methods if m != FACTORED]
        ends = "; ".join(f"{m} {trainings.shown(rows[m]['training'])}" for m in settings.methods)
        chances = ", ".join(f"{trainings.shown(rows[m]['better'])} over {m}" for m in others)
        ahead = [Interval(**rows[FACTORED]["training"]).low > Interval(**rows[m]["training"]).high for m in others]
        names: dict[str, str] = {
            COMPLETE: "factored PPO with all edges",
            VANILLA: "vanilla PPO",
            OTHER: "PPO of Stable-Baselines3",
        }
        return [
            Claim(
                claim=(
                    f"On UAV {instance} ({3 * crafts} actions, {crafts} targets), factored PPO with the network read "
                    f"from the model ends better than {_enumerated([names[m] for m in others])}."
                ),
                **OURS,
                ours=f"return at the end of training, interquartile mean of {settings.seeds} seeds after "
                f"{settings.steps:,} steps: {ends}. Probability that a factored run ends better: {chances}. On its "
                f"batches, a vanilla gradient has {rows[FACTORED]['variance_ratio']:.3g} times the variance",
                verdict=verdict(*ahead),
                chosen_by="we chose the problem, the settings (on factored runs of seeds 0 to 2) and the steps",
                would_settle=f"more seeds than {settings.seeds} where the intervals overlap",
                note=f"All our methods use --critic {settings.critic}; the critic of Stable-Baselines3 predicts the "
                "sum.",
            )
        ]

    return Experiment(
        name=f"uav-{instance}",
        title=f"PPO with a network read from an RDDL model, {3 * crafts} actions",
        paper="Beyond the paper",
        budgets={"quick": Settings(4000, 2, METHODS[:3]), "paper": Settings(steps)},
        parts=trainings.trainings(runs),
        tabulate=tabulate,
        summarise=summarise,
        draw=draw,
        claims=claims,
    )


UAV_4, UAV_5 = experiment("4", crafts=10, steps=24_000), experiment("5", crafts=40, steps=16_000)
