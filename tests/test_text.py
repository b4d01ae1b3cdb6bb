import numpy as np

from factorax._text import counted, nearest, shown, some


def test_shown_values_fit_in_one_short_line():
    assert shown(np.ones((40, 40))).startswith("array([[1., 1., 1.")
    assert len(shown(np.ones((40, 40)))) == 60
    assert "\n" not in shown(np.eye(3))


def test_counted_uses_the_singular_for_one():
    assert [counted(n, "edge") for n in (0, 1, 2)] == ["0 edges", "1 edge", "2 edges"]
    assert [counted(n, "entry is", "entries are") for n in (1, 3)] == ["1 entry is", "3 entries are"]


def test_some_abbreviates_long_lists():
    assert some(["a", "b"]) == "'a', 'b'"
    assert some([str(i) for i in range(7)]) == "'0', '1', '2', '3', '4' and 2 more"


def test_nearest_ignores_case():
    assert nearest("PPO", ["a2c", "ppo"]) == "ppo"
    assert nearest("xyz", ["a2c", "ppo"]) is None
