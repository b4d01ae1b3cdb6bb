import errno
import gc
import json
import os
import pickle
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from strategies import networks, quietly

from factorax import InfluenceNetwork
from factorax.structure import StructureWarning, storage

NET = InfluenceNetwork([[1, 0.1], [0, 1]], actions=["x", "y"])
HEADER = {"format": "factorax.InfluenceNetwork", "version": 1}
ENDINGS = [".json", ".npz"]
MISSING = object()


def write_json(path, **changes):
    content = HEADER | {"actions": ["x", "y"], "targets": ["p"], "edges": [["x", "p"], ["y", "p"]]} | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not MISSING}))
    return path


def write_npz(path, header=None, **changes):
    arrays = {"indptr": np.array([0, 1, 2]), "indices": np.array([0, 0])} | changes
    header = HEADER | {"shape": [2, 1], "soft": False, "actions": ["x", "y"], "targets": ["p"]} | (header or {})
    parts, arrays = ({k: v for k, v in entries.items() if v is not MISSING} for entries in (header, arrays))
    np.savez(path, header=np.array(json.dumps(parts)), **arrays)
    return path


# ---- round trips ------------------------------------------------------------------------------------------


@pytest.mark.slow
@quietly
@pytest.mark.parametrize("ending", ENDINGS)
@given(net=networks())
def test_what_is_saved_is_what_is_loaded(ending, net):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"net{ending}")
        net.save(path)
        again = InfluenceNetwork.load(path)
        assert os.listdir(folder) == [path.name]
    assert again == net
    assert hash(again) == hash(net)
    assert (again.actions, again.targets) == (net.actions, net.targets)
    assert again.to_dense().tobytes() == net.to_dense().tobytes()  # to the last bit


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("net", [InfluenceNetwork.complete(3, 2), InfluenceNetwork.identity(300), NET])
def test_saving_over_an_old_file_replaces_it(tmp_path, ending, net):
    path = tmp_path / f"net{ending}"
    InfluenceNetwork.complete(1, 1).save(path)
    net.save(str(path))
    assert InfluenceNetwork.load(str(path)) == net


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_is_known_by_its_contents_not_its_name(tmp_path, ending):
    NET.save(tmp_path / f"net{ending}")
    os.rename(tmp_path / f"net{ending}", tmp_path / "net.data")
    assert InfluenceNetwork.load(tmp_path / "net.data") == NET


def test_json_can_be_read_and_written_by_hand(tmp_path):
    NET.save(tmp_path / "net.json")
    text = (tmp_path / "net.json").read_text()
    assert '["x", "psi2", 0.1]' in text.splitlines()[3]  # one edge a line
    assert json.loads(text) == HEADER | {
        "actions": ["x", "y"],
        "targets": ["psi1", "psi2"],
        "edges": [["x", "psi1", 1.0], ["x", "psi2", 0.1], ["y", "psi2", 1.0]],
    }
    assert InfluenceNetwork.load(write_json(tmp_path / "own.json")) == InfluenceNetwork([[1], [1]], ["x", "y"], ["p"])


def test_labels_in_json_stand_as_they_are(tmp_path):
    InfluenceNetwork([[1]], actions=["ψ 通り"]).save(tmp_path / "net.json")
    assert (tmp_path / "net.json").read_text(encoding="utf-8").count("ψ 通り") == 2  # in the list and in the edge


def test_a_large_network_is_small_on_disk(tmp_path):
    net = InfluenceNetwork.identity(20_000)
    net.save(tmp_path / "net.npz")
    assert (tmp_path / "net.npz").stat().st_size < 200_000
    assert InfluenceNetwork.load(tmp_path / "net.npz") == net


def test_a_loaded_network_warns_again(tmp_path):
    with pytest.warns(StructureWarning, match="'a2'"):
        InfluenceNetwork([[1], [0]]).save(tmp_path / "net.json")
    with pytest.warns(StructureWarning, match="'a2'"):
        InfluenceNetwork.load(tmp_path / "net.json")


