"""Pytrees of arrays as safetensors files: only data, with a format number; loading runs no code."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from .._files import write_whole
from ..structure.labels import counted

FORMAT = 4
_BESIDE = "beside:"
_NOT_OURS = "not a factorax checkpoint, or damaged"
_RENAMED = {".evidence.weights": ".network.matrix", ".evidence": ".network", ".validity": ".missing_edges",
            ".weights[": ".kernels["}  # fmt: skip
"""Names in files of format 2, and what the same arrays are called now."""
_SETTINGS = ".hyper."
"""What the names of arrays begin with that files of the formats 2 and 3 have in addition."""


def save(path: Path, tree: Any, about: dict[str, Any], beside: Mapping[str, np.ndarray] | None = None) -> None:
    """Write the arrays of a pytree, a JSON object `about` them, and other arrays by name; whole or not at all."""
    names, leaves = _named(tree)
    arrays = {name: np.asarray(_plain(leaf), order="C") for name, leaf in zip(names, leaves, strict=True)}
    arrays |= {f"{_BESIDE}{name}": np.asarray(array, order="C") for name, array in (beside or {}).items()}
    header = {"factorax": json.dumps({"format": FORMAT} | about)}
    data = save_tensors(arrays, metadata=header)
    write_whole(path, lambda file: file.write(data))


def about(path: Path) -> dict[str, Any]:
    """The JSON object of a checkpoint; its arrays are not read."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(min(length, path.stat().st_size))  # a damaged length may be anything
    return _content(path, header)


def load(path: Path, like: Any, *, keep: tuple[str, ...] = ()) -> tuple[Any, dict[str, np.ndarray]]:
    """Read a checkpoint into a pytree of the same structure, shapes and types as `like`, all of it or nothing; and the
    other arrays by name.

    - `keep`: what the names of arrays begin with that stay as `like` has them.
    """
    arrays, _ = _read(path)
    beside = {name.removeprefix(_BESIDE): arrays.pop(name) for name in list(arrays) if name.startswith(_BESIDE)}
    names, leaves = _named(like)
    if sorted(names) != sorted(arrays):
        odd = sorted(set(names) ^ set(arrays))
        raise ValueError(
            f"{path}: a checkpoint of something else: {counted(len(odd), 'entry does', 'entries do')} not match, such "
            f"as {odd[0]}"
        )
    new = []
    for name, leaf in zip(names, leaves, strict=True):
        if name.startswith(keep) and keep:
            new.append(leaf)
            continue
        want, got = _plain(leaf), arrays[name]
        if want.shape != got.shape or want.dtype != got.dtype:
            raise ValueError(
                f"{path}: {name} has shape {got.shape} and type {got.dtype}, want {want.shape} and {want.dtype}; "
                "was it made with other settings?"
            )
        new.append(jax.random.wrap_key_data(jnp.asarray(got)) if _is_key(leaf) else jnp.asarray(got))
    dynamic, static = eqx.partition(like, eqx.is_array)
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(dynamic), new), static), beside


def _named(tree: Any) -> tuple[list[str], list[Any]]:
    pairs = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))[0]
    return [jax.tree_util.keystr(path) for path, _ in pairs], [leaf for _, leaf in pairs]


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    data = path.read_bytes()
    try:
        arrays = load_tensors(data)
    except SafetensorError as error:
        raise ValueError(f"{path}: {_NOT_OURS}") from error
    content = _content(path, data[8 : 8 + int.from_bytes(data[:8], "little")])
    if content["format"] == 2:
        arrays = {_renamed(name): array for name, array in arrays.items()}
    if content["format"] < FORMAT:
        arrays = {name: array for name, array in arrays.items() if not name.startswith(_SETTINGS)}
    return arrays, content


def _content(path: Path, header: bytes) -> dict[str, Any]:
    """The JSON object in the header of a file, if its format is known."""
    try:
        content = json.loads(json.loads(header)["__metadata__"]["factorax"])
        number = content.get("format")
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
        raise ValueError(f"{path}: {_NOT_OURS}") from error
    if number not in (2, 3, FORMAT):
        raise ValueError(f"{path}: format {number}, want {FORMAT}, 3 or 2; it is of another version of factorax")
    return content


def _renamed(name: str) -> str:
    for old, new in _RENAMED.items():
        name = name.replace(old, new)
    return name
