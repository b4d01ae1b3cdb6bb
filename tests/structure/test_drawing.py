import subprocess
import sys
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrow, FancyBboxPatch, PathPatch, Rectangle

from factorax.structure import Factorisation, InfluenceNetwork, draw, gallery, patterns

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PAPER = pytest.mark.parametrize("make", gallery.PAPER.values(), ids=gallery.PAPER)
LONG = ["vent", "solar panel & battery controller", "cost_in_$_a_day", "$\\frac$ ^ {x"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def nodes(ax):
    """Centres of the nodes and their patches, in the order drawn: actions (or factors), then targets."""
    shapes = [p for p in ax.patches if isinstance(p, Circle | FancyBboxPatch) and p.get_fill()]
    boxes = [p.get_path().get_extents(p.get_patch_transform()) for p in shapes]
    return np.array([[b.x0 + b.width / 2, b.y0 + b.height / 2] for b in boxes]), boxes


def frames(ax):
    shapes = [p for p in ax.patches if isinstance(p, FancyBboxPatch | Rectangle) and not p.get_fill()]
    assert all(p.get_linestyle() == "--" for p in shapes)
    return [p.get_path().get_extents(p.get_patch_transform()) for p in shapes]


def arrows(ax):
    return [p for p in ax.patches if isinstance(p, FancyArrow)]


def texts(ax):
    return [p.get_path().get_extents() for p in ax.patches if isinstance(p, PathPatch)]


def matrix_drawn(ax, n, m):
    """K read back from the arrows: each belongs to the nodes that its two ends are nearest to."""
    centres, _ = nodes(ax)
    assert len(centres) == n + m
    read = np.zeros((n, m))
    for arrow in arrows(ax):
        distance = np.linalg.norm(centres[:, None] - arrow.get_xy(), axis=-1).min(axis=1)
        read[distance[:n].argmin(), distance[n:].argmin()] += 1
    return read


def framed(ax, n):
    """For each frame, the numbers of the actions inside."""
    x = nodes(ax)[0][:n, 0]
    return sorted(tuple(np.flatnonzero((box.x0 < x) & (x < box.x1)).tolist()) for box in frames(ax))


@PAPER
def test_bipartite_shows_the_papers_figures(make):
    net = make()
    n, m = net.shape
    ax = draw(net, factorisation=net.minimum_factorisation())
    np.testing.assert_array_equal(matrix_drawn(ax, n, m), net.to_dense())
    assert framed(ax, n) == [g for g in net.minimum_factorisation().groups if len(g) > 1]
    centres, _ = nodes(ax)
    assert centres[:n, 1].min() > centres[n:, 1].max()
    assert (np.diff(centres[:n, 0]) > 0).all()
    assert (np.diff(centres[n:, 0]) > 0).all()
    assert ax.get_aspect() == 1
    assert not ax.axison


@PAPER
def test_factored_shows_the_factored_network(make):
    net = make()
    sigma = net.minimum_factorisation()
    ax = draw(net, "factored")
    factored = net.factor(sigma).to_dense()
    np.testing.assert_array_equal(matrix_drawn(ax, *factored.shape), factored)
    assert frames(ax) == []
    assert len(texts(ax)) == sum(factored.shape) + len(sigma)


@PAPER
def test_matrix_shows_the_influence_matrix(make):
    net = make()
    ax = draw(net, "matrix", factorisation=net.minimum_factorisation())
    np.testing.assert_array_equal(ax.images[0].get_array(), net.to_dense())
    assert len(frames(ax)) == len(net.twins())
    assert len(ax.figure.axes) == 1


def test_no_frames_without_a_factorisation():
    assert frames(draw(gallery.complete())) == []


def test_groups_stand_side_by_side():
    net = InfluenceNetwork([[1, 0], [0, 1], [1, 0], [0, 1], [1, 1]])
    ax = draw(net, factorisation=net.minimum_factorisation())
    assert np.argsort(nodes(ax)[0][:5, 0]).tolist() == [0, 2, 1, 3, 4]
    assert framed(ax, 5) == [(0, 2), (1, 3)]
    np.testing.assert_array_equal(matrix_drawn(ax, 5, 2), net.to_dense())
    rows = draw(net, "matrix", factorisation=net.minimum_factorisation())
    np.testing.assert_array_equal(rows.images[0].get_array(), net.to_dense()[[0, 2, 1, 3, 4]])
    assert [t.get_text() for t in rows.get_yticklabels()] == [f"$a_{{{i}}}$" for i in (1, 3, 2, 4, 5)]


def test_factored_follows_the_factorisation_given():
    net = InfluenceNetwork([[1, 0], [0, 1], [1, 0]])
    sigma = Factorisation([[1, 2], [0]], 3)
    drawn = matrix_drawn(draw(net, "factored", factorisation=sigma), 2, 2)
    np.testing.assert_array_equal(drawn, [[1, 1], [1, 0]])


def test_soft_edges_are_paler_and_thinner_the_smaller_their_weight():
    net = InfluenceNetwork([[0.2, 0.6, 1.0]])
    alphas = [arrow.get_alpha() for arrow in arrows(draw(net))]
    assert alphas == sorted(alphas)
    assert len(set(alphas)) == 3
    assert alphas[-1] == 1
    ax = draw(net, "matrix")
    assert len(ax.figure.axes) == 2
    np.testing.assert_array_equal(ax.images[0].get_array(), [[0.2, 0.6, 1.0]])


@pytest.mark.parametrize("labels", [LONG, ["a1", "Delta10", "psi123456", " "]], ids=["names", "symbols"])
def test_labels_fit_into_their_nodes(labels):
    ax = draw(InfluenceNetwork.complete(4, 4).relabel(labels, labels))
    _, boxes = nodes(ax)
    for box, text in zip(boxes, texts(ax), strict=True):
        if labels is LONG or np.isfinite(text.x0):  # a blank has no outline
            assert box.x0 < text.x0 < text.x1 < box.x1
            assert box.y0 < text.y0 < text.y1 < box.y1
    for side in (boxes[:4], boxes[4:]):
        assert all(a.x1 < b.x0 for a, b in pairwise(side))


def test_edges_do_not_run_through_other_nodes():
    net = gallery.search_bandit(20)
    ax = draw(net)
    centres, _ = nodes(ax)
    for (i, j), arrow in zip(np.argwhere(net.to_dense()), arrows(ax), strict=True):
        start, end = centres[i], centres[20 + j]
        along = (end - start) / np.linalg.norm(end - start)
        others = np.delete(centres, [i, 20 + j], axis=0) - start
        assert np.abs(others @ [-along[1], along[0]]).min() > 0.5
        tip = arrow.get_xy()[np.linalg.norm(arrow.get_xy() - end, axis=1).argmin()]
        assert np.linalg.norm(tip - end) >= 0.5


@pytest.mark.parametrize("style", ["bipartite", "factored", "matrix"])
def test_draws_into_axes_given_without_pyplot(style):
    ax = Figure(figsize=(3, 2)).subplots()
    assert draw(gallery.three_actions(), style, ax=ax) is ax
    assert plt.get_fignums() == []


def test_captions_name_the_actions_of_a_factor():
    few, many = draw(InfluenceNetwork.complete(3, 1), "factored"), draw(InfluenceNetwork.complete(50, 1), "factored")
    assert len(texts(few)) == 2 + 1
    assert len(texts(many)) <= 2 + 5
    for ax in (few, many):
        low, high = ax.get_ylim()
        assert all(low < text.y0 < text.y1 < high for text in texts(ax))


@pytest.mark.parametrize(
    "net",
    [
        patterns.banded(300, 3),
        InfluenceNetwork.complete(2, 90),
        InfluenceNetwork.complete(90, 2),
        InfluenceNetwork.complete(4, 4).relabel(LONG, LONG),
        InfluenceNetwork.complete(40, 40).relabel(*[[f"a long name {i}" for i in range(40)]] * 2),
    ],
    ids=["large", "wide", "tall", "names", "many names"],
)
def test_tick_labels_are_thinned_until_they_fit(net):
    ax = draw(net, "matrix")
    ax.figure.canvas.draw()
    whole, figure = ax.get_tightbbox(), ax.figure.bbox
    assert figure.x0 <= whole.x0 < whole.x1 <= figure.x1
    assert figure.y0 <= whole.y0 < whole.y1 <= figure.y1
    columns = [t.get_window_extent() for t in ax.get_xticklabels()]
    rows = [t.get_window_extent() for t in ax.get_yticklabels()]
    assert columns
    assert rows
    assert all(a.x1 < b.x0 for a, b in pairwise(columns))
    assert all(a.y0 > b.y1 for a, b in pairwise(rows))


def test_plain_labels_are_shown_as_they_are():
    ax = draw(InfluenceNetwork([[1, 1]], ["cost_$"], ["psi0", "Zeta"]), "matrix")
    assert [t.get_text() for t in ax.get_yticklabels()] == [r"cost_\$"]
    assert [t.get_text() for t in ax.get_xticklabels()] == [r"$\psi_{0}$", "Zeta"]


def test_errors_say_what_to_do():
    net = gallery.fork()
    with pytest.raises(ValueError, match="got 'round', want 'bipartite', 'factored' or 'matrix'"):
        draw(net, "round")
    with pytest.raises(ValueError, match='at most 60 of each for a graph; use style="matrix"'):
        draw(patterns.banded(61, 1))
    with pytest.raises(ValueError, match="got 61 factors"):
        draw(patterns.banded(61, 1), "factored")
    with pytest.raises(ValueError, match="draw part of the network"):
        draw(InfluenceNetwork.identity(3000), "matrix")
    for style in ("bipartite", "factored", "matrix"):
        with pytest.raises(ValueError, match="got 3 actions, want 1, as in the network"):
            draw(net, style, factorisation=Factorisation([[0, 1, 2]], 3))
        with pytest.raises(TypeError, match="from_labels"):
            draw(net, style, factorisation=[["a1"]])
    assert plt.get_fignums() == []


def test_matplotlib_is_imported_only_to_draw():
    code = "import sys, factorax.structure.drawing; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
