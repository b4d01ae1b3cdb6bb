import subprocess
import sys
from collections import namedtuple

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factorax.structure import PartitionMap


@st.composite
def partition_maps(draw, max_size=6):
    size = draw(st.integers(1, max_size))
    order = draw(st.permutations(range(size)))
    return PartitionMap(order[: draw(st.integers(0, size))], size)


def of_mixed_kinds(size):
    """An action in ℝ×ℕ×strings, no two components alike."""
    return tuple([k + 0.5, k, f"word {k}"][k % 3] for k in range(size))


def test_keeps_the_components_in_the_order_wanted():
    sigma = PartitionMap([2, 0], 4)
    action = ("north", 3, 0.5, None)
    assert sigma(action) == (0.5, "north")
    assert sigma.complement(action) == (3, None)
    assert sigma.merge((0.5, "north"), (3, None)) == action


@given(partition_maps())
def test_merge_undoes_the_split_of_tuples_and_lists(sigma):
    action = of_mixed_kinds(sigma.size)
    for kind in (tuple, list):
        part, rest = sigma(kind(action)), sigma.complement(kind(action))
        assert type(part) is type(rest) is kind
        assert sigma.merge(part, rest) == kind(action)


def test_a_named_tuple_comes_apart_into_plain_tuples():
    sigma = PartitionMap([2, 0], 3)
    action = namedtuple("Action", ["speed", "gear", "turn"])(0.5, 3, "left")
    part, rest = sigma(action), sigma.complement(action)
    assert (type(part), type(rest)) == (tuple, tuple)
    assert (part, rest) == (("left", 0.5), (3,))
    assert sigma.merge(part, rest) == action
    assert sigma.merge(namedtuple("Part", ["turn", "speed"])(*part), rest) == action


@pytest.mark.slow
@given(partition_maps(), st.sampled_from([(), (3,), (2, 0), (2, 1, 3)]), st.sampled_from([np, jnp]))
def test_merge_undoes_the_split_of_arrays_with_batch_axes(sigma, batch, xp):
    action = xp.asarray(np.arange(np.prod((*batch, sigma.size))).reshape(*batch, sigma.size))
    part, rest = sigma(action), sigma.complement(action)
    assert part.shape == (*batch, len(sigma))
    assert rest.shape == (*batch, sigma.size - len(sigma))
    merged = sigma.merge(part, rest)
    assert type(merged) is type(action)
    assert merged.dtype == action.dtype
    np.testing.assert_array_equal(merged, action)


@given(partition_maps())
def test_array_components_are_those_of_the_tuple(sigma):
    action = tuple(range(10, 10 + sigma.size))
    assert sigma(np.array([action, action])).tolist() == [list(sigma(action))] * 2
    assert sigma.complement(np.array(action)).tolist() == list(sigma.complement(action))


@given(partition_maps())
def test_the_complement_is_what_is_left_in_order(sigma):
    rest = ~sigma
    assert rest.indices == tuple(i for i in range(sigma.size) if i not in sigma.indices)
    assert len(sigma) + len(rest) == sigma.size
    assert (~rest).indices == tuple(sorted(sigma.indices))


def test_equal_maps_are_equal_and_hash_alike():
    assert PartitionMap([0, 2], 3) == PartitionMap((np.int64(0), 2), np.int32(3))
    assert len({PartitionMap([0, 2], 3), PartitionMap(iter([0, 2]), 3)}) == 1
    assert PartitionMap([0, 2], 3) != PartitionMap([2, 0], 3)
    assert PartitionMap([0, 2], 3) != PartitionMap([0, 2], 4)
    assert PartitionMap([0], 1) != (0,)


def test_repr_can_be_read_back():
    sigma = PartitionMap([2, 0], 4)
    assert repr(sigma) == "PartitionMap([2, 0], 4)"
    assert eval(repr(sigma)) == sigma


@pytest.mark.parametrize(
    ("indices", "size", "error", "argument"),
    [
        ([0, 3], 3, ValueError, "indices"),
        ([-1], 3, ValueError, "indices"),
        ([1, 1], 3, ValueError, "indices"),
        ([True], 3, TypeError, "indices"),
        ([1.0], 3, TypeError, "indices"),
        ("01", 3, TypeError, "indices"),
        ([], 0, ValueError, "size"),
        ([0], 3.0, TypeError, "size"),
        ([0], True, TypeError, "size"),
    ],
)
def test_invalid_indices_and_sizes_are_named(indices, size, error, argument):
    with pytest.raises(error, match=f"{argument}: got"):
        PartitionMap(indices, size)


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        ((1, 2), ValueError, r"action: got \(1, 2\), want 3 components for PartitionMap\(\[0, 2\], 3\)"),
        (np.ones((3, 2)), ValueError, r"action: got \(3, 2\), want 3 components for PartitionMap\(\[0, 2\], 3\)"),
        (jnp.ones(4), ValueError, r"action: got \(4,\), want 3 components for PartitionMap\(\[0, 2\], 3\)"),
        (np.array(1.0), ValueError, r"action: got array\(1\.\), want an array with its components along the last axis"),
        ("abc", TypeError, "action: got 'abc', want an array, a tuple or a list"),
        ({0: 1}, TypeError, r"action: got \{0: 1\}, want an array, a tuple or a list"),
        (7, TypeError, "action: got 7, want an array, a tuple or a list"),
    ],
)
def test_a_bad_action_is_named(action, error, message):
    sigma = PartitionMap([0, 2], 3)
    with pytest.raises(error, match=message):
        sigma(action)
    with pytest.raises(error, match=message):
        sigma.complement(action)


@pytest.mark.parametrize(
    ("part", "rest", "error", "message"),
    [
        ((1, 2), (3, 4), ValueError, r"part, rest: got \[2, 2\] components, want \[2, 1\]"),
        ((1,), (2, 3), ValueError, r"part, rest: got \[1, 2\] components, want \[2, 1\]"),
        (np.ones((2, 1)), np.ones((2, 2)), ValueError, r"part, rest: got \[1, 2\] components, want \[2, 1\]"),
        (np.ones(2), (1,), TypeError, "part, rest: got a mixture of ndarray, tuple"),
        ([1, 2], np.ones(1), TypeError, "part, rest: got a mixture of list, ndarray"),
        ((1, 2), [3], TypeError, "part, rest: got a mixture of list, tuple"),
        ((1, 2), "a", TypeError, "part, rest: got 'a', want an array, a tuple or a list"),
    ],
)
def test_parts_that_do_not_fit_are_not_merged(part, rest, error, message):
    with pytest.raises(error, match=message):
        PartitionMap([0, 2], 3).merge(part, rest)


WITHOUT_OTHERS = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"array_api_compat", "jax", "gymnasium", "equinox", "torch"}:
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Refuse())
import numpy as np
from factorax.structure import InfluenceNetwork, LaggedNetwork, NetworkSchedule, PartitionMap, close_over

net = InfluenceNetwork([[1, 1], [0, 1]])
assert NetworkSchedule(net, InfluenceNetwork.complete(2, 2), steps=4).at(2).network().n_edges == 4
assert LaggedNetwork.from_lags([[0, 1], [-1, 0]]).returns_network == net
assert PartitionMap([1], 2)(np.arange(2)).tolist() == [1]
assert close_over(net, [("psi1", "psi2")]).density == 1
"""


def test_the_package_works_with_numpy_and_scipy_alone():
    result = subprocess.run([sys.executable, "-c", WITHOUT_OTHERS], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
