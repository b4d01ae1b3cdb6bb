"""Pytrees of arrays as safetensors files: data only, with a format number and a checksum; loading runs no code."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as save_tensors

from .._files import MIB, open_plain, parse_json, write_whole
from .._text import counted

FORMAT = 1
MAX_BESIDE = 1024 * MIB
"""Maximum number of bytes of arrays that do not belong to the pytree."""
_BESIDE = "beside:"
_NOT_OURS = "not a factorax checkpoint, or damaged"


def save(path: Path, tree: Any, about: dict[str, Any], beside: Mapping[str, np.ndarray] | None = None) -> None:
    """Write the arrays of a pytree, a JSON object `about` them, and other arrays by name, atomically."""
    arrays = {name: _plain(leaf) for name, leaf in _leaves(tree).items()}
    write(path, arrays | {f"{_BESIDE}{name}": array for name, array in (beside or {}).items()}, about)


def write(path: Path, arrays: Mapping[str, Any], about: dict[str, Any]) -> None:
    """Write arrays by name and a JSON object with their checksum, atomically."""
    text = json.dumps({"format": FORMAT} | about, default=str)  # choices with settings of their own are texts
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    data = save_tensors(arrays, metadata={"factorax": text, "sha256": _checksum(text, arrays)})
    write_whole(path, lambda file: file.write(data))


def about(path: Path) -> dict[str, Any]:
    """Return the JSON object of a checkpoint without reading its arrays."""
    with _open(path) as file:
        return _about(path, file.metadata())


def arrays(path: Path, prefix: str, *, limit: int = MAX_BESIDE) -> dict[str, np.ndarray]:
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
    leaves = _leaves(like)
    wanted = {name: _plain(leaf) for name, leaf in leaves.items()}
    arrays = _read(path, limit=sum(array.nbytes for array in wanted.values()) + MAX_BESIDE)
    beside = {name.removeprefix(_BESIDE): arrays.pop(name) for name in list(arrays) if name.startswith(_BESIDE)}
    if leaves.keys() != arrays.keys():
        odd = sorted(leaves.keys() ^ arrays.keys())
        raise ValueError(
            f"{path}: a checkpoint of something else: {counted(len(odd), 'entry does', 'entries do')} not match, such "
            f"as {odd[0]}"
        )
    new = []
    for name, leaf in leaves.items():
        if name.startswith(keep):
            new.append(leaf)
            continue
        got, want = arrays[name], wanted[name]
        if want.shape != got.shape or want.dtype != got.dtype:
            raise ValueError(
                f"{path}: {name} has shape {got.shape} and type {got.dtype}, want {want.shape} and {want.dtype}; "
                "was it written with other settings?"
            )
        if name.startswith(finite) and got.dtype.kind == "f" and not np.isfinite(got).all():
            raise ValueError(f"{path}: {name} contains non-finite numbers; it is damaged, or training diverged")
        array = jax.device_put(got)  # in recent versions of JAX, `jnp.asarray` compiles a program for each shape
        new.append(array if leaf.dtype == got.dtype else jax.random.wrap_key_data(array))
    dynamic, static = eqx.partition(like, eqx.is_array)
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(dynamic), new), static), beside


def _leaves(tree: Any) -> dict[str, Any]:
    """Return the arrays of a pytree by their paths."""
    pairs = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))[0]
    return {jax.tree_util.keystr(path): leaf for path, leaf in pairs}


def _plain(leaf: Any) -> np.ndarray:
    """Return an array, or the data of a key, as a NumPy array."""
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


def _checksum(text: str, arrays: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of everything in a file, in an order that does not depend on that in the file."""
    digest = hashlib.sha256(text.encode(errors="replace"))
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode(errors="replace"))
        digest.update(array.tobytes())
    return digest.hexdigest()


def _read(path: Path, limit: int) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name; raise ValueError if the file is not what was written."""
    with _open(path) as file:
        metadata, size = file.metadata(), path.stat().st_size
        _about(path, metadata)  # raises for another format
        if size > limit:  # before memory is allocated
            raise ValueError(f"{path}: has {size:,} bytes, want at most {limit:,}; was it written with other settings?")
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (a file is no dictionary)
    if metadata.get("sha256") != _checksum(metadata["factorax"], arrays):
        raise ValueError(f"{path}: {_NOT_OURS}: its checksum is missing or does not match")
    return arrays


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Open a file whose arrays end where the file ends, so that a small file cannot declare large arrays."""
    open_plain(path).close()  # raises for a pipe, which safetensors would wait for
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (SafetensorError, KeyError, TypeError, AttributeError, OSError) as error:
        raise ValueError(f"{path}: {_NOT_OURS}") from error


def _about(path: Path, metadata: Any) -> dict[str, Any]:
    """Return the JSON object in the metadata of a file, if its format is known."""
    try:
        content = parse_json(metadata["factorax"])
        number = content.get("format")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: {_NOT_OURS}") from error
    if type(number) is not int or number != FORMAT:
        raise ValueError(f"{path}: format {number!r:.60}, want {FORMAT}; it is of another version of factorax")
    for name in ("problem", "network"):
        if not isinstance(content.get(name), str | None):
            raise ValueError(f"{path}: {_NOT_OURS}: its {name} is {content[name]!r:.60}, want a name")
    return content
