"""Comparison of factored PPO with related methods: eight methods on up to seven problems, with equal budgets and
tuning.

All methods of a problem have the same layers, rollouts, minibatches and steps. Each is tuned with the same trials, all
pairs of a step size and an entropy bonus, on seeds that are not reported; the pair with the best mean return at the
end of training is chosen, and its other seeds are reported. Scores are normalised per problem: 0 is the return of
untrained policies, 1 that of the best method. Aggregates are those of rliable (Agarwal et al., 2021).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from factorax._files import read_json, write_json
from factorax.runs.statistics import Interval, iqm, iqm_difference

from ..harness import plots
from ..harness.claims import OURS, Claim
from ..harness.experiment import Experiment
from ..harness.parts import Arrays, Part
from ..harness.side_by_side import Grid
from ..harness.statistics import aggregate_improvement, aggregate_iqm, performance_profile
from ..harness.table import Table, read_csv, where, write_csv
from ..harness.trainings import process

METHODS = ("ppo", "ippo", "mappo", "coma", "difference-rewards", "complete", "factored", "adaptive")
FACTORED = "factored"
DISCRETE = ("coma",)
"""Methods that enumerate actions."""


@dataclass(frozen=True)
class Case:
    """A problem with the settings common to all methods."""

    problem: str
    steps: int
    """Number of steps of a run, summed over all environments, with the budget ``"paper"``."""
    settings: dict[str, Any]
    identity: int = 8
    """Size of the embedding of components in shared policies."""
    default_action: float | None = None
    """Default action for difference rewards; set for continuous actions."""

    def settings_of(self, method: str) -> dict[str, Any]:
        """Return the settings of a method: the common ones, and the networks of its publication."""
        settings = dict(self.settings)
        if method not in ("ppo", "ippo"):  # which have a joint policy, and independent ones
            settings["policy"] = f"shared,identity={self.identity}"
        if method in ("complete", "factored", "adaptive"):  # others have critics of their own
            settings["critic"] = "target"
        if method == "difference-rewards" and self.default_action is not None:
            settings["method"] = f"{method},default_action={self.default_action}"
        return settings

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that can be used on the problem."""
        return tuple(m for m in METHODS if self.default_action is None or m not in DISCRETE)


