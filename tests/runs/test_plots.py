"""The common look of figures."""

import numpy as np
import pytest

from factorax.runs import plots


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


def test_a_figure_replaces_a_link_and_leaves_what_it_leads_to(tmp_path):
    (tmp_path / "thesis.tex").write_text("all of it")
    (tmp_path / "curves.png").symlink_to(tmp_path / "thesis.tex")
    figure, _ = plots.canvas()
    plots.save(figure, tmp_path / "curves.png")
    plots.save(figure, tmp_path / "curves")  # the same name
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "thesis.tex").read_text() == "all of it"
    with pytest.raises(ValueError, match="'xyz' is not supported"):
        plots.save(figure, tmp_path / "curves.xyz")


def test_names_are_drawn_as_they_are():
    figure, (ax,) = plots.canvas()
    ax.set_title(plots.plain_text("$\\frac \x1b[2J"))
    figure.draw_without_rendering()  # mathematics that is none would raise
