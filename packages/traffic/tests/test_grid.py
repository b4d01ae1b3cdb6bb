"""The geometry of the grid, by hand on small ones."""

import numpy as np
import pytest
from factorax_traffic import Grid


@pytest.mark.parametrize(("rows", "columns", "edges"), [(1, 1, 8), (2, 2, 24), (3, 3, 48), (2, 6, 64), (6, 2, 64)])
def test_counts(rows, columns, edges):
    grid = Grid(rows, columns)
    assert grid.n_edges == edges == 4 * rows * columns + 2 * rows + 2 * columns
    assert len(set(grid.edges)) == edges
    assert list(grid.edges) == sorted(grid.edges)
    assert (grid.lengths == 100).sum() == grid.n_routes  # as many ways out as routes


def test_streets_of_a_light_by_hand():
    grid = Grid(2, 2)
    names = np.array(grid.edges)
    assert names[grid.incoming].tolist() == [
        ["bot0_0", "right0_0", "top0_1", "left1_0"],
        ["bot0_1", "right0_1", "top0_2", "left1_1"],
        ["bot1_0", "right1_0", "top1_1", "left2_0"],
        ["bot1_1", "right1_1", "top1_2", "left2_1"],
    ]
    assert names[grid.outgoing].tolist() == [
        ["top0_0", "left0_0", "bot0_1", "right1_0"],
        ["top0_1", "left0_1", "bot0_2", "right1_1"],
        ["top1_0", "left1_0", "bot1_1", "right2_0"],
        ["top1_1", "left1_1", "bot1_2", "right2_1"],
    ]
    assert grid.neighbours.tolist() == [[2, -1, -1, 1], [3, -1, 0, -1], [-1, 0, -1, 3], [-1, 1, 2, -1]]


def test_routes_by_hand():
    grid = Grid(2, 3)
    assert grid.routes[:2] == (("right0_0", "right1_0", "right2_0"), ("left2_0", "left1_0", "left0_0"))
    assert grid.routes[-2:] == (("bot1_0", "bot1_1", "bot1_2", "bot1_3"), ("top1_3", "top1_2", "top1_1", "top1_0"))
    assert grid.route_lights[:2] == ((0, 3), (3, 0))
    assert grid.route_lights[-2:] == ((3, 4, 5), (5, 4, 3))


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (2, 6), (11, 12)])
def test_light_j_of_a_route_is_between_its_streets(size):
    grid = Grid(*size)
    for streets, lights in zip(grid.routes, grid.route_lights, strict=True):
        for j, light in enumerate(lights):
            assert grid.number[streets[j]] in grid.incoming[light]
            assert grid.number[streets[j + 1]] in grid.outgoing[light]
        assert grid.lengths[grid.number[streets[-1]]] == 100
        assert grid.light_of[[grid.number[name] for name in streets]].tolist() == [*lights, lights[-1]]


def test_identities_are_flows_numbers():
    for size, count in (((3, 3), 60), ((2, 6), 80)):
        grid = Grid(*size)
        numbers = np.rint(grid.identities * (count - 1)).astype(int)
        assert sorted(numbers) == list(range(1, grid.n_edges + 1))
        assert numbers[grid.number["left0_0"]] == 1
        assert numbers[grid.number["right0_0"]] == 2
        assert numbers[grid.number["bot0_0"]] == 2 * grid.columns + 1


def test_alphabetical_order_of_lights():
    assert Grid(2, 6).sorted_by_name.tolist() == [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]
    assert Grid(3, 3).sorted_by_name.tolist() == list(range(9))


def test_the_largest_and_too_large():
    assert Grid(100, 100).n_edges == 40_400
    with pytest.raises(ValueError, match="columns: got 321, want a number from 1 to 320"):
        Grid(1, 321)
    with pytest.raises(ValueError, match="rows: got 0"):
        Grid(0, 1)
