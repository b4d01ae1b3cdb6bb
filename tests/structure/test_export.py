import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factorax.structure import Factorisation, InfluenceNetwork, gallery, patterns, to_dot, to_tikz
from factorax.structure.export import maths, place

PAPER = pytest.mark.parametrize("make", gallery.PAPER.values(), ids=gallery.PAPER)
NASTY = ['say "hi"', "back\\slash\\", "R&D &lt; {x}_y^2 ~ 50% #1 <a|b> $5$", "two\nlines", "\\N", "été →", "", "}"]
LABELS = st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(NASTY), min_size=1, unique=True)
QUOTED = r'"((?:[^"\\]|\\.)*)"'


def unquote(text):
    return re.sub(r"\\(.)", lambda match: {"n": "\n"}.get(match[1], match[1]), text)


def dot_edges(source):
    found = re.findall(rf"^  {QUOTED} -> {QUOTED}( \[.*\])?;$", source, re.MULTILINE)
    return [(unquote(a).removeprefix("action:"), unquote(t).removeprefix("target:")) for a, t, _ in found]


def dot_groups(source):
    clusters = re.findall(r'^  subgraph "cluster_\d+" \{style="dashed,rounded";(.*)\}$', source, re.MULTILINE)
    return [tuple(unquote(a).removeprefix("action:") for a in re.findall(QUOTED, body)) for body in clusters]


def tikz_nodes(source):
    """(x, y) of every node by its name, and the text inside."""
    found = re.findall(r"^  \\node\[(?:obs|wide)\] \((\S+)\) at \((\S+), (\S+)\) \{(.*)\};$", source, re.MULTILINE)
    return {name: (float(x), float(y)) for name, x, y, _ in found}, {name: text for name, _, _, text in found}


def tikz_edges(source):
    found = re.findall(r"^  \\draw\[->.*\] \(action-(\d+)\) -- \(target-(\d+)\);$", source, re.MULTILINE)
    assert len(found) == source.count("\\draw")
    return [(int(i) - 1, int(j) - 1) for i, j in found]


def balanced(source):
    depth = 0
    for brace in re.findall(r"[{}]", re.sub(r"\\[{}]", "", source)):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


@PAPER
def test_dot_of_the_papers_figures(make):
    net = make()
    source = to_dot(net, net.minimum_factorisation())
    assert dot_edges(source) == list(net.edges())
    assert dot_groups(source) == list(net.twins())
    assert source.count("rank=same") == 2
    assert len(re.findall(r"\[label=", source)) == sum(net.shape)


@PAPER
def test_tikz_of_the_papers_figures(make):
    net = make()
    n, m = net.shape
    source = to_tikz(net, net.minimum_factorisation())
    assert tikz_edges(source) == [tuple(edge) for edge in np.argwhere(net.to_dense()).tolist()]
    groups = re.findall(r"\\node\[group, fit=(.*)\] \{\};", source)
    twins = [g for g in net.minimum_factorisation().groups if len(g) > 1]
    assert groups == [" ".join(f"(action-{i + 1})" for i in group) for group in twins]
    at, text = tikz_nodes(source)
    assert {y for name, (_, y) in at.items() if name.startswith("target")} == {0}
    assert min(y for name, (_, y) in at.items() if name.startswith("action")) >= 2.2
    assert [text[f"action-{i + 1}"] for i in range(n)] == [f"$a_{{{i + 1}}}$" for i in range(n)]
    assert len(at) == n + m
    assert source.count(r"\begin{tikzpicture}") == source.count(r"\end{tikzpicture}") == 1
    assert balanced(source)


@given(LABELS, LABELS)
def test_any_label_survives(actions, targets):
    net = InfluenceNetwork.complete(len(actions), len(targets)).relabel(actions, targets)
    dot, tikz = to_dot(net), to_tikz(net)
    assert dot_edges(dot) == list(net.edges())
    assert len(tikz_edges(tikz)) == net.n_edges
    assert balanced(tikz)


def test_action_and_target_may_share_a_name():
    net = InfluenceNetwork([[1]], ["x"], ["x"])
    assert '"action:x" -> "target:x";' in to_dot(net)
    assert r"\draw[->] (action-1) -- (target-1);" in to_tikz(net)


