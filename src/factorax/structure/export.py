"""Export influence networks as Graphviz or TikZ source; helpers shared by all drawings."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from .checks import as_network
from .factorisation import Factorisation
from .labels import counted

if TYPE_CHECKING:
    from .network import InfluenceNetwork

# Only letters with a LaTeX command: omicron and the capitals that look Latin have none.
_GREEK = dict(
    re.findall(
        r"(\w+) (\w)",
        "alpha α beta β gamma γ delta δ epsilon ε zeta ζ eta η theta θ iota ι kappa κ lambda λ mu μ nu ν xi ξ pi π "
        "rho ρ sigma σ tau τ upsilon υ phi φ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ "
        "Upsilon Υ Phi Φ Psi Ψ Omega Ω",
    )
)
_SYMBOL = re.compile(rf"({'|'.join(_GREEK)})([0-9]*)|([A-Za-z])([0-9]+)")
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_LATEX = str.maketrans(
    {
        **{c: f"\\{c}" for c in "{}$&#%_"},
        "\\": r"\textbackslash{}",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
    }
)


def to_dot(net: "InfluenceNetwork", factorisation: Factorisation | None = None) -> str:
    """Return Graphviz source for a network. Render it with ``dot -Tsvg``.

    Nodes are named ``action:…`` and ``target:…``, so that an action and a target may have the same label. Groups of
    two or more actions of the `factorisation` get a dashed frame. The weight of a soft edge is shown by its thickness
    and, exactly, by its tooltip. Graphviz chooses the order of the nodes in a row.

    >>> from factorax.structure import gallery
    >>> print(to_dot(gallery.collider(), gallery.collider().minimum_factorisation()))
    digraph {
      newrank=true;
      splines=line;
      node [shape=circle, style=filled, fillcolor="gray90", margin="0.05", width=0.5, height=0.5];
      edge [arrowsize=0.7];
      "action:a1" [label="a₁"];
      "action:a2" [label="a₂"];
      "target:psi1" [label="ψ₁"];
      {rank=same; "action:a1"; "action:a2";}
      {rank=same; "target:psi1";}
      subgraph "cluster_1" {style="dashed,rounded"; "action:a1"; "action:a2";}
      "action:a1" -> "target:psi1";
      "action:a2" -> "target:psi1";
    }
    """
    net = as_network(net, "net")
    order, groups = arrange(net, factorisation)
    actions = [_quote(f"action:{label}") for label in net.actions]
    targets = [_quote(f"target:{label}") for label in net.targets]
    labels = dict(zip(actions, net.actions, strict=True)) | dict(zip(targets, net.targets, strict=True))
    lines = [
        "newrank=true;",  # without it, a node cannot be in a row and in a frame at once
        "splines=line;",
        'node [shape=circle, style=filled, fillcolor="gray90", margin="0.05", width=0.5, height=0.5];',
        "edge [arrowsize=0.7];",
    ]
    drawn_order = [actions[i] for i in order] + targets
    lines += [f"{node} [{_dot_label(labels[node])}];" for node in drawn_order]
    lines += [f"{{rank=same; {' '.join(f'{node};' for node in row)}}}" for row in (drawn_order[: len(order)], targets)]
    for g, group in enumerate(groups, 1):
        members = " ".join(f"{actions[i]};" for i in group)
        lines.append(f'subgraph "cluster_{g}" {{style="dashed,rounded"; {members}}}')
    for i, j, weight in _edges(net):
        soft = f' [penwidth={0.3 + 1.2 * weight:.2f}, tooltip="{weight:.6g}"]' if net.is_soft else ""
        lines.append(f"{actions[i]} -> {targets[j]}{soft};")
    return "\n".join(["digraph {", *(f"  {line}" for line in lines), "}"])


def to_tikz(net: "InfluenceNetwork", factorisation: Factorisation | None = None) -> str:
    r"""Return TikZ source for a network: a ``tikzpicture`` in the style of the paper's figures.

    The preamble needs ``\usepackage{tikz}`` and ``\usetikzlibrary{arrows.meta, fit}``. Groups of two or more actions
    of the `factorisation` get a dashed frame; soft edges are thinner and paler the smaller their weight.

    >>> from factorax.structure import gallery
    >>> print(to_tikz(gallery.collider(), gallery.collider().minimum_factorisation()))
    % \usetikzlibrary{arrows.meta, fit}
    \begin{tikzpicture}[
      x=25pt, y=25pt, >={Latex},
      obs/.style={circle, draw, fill=gray!25, minimum size=25pt, inner sep=1pt},
      wide/.style={obs, rectangle, rounded corners=8pt, inner xsep=5pt},
      group/.style={draw, dashed, rounded corners=8pt, inner sep=5pt},
    ]
      \node[obs] (action-1) at (-1, 2.2) {$a_{1}$};
      \node[obs] (action-2) at (1, 2.2) {$a_{2}$};
      \node[obs] (target-1) at (0, 0) {$\psi_{1}$};
      \node[group, fit=(action-1) (action-2)] {};
      \draw[->] (action-1) -- (target-1);
      \draw[->] (action-2) -- (target-1);
    \end{tikzpicture}
    """
    net = as_network(net, "net")
    order, groups = arrange(net, factorisation)
    widths = [[_tikz_width(label) for label in labels] for labels in (net.actions, net.targets)]
    x_action, x_target, height = place(net.matrix, widths[0], widths[1], order)
    lines = [_tikz_node("action", i, net.actions[i], x_action[i], height) for i in order]
    lines += [_tikz_node("target", j, label, x_target[j], 0) for j, label in enumerate(net.targets)]
    for group in groups:
        lines.append(f"\\node[group, fit={' '.join(f'(action-{i + 1})' for i in group)}] {{}};")
    for i, j, weight in _edges(net):
        thin = f", line width={0.2 + 0.4 * weight:.2f}pt, opacity={0.25 + 0.75 * weight:.2f}" if net.is_soft else ""
        lines.append(f"\\draw[->{thin}] (action-{i + 1}) -- (target-{j + 1});")
    head = r"""
