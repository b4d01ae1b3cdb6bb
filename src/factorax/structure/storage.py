"""Read and write networks: JSON to read and edit, npz for large networks. Files are data and never run code."""

import io
import json
import math
import os
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from .._checks import path_of
from .._files import check_json, parse_json, read_bytes, write_whole
from .network import InfluenceNetwork

FORMAT = "factorax.InfluenceNetwork"
VERSION = 1
_LARGEST = 2**28
"""Size limit of an unpacked archive in bytes."""
_MOST = 2**20
"""Largest number of actions, and of targets, in a file."""


def save(net: InfluenceNetwork, path: str | os.PathLike[str]) -> None:
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


def load(path: str | os.PathLike[str]) -> InfluenceNetwork:
    """Read a network from a file that `save` wrote. The format is detected from the contents, not from the name."""
    path = path_of("path", path, "a file that InfluenceNetwork.save wrote")
    if not path.exists():
        raise FileNotFoundError(f"path: no file {str(path)!r}, want one that InfluenceNetwork.save wrote")
    data = read_bytes(path, _LARGEST)
    try:
        return _load_npz(data) if zipfile.is_zipfile(io.BytesIO(data)) else _load_json(data)
    except _NotOurs as error:
        raise ValueError(f"{path}: {error}") from error.__cause__


class _NotOurs(Exception):
    pass


def _load_json(data: bytes) -> InfluenceNetwork:
    try:
        content = parse_json(data)
    except ValueError as error:
        raise _NotOurs(f"not a factorax network: neither npz nor JSON ({error})") from error
    _check_header(content)
    try:
        edges, actions, targets = content["edges"], content["actions"], content["targets"]
    except KeyError as error:
        raise _NotOurs(f"damaged: no entry {error}") from error
    if not all(isinstance(part, list) for part in (edges, actions, targets)) or not all(
        isinstance(edge, list) for edge in edges
    ):
        raise _NotOurs("damaged: actions, targets and edges must be lists")
    _check_size(len(actions), len(targets))
    return _build(lambda: InfluenceNetwork.from_edges(edges, actions, targets), content)


def _load_npz(data: bytes) -> InfluenceNetwork:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(part.file_size for part in archive.infolist())
            if size > _LARGEST:  # before anything is unpacked
                raise _NotOurs(f"would take {size:,} bytes of memory, more than the limit of {_LARGEST:,}")
            header = parse_json(str(_array(archive, "header")))
            _check_header(header)
            shape = header.get("shape")
            if not isinstance(shape, list) or len(shape) != 2:
                raise _NotOurs(f"damaged: the shape is {shape!r:.60}")
            _check_size(*shape)
            names = {part.removesuffix(".npy") for part in archive.namelist()}
            content = {name: _array(archive, name) for name in names & {"indptr", "indices", "weights"}}
    except _NotOurs:
        raise
    except Exception as error:  # zip and zlib raise many kinds of errors for a damaged archive
        raise _NotOurs("not a factorax network, or damaged: no readable header") from error
    try:
        indptr, indices = content["indptr"], content["indices"]
        integer = indptr.dtype.kind in "iu" and indices.dtype.kind in "iu"
        if not integer or len(indptr) != shape[0] + 1 or indptr[-1] != len(indices):
            raise ValueError("indices do not fit the shape")
        if not isinstance(header["soft"], bool):
            raise ValueError(f"soft is {header['soft']!r}, neither true nor false")
        weights = content["weights"] if header["soft"] else np.ones(len(indices), dtype=bool)
        matrix = sparse.csr_array((weights, indices, indptr), tuple(shape))
        matrix.check_format(full_check=True)
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, MemoryError) as error:
        raise _NotOurs(f"damaged: {error}") from error
    return _build(lambda: InfluenceNetwork(matrix, header.get("actions"), header.get("targets")), header)


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Return an array of an archive; raise if its data are not of the size that its header declares.

    NumPy would allocate memory by the header.
    """
    with archive.open(f"{name}.npy") as file:
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, in_columns, dtype = read_header[np.lib.format.read_magic(file)](file)
        left = archive.getinfo(f"{name}.npy").file_size - file.tell()
        if dtype.hasobject or in_columns or dtype.itemsize * math.prod(shape) != left:
            raise ValueError(f"{name} is not an array of the size that it declares")
        return np.frombuffer(file.read(left), dtype).reshape(shape).copy()


def _check_size(actions: Any, targets: Any) -> None:
    """Raise if a file declares more rows or columns than allowed, before memory is allocated."""
    for name, size in (("actions", actions), ("targets", targets)):
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _MOST:
            raise _NotOurs(f"damaged: {size!r:.60} {name}, want a number up to {_MOST:,}")


def _check_header(header: Any) -> None:
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise _NotOurs(f"not a factorax network: no entry 'format' with the value {FORMAT!r}")
    version = header.get("version")
    if not isinstance(version, int) or version < 1:
        raise _NotOurs(f"damaged: version {version!r}")
    if version > VERSION:
        raise _NotOurs(f"written in format {version}, this factorax reads up to {VERSION}; install a newer factorax")


def _build(make: Callable[[], InfluenceNetwork], header: dict[str, Any]) -> InfluenceNetwork:
    try:
        network = make()
        vars(network)["lacks_reactions"] = header.get("lacks_reactions") is True
        return network
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise _NotOurs(f"damaged: {error}") from error
