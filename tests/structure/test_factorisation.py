from itertools import combinations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import factorisations, networks, quietly

from factorax import Factorisation, InfluenceNetwork
from factorax.structure import PartitionMap, gallery

any_factorisation = st.integers(1, 7).flatmap(factorisations)


# ---- policy factorisations --------------------------------------------------------------------------------


@given(any_factorisation)
def test_merge_undoes_split_for_tuples_and_lists_of_any_kind(sigma):
    action = tuple([k + 0.5, k, f"word {k}"][k % 3] for k in range(sigma.n_actions))
    for kind in (tuple, list):
        parts = sigma.split(kind(action))
        assert [len(part) for part in parts] == [len(group) for group in sigma.groups]
        assert sigma.merge(parts) == kind(action)


@pytest.mark.slow
@given(any_factorisation, st.sampled_from([(), (3,), (2, 1, 3)]), st.sampled_from([np, jnp]))
def test_merge_undoes_split_for_arrays_with_batch_axes(sigma, batch, xp):
    action = xp.asarray(np.arange(np.prod((*batch, sigma.n_actions))).reshape(*batch, -1))
    parts = sigma.split(action)
    assert [part.shape for part in parts] == [(*batch, len(group)) for group in sigma.groups]
    np.testing.assert_array_equal(sigma.merge(parts), action)


@given(any_factorisation)
def test_groups_and_group_numbers_say_the_same(sigma):
    assert len(sigma) == len(sigma.groups) == len(sigma.partition_maps)
    assert sorted(i for group in sigma.groups for i in group) == list(range(sigma.n_actions))
    assert all(sigma.group_of[i] == g for g, group in enumerate(sigma.groups) for i in group)
    again = Factorisation.from_group_of(sigma.group_of)
    assert again.groups == tuple(tuple(sorted(group)) for group in sigma.groups)
    assert sigma.partition_maps == tuple(PartitionMap(group, sigma.n_actions) for group in sigma.groups)


def test_groups_by_label():
    sigma = Factorisation.from_labels([["sell"], ["hold", "buy"]], ["buy", "sell", "hold"])
    assert sigma == Factorisation([[1], [2, 0]], 3)


def test_equal_factorisations_hash_alike():
    sigma = Factorisation([[0, 1], [2]], 3)
    assert sigma == Factorisation.from_group_of(np.array([0, 0, 1]))
    assert len({sigma, Factorisation.from_group_of(np.array([0, 0, 1], dtype=np.int8))}) == 1
    assert sigma != Factorisation([[0], [1, 2]], 3)
    assert sigma != Factorisation([[2], [0, 1]], 3)
    assert sigma != ((0, 1), (2,))


def test_repr_is_short_for_many_actions():
    sigma = Factorisation([[0, 1], [2]], 3)
    assert eval(repr(sigma)) == sigma
    assert repr(Factorisation([range(30)], 30)) == "Factorisation(1 factor of 30 actions)"


def test_group_numbers_are_read_only():
    for sigma in (Factorisation([[0]], 1), Factorisation.from_group_of(np.array([0]))):
        with pytest.raises(ValueError, match="read-only"):
            sigma.group_of[0] = 1


def test_group_numbers_are_not_shared_with_the_caller():
    numbers = np.array([0, 1])
    sigma = Factorisation.from_group_of(numbers)
    numbers[:] = 0
    assert sigma.groups == ((0,), (1,))


@pytest.mark.parametrize(
    ("groups", "n_actions", "error", "message"),
    [
        ([[0, 1], [1, 2]], 3, ValueError, "groups: got action 1 twice"),
        ([[0], [2]], 4, ValueError, "groups: action '1', '3' is missing"),
        ([[0, 3]], 3, ValueError, "groups: got action 3"),
        ([[0, -1]], 2, ValueError, "groups: got action -1"),
        ([[0], []], 1, ValueError, "groups: got an empty group"),
        ([], 0, ValueError, "n_actions"),
        ([[True, 0]], 2, TypeError, "groups: got True"),
        (["01"], 2, TypeError, "groups: got '01'"),
        ([[0]], 1.0, TypeError, "n_actions"),
    ],
)
def test_invalid_groups_are_named(groups, n_actions, error, message):
    with pytest.raises(error, match=message):
        Factorisation(groups, n_actions)


@pytest.mark.parametrize("numbers", [[], [[0, 1]], [0.0, 1.0], [True, False], [0, 2], [0, -1]])
def test_invalid_group_numbers_are_named(numbers):
    with pytest.raises(ValueError, match="group_of: got"):
        Factorisation.from_group_of(np.array(numbers))


def test_unknown_labels_in_groups_are_named():
    with pytest.raises(ValueError, match=r"groups: unknown label 'z'; known: 'x', 'y'"):
        Factorisation.from_labels([["x", "z"]], ["x", "y"])


