"""Collection of all data of a report as plain texts, numbers, lists and dictionaries."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ..._text import counted, printable, some
from ...plugins import reference_controller
from ...spec import Spec
from ..compare import name_groups, short_name
from ..gain import role_of
from ..statistics import Interval
from . import networks
from .acting import acting_section
from .curves import QUARTILES, TARGETS, RunCurves, group_curves, interpolated, numbers
from .reproduction import reproduction_section
from .sources import DiscoverySource, RunSource, Source, read_sources
from .variance import credit_section, measured_terms
from .verdict import RunGroup, discovery_verdict, run_verdicts

AXES = {"steps": "steps of all environments", "episodes": "episodes", "seconds": "seconds of training"}
_MOST_GROUPS = 6
"""Maximum number of groups with gradients, targets and settings; learning curves are shown for all groups."""
_MOST_VERDICTS = 12
_ROLES = ("factored", "complete", "vanilla")
_MOST_NETWORKS = 12
_MOST_LINES = {"actions": 3, "targets": 8, "observations": 8}
"""Maximum number of series of an episode drawn as lines; more are drawn as a heat map."""
_MOST_MEASURED = 3
_MOST_TARGETS = 60


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
    sources = read_sources(what)
    runs = [source for source in sources if isinstance(source, RunSource)]
    discoveries = [source for source in sources if isinstance(source, DiscoverySource)]
    notes = [f"{source.path.name}: {note}" for source in runs for note in source.notes]
    groups = grouped(runs)
    notes += _incomparable(groups)
    charts: dict[str, Any] = {}
    tell("reading problems and networks")
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
    if len(verdicts) > _MOST_VERDICTS:
        notes.append(f"verdicts are given only for the first {_MOST_VERDICTS} of {len(verdicts)} groups of runs")
        del verdicts[_MOST_VERDICTS:]
    verdicts += map(discovery_verdict, discoveries)
    curves = _curve_charts(groups, baselines, charts)
    credit = []
    for k, (group, spec) in enumerate(firsts[:_MOST_GROUPS]):
        run = next((each for each in group.runs if each.curves is not None and each.curves.updates), None)
        if run is not None:
            terms = {}
            if play and k < _MOST_MEASURED:
                tell(f"measuring the gradients of {group.name}")
                terms = measured_terms(run, spec, trusted, notes)
            section = credit_section(group.name, run, spec, terms)
            credit += _credit_charts(section, charts)
    targets = _target_charts(groups, specs, charts)
    acting: list[dict[str, Any]] = []
    if play and firsts:
        tell("playing episodes")
        policies = [(group.name, group.runs[0], spec) for group, spec in firsts]
        acting = acting_section(policies, trusted=trusted, notes=notes)
    films = _acting_charts(acting, charts)
    if len(groups) > _MOST_GROUPS:
        notes.append(f"details are shown only for the first {_MOST_GROUPS} of {len(groups)} groups of runs")
    return sanitised(
        {
            "title": _title(sources, groups),
            "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
            "is_training": any(not run.is_finished for run in runs),
            "notes": list(dict.fromkeys(notes)),
            "verdicts": [vars(verdict) for verdict in verdicts],
            "warnings": _warnings(runs, views),
            "curves": curves,
            "networks": views,
            "credit": credit,
            "targets": targets,
            "acting": acting,
            "films": films,
            "reproduce": [reproduction_section(group, relative_to=relative_to) for group in groups[:_MOST_GROUPS]],
            "charts": charts,
        }
    )


def grouped(runs: Sequence[RunSource]) -> list[RunGroup]:
    """Return the runs grouped by problem and settings, those with their own K first; includes runs without metrics."""
    by_problem: dict[str, list[RunSource]] = {}
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


def sanitised(content: Any) -> Any:
    """Return data with non-printable characters in texts escaped.

    Folders may be untrusted, and some characters change the direction of the text that follows.
    """
    if isinstance(content, str):
        return content if content.isprintable() else printable(content, limit=len(content))
    if isinstance(content, Mapping):
        return {sanitised(key): sanitised(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [sanitised(each) if not isinstance(each, int | float) else each for each in content]
    return content


def _specs(groups: Sequence[RunGroup], trusted: str | None, notes: list[str]) -> list[Spec | None]:
    """Return the problem of each group; a problem with the same network is created once."""
    known: dict[tuple[Any, ...], Spec | None] = {}
    for group in groups:
        if _problem_key(group) not in known:
            known[_problem_key(group)] = networks.quiet_spec(group.runs[0], trusted, notes)
    return [known[_problem_key(group)] for group in groups]


def _problem_key(group: RunGroup) -> tuple[Any, ...]:
    of = group.settings
    network, steps = str(of["network"]), of["total_timesteps"]
    return group.problem, network, steps if "curriculum" in network else 0, of["bounded"], of["covariance"], of["std"]


def _networks(firsts: Sequence[tuple[RunGroup, Spec]], discoveries: Sequence[DiscoverySource]) -> list[dict[str, Any]]:
    """Return one network for each fixed network of a problem, and one for each run with a varying network."""
    views: list[dict[str, Any]] = []
    shown: set[tuple[str, str]] = set()
    for group, spec in firsts:
        network = str(group.settings["network"])
        if role_of(group.settings) == "vanilla" or spec.network.static.shape == (1, 1):
            continue
        if spec.network.is_fixed:
            if (group.problem, network) not in shown:
                shown.add((group.problem, network))
                views.append(networks.run_network(f"{group.problem}, network {network}", group.runs[0], spec))
            continue
        views += [networks.run_network(f"{group.name}, seed {run.seed}", run, spec) for run in group.runs]
    views = views[:_MOST_NETWORKS]
    for source in discoveries:
        matching = [view for view in views if networks.fits(view, source.discovery)]
        for view in matching:
            view["evidence"] = networks.evidence(source.discovery)
        views.append(networks.discovered_network(source.path.name, source.discovery))
    return views


def _warnings(runs: Sequence[RunSource], views: Sequence[Mapping[str, Any]]) -> list[str]:
    raised = [warning for run in runs for warning in run.warnings]
    for view in views:
        suspects = view.get("suspects") or []
        if suspects:
            names = [f"{view['actions'][i]} → {view['targets'][j]}" for i, j, _ in suspects]
            edges = counted(len(names), "edge that it lacks", "edges that it lacks")
            raised.append(f"{view['name']}: the test for missing edges suspects {edges}: {some(names)}")
    return list(dict.fromkeys(raised))


def _incomparable(groups: Sequence[RunGroup]) -> list[str]:
    problems = list(dict.fromkeys(group.problem for group in groups))
    if len(problems) < 2:
        return []
    return [
        f"the runs are on {len(problems)} problems ({some(problems)}): returns of different problems cannot be "
        "compared, so each problem has its own chart"
    ]


def _add(charts: dict[str, Any], section: str, chart: dict[str, Any]) -> str:
    """Add a chart and return the name by which the page refers to it."""
    name = f"chart{len(charts) + 1}"
    charts[name] = {"section": section} | chart
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
            chart = {"title": short_name(problem), "axes": AXES, "y": "episode return", "series": series}
            drawn.append({"name": short_name(problem), "chart": _add(charts, "curves", chart), "groups": len(series)})
    return drawn


def _credit_charts(section: dict[str, Any], charts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the section of a group with names of charts instead of their data; empty if there is nothing to show."""
    x = {"steps": section.pop("steps")}
    axes = {"steps": AXES["steps"]}
    snr, explained = section.pop("snr"), section.pop("explained", None)
    if snr:
        title = f"{section['name']}: signal-to-noise ratio of the gradient of each factor"
        chart = {"title": title, "axes": axes, "y": "signal to noise", "series": [{**each, "x": x} for each in snr]}
        section["snr"] = _add(charts, "credit", chart)
    if explained:
        title = f"{section['name']}: explained variance of the critic, by {explained['of']}"
        series = [{**each, "x": x} for each in explained["series"]]
        chart = {"title": title, "axes": axes, "y": "explained variance", "series": series, "lowest": -1.0}
        section["explained"], section["of"] = _add(charts, "credit", chart), explained["of"]
    if "terms" in section:
        rows = section["terms"]
        series = [
            {"name": key, "x": {"factor": list(range(len(rows)))}, "y": [row[key] for row in rows]}
            for key in ("vanilla", "factored")
        ]
        labels = [row["factor"] for row in rows]
        title = f"{section['name']}: variance of the gradient of each factor, without and with K"
        chart = {"title": title, "axes": {"factor": "factor"}, "y": "variance", "series": series, "labels": labels}
        section["bars"] = _add(charts, "credit", chart | {"bars": True})
    return [section] if snr or explained or "terms" in section else []


