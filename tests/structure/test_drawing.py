"""Drawings of networks render in every style; what cannot be drawn is refused."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from factorax.structure import Factorisation, InfluenceNetwork, gallery, patterns

matplotlib.use("Agg")
import matplotlib.pyplot as plt

STYLES = ["bipartite", "factored", "matrix"]
LONG = ["vent", "solar panel & battery controller", "cost_in_$_a_day", "$\\frac$ ^ {x"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def patches(ax, kind, *, filled=True):
    return [patch for patch in ax.patches if isinstance(patch, kind) and patch.get_fill() == filled]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("make", gallery.PAPER.values(), ids=gallery.PAPER)
def test_each_style_shows_every_edge_and_group(make, style):
    net = make()
    ax = net.draw(style, factorisation=net.minimum_factorisation())
    ax.figure.canvas.draw()
    if style == "matrix":
        np.testing.assert_array_equal(ax.images[0].get_array(), net.to_dense())
        assert len(patches(ax, Rectangle, filled=False)) == len(net.twins())
        return
    shown = net if style == "bipartite" else net.factor(net.minimum_factorisation())
    assert len(patches(ax, FancyArrowPatch)) == shown.n_edges
    assert len(patches(ax, FancyBboxPatch)) == sum(shown.shape)
    assert len(patches(ax, FancyBboxPatch, filled=False)) == (len(net.twins()) if style == "bipartite" else 0)


@pytest.mark.parametrize("style", STYLES)
def test_any_label_and_weight_can_be_drawn(style):
    net = InfluenceNetwork(np.linspace(0.1, 1, 16).reshape(4, 4), LONG, LONG)
    net.draw(style).figure.canvas.draw()


def test_twins_are_drawn_next_to_each_other_in_the_matrix():
    net = InfluenceNetwork([[1, 0], [0, 1], [1, 0], [0, 1], [1, 1]])
    ax = net.draw("matrix", factorisation=net.minimum_factorisation())
    np.testing.assert_array_equal(ax.images[0].get_array(), net.to_dense()[[0, 2, 1, 3, 4]])
    assert [t.get_text() for t in ax.get_yticklabels()] == [f"$a_{{{i}}}$" for i in (1, 3, 2, 4, 5)]


@pytest.mark.parametrize("style", STYLES)
def test_given_axes_are_drawn_on_without_pyplot(style):
    ax = Figure(figsize=(3, 2)).subplots()
    assert gallery.three_actions().draw(style, ax=ax) is ax
    assert plt.get_fignums() == []


@pytest.mark.parametrize("style", STYLES)
def test_a_factorisation_of_other_actions_is_refused(style):
    with pytest.raises(ValueError, match=r"factorisation: got 3 actions, want 1"):
        gallery.fork().draw(style, factorisation=Factorisation([[0, 1, 2]], 3))
    with pytest.raises(TypeError, match="from_labels"):
        gallery.fork().draw(style, factorisation=[["a1"]])


@pytest.mark.parametrize(
    ("net", "style"),
    [
        (gallery.fork(), "round"),
        (patterns.banded(61, 1), "bipartite"),
        (patterns.banded(61, 1), "factored"),
        (InfluenceNetwork.identity(3000), "matrix"),
    ],
)
def test_unknown_styles_and_networks_too_large_to_read_are_refused(net, style):
    with pytest.raises(ValueError, match="style"):
        net.draw(style)


def test_matplotlib_is_imported_only_to_draw():
    code = "import sys, factorax.structure.drawing; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
