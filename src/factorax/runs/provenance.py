"""Versions and warnings of a run, stored in its folder for reports."""

import json
import os
import platform
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from .._files import MIB, append_text, parse_json, read_bytes, read_json, write_json

MADE_WITH = "made_with.json"
WARNINGS = "warnings.jsonl"
_MOST_WARNINGS = 100
"""Maximum number of warnings stored per folder: an environment may warn in every step."""
_LONGEST_WARNING = 2000


def versions() -> dict[str, str]:
    """Return the versions of factorax and its dependencies, and the device."""
    import jax

    device = jax.devices()[0]
    return {
        # not imported, because packages may not import the top-level package
        "factorax": sys.modules["factorax"].__version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "device": f"{device.device_kind}, {os.cpu_count()} cores" if device.platform == "cpu" else device.device_kind,
    }


def write_made_with(run: Path) -> None:
    """Write the versions used for training; those of the last resumption replace earlier ones."""
    write_json(run / MADE_WITH, versions())


def read_made_with(run: Path) -> dict[str, str]:
    """Return the versions a run was trained with; empty if the file is missing or damaged."""
    try:
        content = read_json(run / MADE_WITH, MIB)
    except (OSError, ValueError):
        return {}
    return {str(k): str(v)[:200] for k, v in content.items()} if isinstance(content, dict) else {}


def read_warnings(run: Path) -> list[str]:
    """Return the distinct warnings of training; empty if the folder has none."""
    try:
        lines = read_bytes(run / WARNINGS, MIB).decode(errors="replace").split("\n")
    except (OSError, ValueError):
        return []
    messages = []
    for line in lines:
        try:
            messages.append(str(parse_json(line)["message"]))
        except (ValueError, KeyError, TypeError):
            continue  # a line cut off by a crash
    return list(dict.fromkeys(messages))[:_MOST_WARNINGS]


class WarningRecord:
    """Writes warnings to the folders of runs while the context is active; they are displayed as usual.

    Warnings issued before `write_to` are kept and written then, because models are created before their folders exist.
    """

    def __init__(self) -> None:
        self._messages: dict[str, str] = {}
        self._folders: list[Path] = []
        self._caught: Any = None

    def __enter__(self) -> "WarningRecord":
        self._caught = warnings.catch_warnings()
        self._caught.__enter__()
        shown_before = warnings.showwarning

        def show(message: Any, category: type[Warning], *where: Any, **options: Any) -> None:
            if issubclass(category, UserWarning):
                text = str(message)[:_LONGEST_WARNING]
                if text not in self._messages and len(self._messages) < _MOST_WARNINGS:
                    self._messages[text] = category.__name__
                    self._append(text, category.__name__)
            shown_before(message, category, *where, **options)

        warnings.showwarning = show
        return self

    def __exit__(self, *error: Any) -> None:
        self._caught.__exit__(*error)

    def write_to(self, folders: Sequence[Path]) -> None:
        """Write past and future warnings to these folders."""
        self._folders = list(folders)
        for message, category in self._messages.items():
            self._append(message, category)

    def _append(self, message: str, category: str) -> None:
        line = json.dumps({"category": category, "message": message}, ensure_ascii=False) + "\n"
        for folder in self._folders:
            with suppress(OSError):  # a full disk is reported where metrics are written
                if message not in read_warnings(folder):  # may be stored by an earlier session of the run
                    append_text(folder / WARNINGS, line)
