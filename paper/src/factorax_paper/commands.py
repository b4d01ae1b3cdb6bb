"""`factorax reproduce` and `factorax claims`: the paper's experiments and the verdicts on its claims."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from factorax._checks import Range
from factorax.cli.arguments import OutputFolder, Seed

from . import experiments
from .harness.claims import HEADINGS, Claim, by_source, collected, published


def reproduce(
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = "",
    /,
    *,
    budget: Literal["quick", "paper"] = "quick",
    seed: Seed = 0,
    sim: Literal["lanes", "sumo"] | None = None,
    preset: Literal["traffic-paper", "traffic-paper-large-minibatches"] | None = None,
    days: Annotated[int | None, Range(0, 366)] = None,
    problems: tuple[str, ...] = (),
    penalty: Annotated[float | None, Range(0)] = None,
    norm: Annotated[int | None, Range(1, 2)] = None,
    scale: Annotated[float | None, Range(0, open=True)] = None,
    out: Annotated[Path | None, OutputFolder(), tyro.conf.arg(metavar="FOLDER")] = None,
    plot_only: bool = False,
    workers: Annotated[int | None, Range(1, 1000)] = None,
    list: bool = False,
) -> None:
    """Run an experiment of the paper, or resume one that was stopped.

    Args:
        name: Name of the experiment; --list shows all names.
        budget: Size of the experiment: quick takes seconds to a minute, paper uses the sizes of the paper.
        seed: Random seed of the experiment.
        sim: Simulator for training in traffic experiments (default lanes).
        preset: PPO settings for traffic-3x3 and traffic-2x6 (default traffic-paper, the exact settings of the paper).
        days: Number of EV2Gym days in discover-others; 0 skips EV2Gym.
        problems: Problems for the experiment relatives, such as queues parcels traffic; by default all of the budget.
        penalty: Weight λ of the penalty that couples actions, in search-aliasing and search-discrepancy (default 0.01).
        norm: Exponent p of the distance ‖a − c‖ₚ in search bandits (default 1). With 2, the distance is one target.
        scale: Factor on the targets of search bandits; 1 uses them as printed in the paper. By default they are divided
          by n.
        out: Folder for data.csv, summary.json, config.json, figure.png and figure.pdf
          (default out/NAME-BUDGET-SEED).
        plot_only: Only summarise and plot existing data again.
        workers: Number of parts, such as training runs, to run in parallel; by default one per core, or one on a GPU.
        list: List the experiments and exit.
    """
    console = Console()
    if list:
        table = Table("name", "paper", "what it shows", box=None)
        for each in map(experiments.find, experiments.NAMES):
            table.add_row(each.name, each.paper, each.title)
        console.print(table)
        return
    if not name:
        raise ValueError(f"name: got no experiment, want one of {', '.join(experiments.NAMES)}")
    experiment = experiments.find(name)
    from .harness.experiment import reproduce as run

    cost = {"penalty": penalty, "norm": norm, "scale": scale}
    changes = {"sim": sim, "preset": preset, "days": days, "problems": problems or None} | cost
    change = {key: value for key, value in changes.items() if value is not None}
    suffix = [name for name in (sim, preset) if name] + ([f"{days}-days"] if days is not None else []) + [*problems]
    suffix += [f"{key}-{value:g}" for key, value in cost.items() if value is not None]
    out = out or Path("out") / "-".join([name, budget, str(seed), *suffix])
    options = {"plot_only": plot_only, "workers": workers, "console": console, "change": change}
    summary = run(experiment, budget=budget, seed=seed, out=out, **options)
    if experiment.table is not None:
        console.print(experiment.table(summary))
    _show(console, collected([out]), commands=False)
    console.print(
        f"[bold]{experiment.paper}[/] is in {escape(str(out / 'figure.png'))}; data and summary are in the same folder",
        soft_wrap=True,
    )


def claims(
    *,
    json_: Annotated[bool, tyro.conf.arg(name="json")] = False,
    results: tuple[Path, ...] = (),
) -> None:
    """List the claims of the paper and of factorax with the measurements and verdicts.

    Args:
        json_: Print JSON: an object with the keys "paper" and "ours", each a list of claims.
        results: Folders of your own experiments; by default the results that ship with factorax.
    """
    rows = collected(results) if results else published()
    if json_:
        content = {source: [row.as_dict() for row in part] for source, part in by_source(rows).items()}
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        _show(Console(), rows, commands=True)


def _show(console: Console, rows: Iterable[Claim], *, commands: bool) -> None:
    """Print the claims of the paper and then ours, each preceded by its verdict."""
    colours = {"holds": "green", "holds in part": "yellow", "does not hold": "red"}
    for source, part in by_source(rows).items():
        if not part:
            continue
        console.print(f"[bold underline]{HEADINGS[source]}[/] ({len(part)})\n", highlight=False)
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for row in part:
            table.add_row(f"[{colours[row.verdict]}]{row.verdict}[/]", "\n".join(_lines(row, commands)) + "\n")
        console.print(table, highlight=False, emoji=False)


def _lines(row: Claim, commands: bool) -> list[str]:
    """Return the lines of one claim, without empty fields."""
    said = {
        "paper": row.paper if row.source == "paper" else "",
        "ours": row.ours,
        "chosen by": row.chosen_by,
        "would settle it": row.would_settle if row.verdict == "holds in part" else "",
    }
    place = row.where if row.source == "paper" else ""
    lines = [f"[bold]{escape(row.claim)}[/] [dim]{escape(place)}[/]".rstrip()]
    lines += [f"[dim]{name}[/] {escape(text)}" for name, text in said.items() if text]
    lines += [f"[dim]{escape(row.note)}[/]"] if row.note else []
    return lines + ([f"[dim]$ {escape(row.command)}[/]"] if commands else [])
