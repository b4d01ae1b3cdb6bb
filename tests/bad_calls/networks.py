"""Bad calls of `factorax.structure`: networks that vary, and patterns."""

import networkx as nx
import numpy as np

from bad_calls.rows import NAN, NOT_COUNTS, NOT_FLAGS, NOT_NETWORKS, NOT_WHOLE, Given, bad
from factorax import structure
from factorax.structure import InfluenceNetwork, LaggedNetwork, gallery, patterns

NET = InfluenceNetwork([[1, 1], [0, 1]])
OTHER = InfluenceNetwork([[1, 1, 0], [0, 1, 1]])
SCHEDULE = structure.NetworkSchedule(NET, InfluenceNetwork.complete(2, 2), steps=10)
LAGGED = LaggedNetwork({0: NET})
STATE = structure.StateNetwork(lambda obs, info: obs, NET)
PATH = nx.path_graph(3)
EMPTY = nx.Graph()


def edge(weight):
    graph = nx.Graph()
    graph.add_edge("a", "b", length=weight)
    return graph


ROWS = [
    *bad(
        "structure.LaggedNetwork",
        LaggedNetwork,
        parts=[
            None,
            [NET],
            NET,
            {},
            Given({-1: NET}, "-1"),
            Given({0.5: NET}, "0.5"),
            Given({"0": NET}, "'0'"),
            Given({True: NET}, "True"),
            Given({NAN: NET}, "nan"),
            Given({0: "net"}, "str", "parts[0]"),
            Given({0: NET, 1: OTHER}, "different"),
            Given({0: NET, 1: NET}, "a1 → psi1"),
        ],
    ),
    *bad(
        "structure.LaggedNetwork.from_lags",
        LaggedNetwork.from_lags,
        {"lags": [[0, 1]]},
        lags=[
            None,
            3,
            [0, 1],
            Given([[0.5]], "float64"),
            Given([[-2]], "-2"),
            Given([[-1]], "no edge"),
            [["a"]],
            Given([[0], [1, 2]], "equal length"),
        ],
        actions=["a", ["a", "b"], 3],
        targets=["ts", ["t"], 3],
    ),
    *bad(
        "structure.LaggedNetwork.over",
        LaggedNetwork.over,
        {"net": NET, "dynamics": [("psi1", "psi2")]},
        net=NOT_NETWORKS,
        dynamics=[None, 3, "ab", np.ones((3, 3))],
        local_actors=NOT_FLAGS,
    ),
    *bad("structure.LaggedNetwork.at", LAGGED.at, lag=[-1, NAN, "0", None, 0.5, True]),
    *bad(
        "structure.NetworkSchedule",
        lambda networks, **options: structure.NetworkSchedule(*networks, **options),
        {"networks": [NET, NET], "steps": 10},
        networks=[
            Given([NET], "got 1"),
            Given([NET, "complete"], "str", "networks[1]"),
            Given([NET, OTHER], "3 targets", "networks[1]"),
            Given([NET, NET.relabel(["x", "y"])], "2 actions", "networks[1]"),
        ],
        steps=NOT_COUNTS,
        delay=NOT_WHOLE,
        ramp=["cubic", "linaer", None, 3],
    ),
    *bad("structure.NetworkSchedule.at", SCHEDULE.at, step=[None, "1", [1, 2], NAN, 1j, True]),
    *bad(
        "structure.StateNetwork",
        structure.StateNetwork,
        {"function": lambda obs, info: obs, "support": NET},
        function=[None, 3, NET, [[1]], Given(len, "len")],
        support=NOT_NETWORKS,
    ),
    *bad(
        "structure.StateNetwork.at",
        STATE.at,
        {"obs": np.ones(3), "info": {}},
        obs=[None, 3, "obs", Given(np.ones(3), "(3,)", "function")],
        info=[None, 3, "mask"],
    ),
    *bad(
        "structure.Blend",
        structure.Blend,
        {"start": NET, "end": NET, "w": 0.5},
        start=[None, 3, OTHER],
        end=[None, "net", OTHER],
        w=[-0.1, 1.5, NAN, "0.5", None],
    ),
    *bad(
        "structure.KArray",
        structure.KArray,
        matrix=[None, 3, "K", np.ones(3), Given(np.ones((2, 2), complex), "complex")],
    ),
    *bad(
        "structure.patterns.block",
        patterns.block,
        sizes=[
            None,
            3,
            "ab",
            [],
            Given([2, 1], "got 2"),
            [(2,)],
            Given([(0, 1)], "(0, 1)"),
            Given([(1, -1)], "(1, -1)"),
            Given([(1.5, 1)], "1.5"),
            Given([(True, 1)], "True"),
        ],
    ),
    *bad("structure.patterns.banded", patterns.banded, {"n": 4, "width": 1}, n=NOT_COUNTS, width=NOT_WHOLE),
    *bad(
        "structure.patterns.k_hop",
        patterns.k_hop,
        {"graph": PATH, "k": 1},
        graph=[None, 3, [[1]], "path", EMPTY],
        k=NOT_WHOLE,
    ),
    *bad(
        "structure.patterns.spatial_discount",
        patterns.spatial_discount,
        {"distances": [[0.0, 1.0]], "alpha": 0.5},
        distances=[
            None,
            3,
            "path",
            [1.0, 2.0],
            [["a"]],
            Given([[NAN]], "nan"),
            Given([[-1.0]], "-1"),
            Given([[1j]], "1j"),
            Given([[1], [1, 2]], "equal length"),
            EMPTY,
        ],
        alpha=[0, -0.5, 1.5, NAN, "0.5", None, True, 1j],
        radius=[-1, NAN, "1", True],
        weight=[3, "length"],
    ),
    *bad(
        "structure.patterns.spatial_discount",
        patterns.spatial_discount,
        {"alpha": 0.5, "weight": "length"},
        distances=[Given(edge(-1), "-1"), Given(edge("far"), "far"), Given(edge(NAN), "nan")],
    ),
    *bad(
        "structure.gallery.search_bandit",
        gallery.search_bandit,
        {"n": 3, "k": 1},
        n=NOT_COUNTS,
        k=[-1, 4, True, 1.5, "1"],
        norm=[0, 3, 1.5, "1", None, True],
    ),
]
