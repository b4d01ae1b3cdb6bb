"""Tables: what is written reads back as it was, and a damaged file says which one it is."""

import errno
import math
import os

import numpy as np
import pytest
from factorax_paper.harness.table import from_rows, read_csv, where, write_csv
from hypothesis import given
from hypothesis import strategies as st

AWKWARD = ["VPG b(s,a)", 'he said "no"', "η ≤ 0.1", "two\nlines", "", " spaced ", "−½"]
FLOATS = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 1e16, math.inf]


def round_trip(folder, table):
    write_csv(folder / "data.csv", table)
    return read_csv(folder / "data.csv")


def test_integers_floats_and_text_read_back_as_they_were(tmp_path):
    table = {
        "n": np.array([0, -7, 2**40, 3, 4, 5, -(2**63)]),
        "gap": np.array(FLOATS),
        "method, as written": np.array(AWKWARD),
    }
    got = round_trip(tmp_path, table)
    assert list(got) == list(table)
    for name, column in table.items():
        assert got[name].dtype.kind == column.dtype.kind
        assert [repr(x) for x in got[name].tolist()] == [repr(x) for x in column.tolist()]


@given(values=st.lists(st.floats(allow_nan=False), min_size=1))
def test_every_float_reads_back_to_the_bit(values, tmp_path_factory):
    column = np.array(values)
    got = round_trip(tmp_path_factory.mktemp("floats"), {"x": column})["x"]
    assert got.dtype == np.float64
    assert got.tobytes() == column.tobytes()


def test_single_precision_reads_back_as_the_same_number(tmp_path):
    column = np.float32([0.1, 1 / 3, 1e-40])
    np.testing.assert_array_equal(round_trip(tmp_path, {"x": column})["x"], column.astype(np.float64))


def test_whole_floats_stay_floats(tmp_path):
    assert round_trip(tmp_path, {"step_size": np.array([1.0, 50.0])})["step_size"].dtype == np.float64


def test_one_word_makes_a_column_text(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,b\n1,1\n2,x\n")
    got = read_csv(path)
    np.testing.assert_array_equal(got["a"], [1, 2], strict=True)
    np.testing.assert_array_equal(got["b"], ["1", "x"], strict=True)


HEAD = b"method,gap\n"
DAMAGED = {
    "a blank line": b"\n",
    "no rows": HEAD,
    "short row": HEAD + b"FPG,0.1\nVPG\n",
    "long row": HEAD + b"FPG,0.1,7\n",
    "hole": HEAD + b"FPG,0.1\n\nVPG,0.2\n",
    "quote that does not end": HEAD + b'"VPG b(s,a),0.1\n' + b"FPG,0.1\n" * 10,
}
UNNAMED = {
    "empty": b"",
    "not UTF-8": HEAD + b"\xff\xfe,0.1\n",
    "quote that does not end, in a long file": HEAD + b'"VPG b(s,a),0.1\n' + b"FPG,0.1\n" * 20_000,
}


@pytest.mark.parametrize(
    "content",
    [*DAMAGED.values(), *UNNAMED.values()],
    ids=[*DAMAGED, *UNNAMED],
)
def test_a_damaged_file_is_named(content, tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"data\.csv: .*damaged"):
        read_csv(path)


def test_uneven_columns_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="shorter"):
        write_csv(tmp_path / "data.csv", {"a": np.arange(3), "b": np.arange(2)})
    assert not list(tmp_path.iterdir())


class FullDisk:
    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.file.close()

    def write(self, data):
        self.file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_the_older_table(tmp_path, monkeypatch):
    path = tmp_path / "data.csv"
    write_csv(path, {"a": np.arange(3)})
    before = path.read_bytes()
    fdopen = os.fdopen
    with monkeypatch.context() as broken:
        broken.setattr(os, "fdopen", lambda *arguments: FullDisk(fdopen(*arguments)))
        with pytest.raises(OSError, match="No space left"):
            write_csv(path, {"a": np.arange(300)})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_rows_become_columns_in_their_order():
    table = from_rows({"method": m, "gap": g} for m, g in [("FPG", 0.5), ("VPG", math.inf)])
    assert list(table) == ["method", "gap"]
    np.testing.assert_array_equal(table["method"], ["FPG", "VPG"], strict=True)
    np.testing.assert_array_equal(table["gap"], [0.5, math.inf], strict=True)


def test_where_keeps_the_rows_that_have_all_the_values():
    table = {
        "method": np.array(["FPG", "VPG", "FPG", "VPG"]),
        "step_size": np.array([0.1, 0.1, 0.3, 0.3]),
        "gap": np.array([1, 2, 3, 4]),
    }
    assert where(table, method="FPG")["gap"].tolist() == [1, 3]
    assert where(table, method="VPG", step_size=0.3)["gap"].tolist() == [4]
    assert where(table, step_size=0.1 * 3)["gap"].tolist() == []  # 0.30000000000000004: values are compared exactly
    assert list(where(table, method="FPG")) == list(table)
    assert table["gap"].tolist() == [1, 2, 3, 4]