% \usetikzlibrary{arrows.meta, fit}
\begin{tikzpicture}[
  x=25pt, y=25pt, >={Latex},
  obs/.style={circle, draw, fill=gray!25, minimum size=25pt, inner sep=1pt},
  wide/.style={obs, rectangle, rounded corners=8pt, inner xsep=5pt},
  group/.style={draw, dashed, rounded corners=8pt, inner sep=5pt},
]"""
    return "\n".join([head[1:], *(f"  {line}" for line in lines), r"\end{tikzpicture}"])


# ---- shared with drawing.py -------------------------------------------------------------------------------


def maths(label: str) -> str | None:
    r"""Return a label such as ``a1`` or ``zeta`` as a formula, and None for any other label.

    Formulas are a letter with a number, or a Greek letter with or without one, in a syntax that both LaTeX and
    matplotlib accept.

    >>> maths("a1"), maths("zeta"), maths("bill")
    ('$a_{1}$', '$\\zeta$', None)
    """
    name, number = _symbol(label)
    if not name:
        return None
    command = f"\\{name}" if name in _GREEK else name
    return f"${command}_{{{number}}}$" if number else f"${command}$"


def arrange(net: "InfluenceNetwork", factorisation: Factorisation | None) -> tuple[list[int], list[list[int]]]:
    """Return the order in which actions are drawn, and the groups of two or more actions, which are adjacent in it.

    >>> from factorax import InfluenceNetwork
    >>> arrange(InfluenceNetwork.complete(4, 1), Factorisation([[3], [0, 2], [1]], 4))
    ([0, 2, 1, 3], [[0, 2]])
    """
    n = net.shape[0]
    if factorisation is None:
        return list(range(n)), []
    if not isinstance(factorisation, Factorisation):
        raise TypeError(
            f"factorisation: got {type(factorisation).__name__}, want a Factorisation; create one from groups of "
            "labels with Factorisation.from_labels(groups, net.actions)"
        )
    if factorisation.n_actions != n:
        raise ValueError(
            f"factorisation: got {counted(factorisation.n_actions, 'action')}, want {n}, as in the network"
        )
    groups = sorted(sorted(group) for group in factorisation.groups)
    return [i for group in groups for i in group], [group for group in groups if len(group) > 1]


def place(
    matrix: sparse.csr_array, top: Sequence[float], bottom: Sequence[float], order: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the x positions of the nodes of both rows, and the height of the upper row above the lower one.

    All lengths are in diameters of a round node. `matrix` has shape ``(len(top), len(bottom))``; `top` and `bottom`
    are the widths of the nodes, `order` lists the nodes of the upper row from left to right.
    """
    gap = 1.0 if max(len(top), len(bottom)) <= 12 else 0.6
    span = max(sum(row) + gap * len(row) for row in (top, bottom))
    x_top = np.empty(len(top))
    x_top[list(order)] = _spread([top[i] for i in order], span)
    x_bottom = _spread(bottom, span)
    coo = matrix.tocoo()
    reach = np.abs(x_top[coo.row] - x_bottom[coo.col]).max(initial=0.0)
    # An edge with a slope below about a third would cross the neighbour of its node.
    return x_top, x_bottom, float(max(2.2, min(0.5 * reach, 6.0), 0.36 * reach))


# ---- internals --------------------------------------------------------------------------------------------


def _spread(widths: Sequence[float], span: float) -> np.ndarray:
    slots = np.asarray(widths) + (span - sum(widths)) / len(widths)
    return np.cumsum(slots) - slots / 2 - span / 2


def _edges(net: "InfluenceNetwork") -> list[tuple[int, int, float]]:
    coo = net.matrix.tocoo()
    return list(zip(coo.row.tolist(), coo.col.tolist(), coo.data.astype(float).tolist(), strict=True))


def _symbol(label: str) -> tuple[str, str]:
    """Return letter and number of a symbol, both empty if the label is not a symbol."""
    match = _SYMBOL.fullmatch(label)
    return (match[1] or match[3], match[2] or match[4] or "") if match else ("", "")


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _is_round(label: str) -> bool:
    """Return whether a label is short enough to fit into a circle, judged by its length alone."""
    return maths(label) is not None or len(label) <= 2


def _dot_label(label: str) -> str:
    name, number = _symbol(label)
    # Graphviz interprets HTML entities in labels, but not in names.
    shown = _GREEK.get(name, name) + number.translate(_SUBSCRIPTS) if name else label.replace("&", "&amp;")
    box = "" if _is_round(label) else ', shape=box, style="rounded,filled"'
    return f"label={_quote(shown)}{box}"


def _tikz_width(label: str) -> float:
    return 1.0 if _is_round(label) else max(1.0, 0.5 + 0.22 * len(label))


def _tikz_node(side: str, index: int, label: str, x: float, y: float) -> str:
    text = maths(label) or " ".join(label.split()).translate(_LATEX)  # TeX reads a blank line as a new paragraph
    style = "obs" if _is_round(label) else "wide"
    return f"\\node[{style}] ({side}-{index + 1}) at ({round(x, 2):g}, {round(y, 2):g}) {{{text}}};"
