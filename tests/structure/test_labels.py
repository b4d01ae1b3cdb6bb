import pytest

from factorax import InfluenceNetwork
from factorax.structure.labels import check_labels, default_labels, positions, some


def test_default_labels_count_from_one():
    assert default_labels("a", 3) == ("a1", "a2", "a3")
    net = InfluenceNetwork([[1, 1, 1], [1, 1, 1]])
    assert (net.actions, net.targets) == (("a1", "a2"), ("psi1", "psi2", "psi3"))


def test_labels_become_strings():
    net = InfluenceNetwork([[1, 1], [0, 1]], actions=(1, (2, "b")), targets=iter(["x", None]))
    assert net.actions == ("1", "(2, 'b')")
    assert net.targets == ("x", "None")


def test_long_lists_of_names_are_cut_short():
    assert some(["a", "b"]) == "'a', 'b'"
    assert some([str(i) for i in range(7)]) == "'0', '1', '2', '3', '4' and 2 more"


def test_positions_follow_the_order_wanted():
    assert positions(["c", "a"], ["a", "b", "c"], "actions") == [2, 0]


def test_an_unknown_label_is_listed_beside_the_known_ones():
    with pytest.raises(ValueError, match=r"actions: unknown label 'x', 'y'; known: 'a', 'b'"):
        positions(["y", "a", "x", "y"], ["a", "b"], "actions")


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (["x"], ValueError, r"actions: got 1 labels, want 2, one for each row"),
        (["x", "y", "z"], ValueError, r"actions: got 3 labels, want 2"),
        ([1, "1"], ValueError, r"actions: labels must be unique; repeated: '1'"),
        ("ab", TypeError, r"actions: got the string 'ab'; want one label each, e.g. \['ab'\]"),
    ],
)
def test_bad_labels_of_actions_are_named(labels, error, message):
    with pytest.raises(error, match=message):
        InfluenceNetwork([[1], [1]], actions=labels)
    with pytest.raises(error, match=message):
        InfluenceNetwork([[1], [1]]).relabel(actions=labels)


def test_bad_labels_of_targets_are_named():
    with pytest.raises(ValueError, match=r"targets: got 1 labels, want 2, one for each column"):
        InfluenceNetwork([[1, 1]], targets=["x"])
    with pytest.raises(ValueError, match=r"targets: labels must be unique; repeated: 'x'"):
        InfluenceNetwork([[1, 1]], targets=["x", "x"])
    with pytest.raises(TypeError, match=r"targets: got the string 'xy'"):
        InfluenceNetwork([[1, 1]], targets="xy")


def test_repeated_labels_are_each_named_once():
    with pytest.raises(ValueError, match=r"repeated: 'x', 'y'$"):
        check_labels(["x", "y", "x", "y", "x", "z"], None, "actions")
