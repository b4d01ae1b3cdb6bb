"""`factorax reproduce` and `factorax claims`: the paper's experiments, and what they say of its claims."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .. import experiments
from .._checks import Range
from ..experiments.harness.claims import HEADINGS, Claim, by_source, collected, published
from .arguments import OutputFolder, Seed


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
    """Run an experiment of the paper, or continue one that was stopped.

    Args:
        name: Name of the experiment; --list shows all.
        budget: Size of the experiment. quick takes seconds to a minute; paper has the sizes of the paper.
        seed: Random seed of the experiment.
        sim: Simulator in which traffic is trained; lanes if left out.
        preset: Settings of PPO in traffic-3x3 and traffic-2x6; traffic-paper, exactly those of the paper, if left out.
        days: Days of EV2Gym in discover-others; 0 leaves EV2Gym out.
        problems: Problems for the experiment relatives, such as queues parcels traffic; all of the budget if left out.
        penalty: Weight λ of the penalty that couples actions, in search-aliasing and search-discrepancy; 0.01 if left
            out.
        norm: Exponent p of the distance ‖a − c‖ₚ in search bandits; 1 if left out. With 2 it is one target.
        scale: Factor on the targets of search bandits; 1 leaves them undivided, as printed in the paper. If left out,
            they are divided by n.
        out: Folder for data.csv, summary.json, config.json, figure.png and figure.pdf;
            out/NAME-BUDGET-SEED if left out.
        plot_only: Only summarise and plot the existing data again.
        workers: Number of parts, such as trainings, to run in parallel; one per core if left out, or one on a GPU.
        list: Show the experiments and stop.
    """
    console = Console()
    if list:
        table = Table("name", "paper", "what it shows", box=None)
        for each in map(experiments.find, experiments.NAMES):
            table.add_row(each.name, each.paper, each.title)
        console.print(table)
        return
    if not name:
        raise ValueError(f"name: got none, want one of {', '.join(experiments.NAMES)}")
    experiment = experiments.find(name)
    from ..experiments.harness.experiment import reproduce as run

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
        f"[bold]{experiment.paper}[/] is in {escape(str(out / 'figure.png'))}; data and summary are next to it",
        soft_wrap=True,
    )


def claims(
    *,
    json_: Annotated[bool, tyro.conf.arg(name="json")] = False,
    results: tuple[Path, ...] = (),
) -> None:
    """Show what the paper says, what we say, what was measured, and whether it holds.

    Args:
        json_: Print JSON: an object with the keys "paper" and "ours", a list of claims each.
        results: Folders of your own experiments; the table that ships with factorax if left out.
    """
    rows = collected(results) if results else published()
    if json_:
        content = {source: [row.as_dict() for row in part] for source, part in by_source(rows).items()}
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        _show(Console(), rows, commands=True)


def _show(console: Console, rows: Iterable[Claim], *, commands: bool) -> None:
    """Print the paper's statements, then ours: one claim below the other, its verdict in front."""
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
    """Return the lines of one claim; those that say nothing are left out."""
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