def _target_charts(
    groups: Sequence[RunGroup], specs: Sequence[Spec | None], charts: dict[str, Any]
) -> list[dict[str, Any]]:
    sections = []
    for group, spec in list(zip(groups, specs, strict=True))[:_MOST_GROUPS]:
        labels = None if spec is None else spec.network.static.targets
        weights = None if spec is None else spec.weights
        section = targets_section(group.name, [run.curves for run in group.runs if run.curves], labels, weights)
        if section is not None:
            x = {"steps": section.pop("steps")}
            series = [{**each, "x": x} for each in section.pop("series")]
            title = f"{group.name}: return of each target, without λ"
            chart = {"title": title, "axes": {"steps": AXES["steps"]}, "y": "return of a target", "series": series}
            sections.append(section | {"chart": _add(charts, "targets", chart)})
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
    each = [np.stack([interpolated(steps, x, column) for column in table.T], axis=1) for x, table in tables]
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
    if width > _MOST_TARGETS:  # those that changed most
        order = sorted(changes, key=lambda row: -abs(row["change"] or 0.0))[:_MOST_TARGETS]
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


def _acting_charts(acting: Sequence[dict[str, Any]], charts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return films as a separate list, and the parts of episodes as charts."""
    films: list[dict[str, Any]] = []
    for section in acting:
        if section["kind"] == "film":
            films.append(section["film"])
            section["film"] = len(films) - 1
            continue
        steps = {"step": list(range(1, section["length"] + 1))}
        for part in section["parts"]:
            series = [{**each, "x": steps} for each in part.pop("series")]
            title = f"{section['name']}: {part['title']} of one episode"
            chart = {"title": title, "axes": {"step": "step of the episode"}, "y": part["title"], "series": series}
            part["shown"] = len(series)
            look = {"heat": len(series) > _MOST_LINES[part["title"]], "by_row": part["title"] == "observations"}
            part["chart"] = _add(charts, "acting", chart | look)
    return films


def _title(sources: Sequence[Source], groups: Sequence[RunGroup]) -> str:
    names = list(dict.fromkeys(short_name(group.problem) for group in groups))
    names = names or [source.path.name for source in sources]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
