"""Results of discovery: edges at a false discovery rate, thresholds, text."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
from discovery.result_cases import P, make_discovery

import factorax as fx
from factorax.discovery import Discovery, adjusted


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


def test_files_keep_everything(tmp_path):
    step = make_discovery("interventional", notes=("one",))
    whole = make_discovery(
        "interventional", also={"one-step": step}, steps=12, targets=("p", "q", "ψ"), effect_unit="x",
        streams="shifted", relative=np.full((2, 3), 0.5), lacks_reactions=True,
    )  # fmt: skip
    whole.save(tmp_path / "found.safetensors")
    again = Discovery.load(tmp_path / "found.safetensors")
    for name in (
        "method",
        "kind",
        "loop",
        "effect_unit",
        "notes",
        "steps",
        "streams",
        "lacks_reactions",
        "actions",
        "targets",
    ):
        assert getattr(again, name) == getattr(whole, name)
    for name in ("effect", "p_value", "samples"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
        np.testing.assert_array_equal(getattr(again.also["one-step"], name), getattr(step, name))
    np.testing.assert_array_equal(again.relative, whole.relative)
    assert again.also["one-step"].relative is None
    assert again.also["one-step"].notes == ("one",)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "found.safetensors"
    make_discovery().save(path)
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
