"""Discoveries as safetensors files: arrays and a JSON header. Files are data and never run code."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from .._files import parse_json, read_bytes, write_whole

T = TypeVar("T")
FORMAT = 1
_LARGEST = 2**30
_ARRAYS = {"effect": np.float64, "p_value": np.float64, "samples": np.int64, "relative": np.float64}
_HEADER = ("method", "kind", "loop", "effect_unit", "notes", "steps", "streams", "lacks_reactions")


def save(
    path: str | os.PathLike[str],
    parts: Mapping[str, Mapping[str, Any]],
    *,
    actions: Sequence[str],
    targets: Sequence[str],
) -> None:
    """Write a discovery atomically: its fields under the name ``""``, those of ``also`` under their names."""
    arrays = {f"{name}/{key}": np.ascontiguousarray(part[key], dtype)
              for name, part in parts.items() for key, dtype in _ARRAYS.items() if part[key] is not None}  # fmt: skip
    header: dict[str, Any] = {"format": FORMAT, "actions": actions, "targets": targets}
    header["parts"] = {name: {key: part[key] for key in _HEADER} for name, part in parts.items()}
    data = save_tensors(arrays, metadata={"factorax.discovery": json.dumps(header, ensure_ascii=False)})
    write_whole(Path(path), lambda file: file.write(data))


def load(path: str | os.PathLike[str], build: Callable[..., T]) -> T:
    """Read a file that `save` wrote, and `build` a discovery from its fields; raise ValueError for any other file."""
    data = read_bytes(Path(path), _LARGEST)
    try:
        size = int.from_bytes(data[:8], "little")
        header = parse_json(parse_json(data[8 : 8 + size])["__metadata__"]["factorax.discovery"])
        if header["format"] > FORMAT:
            raise ValueError(f"written in format {header['format']}, this factorax reads up to {FORMAT}")
        arrays, labels = load_tensors(data), (tuple(header["actions"]), tuple(header["targets"]))
        parts = {name: _fields(arrays, name, head, labels) for name, head in header["parts"].items()}
        main = parts.pop("")
        return build(**main, also={name: build(**part) for name, part in parts.items()})
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{path}: not a discovery of factorax, or damaged ({error})") from error


def _fields(arrays: dict[str, np.ndarray], name: str, head: dict[str, Any], labels: tuple[Any, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {key: arrays.get(f"{name}/{key}") for key in _ARRAYS}
    for key, dtype in _ARRAYS.items():
        if values[key] is None and key == "relative":
            continue
        if values[key].dtype != dtype or values[key].shape != tuple(map(len, labels)):
            raise ValueError(f"{name}/{key} has shape {values[key].shape} and type {values[key].dtype}")
    fields: dict[str, Any] = {key: head[key] for key in _HEADER} | {
        "notes": tuple(map(str, head["notes"])),
        "steps": int(head["steps"]),
    }
    return {**fields, **values, "actions": labels[0], "targets": labels[1]}
