"""How to reproduce a run: settings, versions, seeds, commands, and links to its checkpoints."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..compare import default_settings
from ..gain import train_command
from .verdict import RunGroup

_MOST_COMMANDS = 10


def reproduction_section(group: RunGroup, *, relative_to: Path | None) -> dict[str, Any]:
    """Return what is needed to train a group again or to continue it.

    - `relative_to`: the folder of the report, which links to checkpoints are relative to; None for no links.
    """
    first = group.runs[0]
    defaults = default_settings()
    settings = [
        {"name": name, "value": _shown(value), "default": _shown(default), "differs": value != default}
        for name, value, default in (
            (name, value, defaults.get(name)) for name, value in first.config["config"].items() if name != "seed"
        )
    ]
    settings.sort(key=lambda row: not row["differs"])
    versions = {tuple(sorted(run.versions.items())) for run in group.runs if run.versions}
    return {
        "name": group.name,
        "problem": group.problem,
        "network": first.config["network"],
        "settings": settings,
        "versions": [dict(each) for each in sorted(versions)],
        "seeds": [run.seed for run in group.runs],
        "again": [_command(group, i) for i in range(min(len(group.runs), _MOST_COMMANDS))],
        "more": max(0, len(group.runs) - _MOST_COMMANDS),
        "resume": _command(group, 0, longer=True),
        "resume_note": _ends_with_the_steps(group),
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
        extra = ["--force"] if _ends_with_the_steps(group) else []
    return train_command(
        settings,
        seed=run.seed,
        network=run.config["network"],
        estimator=settings["estimator"],
        out=str(run.path) if longer else f"{run.path}-again",
        extra=extra,
    )


def _ends_with_the_steps(group: RunGroup) -> str:
    """Return a remark if the number of steps affects the schedules."""
    config = group.runs[0].config
    scheduled = bool(config["config"]["anneal"]) or str(config["network"]).startswith("curriculum:")
    return "its schedules depend on the number of steps, so --force is needed" if scheduled else ""


def _shown(value: Any) -> str:
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
