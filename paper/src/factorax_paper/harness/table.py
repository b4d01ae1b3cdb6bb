"""Tables as dictionaries of columns of equal length, and CSV files that restore them exactly."""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from factorax._files import write_whole

Table = dict[str, np.ndarray]


def from_rows(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Return the table of rows with the same keys.

    >>> from_rows([{"n": 1, "gap": 0.5}, {"n": 2, "gap": 0.25}])["gap"]
    array([0.5 , 0.25])
    """
    rows = list(rows)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def where(table: Table, **values: Any) -> Table:
    """Return the rows with these values."""
    keep = np.logical_and.reduce([table[name] == value for name, value in values.items()])
    return {name: column[keep] for name, column in table.items()}


def write_csv(path: Path, table: Table) -> None:
    """Write a table atomically; numbers have the shortest form that restores them exactly."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))
    write_whole(path, lambda file: file.write(text.getvalue().encode()))


def read_csv(path: Path) -> Table:
    """Read a file of `write_csv`; columns are integers, floats or text."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        if not rows or any(len(row) != len(head) for row in rows):
            raise ValueError("rows of different lengths, or none")
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path}: no table, or damaged ({error}); remove it and run the experiment again") from error
    return {name: _column(values) for name, values in zip(head, zip(*rows, strict=True), strict=True)}


def _column(values: tuple[str, ...]) -> np.ndarray:
    for kind in (int, float):
        try:
            return np.array([kind(value) for value in values])
        except ValueError:
            continue
    return np.array(values)
