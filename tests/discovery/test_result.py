"""What discovery gives: error rates against definitions by hand, files, drawings, words."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import factorax as fx
from factorax._rates import discoveries
from factorax.discovery import Discovery, adjusted

P = np.array([[1e-5, 0.2, np.nan], [0.011, 0.9, 2e-4]])


def discovery(method="score", **changes):
    options = {"effect": np.arange(6.0).reshape(2, 3), "p_value": P, "samples": np.full((2, 3), 50)}
    return Discovery(method, "return", **options | changes)


def by_definition(p, fdr, factor):
    """Benjamini and Hochberg's step-up rule: the largest k with p₍ₖ₎ ≤ k fdr / (K factor)."""
    order = np.sort(p)
    passes = np.flatnonzero(order <= np.arange(1, len(p) + 1) * fdr / (len(p) * factor))
    return p <= order[passes[-1]] if len(passes) else np.zeros(len(p), bool)


@given(arrays(float, st.integers(1, 30), elements=st.floats(0, 1)), st.sampled_from([0.013, 0.05, 0.21]))
def test_step_up_rules_as_they_are_defined(p, fdr):
    harmonic = (1 / np.arange(1, len(p) + 1)).sum()
    for control, factor in (("bh", 1.0), ("by", harmonic)):
        edge = np.abs(adjusted(p, control) - fdr) < 1e-12  # rounding decides
        assert ((adjusted(p, control) <= fdr) == by_definition(p, fdr, factor))[~edge].all()
        assert (discoveries(p, fdr, control) == by_definition(p, fdr, factor))[~edge].all()


def test_untested_pairs_do_not_count():
    q = adjusted(P)
    assert np.isnan(q[0, 2])
    np.testing.assert_allclose(q[np.isfinite(q)], adjusted(P[np.isfinite(P)]))
    found = discovery()
    assert found.confidence[0, 2] == 0
    assert found.found(0.05).tolist() == [[True, False, False], [True, False, True]]
    with pytest.warns(fx.StructureWarning, match="no action influences target 'psi2'"):
        assert found.network(0.05).n_edges == 3
    assert discovery().found(0.02, control="by").sum() == 2


def test_edges_for_programs():
    edges = discovery(actions=("heat", "vent")).as_edges()
    assert [(e["action"], e["target"]) for e in edges] == [("heat", "psi1"), ("vent", "psi3"), ("vent", "psi1")]
    assert edges[0]["samples"] == 50
    json.dumps(edges, allow_nan=False)


def test_predicted_edges_want_a_threshold():
    found = discovery("predictive", p_value=np.full((2, 3), np.nan))
    with pytest.raises(ValueError, match="threshold: missing; the predictive method has no p-values"):
        found.found()
    assert found.found(threshold=2.5).sum() == 3


def test_words():
    inner = discovery(effect=np.zeros((2, 3)))
    text = str(discovery(also={"one-step": inner}, notes=("skipped: target psi3 is constant",)))
    assert "score, network of returns, closed loop: 2 actions → 3 targets" in text
    assert "3 of 6 pairs are edges at a false-discovery rate of 0.05, each from 50 samples" in text
    assert "not proved absent" in text
    assert text.endswith("skipped: target psi3 is constant")


def test_files_keep_everything(tmp_path):
    step = discovery("interventional", notes=("one",))
    whole = discovery("interventional", also={"one-step": step}, steps=12, targets=("p", "q", "ψ"), effect_unit="x")
    whole.save(tmp_path / "found.safetensors")
    again = Discovery.load(tmp_path / "found.safetensors")
    for name in ("method", "kind", "loop", "effect_unit", "notes", "steps", "actions", "targets"):
        assert getattr(again, name) == getattr(whole, name)
    for name in ("effect", "p_value", "samples"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
        np.testing.assert_array_equal(getattr(again.also["one-step"], name), getattr(step, name))
    assert again.also["one-step"].notes == ("one",)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "found.safetensors"
    discovery().save(path)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(data)
        for place in rng.integers(len(data), size=rng.integers(1, 4)):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(len(data)) if rng.random() < 0.3 else None])
        try:
            assert Discovery.load(path).shape == (2, 3)
        except ValueError as error:
            assert "not a discovery of factorax, or damaged" in str(error)  # noqa: PT017
    path.write_bytes(data.replace(b'\\"format\\": 1', b'\\"format\\": 9'))
    with pytest.raises(ValueError, match="written in format 9, this factorax reads up to 1"):
        Discovery.load(path)


@pytest.mark.parametrize("style", ["matrix", "bipartite"])
def test_drawings(style):
    ax = discovery().draw(style)
    if style == "matrix":
        framed, crossed = (collection.get_offsets() for collection in ax.collections)
        assert sorted(map(tuple, framed)) == [(0, 0), (0, 1), (2, 1)]
        assert list(map(tuple, crossed)) == [(2, 0)]
    plt.close(ax.figure)
    with pytest.raises(ValueError, match="style: got 'cake'"):
        discovery().draw("cake")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p_value": np.ones((3, 2))}, r"p_value: got shape \(3, 2\), want"),
        ({"method": "guess"}, "method: got 'guess', want one of interventional, score"),
        ({"targets": ("a", "a", "b")}, "labels must be unique"),
    ],
)
def test_errors(change, message):
    with pytest.raises(ValueError, match=message):
        discovery(**change)
    with pytest.raises(ValueError, match="fdr: got 5, want a false-discovery rate between 0 and 1"):
        discovery().found(5)