# ---- whole or not at all: how files are written is tested in test_files.py ----------------------------------


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("step", ["chmod", "replace"])
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, ending, step):
    def full_disk(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / f"net{ending}"
    NET.save(path)
    monkeypatch.setattr(os, step, full_disk)
    with pytest.raises(OSError, match="No space left"):
        InfluenceNetwork.complete(1, 1).save(path)
    assert os.listdir(tmp_path) == [path.name]
    assert InfluenceNetwork.load(path) == NET


@pytest.mark.parametrize("name", ["net", "net.csv", "net.pkl", "net.json.gz"])
def test_an_unknown_ending_is_refused_before_anything_is_written(tmp_path, name):
    with pytest.raises(ValueError, match=rf"path: got the ending .*{name}.*, want '.json' or '.npz'"):
        NET.save(tmp_path / name)
    assert os.listdir(tmp_path) == []


# ---- files that are not ours, or no longer whole ----------------------------------------------------------


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"net\.json"):
        InfluenceNetwork.load(tmp_path / "net.json")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        np.random.default_rng(0).bytes(500),
        b"PK\x03\x04" + bytes(100),
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'"factorax.InfluenceNetwork"',
        b'{"format": "something else", "version": 1}',
        "ψ".encode("latin-1", "replace") + b"\xff",
        pytest.param(b"[" * 10**5 + b"]" * 10**5, id="nested"),
    ],
)
def test_other_files_are_not_ours(tmp_path, content):
    (tmp_path / "other.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"other\.json: not a factorax network"):
        InfluenceNetwork.load(tmp_path / "other.json")


def test_another_npz_is_not_ours(tmp_path):
    np.savez(tmp_path / "other.npz", weights=np.ones(3))
    with pytest.raises(ValueError, match=r"other\.npz: not a factorax network"):
        InfluenceNetwork.load(tmp_path / "other.npz")
    write_npz(tmp_path / "other.npz", {"format": "something else"})
    with pytest.raises(ValueError, match=r"not a factorax network: no entry 'format'"):
        InfluenceNetwork.load(tmp_path / "other.npz")
    np.savez(tmp_path / "other.npz", header=np.array("not JSON"))
    with pytest.raises(ValueError, match=r"no readable header"):
        InfluenceNetwork.load(tmp_path / "other.npz")


@pytest.mark.parametrize("write", [write_json, lambda path, **header: write_npz(path, header)])
def test_a_file_of_a_newer_factorax_says_so(tmp_path, write):
    path = tmp_path / "net.npz"
    write(path, version=storage.VERSION + 1)
    with pytest.raises(ValueError, match=r"written in format 2, want at most 1; install a newer factorax"):
        InfluenceNetwork.load(path)
    for version in (0, -1, "1", 1.5):
        write(path, version=version)
        with pytest.raises(ValueError, match=rf"damaged: version {version!r}"):
            InfluenceNetwork.load(path)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_cut_short_anywhere_is_refused(tmp_path, ending):
    path = tmp_path / f"net{ending}"
    NET.save(path)
    whole = path.read_bytes()
    for length in (len(whole) // 2, *range(0, len(whole.rstrip()), 7)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"net.*: (not a factorax network|damaged)"):
            InfluenceNetwork.load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": MISSING}, r"no entry 'edges'"),
        ({"actions": MISSING}, r"no entry 'actions'"),
        ({"edges": 5}, r"must be lists"),
        ({"edges": [5]}, r"must be lists"),
        ({"actions": "xy"}, r"must be lists"),
        ({"edges": [["x"]]}, r"edges: got \('x',\), want"),
        ({"edges": [["x", "p", 2]]}, r"edges: 'x' → 'p' has the weight 2, want a number in \[0, 1\]"),
        ({"edges": [["x", "p", 10**400]]}, r"has the weight 10{400}, want"),
        ({"actions": [], "edges": []}, r"want at least one label"),
    ],
)
def test_damaged_json_is_named(tmp_path, changes, message):
    path = write_json(tmp_path / "net.json", **changes)
    with pytest.raises(ValueError, match=rf"net\.json: damaged: .*{message}"):
        InfluenceNetwork.load(path)


@pytest.mark.parametrize("depth", [100, 900, 10**5])
@pytest.mark.parametrize("entry", ["actions", "edges", "version"])
def test_lists_in_lists_in_json_are_refused_however_deep(tmp_path, entry, depth):
    path = write_json(tmp_path / "net.json", **{entry: "HERE"})
    path.write_text(path.read_text().replace('"HERE"', "[" * depth + "]" * depth))
    with pytest.raises(ValueError, match=r"net\.json: (damaged|not a factorax network)"):
        InfluenceNetwork.load(path)