def test_parts_that_do_not_fit_are_not_merged():
    sigma = Factorisation([[0, 2], [1]], 3)
    with pytest.raises(ValueError, match=r"parts: got 1, want 2, one for each factor"):
        sigma.merge([(1, 2, 3)])
    with pytest.raises(ValueError, match=r"parts: got \[1, 2\] components, want \[2, 1\]"):
        sigma.merge([(1,), (2, 3)])
    with pytest.raises(TypeError, match=r"parts: got a mixture of ndarray, tuple; want"):
        sigma.merge([(1, 2), np.ones(1)])
    with pytest.raises(ValueError, match=r"action: got \(1, 2\), want 3 components for PartitionMap\(\[0, 2\], 3\)"):
        sigma.split((1, 2))


# ---- the minimum factorisation ----------------------------------------------------------------------------


@given(networks())
def test_minimum_groups_hold_equal_rows_and_all_of_them(net):
    rows = [tuple(row) for row in net.to_dense().tolist()]
    groups = net.minimum_factorisation().groups
    kinds = [{rows[i] for i in group} for group in groups]
    assert all(len(kind) == 1 for kind in kinds)
    assert len(set().union(*kinds)) == len(groups)


@given(networks())
def test_minimum_groups_are_in_order_of_first_appearance(net):
    groups = net.minimum_factorisation().groups
    assert [group[0] for group in groups] == sorted(min(group) for group in groups)
    assert all(list(group) == sorted(group) for group in groups)


@quietly
@given(networks())
def test_the_minimum_factorisation_loses_and_adds_no_edge(net):
    sigma = net.minimum_factorisation()
    factored = net.factor(sigma)
    np.testing.assert_array_equal(factored.to_dense()[sigma.group_of], net.to_dense())
    assert len(factored.minimum_factorisation()) == len(factored.actions)


def partitions(items):
    """Every way of cutting a list into groups."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for k in range(len(rest) + 1):
        for mates in combinations(rest, k):
            others = [i for i in rest if i not in mates]
            yield from ([(first, *mates), *more] for more in partitions(others))


def bicliques(dense, groups):
    """The targets that the actions of each group have in common: its largest biclique."""
    return [dense[list(group)].all(axis=0) for group in groups]


@given(networks(soft=False, max_size=4))
def test_no_other_disjoint_bicliques_cover_every_edge_with_so_few(net):
    dense = net.to_dense()
    covers = [
        groups
        for groups in partitions(range(len(dense)))
        if all(
            (dense[i] == common).all() for g, common in zip(groups, bicliques(dense, groups), strict=True) for i in g
        )
    ]
    fewest = min(map(len, covers))
    smallest = [set(groups) for groups in covers if len(groups) == fewest]
    assert smallest == [set(net.minimum_factorisation().groups)]


def test_the_minimum_biclique_vertex_cover_is_not_unique():
    """Rows {1}, {2}, {1, 2}: two smallest covers of the *vertices*, each without an edge of the third action."""
    net = InfluenceNetwork([[1, 0], [0, 1], [1, 1]])
    dense = net.to_dense()
    covers = [
        groups
        for groups in partitions(range(3))
        if all(common.any() for common in bicliques(dense, groups)) and np.any(bicliques(dense, groups), axis=0).all()
    ]
    smallest = [groups for groups in covers if len(groups) == min(map(len, covers))]
    assert sorted(map(sorted, smallest)) == [[(0,), (1, 2)], [(0, 2), (1,)]]
    assert net.minimum_factorisation().groups == ((0,), (1,), (2,))


@pytest.mark.parametrize(
    ("net", "groups"),
    [
        (gallery.fork(), ((0,),)),
        (gallery.collider(), ((0, 1),)),
        (gallery.complete(), ((0, 1),)),
        (gallery.fork_collider(), ((0,), (1,))),
        (gallery.three_actions(), ((0, 1), (2,))),
        (InfluenceNetwork.identity(3), ((0,), (1,), (2,))),
        (InfluenceNetwork.complete(4, 2), ((0, 1, 2, 3),)),
        (InfluenceNetwork([[0, 1], [1, 0], [0, 1]]), ((0, 2), (1,))),
        (InfluenceNetwork([[0.5, 1], [1, 1], [0.5, 1], [0.25, 1]]), ((0, 2), (1,), (3,))),
    ],
)
def test_the_minimum_factorisation_of_known_networks(net, groups):
    assert net.minimum_factorisation() == Factorisation(groups, net.shape[0])


@quietly
def test_actions_without_targets_are_one_group():
    net = InfluenceNetwork([[0, 0], [1, 1], [0, 0]])
    assert net.minimum_factorisation().groups == ((0, 2), (1,))
    assert net.factor(net.minimum_factorisation()).actions == ("a1+a3", "a2")
