"""The influence networks, by hand on 2×2, 3×3 and 2×6."""

import numpy as np
import pytest
from factorax_traffic import Grid, influence


def streets(grid, preset, light, **options):
    net = influence(grid, preset, **options)
    return {net.targets[j] for j in np.flatnonzero(net.to_dense()[light])}


def test_a_corner_of_2_by_2():
    grid = Grid(2, 2)
    into = {"bot0_0", "right0_0", "top0_1", "left1_0"}
    away = {"top0_0", "left0_0", "bot0_1", "right1_0"}
    beyond = {"bot0_2", "top0_2", "right2_0", "left2_0"}
    assert streets(grid, "in", 0) == into
    assert streets(grid, "incident", 0) == into | away
    assert streets(grid, "corridor", 0) == streets(grid, "decay", 0) == into | away | beyond
    assert len(streets(grid, "complete", 0)) == 24


def test_the_middle_of_3_by_3():
    grid = Grid(3, 3)
    assert streets(grid, "in", 4) == {"bot1_1", "right1_1", "top1_2", "left2_1"}
    assert streets(grid, "incident", 4) == {
        "bot1_1", "bot1_2", "top1_1", "top1_2", "right1_1", "right2_1", "left1_1", "left2_1",
    }  # fmt: skip
    row = {f"{family}1_{j}" for family in ("bot", "top") for j in range(4)}
    column = {f"{family}{i}_1" for family in ("right", "left") for i in range(4)}
    assert streets(grid, "corridor", 4) == row | column


@pytest.mark.parametrize(("size", "corridor"), [((3, 3), 16), ((2, 6), 20)])
def test_sizes_of_rows_and_columns(size, corridor):
    grid = Grid(*size)
    outer = np.array([grid.lengths[e] == 100 for e in range(grid.n_edges)])
    into, incident = influence(grid, "in").to_dense(), influence(grid, "incident").to_dense()
    assert (into.sum(axis=1) == 4).all()
    assert (into.sum(axis=0) == np.where(outer, 0, 1)).all()
    assert (incident.sum(axis=1) == 8).all()
    entries = [grid.number[route[0]] for route in grid.routes]
    outer[entries] = True
    assert (incident.sum(axis=0) == np.where(outer, 1, 2)).all()
    assert (influence(grid, "corridor").to_dense().sum(axis=1) == corridor).all()


def test_levels_of_2_by_6():
    grid = Grid(2, 6)
    incident = influence(grid, "incident").to_dense()
    np.testing.assert_array_equal(influence(grid, "n-level", n=0).to_dense(), incident)
    for n in range(6):
        level = influence(grid, "n-level", n=n).to_dense()
        both = influence(grid, "n-level", n=n, rows="both").to_dense()
        for k in range(12):
            r, c = divmod(k, 6)
            window = [x for x in range(6) if abs(x - c) <= n]
            assert len(window) == 1 + min(n, c) + min(n, 5 - c)
            np.testing.assert_array_equal(level[k], incident[[6 * r + x for x in window]].any(axis=0))
            np.testing.assert_array_equal(both[k], incident[[6 * y + x for y in (0, 1) for x in window]].any(axis=0))
    assert both.all()
    assert not level.all()


def test_decay_counts_the_lights_between():
    grid = Grid(3, 3)
    net = influence(grid, "decay", alpha=0.5)
    row = dict(zip(net.targets, net.to_dense()[0], strict=True))
    assert [row[f"bot0_{j}"] for j in range(4)] == [1, 1, 0.5, 0.25]
    assert [row[f"top0_{j}"] for j in range(4)] == [1, 1, 0.5, 0.25]
    assert [row[f"left{i}_0"] for i in range(4)] == [1, 1, 0.5, 0.25]
    assert row["bot1_0"] == row["left0_1"] == 0


def test_targets_by_light():
    grid = Grid(2, 6)
    np.testing.assert_array_equal(influence(grid, "in", kind="lights").to_dense(), np.eye(12, dtype=bool))
    incident = influence(grid, "incident", kind="lights").to_dense()
    for k in range(12):
        around = {k, *(x for x in grid.neighbours[k] if x >= 0)}
        assert set(np.flatnonzero(incident[k])) == around
    band = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) <= 2
    level = influence(grid, "n-level", kind="lights", n=2).to_dense()
    np.testing.assert_array_equal(level, np.kron(np.eye(2, dtype=bool), band))
    soft = influence(grid, "decay", kind="lights", alpha=0.5).to_dense()
    assert soft[0].tolist() == [1, 1, 0.5, 0.25, 0.125, 0.0625, 1, 0, 0, 0, 0, 0]
    assert influence(grid, "complete", kind="lights").targets == grid.lights
