"""Read and write networks: JSON to read and edit, npz for large networks. Files are data and never run code."""

import io
import json
import math
import os
import zipfile
from typing import Any

import numpy as np
from scipy import sparse

from .._checks import path_of
from .._files import check_json, parse_json, read_bytes, write_whole

FORMAT = "factorax.InfluenceNetwork"
VERSION = 1
# A small archive may unpack to any size, and a header may declare one: both are limited before memory is allocated.
MAX_UNPACKED_BYTES = 2**28
MAX_LABELS = 2**20


def save(net: Any, path: str | os.PathLike[str]) -> None:
    """Write a network to `path` in the format of its suffix, ``.json`` or ``.npz``. The file is written atomically."""
    path = path_of("path", path, "a path that ends in '.json' or '.npz'")
    header: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    if net.lacks_reactions:
        header["lacks_reactions"] = True
    match path.suffix:
        case ".json":
            # One edge per line: a diff of two files is a diff of two networks.
            lines = ",\n    ".join(json.dumps(edge, ensure_ascii=False) for edge in net.edges())
            rest = {"actions": net.actions, "targets": net.targets}
            head = json.dumps(header | rest, ensure_ascii=False)[1:-1]
            text = f'{{{head},\n  "edges": [\n    {lines}\n  ]\n}}\n'
            try:
                check_json(text)
            except ValueError as error:
                raise ValueError(f"path: {net.n_edges:,} edges are too many for JSON ({error}); want .npz") from None
            write_whole(path, lambda file: file.write(text.encode()))
        case ".npz":
            rest = {"shape": net.shape, "soft": net.is_soft, "actions": net._actions, "targets": net._targets}
            arrays = {
                "header": np.array(json.dumps(header | rest, ensure_ascii=False)),
                "indptr": net.matrix.indptr,
                "indices": net.matrix.indices,
            }
            if net.is_soft:
                arrays["weights"] = net.matrix.data
            write_whole(path, lambda file: np.savez_compressed(file, **arrays))
        case other:
            raise ValueError(f"path: got the ending {other!r} in {str(path)!r}, want '.json' or '.npz'")


def load(path: str | os.PathLike[str], kind: Any) -> Any:
    """Return the network in a file that `save` wrote; the contents tell the format, not the name.

    `kind` is `InfluenceNetwork`, whose module imports this one.
    """
    path = path_of("path", path, "a file that InfluenceNetwork.save wrote")
    if not path.exists():
        raise FileNotFoundError(f"path: no file {str(path)!r}, want one that InfluenceNetwork.save wrote")
    data = read_bytes(path, MAX_UNPACKED_BYTES)
    try:
        header, network = (_load_npz if zipfile.is_zipfile(io.BytesIO(data)) else _load_json)(data, kind)
    except _ForeignFile as error:
        raise ValueError(f"{path}: {error}") from error.__cause__
    except KeyError as error:
        raise ValueError(f"{path}: damaged: no entry {error}") from error
    except (IndexError, TypeError, ValueError, OverflowError, MemoryError) as error:
        raise ValueError(f"{path}: damaged: {error}") from error
    vars(network)["lacks_reactions"] = header.get("lacks_reactions") is True
    return network


class _ForeignFile(Exception):
    """A file that this version did not write, as opposed to one that is damaged."""


def _load_json(data: bytes, kind: Any) -> tuple[dict[str, Any], Any]:
    try:
        content = parse_json(data)
    except ValueError as error:
        raise _ForeignFile(f"not a factorax network: neither npz nor JSON ({error})") from error
    _check_header(content)
    edges, actions, targets = content["edges"], content["actions"], content["targets"]
    if not all(isinstance(part, list) for part in (edges, actions, targets)) or not all(
        isinstance(edge, list) for edge in edges
    ):
        raise ValueError("actions, targets and edges must be lists")
    _check_size(len(actions), len(targets))
    return content, kind.from_edges(edges, actions, targets)


def _load_npz(data: bytes, kind: Any) -> tuple[dict[str, Any], Any]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(part.file_size for part in archive.infolist())
            if size > MAX_UNPACKED_BYTES:
                raise _ForeignFile(f"would take {size:,} bytes of memory, want at most {MAX_UNPACKED_BYTES:,}")
            header = parse_json(str(_array(archive, "header")))
            names = {part.removesuffix(".npy") for part in archive.namelist()}
            arrays = {name: _array(archive, name) for name in names & {"indptr", "indices", "weights"}}
    except _ForeignFile:
        raise
    except Exception as error:  # zip and zlib raise many kinds of errors for a damaged archive
        raise _ForeignFile("not a factorax network, or damaged: no readable header") from error
    _check_header(header)
    shape, soft = header["shape"], header["soft"]
    if not isinstance(shape, list) or len(shape) != 2:
        raise ValueError(f"the shape is {shape!r:.60}")
    if not isinstance(soft, bool):
        raise ValueError(f"soft is {soft!r}, neither true nor false")
    _check_size(*shape)
    indptr, indices = arrays["indptr"], arrays["indices"]
    integer = indptr.dtype.kind in "iu" and indices.dtype.kind in "iu"
    if not integer or len(indptr) != shape[0] + 1 or indptr[-1] != len(indices):
        raise ValueError("indices do not fit the shape")
    weights = arrays["weights"] if soft else np.ones(len(indices), dtype=bool)
    matrix = sparse.csr_array((weights, indices, indptr), tuple(shape))
    matrix.check_format(full_check=True)  # SciPy would read beyond the arrays at an index out of bounds
    return header, kind(matrix, header.get("actions"), header.get("targets"))


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Return an array of an archive; raise if its data are not of the size that its header declares.

    NumPy would allocate memory by the header.
    """
    with archive.open(f"{name}.npy") as file:
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, in_columns, dtype = read_header[np.lib.format.read_magic(file)](file)
        size = archive.getinfo(f"{name}.npy").file_size - file.tell()
        if dtype.hasobject or in_columns or dtype.itemsize * math.prod(shape) != size:
            raise ValueError(f"{name} is not an array of the size that it declares")
        return np.frombuffer(file.read(size), dtype).reshape(shape).copy()


def _check_size(actions: Any, targets: Any) -> None:
    """Raise if a file declares more rows or columns than allowed, before memory is allocated."""
    for name, size in (("actions", actions), ("targets", targets)):
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= MAX_LABELS:
            raise ValueError(f"{size!r:.60} {name}, want a number up to {MAX_LABELS:,}")


def _check_header(header: Any) -> None:
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise _ForeignFile(f"not a factorax network: no entry 'format' with the value {FORMAT!r}")
    version = header.get("version")
    if not isinstance(version, int) or version < 1:
        raise ValueError(f"version {version!r}")
    if version > VERSION:
        raise _ForeignFile(f"written in format {version}, want at most {VERSION}; install a newer factorax")
