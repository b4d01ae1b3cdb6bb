"""Discoveries as safetensors files: arrays and a JSON header. Data only; nothing in a file is ever run."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from .._files import write_whole
from .result import Discovery

FORMAT = 1
_ARRAYS = {"effect": np.float64, "p_value": np.float64, "samples": np.int64}
_HEADER = ("method", "kind", "loop", "effect_unit", "notes", "steps")


def save(found: Discovery, path: str | os.PathLike[str]) -> None:
    """Write a discovery, whole or not at all; what stands beside it under ``also`` goes with it."""
    parts = {"": found} | dict(found.also)
    arrays = {f"{name}/{key}": np.ascontiguousarray(getattr(part, key), dtype)
              for name, part in parts.items() for key, dtype in _ARRAYS.items()}  # fmt: skip
    header: dict[str, Any] = {"format": FORMAT, "actions": found.actions, "targets": found.targets}
    header["parts"] = {name: {key: getattr(part, key) for key in _HEADER} for name, part in parts.items()}
    data = save_tensors(arrays, metadata={"factorax.discovery": json.dumps(header, ensure_ascii=False)})
    write_whole(Path(path), lambda file: file.write(data))


def load(path: str | os.PathLike[str]) -> Discovery:
    """Read what `save` wrote; anything else is a ValueError that says so."""
    data = Path(path).read_bytes()
    try:
        size = int.from_bytes(data[:8], "little")
        header = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["factorax.discovery"])
        if header["format"] > FORMAT:
            raise ValueError(f"written in format {header['format']}, this factorax reads up to {FORMAT}")
        arrays, labels = load_tensors(data), (tuple(header["actions"]), tuple(header["targets"]))
        parts = {name: _part(arrays, name, head, labels) for name, head in header["parts"].items()}
        main = parts.pop("")
        return replace(main, also=parts)
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{path}: not a discovery of factorax, or damaged ({error})") from error


def _part(arrays: dict[str, np.ndarray], name: str, head: dict[str, Any], labels: tuple[Any, Any]) -> Discovery:
    values: dict[str, Any] = {key: arrays[f"{name}/{key}"] for key in _ARRAYS}
    for key, dtype in _ARRAYS.items():
        if values[key].dtype != dtype or values[key].shape != tuple(map(len, labels)):
            raise ValueError(f"{name}/{key} has shape {values[key].shape} and type {values[key].dtype}")
    told: dict[str, Any] = {key: head[key] for key in _HEADER} | {
        "notes": tuple(map(str, head["notes"])),
        "steps": int(head["steps"]),
    }
    return Discovery(**told, **values, actions=labels[0], targets=labels[1])
