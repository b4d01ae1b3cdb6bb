"""Collection of all data of a report as plain texts, numbers, lists and dictionaries."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from ..._text import counted, printable, some
from ...plugins import reference_controller
from ...spec import Spec
from ..compare import default_settings, name_groups, short_name
from ..gain import role_of, train_command
from ..statistics import Interval
from . import networks
from .curves import QUARTILES, TARGETS, RunCurves, group_curves, interpolate, numbers
from .episodes import episodes_section
from .inputs import DiscoveryInput, RunInput, Source, errors_as_notes, read_inputs
from .variance import credit_section, measure_terms
from .verdict import RunGroup, discovery_verdict, run_verdicts

AXES = {"steps": "steps of all environments", "episodes": "episodes", "seconds": "seconds of training"}
MAX_GROUPS = 6
"""Maximum number of groups with gradients, targets and settings; learning curves are shown for all groups."""
MAX_VERDICTS = 12
_ROLES = ("factored", "complete", "vanilla")
MAX_NETWORKS = 12
MAX_LINES = {"actions": 3, "targets": 8, "observations": 8}
"""Maximum number of series of an episode drawn as lines; more are drawn as a heat map."""
MAX_MEASURED = 3
MAX_TARGETS = 60
MAX_COMMANDS = 10


def collect(
    what: Iterable[Any],
    *,
    trusted: str | None = None,
    play: bool = True,
    relative_to: Path | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Return the data of a report.

    - `what`: folders of runs, and files of discoveries.
    - `trusted`: the name of a problem that refers to code or files and may be loaded.
    - `play`: whether to run policies, for films, episodes, baselines and the variance decomposition.
    - `relative_to`: the folder of the report, for links to checkpoints; None for no links.
    - `tell`: called with a description of each slow step before it starts.
    """
    sources = read_inputs(what)
    runs = [source for source in sources if isinstance(source, RunInput)]
    discoveries = [source for source in sources if isinstance(source, DiscoveryInput)]
    notes = [f"{source.path.name}: {note}" for source in runs for note in source.notes]
    groups = group_inputs(runs)
    notes += _comparison_notes(groups)
    charts: dict[str, Any] = {}
    tell("reading problems and networks")
    # Before the verdicts, which say whether K has every edge.
    specs = _specs(groups, trusted, notes)
    groups = [
        replace(group, has_every_edge=spec is not None and spec.network.is_fixed and spec.network.static.density == 1)
        for group, spec in zip(groups, specs, strict=True)
    ]
    firsts = [(group, spec) for group, spec in zip(groups, specs, strict=True) if spec is not None]
    views = _networks(firsts, discoveries)
    if play and groups:
        tell("scoring baselines")
    baselines: dict[str, Interval] = {}
    verdicts = run_verdicts(groups, play=play, baselines=baselines, notes=notes)
    if len(verdicts) > MAX_VERDICTS:
        notes.append(f"verdicts are given only for the first {MAX_VERDICTS} of {len(verdicts)} groups of runs")
        del verdicts[MAX_VERDICTS:]
    verdicts += map(discovery_verdict, discoveries)
    curves = _curve_charts(groups, baselines, charts)
    credit = []
    for k, (group, spec) in enumerate(firsts[:MAX_GROUPS]):
        run = next((each for each in group.runs if each.curves is not None and each.curves.updates), None)
        if run is not None:
            terms = {}
            if play and k < MAX_MEASURED:
                tell(f"measuring the gradients of {group.name}")
                terms = measure_terms(run, spec, trusted, notes)
            section = credit_section(group.name, run, spec, terms)
            credit += _credit_charts(section, charts)
    targets = _target_charts(groups, specs, charts)
    episodes: list[dict[str, Any]] = []
    if play and firsts:
        tell("playing episodes")
        policies = [(group.name, group.runs[0], spec) for group, spec in firsts]
        episodes = episodes_section(policies, trusted=trusted, notes=notes)
    films = _episode_charts(episodes, charts)
    if len(groups) > MAX_GROUPS:
        notes.append(f"details are shown only for the first {MAX_GROUPS} of {len(groups)} groups of runs")
    return escape_texts(
        {
            "title": _title(sources, groups),
            "written_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
            "is_training": any(not run.is_finished for run in runs),
            "notes": list(dict.fromkeys(notes)),
            "verdicts": [vars(verdict) for verdict in verdicts],
            "warnings": _warnings(runs, views),
            "curves": curves,
            "networks": views,
            "credit": credit,
            "targets": targets,
            "episodes": episodes,
            "films": films,
            "reproduce": [reproduction_section(group, relative_to=relative_to) for group in groups[:MAX_GROUPS]],
            "charts": charts,
        }
    )


