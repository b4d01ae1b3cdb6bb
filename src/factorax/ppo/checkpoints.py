"""Pytrees of arrays as safetensors files: data only, with a format number and a checksum; loading runs no code."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from .._files import MIB, open_plain, parse_json, write_whole
from .._text import counted

FORMAT = 5
_LONGEST_HEADER = 16 * MIB
_BESIDE_BYTES = 1024 * MIB
"""Maximum number of bytes of arrays that do not belong to the pytree."""
_UNSIGNED = "0" * 64
_BESIDE = "beside:"
_NOT_OURS = "not a factorax checkpoint, or damaged"


def save(path: Path, tree: Any, about: dict[str, Any], beside: Mapping[str, np.ndarray] | None = None) -> None:
    """Write the arrays of a pytree, a JSON object `about` them, and other arrays by name, atomically."""
    names, leaves = _named(tree)
    arrays = {name: np.asarray(_plain(leaf), order="C") for name, leaf in zip(names, leaves, strict=True)}
    arrays |= {f"{_BESIDE}{name}": np.asarray(array, order="C") for name, array in (beside or {}).items()}
    metadata = {"factorax": json.dumps({"format": FORMAT} | about), "sha256": _UNSIGNED}
    data = save_tensors(arrays, metadata=metadata)
    end = 8 + int.from_bytes(data[:8], "little")
    signed = data[:end].replace(_signature(_UNSIGNED), _signature(_digest(data[:end], memoryview(data)[end:])), 1)

    def write(file: IO[bytes]) -> None:
        file.write(signed)
        file.write(memoryview(data)[end:])

    write_whole(path, write)


def about(path: Path) -> dict[str, Any]:
    """Return the JSON object of a checkpoint without reading its arrays."""
    with open_plain(path) as file:
        return _about(path, _header(path, file)[1])


def arrays(path: Path, prefix: str, *, limit: int = _BESIDE_BYTES) -> dict[str, np.ndarray]:
    """Return the arrays of a checkpoint whose names start with `prefix`, by the rest of the name, without a model.

    Raises ValueError for a file that is not a checkpoint, is damaged, or has more than `limit` bytes.
    """
    stored = _read(path, limit)
    return {name.removeprefix(prefix): array for name, array in stored.items() if name.startswith(prefix)}


def load(
    path: Path, like: Any, *, keep: tuple[str, ...] = (), finite: tuple[str, ...] = ()
) -> tuple[Any, dict[str, np.ndarray]]:
    """Read a checkpoint into a pytree with the structure, shapes and types of `like`; also return other arrays by name.

    - `keep`: prefixes of arrays that keep their values in `like`.
    - `finite`: prefixes of arrays that must not contain NaN or infinite numbers.
    """
    names, leaves = _named(like)
    wanted = [_plain(leaf) for leaf in leaves]
    arrays = _read(path, limit=sum(array.nbytes for array in wanted) + _BESIDE_BYTES)
    beside = {name.removeprefix(_BESIDE): arrays.pop(name) for name in list(arrays) if name.startswith(_BESIDE)}
    if sorted(names) != sorted(arrays):
        odd = sorted(set(names) ^ set(arrays))
        raise ValueError(
            f"{path}: a checkpoint of something else: {counted(len(odd), 'entry does', 'entries do')} not match, such "
            f"as {odd[0]}"
        )
    new = []
    for name, leaf, want in zip(names, leaves, wanted, strict=True):
        if name.startswith(keep):
            new.append(leaf)
            continue
        got = arrays[name]
        if want.shape != got.shape or want.dtype != got.dtype:
            raise ValueError(
                f"{path}: {name} has shape {got.shape} and type {got.dtype}, want {want.shape} and {want.dtype}; "
                "was it written with other settings?"
            )
        if name.startswith(finite) and got.dtype.kind == "f" and not np.isfinite(got).all():
            raise ValueError(f"{path}: {name} contains non-finite numbers; it is damaged, or training diverged")
        array = jax.device_put(got)  # in recent versions of JAX, `jnp.asarray` compiles a program for each shape
        new.append(jax.random.wrap_key_data(array) if _is_key(leaf) else array)
    dynamic, static = eqx.partition(like, eqx.is_array)
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(dynamic), new), static), beside


def _named(tree: Any) -> tuple[list[str], list[Any]]:
    pairs = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))[0]
    return [jax.tree_util.keystr(path) for path, _ in pairs], [leaf for _, leaf in pairs]


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _read(path: Path, limit: int) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name; raise ValueError if the file is not what was written."""
    with open_plain(path) as file:
        header, metadata = _header(path, file)
        size = os.fstat(file.fileno()).st_size
        if size > limit:  # before memory is allocated
            raise ValueError(f"{path}: has {size:,} bytes, want at most {limit:,}; was it written with other settings?")
        file.seek(0)
        data = file.read(size)
    _about(path, metadata)  # raises for another format
    digest = str(metadata.get("sha256"))
    unsigned = header.replace(_signature(digest), _signature(_UNSIGNED), 1)
    if digest != _digest(unsigned, memoryview(data)[len(header) :]):
        raise ValueError(f"{path}: {_NOT_OURS}: its checksum is missing or does not match")
    try:
        return load_tensors(data)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: {_NOT_OURS}") from error


def _header(path: Path, file: IO[bytes]) -> tuple[bytes, dict[str, Any]]:
    """Return the start of a file (length of the header, and header) as bytes, and its metadata.

    The arrays must end where the file ends, so that a small file cannot declare large arrays.
    """
    start = file.read(8)
    length = int.from_bytes(start, "little")
    try:
        if len(start) < 8 or length > _LONGEST_HEADER:
            raise ValueError("no header")
        header = file.read(length)
        entries = parse_json(header)
        metadata = entries.pop("__metadata__")
        end = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
        if not isinstance(metadata, dict) or 8 + length + end != os.fstat(file.fileno()).st_size:
            raise ValueError("its length differs from the declared one")
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"{path}: {_NOT_OURS}") from error
    return start + header, metadata


def _about(path: Path, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON object in the metadata of a file, if its format is known."""
    try:
        content = parse_json(metadata["factorax"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: {_NOT_OURS}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: {_NOT_OURS}")
    number = content.get("format")
    if type(number) is not int or number != FORMAT:
        raise ValueError(f"{path}: format {number!r:.60}, want {FORMAT}; it is of another version of factorax")
    for name in ("problem", "network"):
        if not isinstance(content.get(name), str | None):
            raise ValueError(f"{path}: {_NOT_OURS}: its {name} is {content[name]!r:.60}, want a name")
    return content


def _digest(header: bytes, rest: memoryview) -> str:
    """Return the SHA-256 of a file without its signature."""
    digest = hashlib.sha256(header)
    digest.update(rest)
    return digest.hexdigest()


def _signature(digest: str) -> bytes:
    return f'"sha256":"{digest}"'.encode(errors="replace")
