"""`factorax reproduce` and `factorax claims`: the paper's experiments and the verdicts on its claims."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from factorax._checks import Range, Seed, checked
from factorax._text import did_you_mean
from factorax.cli.arguments import Switch
from factorax.problems.families import parse_value

from . import experiments
from .harness.claims import HEADINGS, Claim, by_source, collected, published


def reproduce(
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = "",
    /,
    *,
    budget: Literal["quick", "paper"] = "quick",
    seed: Seed = 0,
    set_: Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="KEY=VALUE")] = (),
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None,
    plot_only: Switch = False,
    workers: Annotated[int | None, Range(1, 1000)] = None,
    list: Switch = False,
) -> None:
    """Run an experiment of the paper, or resume one that was stopped.

    Args:
        name: Name of the experiment; --list shows all names.
        budget: Size of the experiment: quick takes seconds to a minute, paper uses the sizes of the paper.
        seed: Random seed of the experiment.
        set_: Settings of the experiment that differ from those of the budget, such as --set sim=sumo of traffic-3x3,
            days=0 of discover-others or problems=queues,parcels of relatives; a wrong name lists them.
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

    change = settings_from(set_, experiment.budgets[budget])
    out = out or Path("out") / "-".join([name, budget, str(seed), *(each.replace("=", "-") for each in set_)])
    options = {"plot_only": plot_only, "workers": workers, "console": console, "change": change}
    summary = run(experiment, budget=budget, seed=seed, out=out, **options)
    if experiment.table is not None:
        console.print(experiment.table(summary))
    _show(console, collected([out]), commands=False)
    console.print(
        f"[bold]{experiment.paper}[/] is in {escape(str(out / 'figure.png'))}; data and summary are in the same folder",
        soft_wrap=True,
    )


def settings_from(pairs: Sequence[str], settings: Any) -> dict[str, Any]:
    """Return the settings of an experiment that pairs ``key=value`` change, with the types of those that they replace.

    >>> from factorax_paper.experiments.search_rate import EXPERIMENT
    >>> settings_from(["tolerance=2", "step_sizes=0.1,1"], EXPERIMENT.budgets["quick"])
    {'tolerance': 2.0, 'step_sizes': (0.1, 1.0)}
    """
    kinds = get_type_hints(type(settings))
    change = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or key not in kinds:
            raise ValueError(
                f"set: got {pair!r}, want key=value with one of {', '.join(kinds)}{did_you_mean(key, kinds)}"
            )
        default = getattr(settings, key)
        if isinstance(default, tuple):
            value = tuple(_like(default[0] if default else None, part) for part in text.split(","))
        else:
            value = _like(default, text)
        change[key] = checked(key, value, kinds[key])
    return change


def _like(default: Any, text: str) -> Any:
    """Return the value of a text; a whole number is a float where the default is a float or missing."""
    value = text if isinstance(default, str) else parse_value(text)
    return float(value) if (default is None or isinstance(default, float)) and type(value) is int else value


def claims(
    *,
    json_: Annotated[Switch, tyro.conf.arg(name="json")] = False,
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
        "would settle it": row.would_settle,
    }
    place = row.where if row.source == "paper" else ""
    lines = [f"[bold]{escape(row.claim)}[/] [dim]{escape(place)}[/]".rstrip()]
    lines += [f"[dim]{name}[/] {escape(text)}" for name, text in said.items() if text]
    lines += [f"[dim]{escape(row.note)}[/]"] if row.note else []
    return lines + ([f"[dim]$ {escape(row.command)}[/]"] if commands else [])
