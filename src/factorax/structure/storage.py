"""Networks as files: JSON to read and edit, npz for large ones. Data only; nothing in a file is ever run."""

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .._files import write_whole
from .network import InfluenceNetwork

FORMAT = "factorax.InfluenceNetwork"
VERSION = 1
_LARGEST = 2**32


def save(net: InfluenceNetwork, path: str | os.PathLike[str]) -> None:
    """Write a network to `path`, by its ending ``.json`` or ``.npz``; whole or not at all."""
    path = Path(path)
    header = {"format": FORMAT, "version": VERSION}
    match path.suffix:
        case ".json":
            # One edge a line: a diff of two files is a diff of two networks.
            lines = ",\n    ".join(json.dumps(edge, ensure_ascii=False) for edge in net.edges())
            rest = {"actions": net.actions, "targets": net.targets}
            head = json.dumps(header | rest, ensure_ascii=False)[1:-1]
            text = f'{{{head},\n  "edges": [\n    {lines}\n  ]\n}}\n'
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
    """Read a network from a file that `save` wrote; what it is follows from its contents, not its name."""
    path = Path(path)
    try:
        return _load_npz(path) if zipfile.is_zipfile(path) else _load_json(path)
    except _NotOurs as error:
        raise ValueError(f"{path}: {error}") from error.__cause__


class _NotOurs(Exception):
    pass


def _load_json(path: Path) -> InfluenceNetwork:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _NotOurs(f"not a factorax network: neither npz nor JSON ({error})") from error
    _check_header(content)
    try:
        edges, actions, targets = content["edges"], content["actions"], content["targets"]
    except KeyError as error:
        raise _NotOurs(f"damaged: no entry {error}") from error
    if not all(isinstance(part, list) for part in (edges, actions, targets)) or not all(map(_is_list, edges)):
        raise _NotOurs("damaged: actions, targets and edges must be lists")
    return _build(lambda: InfluenceNetwork.from_edges(edges, actions, targets))


def _load_npz(path: Path) -> InfluenceNetwork:
    try:
        with zipfile.ZipFile(path) as file:
            size = sum(part.file_size for part in file.infolist())
        if size > _LARGEST:  # before anything is unpacked
            raise _NotOurs(f"would take {size:,} bytes of memory, and a network takes {_LARGEST:,} at most")
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            content = dict(archive)
        header = json.loads(str(content.pop("header")))
    except _NotOurs:
        raise
    except Exception as error:  # a damaged archive fails in as many ways as zip and zlib know
        raise _NotOurs("not a factorax network, or damaged: no readable header") from error
    _check_header(header)
    try:
        indptr, indices, shape = content["indptr"], content["indices"], tuple(header["shape"])
        whole = indptr.dtype.kind in "iu" and indices.dtype.kind in "iu"
        if not whole or len(indptr) != shape[0] + 1 or indptr[-1] != len(indices) or not 0 < shape[1] < 2**31:
            raise ValueError("indices do not fit the shape")
        if not isinstance(header["soft"], bool):
            raise ValueError(f"soft is {header['soft']!r}, neither true nor false")
        weights = content["weights"] if header["soft"] else np.ones(len(indices), dtype=bool)
        matrix = sparse.csr_array((weights, indices, indptr), shape)
        matrix.check_format(full_check=True)
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, MemoryError) as error:
        raise _NotOurs(f"damaged: {error}") from error
    return _build(lambda: InfluenceNetwork(matrix, header.get("actions"), header.get("targets")))


def _check_header(header: Any) -> None:
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise _NotOurs(f"not a factorax network: no entry 'format' with the value {FORMAT!r}")
    version = header.get("version")
    if not isinstance(version, int) or version < 1:
        raise _NotOurs(f"damaged: version {version!r}")
    if version > VERSION:
        raise _NotOurs(f"written in format {version}, this factorax reads up to {VERSION}; install a newer factorax")


def _build(make: Callable[[], InfluenceNetwork]) -> InfluenceNetwork:
    try:
        return make()
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise _NotOurs(f"damaged: {error}") from error


def _is_list(part: object) -> bool:
    return isinstance(part, list)
