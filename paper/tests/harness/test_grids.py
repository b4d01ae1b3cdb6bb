"""Cells of a grid: who diverged is counted, and the rest averaged."""

from factorax_paper.harness import grids
from factorax_paper.harness.statistics import gamma_mean
from factorax_paper.harness.table import from_rows
from grid_runs import CLOSE, INF, runs


def test_cells_count_the_diverged_and_average_the_rest():
    table = from_rows(
        [*runs("FPG", 2, 0.1, CLOSE), *runs("VPG", 2, 0.1, (INF, 1.0, 3.0)), *runs("VPG", 2, 1.0, (INF,))]
    )
    keys = [{"method": "FPG", "n": 2}, {"method": "VPG", "step_size": 0.1}, {"method": "VPG", "step_size": 1.0}]
    sound, mixed, lost = grids.cells(table, keys, lambda rows: rows["gap"], confidence=0.9)
    assert sound == keys[0] | {"runs": 4, "diverged": 0, "usable": 4, "mean": vars(gamma_mean(CLOSE, 0.9))}
    assert mixed == keys[1] | {"runs": 3, "diverged": 1, "usable": 2, "mean": vars(gamma_mean([1.0, 3.0], 0.9))}
    assert lost == keys[2] | {"runs": 1, "diverged": 1, "usable": 0, "mean": None}
    assert grids.whole(sound) == gamma_mean(CLOSE, 0.9)
    assert grids.whole(mixed) is None
    assert grids.whole(lost) is None