@pytest.mark.parametrize(
    ("header", "changes", "message"),
    [
        ({}, {"indices": np.array([0, 1])}, r"indices must be < 1"),
        ({}, {"indptr": np.array([0, 2, 1])}, r"do not fit the shape"),
        ({}, {"indptr": np.array([0, 2])}, r"indices do not fit the shape"),
        ({}, {"indptr": np.array([0.0, 1.0, 2.0])}, r"indices do not fit the shape"),
        ({}, {"indices": np.array([0.0, 0.0])}, r"indices do not fit the shape"),
        ({}, {"indices": np.array(0)}, r"unsized"),
        ({}, {"indices": MISSING}, r"indices"),
        ({"soft": True}, {}, r"weights"),
        ({"soft": True}, {"weights": np.array([0.5])}, r"same size"),
        ({"soft": True}, {"weights": np.array([0.5, 1.5])}, r"holds the weight 1.5"),
        ({"soft": True}, {"weights": np.array([0.5, np.nan])}, r"holds the weight nan"),
        ({"soft": True}, {"weights": np.array(["1", "1"])}, r"entries of type <U1"),
        ({"shape": [3, 1]}, {}, r"indices do not fit the shape"),
        ({"shape": [10**12, 1]}, {}, r"1000000000000 actions, want a number up to 1,048,576"),
        ({"shape": [-2, 1]}, {}, r"-2 actions, want a number up to 1,048,576"),
        ({"shape": [2, 2**31 - 1], "targets": None}, {}, r"2147483647 targets, want a number up to 1,048,576"),
        ({"shape": [2, 1, 1]}, {}, r"the shape is \[2, 1, 1\]"),
        ({"soft": None}, {}, r"soft is None, neither true nor false"),
        ({"shape": [2, 10**15], "targets": None}, {}, r""),  # more memory than a process can address
        ({"actions": ["x"]}, {}, r"actions: got 1 label, want 2"),
    ],
)
def test_a_damaged_npz_is_named(tmp_path, header, changes, message):
    path = write_npz(tmp_path / "net.npz", header, **changes)
    with pytest.raises(ValueError, match=rf"net\.npz: damaged: .*({message})"):
        InfluenceNetwork.load(path)


def loaded_or_refused(path):
    """The network, or what the ValueError says."""
    try:
        return InfluenceNetwork.load(path)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("net", [NET, InfluenceNetwork([[1, 1, 0], [0, 1, 1]])], ids=["soft", "hard"])
def test_a_flipped_bit_is_noticed_or_does_no_harm(tmp_path, net):
    path = tmp_path / "net.npz"
    net.save(path)
    whole = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    refused = 0
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        for bit in np.random.default_rng(0).choice(8 * len(whole), 300, replace=False):
            flipped = whole.copy()
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped.tobytes())
            got = loaded_or_refused(path)
            refused += isinstance(got, str)
            assert str(path) in got if isinstance(got, str) else got == net
        gc.collect()  # a file left open would be warned of now
    assert record == []
    assert 100 < refused < 300


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("entry", ["header", "weights", "indices"])
def test_nothing_in_a_file_is_ever_run(tmp_path, entry):
    trap = np.array([Trap(tmp_path / "sprung")] * 2, dtype=object)
    path = write_npz(tmp_path / "net.npz", **({} if entry == "header" else {entry: trap}))
    if entry == "header":
        np.savez(path, header=trap)
    with pytest.raises(ValueError, match=r"net\.npz: not a factorax network, or damaged"):
        InfluenceNetwork.load(path)
    assert not (tmp_path / "sprung").exists()
    with np.load(path, allow_pickle=True) as archive:
        _ = archive[entry]
    assert (tmp_path / "sprung").exists()  # it was a trap


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_files_keep_that_reactions_are_missing(tmp_path, suffix):
    net = InfluenceNetwork.identity(3)
    vars(net)["lacks_reactions"] = True
    kept = net.relabel(["x", "y", "z"])
    kept.save(tmp_path / f"net{suffix}")
    assert InfluenceNetwork.load(tmp_path / f"net{suffix}").lacks_reactions
    assert pickle.loads(pickle.dumps(kept)).lacks_reactions
    InfluenceNetwork.identity(3).save(tmp_path / f"plain{suffix}")
    assert not InfluenceNetwork.load(tmp_path / f"plain{suffix}").lacks_reactions
