"""How progress is shown: a bar, the time gone and the time left."""

from typing import Any

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def progress_bar(**options: Any) -> Progress:
    """Return a bar with clocks; `options` are those of rich's ``Progress``."""
    bar = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    clocks = (TimeElapsedColumn(), TextColumn("gone,"), TimeRemainingColumn(), TextColumn("left"))
    return Progress(*bar, *clocks, **options)
