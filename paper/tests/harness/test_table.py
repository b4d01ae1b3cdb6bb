"""Tables: what is written reads back as it was, and a damaged file says which one it is."""

import math

import numpy as np
import pytest
from factorax_paper.harness.table import read_csv, where, write_csv
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


@pytest.mark.parametrize(
    "content",
    DAMAGED.values(),
    ids=DAMAGED.keys(),
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
