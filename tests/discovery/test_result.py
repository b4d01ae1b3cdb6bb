"""Results of discovery: edges at a false discovery rate, thresholds, text."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
from discovery.result_cases import P, make_discovery

import factorax as fx
from factorax.discovery import adjusted


def test_untested_pairs_do_not_count():
    q = adjusted(P)
    assert np.isnan(q[0, 2])
    np.testing.assert_allclose(q[np.isfinite(q)], adjusted(P[np.isfinite(P)]))
    found = make_discovery()
    assert found.confidence[0, 2] == 0
    assert found.found(0.05).tolist() == [[True, False, False], [True, False, True]]
    with pytest.warns(fx.structure.StructureWarning, match="target 'psi2' is influenced by no action"):
        assert found.network(0.05).n_edges == 3
    assert make_discovery().found(0.02, control="by").sum() == 2


def test_edges_for_programs():
    edges = make_discovery(actions=("heat", "vent")).as_edges()
    assert [(e["action"], e["target"]) for e in edges] == [("heat", "psi1"), ("vent", "psi3"), ("vent", "psi1")]
    assert edges[0]["samples"] == 50
    json.dumps(edges, allow_nan=False)


def test_words():
    inner = make_discovery(effect=np.zeros((2, 3)))
    text = str(make_discovery(also={"one-step": inner}, notes=("skipped: target psi3 is constant",)))
    assert "score, network of returns, closed loop: 2 actions → 3 targets" in text
    assert "3 of 6 pairs are edges at a false-discovery rate of 0.05, each from 50 samples" in text
    assert "not proved independent" in text
    assert text.endswith("skipped: target psi3 is constant")


@pytest.mark.parametrize("style", ["matrix", "bipartite"])
def test_every_style_can_be_drawn(style):
    ax = make_discovery().draw(style)
    if style == "matrix":
        framed, crossed = (collection.get_offsets() for collection in ax.collections)
        assert sorted(map(tuple, framed)) == [(0, 0), (0, 1), (2, 1)]
        assert list(map(tuple, crossed)) == [(2, 0)]
    plt.close(ax.figure)


def test_soft_weights_need_effects_relative_to_the_spread():
    with pytest.raises(ValueError, match="n_samples: got 100"):
        make_discovery().network(n_samples=100)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p_value": np.ones((3, 2))}, r"p_value: got array\(\[\[1\., 1\.\], \[1\., 1\.\], \[1\., 1\.\]\]\),"),
        ({"method": "guess"}, "method: got 'guess'"),
        ({"targets": ("a", "a", "b")}, "more than once; want unique labels"),
    ],
)
def test_errors(change, message):
    with pytest.raises(ValueError, match=message):
        make_discovery(**change)
    with pytest.raises(ValueError, match="fdr: got 5, want a number from 0 to 1"):
        make_discovery().found(5)
