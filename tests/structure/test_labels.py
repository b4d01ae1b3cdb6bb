import warnings

import numpy as np
import pytest

from factorax import InfluenceNetwork
from factorax.structure import StructureWarning
from factorax.structure.labels import check_labels, default_labels, join_labels, positions
from factorax.structure.patterns import spatial_discount


def test_repr_uses_the_singular():
    assert repr(InfluenceNetwork([[1]])) == "InfluenceNetwork(1 action → 1 target, 1 edge, density 1)"


def test_default_labels_count_from_one():
    assert default_labels("a", 3) == ("a1", "a2", "a3")
    net = InfluenceNetwork([[1, 1, 1], [1, 1, 1]])
    assert (net.actions, net.targets) == (("a1", "a2"), ("psi1", "psi2", "psi3"))


def test_labels_become_strings():
    net = InfluenceNetwork([[1, 1], [0, 1]], actions=(1, (2, "b")), targets=iter(["x", None]))
    assert net.actions == ("1", "(2, 'b')")
    assert net.targets == ("x", "None")


def test_positions_follow_the_order_wanted():
    assert positions(["c", "a"], ["a", "b", "c"], "actions") == [2, 0]


def test_an_unknown_label_is_listed_beside_the_known_ones():
    with pytest.raises(ValueError, match=r"actions: unknown label 'x', 'y'; known: 'a', 'b'"):
        positions(["y", "a", "x", "y"], ["a", "b"], "actions")


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (["x"], ValueError, r"actions: got 1 label, want 2, one for each row"),
        (["x", "y", "z"], ValueError, r"actions: got 3 labels, want 2"),
        ([1, "1"], ValueError, r"actions: got '1' more than once; want unique labels"),
        (["x", "\ud800"], ValueError, r"actions: got a label with '\\ud800'.* UTF-8"),
        ("ab", TypeError, r"actions: got 'ab', want a list of labels"),
    ],
)
def test_bad_labels_of_actions_are_named(labels, error, message):
    with pytest.raises(error, match=message):
        InfluenceNetwork([[1], [1]], actions=labels)
    with pytest.raises(error, match=message):
        InfluenceNetwork([[1], [1]]).relabel(actions=labels)


def test_bad_labels_of_targets_are_named():
    with pytest.raises(ValueError, match=r"targets: got 1 label, want 2, one for each column"):
        InfluenceNetwork([[1, 1]], targets=["x"])
    with pytest.raises(ValueError, match=r"targets: got 'x' more than once; want unique labels"):
        InfluenceNetwork([[1, 1]], targets=["x", "x"])
    with pytest.raises(TypeError, match=r"targets: got 'xy', want a list of labels"):
        InfluenceNetwork([[1, 1]], targets="xy")


def test_repeated_labels_are_each_named_once():
    with pytest.raises(ValueError, match=r"got 'x', 'y' more than once; want unique labels$"):
        check_labels(["x", "y", "x", "y", "x", "z"], None, "actions")


def test_a_string_in_place_of_a_list_of_wanted_labels_is_refused():
    with pytest.raises(TypeError, match=r"actions: got 'ab', want a list of labels"):
        positions("ab", ["a", "b", "ab"], "actions")


def test_joined_names_are_unique_and_single_ones_stay_as_they_are():
    assert join_labels([["x"], ["y", "z"]]) == ("x", "y+z")
    assert join_labels([["a", "b"], ["a+b"]]) == ("a+b′", "a+b")
    assert join_labels([["a", "b+c"], ["a+b", "c"], ["a+b+c′"]]) == ("a+b+c", "a+b+c′′", "a+b+c′")


# ---- warnings ---------------------------------------------------------------------------------------------

ONE_WAY, OTHER_WAY = InfluenceNetwork([[1, 0], [1, 1]]), InfluenceNetwork([[0, 1], [1, 1]])
WARNING = {
    "matrix": lambda path: InfluenceNetwork([[1], [0]]),
    "edges": lambda path: InfluenceNetwork.from_edges([("x", "p")], targets=["p", "q"]),
    "partition maps": lambda path: InfluenceNetwork.from_partition_maps({"p": ["x"], "q": []}),
    "graph": lambda path: InfluenceNetwork.from_networkx(ONE_WAY.to_networkx().subgraph(["a1", "psi1", "psi2"])),
    "load json": lambda path: InfluenceNetwork.load(path / "net.json"),
    "load npz": lambda path: InfluenceNetwork.load(path / "net.npz"),
    "intersection": lambda path: ONE_WAY.intersection(OTHER_WAY),
    "&": lambda path: ONE_WAY & OTHER_WAY,
    "select": lambda path: ONE_WAY.select(actions=["a1"]),
    "spatial discount": lambda path: spatial_discount([[0, np.inf]], 0.5),
}


@pytest.mark.parametrize("make", WARNING.values(), ids=WARNING)
def test_warnings_point_at_the_line_of_the_user(tmp_path, make):
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("ignore")
        for ending in ("json", "npz"):
            InfluenceNetwork([[1, 0]]).save(tmp_path / f"net.{ending}")
        warnings.simplefilter("always")
        make(tmp_path)
    assert [w.category for w in record] == [StructureWarning]
    assert (record[0].filename, record[0].lineno) == (__file__, make.__code__.co_firstlineno)
