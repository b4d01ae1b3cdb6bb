"""What a run was made with, and which warnings it raised, written into its folder for reports."""

import json
import os
import platform
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from .._files import MIB, append_text, parse_json, read_bytes, read_json, write_json

MADE_WITH = "made_with.json"
WARNINGS = "warnings.jsonl"
_MOST_WARNINGS = 100
"""Warnings that a folder keeps: an environment may warn in every step."""
_LONGEST_WARNING = 2000


def versions() -> dict[str, str]:
    """Return the versions of factorax and what it computes with, and the device."""
    import jax

    device = jax.devices()[0]
    return {
        "factorax": sys.modules["factorax"].__version__,  # this package imports nothing of the one above it
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "device": f"{device.device_kind}, {os.cpu_count()} cores" if device.platform == "cpu" else device.device_kind,
    }


def write_made_with(run: Path) -> None:
    """Write the versions that a run is trained with; those of its last resumption replace earlier ones."""
    write_json(run / MADE_WITH, versions())


def read_made_with(run: Path) -> dict[str, str]:
    """Return the versions that a run was made with; empty if the folder does not say, or is damaged."""
    try:
        content = read_json(run / MADE_WITH, MIB)
    except (OSError, ValueError):
        return {}
    return {str(k): str(v)[:200] for k, v in content.items()} if isinstance(content, dict) else {}


def read_warnings(run: Path) -> list[str]:
    """Return the warnings that training raised, each once; none if the folder has no record of them."""
    try:
        lines = read_bytes(run / WARNINGS, MIB).decode(errors="replace").splitlines()
    except (OSError, ValueError):
        return []
    messages = []
    for line in lines:
        try:
            messages.append(str(parse_json(line)["message"]))
        except (ValueError, KeyError, TypeError):
            continue  # a line that a crash has cut off
    return list(dict.fromkeys(messages))[:_MOST_WARNINGS]


class WarningRecord:
    """Writes warnings of users, while it is entered, into the folders of runs; they are shown as before.

    Warnings that come before `write_to` are kept and written then: models are made before their folders are opened.
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
                self._add(str(message)[:_LONGEST_WARNING], category.__name__)
            shown_before(message, category, *where, **options)

        warnings.showwarning = show
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._caught.__exit__(kind, error, trace)

    def write_to(self, folders: Sequence[Path]) -> None:
        """Write what was raised so far into these folders, and what follows."""
        self._folders = list(folders)
        for message, category in self._messages.items():
            self._append(message, category)

    def _add(self, message: str, category: str) -> None:
        if message not in self._messages and len(self._messages) < _MOST_WARNINGS:
            self._messages[message] = category
            self._append(message, category)

    def _append(self, message: str, category: str) -> None:
        line = json.dumps({"category": category, "message": message}, ensure_ascii=False) + "\n"
        for folder in self._folders:
            with suppress(OSError):  # a full disk is reported where metrics are written
                if message not in read_warnings(folder):  # of an earlier session of the run
                    append_text(folder / WARNINGS, line)
