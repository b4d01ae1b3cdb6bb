"""Progress bars with elapsed and remaining time."""

from typing import Any

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def progress_bar(**options: Any) -> Progress:
    """Return a progress bar with elapsed and remaining time; `options` are passed to rich's ``Progress``."""
    bar = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    clocks = (TimeElapsedColumn(), TextColumn("gone,"), TimeRemainingColumn(), TextColumn("left"))
    return Progress(*bar, *clocks, **options)
