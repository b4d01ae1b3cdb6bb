"""Figures of the experiments: cells, colours and heat maps."""

import numpy as np
import pytest
from factorax_paper.harness import plots


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (0, "0"),
        (0.00004, "4e-5"),
        (0.0351, "0.035"),
        (1.26, "1.3"),
        (42.4, "42"),
        (123.4, "123"),
        (999.7, "1k"),
        (1300, "1.3k"),
        (42_000, "42k"),
        (500_000, "500k"),
    ],
)
def test_numbers_in_cells_are_short(value, want):
    assert plots.short(value) == want


def test_colours_can_be_told_apart():
    assert len(set(plots.PALETTE)) == len(plots.PALETTE)
    assert plots.MISSING not in (*plots.PALETTE, *plots.COLOURS.values())


def test_a_scale_of_colours_spans_the_finite_values():
    norm = plots.log_norm(np.array([0.5, np.nan, 20.0, np.inf, 0.0]))
    assert (norm.vmin, norm.vmax) == (0.5, 20.0)
    norm = plots.log_norm(np.array([np.nan]))
    assert 0 < norm.vmin < norm.vmax
    norm = plots.log_norm(np.array([3.0, 3.0]))
    assert norm.vmin == 3.0 < norm.vmax


def test_a_heat_map_has_a_note_in_every_cell_and_grey_where_nothing_is():
    values = np.array([[0.1, np.nan], [1.0, 10.0]])
    notes = np.array([["a", "b"], ["c", "d"]])
    figure, bar = plots.heat_maps(
        {"FPG": (values, notes)},
        rows=(1, 2),
        columns=(0.1, 1.0),
        norm=plots.log_norm(values),
        cmap="viridis",
        label="gap",
    )
    assert [text.get_text() for text in figure.axes[0].texts] == ["a", "b", "c", "d"]
    assert figure.axes[0].images[0].get_array().mask.tolist() == [[False, True], [False, False]]
    assert bar.ax.get_ylabel() == "gap"