_SMALL = {"hidden": (32, 32), "n_epochs": 5, "anneal": ("learning_rate",)}
CASES = {
    "queues": Case("queues:3x3", 800 * 100, _SMALL | {"n_envs": 16, "n_steps": 50, "batch_size": 200, "gamma": 0.9}),
    "parcels": Case("chain:8", 320 * 150, _SMALL | {"n_envs": 16, "n_steps": 20, "batch_size": 80}, default_action=0.0),
    "traffic": Case(
        "traffic:3x3,slots=20",
        3200 * 60,
        _SMALL | {"n_envs": 8, "n_steps": 400, "batch_size": 320, "gamma": 0.95},
        identity=0,
    ),
    "spread": Case(
        "jaxmarl:MPE_simple_spread_v3",
        1600 * 100,
        _SMALL | {"n_envs": 16, "n_steps": 100, "batch_size": 400, "gamma": 0.95},
    ),
    "market": Case(
        "market:4",
        1600 * 100,
        _SMALL | {"n_envs": 16, "n_steps": 100, "batch_size": 400, "gamma": 0.99},
        default_action=1.0,
    ),
    "uav": Case(
        "rddl:UAV_ippc2023/4",
        800 * 30,
        _SMALL
        | {"n_envs": 8, "n_steps": 100, "batch_size": 200, "gamma": 0.95, "distribution": "tanh"}
        | {"normalize_obs": True, "normalize_reward": True},
        default_action=0.0,
    ),
    "ev2gym": Case(
        "factorax_paper.ev2gym:Chargers",
        448 * 50,
        _SMALL | {"n_envs": 4, "n_steps": 112, "batch_size": 112, "normalize_obs": True, "normalize_reward": True},
        default_action=0.0,
    ),
}


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment."""

    problems: tuple[str, ...] = tuple(CASES)
    seeds: int = 10
    tuning: int = 3
    """Number of tuning seeds, which precede the reported ones."""
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3, 1e-2)
    bonuses: tuple[float, ...] = (0.0, 0.01)
    share: float = 1.0
    """Fraction of the steps."""

    @property
    def trials(self) -> int:
        """Settings tried for each method and problem."""
        return len(self.rates) * len(self.bonuses)


def plan(settings: Settings, seed: int) -> list[tuple[str, Grid]]:
    """Return the work: the name of a problem and one of its methods, with all trials and seeds."""
    work = []
    for name in settings.problems:
        if name not in CASES:
            raise ValueError(f"problems: got {name!r}, want some of {', '.join(CASES)}")
        case = CASES[name]
        for method in case.methods:
            grid = Grid(
                problem=case.problem,
                method=method,
                steps=max(round(case.steps * settings.share), 1),
                settings=case.settings_of(method),
                rates=settings.rates,
                bonuses=settings.bonuses,
                first=seed * (settings.tuning + settings.seeds),
                tuning=settings.tuning,
                seeds=settings.seeds,
            )
            work.append((name, grid))
    return work


def parts(settings: Settings, seed: int) -> list[Part]:
    """Return one part, and one process, for each method of each problem."""

    def part(title: str, grid: Grid) -> Part:
        cost = grid.steps * len(grid.trials) * (grid.tuning + grid.seeds)
        return Part(title, cost, process(title, "side_by_side", grid))

    return [part(f"{name}-{grid.method}", grid) for name, grid in plan(settings, seed)]


_COLUMNS = ("rate", "bonus", "seed", "score", "untrained", "seconds", "compiling")


def tabulate(settings: Settings, seed: int, results: list[Arrays]) -> Table:
    """Return a row for each run."""
    work = list(zip(plan(settings, seed), results, strict=True))
    names = np.concatenate([np.full(len(result["score"]), name) for (name, _), result in work])
    methods = np.concatenate([np.full(len(result["score"]), grid.method) for (_, grid), result in work])
    numbers = {column: np.concatenate([result[column] for _, result in work]) for column in _COLUMNS}
    return {"problem": names, "method": methods} | numbers


def merge(folders: Sequence[Path], out: Path) -> None:
    """Merge runs of this experiment on different problems or machines into one folder.

    ``factorax reproduce relatives --out OUT --plot-only`` then summarises them together.
    """
    configs = [read_json(Path(folder) / "config.json") for folder in folders]
    tables = [read_csv(Path(folder) / "data.csv") for folder in folders]
    without = [{k: v for k, v in config["settings"].items() if k != "problems"} for config in configs]
    if any(each != without[0] for each in without):
        raise ValueError("folders: got runs with different settings; want the same settings and different problems")
    problems = [name for config in configs for name in config["settings"]["problems"]]
    if len(set(problems)) < len(problems):
        raise ValueError(f"folders: got {', '.join(problems)}, want every problem once")
    out.mkdir(parents=True)
    write_json(out / "config.json", configs[0] | {"settings": without[0] | {"problems": problems}})
    write_csv(out / "data.csv", {name: np.concatenate([t[name] for t in tables]) for name in tables[0]})


def reported(settings: Settings, rows: Table) -> dict[str, Any]:
    """Return the pair that tuning chose for one method on one problem, and the scores of the reported seeds.

    A run with a non-finite score counts as untrained.
    """
    seeds = np.unique(rows["seed"])
    # To leave out runs that diverged would favour methods that diverge often.
    score = np.where(np.isfinite(rows["score"]), rows["score"], rows["untrained"])
    pairs = sorted(set(zip(rows["rate"].tolist(), rows["bonus"].tolist(), strict=True)))

    def of(pair: tuple[float, float], chosen: np.ndarray) -> np.ndarray:
        return score[(rows["rate"] == pair[0]) & (rows["bonus"] == pair[1]) & np.isin(rows["seed"], chosen)]

    # Tuning and reported seeds are different ones: the best of several trials overestimates its own return.
    best = max(pairs, key=lambda pair: of(pair, seeds[: settings.tuning]).mean())
    return {
        "rate": best[0],
        "bonus": best[1],
        "scores": of(best, seeds[settings.tuning :]).tolist(),
        "untrained": float(np.nanmean(rows["untrained"])),
        "seconds": float(rows["seconds"].mean()),
    }


def summarise(settings: Settings, table: Table) -> dict[str, Any]:
    """Return interquartile means by problem and method, normalised means over problems, and where factoring wins."""
    problems = [name for name in CASES if name in table["problem"]]
    chosen = {
        p: {m: reported(settings, where(table, problem=p, method=m)) for m in METHODS if _has(table, p, m)}
        for p in problems
    }
    normalised: dict[str, dict[str, np.ndarray]] = {}
    for p, methods in chosen.items():
        zero = float(np.mean([row["untrained"] for row in methods.values()]))
        one = max(iqm(row["scores"]).mean for row in methods.values())
        normalised[p] = {m: (np.array(row["scores"]) - zero) / max(one - zero, 1e-9) for m, row in methods.items()}
    # Aggregates need every method on every problem, and COMA has none with continuous actions.
    everywhere = [p for p in problems if len(chosen[p]) == len(METHODS)]
    summary: dict[str, Any] = {"problems": {}, "all problems": {}, "discrete actions": {}}
    for p, methods in chosen.items():
        ours = methods[FACTORED]["scores"]
        summary["problems"][p] = {
            m: row
            | {"iqm": vars(iqm(row["scores"])), "normalised": normalised[p][m].tolist()}
            | {"lead of factored": vars(iqm_difference(ours, row["scores"]))}
            for m, row in methods.items()
        }
    for name, over in (("all problems", problems), ("discrete actions", everywhere)):
        for m in METHODS if over else ():
            if all(m in normalised[p] for p in over):
                scores = np.stack([normalised[p][m] for p in over])
                ours = np.stack([normalised[p][FACTORED] for p in over])
                summary[name][m] = {
                    "iqm": vars(aggregate_iqm(scores)),
                    "factored is better": vars(aggregate_improvement(ours, scores)),
                    "problems": list(over),
                }
    return summary


def _has(table: Table, problem: str, method: str) -> bool:
    return bool(((table["problem"] == problem) & (table["method"] == method)).any())


def draw(settings: Settings, table: Table, summary: dict[str, Any]) -> Figure:
    """Plot normalised scores by problem, performance profiles over all problems, and seconds per run."""
    figure, axes = plots.canvas(3, width=16.0, height=4.4)
    problems, colours = summary["problems"], dict(zip(METHODS, [*plots.PALETTE, "#777777", "#000000"], strict=False))
    levels = np.linspace(-0.2, 1.2, 141)
    for k, method in enumerate(METHODS):
        style: dict[str, Any] = {"color": colours[method], "label": method}
        has = [p for p in problems if method in problems[p]]
        # Side by side, since eight intervals would cover each other.
        places = [list(problems).index(p) + (k - 3.5) * 0.1 for p in has]
        points = [iqm(problems[p][method]["normalised"]) for p in has]
        middle = np.array([point.mean for point in points])
        spans = np.abs(np.array([[point.low, point.high] for point in points]).T - middle)
        axes[0].errorbar(places, middle, spans, fmt="o", markersize=4, linewidth=1.2, **style)
        if method in summary["all problems"]:
            profile = performance_profile([problems[p][method]["normalised"] for p in has], levels)
            axes[1].plot(levels, profile, **style, linewidth=2.4 if method == FACTORED else 1.4)
        axes[2].plot(places, [problems[p][method]["seconds"] for p in has], "o", markersize=4, **style)
    for ax in (axes[0], axes[2]):
        ax.set_xticks(range(len(problems)), list(problems))
    axes[0].set(title="score by problem", ylabel="normalised return at the end of training")
    axes[0].axhline(0, color="#999999", linewidth=0.8)
    axes[0].legend(fontsize=7, frameon=False, ncol=2, loc="best")
    axes[1].set(title="performance profile, all problems", xlabel="normalised return τ", ylabel="share of runs above τ")
    axes[1].legend(fontsize=7, frameon=False)
    axes[2].set(title="time", ylabel="seconds of a run, its share of the program", yscale="log")
    return figure


def claims(settings: Settings, summary: dict[str, Any]) -> list[Claim]:
    """Return the claims: factoring compared with each related method, per problem and over all problems."""
    rows, budget = [], f"{settings.seeds} seeds, {settings.trials} tuning trials of {settings.tuning} seeds per method"
    head: dict[str, Any] = OURS | {
        "chosen_by": "we chose problems, budgets and the grid of trials, equal for all methods"
    }
    for p, methods in summary["problems"].items():
        leads = {m: Interval(**row["lead of factored"]) for m, row in methods.items() if m != FACTORED}
        wins, losses = [m for m in leads if leads[m].low > 0], [m for m in leads if leads[m].high < 0]
        ties = [m for m in leads if m not in wins + losses]
        rows.append(
            Claim(
                claim=f"On {p} ({CASES[p].problem}), factored PPO ends better than every related method.",
                ours=f"{budget}; interquartile mean of returns at the end: "
                + ", ".join(f"{m} {Interval(**row['iqm'])}" for m, row in methods.items())
                + f". Factored is {_compared(wins, ties, losses)}",
                verdict="holds" if len(wins) == len(leads) else "holds in part" if wins else "does not hold",
                would_settle="more seeds, where methods are not clearly different" if ties else "",
                note=_reason(p, wins, losses),
                **head,
            )
        )
    over = summary["all problems"]
    if len(summary["problems"]) > 1 and FACTORED in over:
        better = {m: Interval(**row["factored is better"]) for m, row in over.items() if m != FACTORED}
        beaten = [m for m in better if better[m].low > 0.5]
        rows.append(
            Claim(
                claim="Over all problems, a run of factored PPO is more likely than not to end better than one of each "
                "related method.",
                ours=f"{budget}; interquartile mean of normalised returns: "
                + ", ".join(f"{m} {Interval(**row['iqm'])}" for m, row in over.items())
                + "; probability of improvement: "
                + ", ".join(f"{interval} over {m}" for m, interval in better.items()),
                verdict="holds" if len(beaten) == len(better) else "holds in part" if beaten else "does not hold",
                would_settle="more seeds and problems",
                note="coma needs discrete actions and is compared on those problems alone",
                **head,
            )
        )
    return rows


def _compared(wins: Sequence[str], ties: Sequence[str], losses: Sequence[str]) -> str:
    """Return with which methods factoring was compared, by result."""
    results = {"better than": wins, "not clearly different from": ties, "worse than": losses}
    return "; ".join(f"{result} {', '.join(methods)}" for result, methods in results.items() if methods)


def _reason(problem: str, wins: Sequence[str], losses: Sequence[str]) -> str:
    """Return why factoring does not win on a problem, if its network explains it."""
    if problem == "spread":
        return "The problem's network is complete, so that factored and complete are the same method."
    if losses:
        return f"{', '.join(losses)} did better with the same budget."
    return "" if wins else "With this budget, no related method is clearly different."


EXPERIMENT = Experiment.of(
    __name__,
    title="Factored PPO, IPPO, MAPPO, COMA, difference rewards and PPO, with equal budgets and equal tuning",
    paper="Sec. 4, related estimators",
    budgets={
        "quick": Settings(("queues", "parcels"), seeds=5, tuning=2, rates=(1e-3, 3e-3), bonuses=(0.0,), share=0.3),
        "paper": Settings(),
    },
)