def test_latex_reads_labels_as_they_are_written():
    net = InfluenceNetwork([[1, 1, 1]], ["50% of {a_b}"], ["R&D #1", r"\x^~", "two\n\nlines <|>"])
    _, text = tikz_nodes(to_tikz(net))
    assert text == {
        "action-1": r"50\% of \{a\_b\}",
        "target-1": r"R\&D \#1",
        "target-2": r"\textbackslash{}x\textasciicircum{}\textasciitilde{}",
        "target-3": r"two lines \textless{}\textbar{}\textgreater{}",
    }


def test_graphviz_reads_no_entities_or_escapes_in_labels():
    source = to_dot(InfluenceNetwork([[1]], ["&lt;"], ['\\N "']))
    assert 'label="&amp;lt;"' in source
    assert r'label="\\N \""' in source


def test_soft_weights_show():
    net = InfluenceNetwork([[0.25, 1.0]])
    dot = re.findall(r'penwidth=(\S+), tooltip="(\S+)"', to_dot(net))
    assert [float(weight) for _, weight in dot] == [0.25, 1.0]
    assert float(dot[0][0]) < float(dot[1][0])
    tikz = re.findall(r"line width=(\S+)pt, opacity=(\S+)\]", to_tikz(net))
    assert [float(opacity) for _, opacity in tikz] == [0.44, 1.0]
    assert float(tikz[0][0]) < float(tikz[1][0])


def test_groups_stand_side_by_side():
    net = InfluenceNetwork([[1, 0], [0, 1], [1, 0]])
    source = to_tikz(net, net.minimum_factorisation())
    at, _ = tikz_nodes(source)
    assert at["action-1"] < at["action-3"] < at["action-2"]
    assert tikz_edges(source) == [(0, 0), (1, 1), (2, 0)]


@pytest.mark.parametrize("export", [to_dot, to_tikz])
def test_errors_say_what_to_do(export):
    with pytest.raises(ValueError, match="got 2 actions, want 1, as in the network"):
        export(gallery.fork(), Factorisation([[0, 1]], 2))
    with pytest.raises(TypeError, match=r"got list, want a Factorisation.*from_labels"):
        export(gallery.fork(), [["a1"]])


@pytest.mark.parametrize(
    ("label", "formula"),
    [
        ("a1", "$a_{1}$"),
        ("psi12", r"$\psi_{12}$"),
        ("Delta2", r"$\Delta_{2}$"),
        ("zeta", r"$\zeta$"),
        ("sigma1", r"$\sigma_{1}$"),
        *((label, None) for label in ("a", "a_1", "heat", "Alpha1", "psi1 ", "psi₁", "psi1\n", "aa1", "", "1")),
    ],
)
def test_formulas(label, formula):
    assert maths(label) == formula


@given(
    st.lists(st.floats(1, 6), min_size=1, max_size=20), st.lists(st.floats(1, 6), min_size=1, max_size=20), st.data()
)
def test_nodes_do_not_overlap(top, bottom, data):
    order = data.draw(st.permutations(range(len(top))))
    x_top, x_bottom, height = place(InfluenceNetwork.complete(len(top), len(bottom)).matrix, top, bottom, order)
    assert height >= 2.2
    for x, widths in ((x_top[order], np.array(top)[order]), (x_bottom, np.array(bottom))):
        assert (np.diff(x) - (widths[1:] + widths[:-1]) / 2 > 0.55).all()


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize(
    "net",
    [
        *(make() for make in gallery.PAPER.values()),
        patterns.spatial_discount(np.abs(np.subtract.outer(range(5), range(5))), 0.5),
        InfluenceNetwork.complete(len(NASTY), len(NASTY)).relabel(NASTY, NASTY),
    ],
    ids=[*gallery.PAPER, "soft", "nasty"],
)
def test_graphviz_accepts_it(net):
    source = to_dot(net, net.minimum_factorisation())
    done = subprocess.run(["dot", "-Tjson"], input=source, capture_output=True, text=True, encoding="utf-8", check=True)
    assert done.stderr == ""
    graph = json.loads(done.stdout)
    nodes = [thing for thing in graph["objects"] if "pos" in thing]
    assert len(nodes) == sum(net.shape)
    assert len(graph["edges"]) == net.n_edges
    heights = {float(node["pos"].split(",")[1]) for node in nodes}
    assert len(heights) == 2