def group_inputs(runs: Sequence[RunInput]) -> list[RunGroup]:
    """Return the runs grouped by problem and settings, those with their own K first; includes runs without metrics."""
    by_problem: dict[str, list[RunInput]] = {}
    for run in runs:
        by_problem.setdefault(run.config["problem"], []).append(run)
    groups = []
    for problem, each in by_problem.items():
        members, settings = name_groups([run.config for run in each])
        for name, indices in members.items():
            label = name if len(by_problem) == 1 or len(members) == 1 else f"{short_name(problem)}: {name}"
            mine = sorted((each[i] for i in indices), key=lambda run: run.seed)
            curves = group_curves(label, [run.curves for run in mine if run.curves is not None])
            groups.append(RunGroup(label, tuple(mine), settings[indices[0]], curves))
    return sorted(groups, key=lambda group: _ROLES.index(role_of(group.settings)))


def escape_texts(content: Any) -> Any:
    """Return data with non-printable characters in texts escaped.

    Folders may be untrusted, and some characters change the direction of the text that follows.
    """
    if isinstance(content, str):
        return content if content.isprintable() else printable(content, limit=len(content))
    if isinstance(content, Mapping):
        return {escape_texts(key): escape_texts(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [escape_texts(each) if not isinstance(each, int | float) else each for each in content]
    return content


def _specs(groups: Sequence[RunGroup], trusted: str | None, notes: list[str]) -> list[Spec | None]:
    """Return the problem of each group; a problem with the same network is created once."""
    # Creating a problem may start a simulator.
    known: dict[tuple[Any, ...], Spec | None] = {}
    for group in groups:
        run = group.runs[0]
        if _problem_key(group) not in known:
            known[_problem_key(group)] = None
            with errors_as_notes(notes, f"{run.path.name}: its network and policy are not shown"):
                known[_problem_key(group)] = networks.spec_of(run, trusted)
    return [known[_problem_key(group)] for group in groups]


def _problem_key(group: RunGroup) -> tuple[Any, ...]:
    of = group.settings
    network, steps = str(of["network"]), of["total_timesteps"]
    # A curriculum divides the steps among its networks: with another total it is another schedule.
    return group.problem, network, steps if "curriculum" in network else 0, of["distribution"]


def _networks(firsts: Sequence[tuple[RunGroup, Spec]], discoveries: Sequence[DiscoveryInput]) -> list[dict[str, Any]]:
    """Return one network for each fixed network of a problem, and one for each run with a varying network."""
    views: list[dict[str, Any]] = []
    shown: set[tuple[str, str]] = set()
    for group, spec in firsts:
        network = str(group.settings["network"])
        if role_of(group.settings) == "vanilla" or spec.network.static.shape == (1, 1):
            continue
        if spec.network.is_fixed:
            # A fixed network is the same in all groups and seeds; one that varies is drawn for each run.
            if (group.problem, network) not in shown:
                shown.add((group.problem, network))
                views.append(networks.run_network(f"{group.problem}, network {network}", group.runs[0], spec))
            continue
        views += [networks.run_network(f"{group.name}, seed {run.seed}", run, spec) for run in group.runs]
    views = views[:MAX_NETWORKS]
    for source in discoveries:
        matching = [view for view in views if networks.fits(view, source.discovery)]
        for view in matching:
            view["evidence"] = networks.evidence(source.discovery)
        views.append(networks.discovered_network(source.path.name, source.discovery))
    return views


def _warnings(runs: Sequence[RunInput], views: Sequence[Mapping[str, Any]]) -> list[str]:
    raised = [warning for run in runs for warning in run.warnings]
    for view in views:
        suspects = view.get("suspects") or []
        if suspects:
            names = [f"{view['actions'][i]} → {view['targets'][j]}" for i, j, _ in suspects]
            edges = counted(len(names), "edge that it lacks", "edges that it lacks")
            raised.append(f"{view['name']}: the test for missing edges suspects {edges}: {some(names)}")
    return list(dict.fromkeys(raised))


def _comparison_notes(groups: Sequence[RunGroup]) -> list[str]:
    problems = list(dict.fromkeys(group.problem for group in groups))
    if len(problems) < 2:
        return []
    return [
        f"the runs are on {len(problems)} problems ({some(problems)}): returns of different problems cannot be "
        "compared, so each problem has its own chart"
    ]


def _add(charts: dict[str, Any], section: str, title: str, y: str, series: list[Any], **look: Any) -> str:
    """Add a chart and return the name by which the page refers to it; by default its curves are over steps."""
    name = f"chart{len(charts) + 1}"
    axes = {"steps": AXES["steps"]}
    charts[name] = {"section": section, "title": title, "axes": axes, "y": y, "series": series} | look
    return name


def _curve_charts(
    groups: Sequence[RunGroup], baselines: Mapping[str, Interval], charts: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return a chart per problem, with the return of the reference controller if it was scored."""
    drawn = []
    for problem in dict.fromkeys(group.problem for group in groups):
        series = [g.curves.as_json() for g in groups if g.problem == problem and g.curves is not None]
        if series:
            if problem in baselines:
                longest = max(series, key=lambda each: each["x"]["steps"][-1])
                level = [float(f"{baselines[problem].mean:.6g}")] * len(longest["y"])
                name = f"controller {reference_controller(problem)}"
                series.append({"name": name, "x": longest["x"], "y": level, "dashed": True})
            name = short_name(problem)
            chart = _add(charts, "curves", name, "episode return", series, axes=AXES)
            drawn.append({"name": name, "chart": chart, "groups": len(series)})
    return drawn


def _credit_charts(section: dict[str, Any], charts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the section of a group with names of charts instead of their data; empty if there is nothing to show."""
    x, name = {"steps": section.pop("steps")}, section["name"]
    snr, explained = section.pop("snr"), section.pop("explained", None)
    if snr:
        title, series = (
            f"{name}: signal-to-noise ratio of the gradient of each factor",
            [{**each, "x": x} for each in snr],
        )
        section["snr"] = _add(charts, "credit", title, "signal to noise", series)
    if explained:
        title = f"{name}: explained variance of the critic, by {explained['of']}"
        series = [{**each, "x": x} for each in explained["series"]]
        section["of"] = explained["of"]
        section["explained"] = _add(charts, "credit", title, "explained variance", series, lowest=-1.0)
    if "terms" in section:
        rows = section["terms"]
        series = [
            {"name": key, "x": {"factor": list(range(len(rows)))}, "y": [row[key] for row in rows]}
            for key in ("vanilla", "factored")
        ]
        labels = [row["factor"] for row in rows]
        title = f"{name}: variance of the gradient of each factor, without and with K"
        look = {"axes": {"factor": "factor"}, "labels": labels, "bars": True}
        section["bars"] = _add(charts, "credit", title, "variance", series, **look)
    return [section] if snr or explained or "terms" in section else []


def _target_charts(
    groups: Sequence[RunGroup], specs: Sequence[Spec | None], charts: dict[str, Any]
) -> list[dict[str, Any]]:
    sections = []
    for group, spec in list(zip(groups, specs, strict=True))[:MAX_GROUPS]:
        labels = None if spec is None else spec.network.static.targets
        weights = None if spec is None else spec.weights
        section = targets_section(group.name, [run.curves for run in group.runs if run.curves], labels, weights)
        if section is not None:
            x = {"steps": section.pop("steps")}
            series = [{**each, "x": x} for each in section.pop("series")]
            title = f"{group.name}: return of each target, without λ"
            sections.append(section | {"chart": _add(charts, "targets", title, "return of a target", series)})
    return sections


def targets_section(
    name: str, runs: list[RunCurves], labels: tuple[str, ...] | None, weights: np.ndarray | None
) -> dict[str, Any] | None:
    """Return the targets averaged over the runs of a group; None if there is one target or none was logged.

    - `labels`, `weights`: names of the targets and λ; None if the problem cannot be created here.
    """
    tables = [(run.steps, run.vectors[TARGETS]) for run in runs if TARGETS in run.vectors]
    tables = [(steps, table) for steps, table in tables if np.isfinite(table).any()]
    if not tables:
        return None
    width = tables[0][1].shape[1]
    tables = [(steps, table) for steps, table in tables if table.shape[1] == width]
    steps = max((steps for steps, _ in tables), key=len)
    steps = steps[steps <= min(each[-1] for each, _ in tables)]
    if width < 2 or not len(steps):
        return None
    each = [np.stack([interpolate(steps, x, column) for column in table.T], axis=1) for x, table in tables]
    # The mean over runs that have a value; np.nanmean would warn where none has.
    filled = np.where(np.isfinite(each), each, 0.0).sum(axis=0)
    mean = filled / np.maximum(np.isfinite(each).sum(axis=0), 1)
    mean[~np.isfinite(each).any(axis=0)] = np.nan
    is_quartiles = width == len(QUARTILES) and labels is not None and len(labels) != width
    names = QUARTILES if is_quartiles or labels is None else labels
    if len(names) != width:
        names = tuple(f"target {j + 1}" for j in range(width))
    changes = [] if is_quartiles else _target_changes(names, mean, weights)
    section = {"name": name, "steps": numbers(steps), "changes": changes, "n_targets": len(labels or names)}
    shown = range(width)
    if width > MAX_TARGETS:  # those that changed most
        order = sorted(changes, key=lambda row: -abs(row["change"] or 0.0))[:MAX_TARGETS]
        shown = sorted(row["index"] for row in order)
    section["series"] = [{"name": names[j], "y": numbers(mean[:, j], 4)} for j in shown]
    return section


def _target_changes(names: tuple[str, ...], mean: np.ndarray, weights: np.ndarray | None) -> list[dict[str, Any]]:
    """Return the return of each target in the first and last tenth of training, and its effect on the objective."""
    ended = mean[np.isfinite(mean).any(axis=1)]
    tenth = max(1, len(ended) // 10)
    first, last = ended[:tenth].mean(axis=0), ended[-tenth:].mean(axis=0)
    lam = np.ones(len(names)) if weights is None or len(weights) != len(names) else weights
    columns = (numbers(x, 4) for x in (first, last, last - first, lam, lam * (last - first)))
    keys = ("first", "last", "change", "weight", "gain")
    return [
        {"index": j, "name": names[j]} | dict(zip(keys, row, strict=True))
        for j, row in enumerate(zip(*columns, strict=True))
    ]


def _episode_charts(sections: Sequence[dict[str, Any]], charts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return films as a separate list, and the parts of episodes as charts."""
    films: list[dict[str, Any]] = []
    for section in sections:
        if section["kind"] == "film":
            films.append(section["film"])
            section["film"] = len(films) - 1
            continue
        steps = {"step": list(range(1, section["length"] + 1))}
        for part in section["parts"]:
            series = [{**each, "x": steps} for each in part.pop("series")]
            title = f"{section['name']}: {part['title']} of one episode"
            part["shown"] = len(series)
            look = {"heat": len(series) > MAX_LINES[part["title"]], "by_row": part["title"] == "observations"}
            look["axes"] = {"step": "step of the episode"}
            part["chart"] = _add(charts, "acting", title, part["title"], series, **look)
    return films


def _title(sources: Sequence[Source], groups: Sequence[RunGroup]) -> str:
    names = list(dict.fromkeys(short_name(group.problem) for group in groups))
    names = names or [source.path.name for source in sources]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def reproduction_section(group: RunGroup, *, relative_to: Path | None) -> dict[str, Any]:
    """Return what is needed to train a group again or to continue it.

    - `relative_to`: the folder of the report, which links to checkpoints are relative to; None for no links.
    """
    first = group.runs[0]
    defaults = default_settings()
    settings = [
        {"name": name, "value": _text(value), "default": _text(defaults[name]), "differs": value != defaults[name]}
        for name, value in first.config["config"].items()
        if name != "seed"
    ]
    # Python's sort is stable: within both parts, settings stay in the order of `Config`.
    settings.sort(key=lambda row: not row["differs"])
    versions = {tuple(sorted(run.versions.items())) for run in group.runs if run.versions}
    return {
        "name": group.name,
        "problem": group.problem,
        "network": first.config["network"],
        "settings": settings,
        "versions": [dict(each) for each in sorted(versions)],
        "seeds": [run.seed for run in group.runs],
        "again": [_command(group, i) for i in range(min(len(group.runs), MAX_COMMANDS))],
        "more": max(0, len(group.runs) - MAX_COMMANDS),
        "resume": _command(group, 0, longer=True),
        "resume_note": _schedule_note(group),
        "checkpoints": [
            {"label": str(file), "href": _link(file, relative_to)}
            for run in group.runs[:50]
            for file in run.checkpoints
        ],
    }


def _command(group: RunGroup, index: int, *, longer: bool = False) -> str:
    run = group.runs[index]
    settings = {"problem": group.problem} | run.config["config"]
    extra: list[str] = []
    if longer:
        settings["total_timesteps"] = 2 * settings["total_timesteps"]
        extra = ["--force"] if _schedule_note(group) else []
    return train_command(
        settings,
        seed=run.seed,
        network=run.config["network"],
        method=settings["method"],
        out=str(run.path) if longer else f"{run.path}-again",
        extra=extra,
    )


def _schedule_note(group: RunGroup) -> str:
    """Return a remark if the number of steps affects the schedules."""
    config = group.runs[0].config
    scheduled = bool(config["config"]["anneal"]) or str(config["network"]).startswith("curriculum:")
    return "its schedules depend on the number of steps, so --force is needed" if scheduled else ""


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _link(file: Path, relative_to: Path | None) -> str:
    """Return the address of a file relative to the report; empty if there is none, as on another drive."""
    if relative_to is None:
        return ""
    try:
        return quote(Path(os.path.relpath(file.resolve(), relative_to.resolve())).as_posix())
    except ValueError:
        return ""
