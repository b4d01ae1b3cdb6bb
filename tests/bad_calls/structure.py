"""Bad calls of `factorax.structure`: networks, factorisations, patterns, closures, drawings."""

import networkx as nx
import numpy as np

from bad_calls.rows import INF, NAN, NOT_COUNTS, NOT_FLAGS, NOT_NETWORKS, Given, bad
from factorax import structure
from factorax.structure import Factorisation, InfluenceNetwork, PartitionMap

NET = InfluenceNetwork([[1, 1], [0, 1]])
OTHER = InfluenceNetwork([[1, 1, 0], [0, 1, 1]])
FACTORS = Factorisation([[0, 1]], 2)
THREE = Factorisation([[0], [1, 2]], 3)
MAP = PartitionMap([0, 2], 3)
EMPTY = nx.Graph()
MISSING = "no-such-folder/network.json"
NOT_LABELS = ("ab", 3, ["a"], Given(["a", "a"], "'a'"), ["a", "b", "c"], [])


def bipartite(**sides):
    graph = nx.DiGraph()
    graph.add_nodes_from(["a"], bipartite=0)
    graph.add_nodes_from(["t"], bipartite=1)
    graph.add_edges_from([("t", "a")] if sides.get("back") else [("a", "t", sides)])
    return graph


ROWS = [
    *bad(
        "structure.InfluenceNetwork",
        InfluenceNetwork,
        {"matrix": [[1, 1], [0, 1]]},
        matrix=[
            None,
            5,
            "K",
            [],
            [[]],
            [1, 0],
            [[1, 0], [1]],
            Given([[2.0]], "2"),
            Given([[-0.5, 1]], "-0.5"),
            Given([[NAN]], "NaN"),
            Given([[INF]], "inf"),
            Given([[1j]], "complex"),
            Given(np.array([[None]]), "object"),
            Given([["a"]], "U1"),
            np.ones((2, 2, 2)),
            {"a": 1},
        ],
        actions=NOT_LABELS,
        targets=NOT_LABELS,
    ),
    *bad(
        "structure.InfluenceNetwork.from_edges",
        InfluenceNetwork.from_edges,
        {"edges": [("a", "t")]},
        edges=[
            None,
            "at",
            5,
            [],
            Given([("a",)], "('a',)"),
            Given(["at"], "'at'"),
            Given([3], "got 3"),
            Given([("a", "t", 2.0)], "2.0"),
            Given([("a", "t", NAN)], "nan"),
            Given([("a", "t", "x")], "'x'"),
            Given([("a", "t", 0.5), ("a", "t", 0.7)], "'a' → 't'"),
        ],
        actions=["a", 3, Given(["a", "a"], "'a'"), Given(["b"], "'a'", "edges")],
        targets=["t", 3, Given(["t", "t"], "'t'"), Given(["s"], "'t'", "edges")],
    ),
    *bad(
        "structure.InfluenceNetwork.from_partition_maps",
        InfluenceNetwork.from_partition_maps,
        {"maps": {"t": ["a"]}},
        maps=[
            None,
            [["a"]],
            "t",
            {},
            Given({"t": "a"}, "'a'", "maps['t']"),
            Given({"t": 3}, "3", "maps['t']"),
            Given({"t": PartitionMap([0], 2), "s": PartitionMap([0], 3)}, "[2, 3]"),
        ],
        actions=["a", 3, Given(["a", "a"], "'a'"), Given(["b"], "'a'", "edges")],
    ),
    *bad(
        "structure.InfluenceNetwork.from_networkx",
        InfluenceNetwork.from_networkx,
        graph=[
            None,
            [[1]],
            "graph",
            EMPTY,
            Given(nx.path_graph(2), "'0'"),
            Given(bipartite(back=True), "'t' → 'a'"),
            Given(bipartite(weight=7), "7", "edges"),
        ],
    ),
    *bad(
        "structure.InfluenceNetwork.complete", InfluenceNetwork.complete, {"n": 2, "m": 2}, n=NOT_COUNTS, m=NOT_COUNTS
    ),
    *bad("structure.InfluenceNetwork.identity", InfluenceNetwork.identity, n=NOT_COUNTS),
    *bad(
        "structure.InfluenceNetwork.factor",
        NET.factor,
        factorisation=[
            Given(None, head="groups"),
            Given(3, head="groups"),
            Given("ab", head="groups"),
            Given(THREE, "3 actions"),
            Given([["a1"]], "'a2'", "groups"),
            Given([["a1", "b"]], "'b'", "groups"),
            Given([[0, 1]], "numbers", "groups"),
            Given([["a1"], ["a1", "a2"]], "0", "groups"),
            Given([["a1", "a2"], []], "empty", "groups"),
        ],
    ),
    *bad(
        "structure.InfluenceNetwork.union",
        NET.union,
        other=[*NOT_NETWORKS, OTHER, Given(NET.relabel(["x", "y"]), "'x'")],
    ),
    *bad("structure.InfluenceNetwork.intersection", NET.intersection, other=[None, 3, OTHER, Given([[5]], "5")]),
    *bad("structure.InfluenceNetwork.relabel", NET.relabel, actions=NOT_LABELS, targets=NOT_LABELS),
    *bad(
        "structure.InfluenceNetwork.select",
        NET.select,
        actions=["a1", 3, Given(["a9"], "'a9'"), Given(["a1", "a1"], "'a1'"), []],
        targets=["psi1", 3, Given(["phi1"], "'phi1'"), Given(["psi1", "psi1"], "'psi1'"), []],
    ),
    *bad(
        "structure.InfluenceNetwork.close_over",
        NET.close_over,
        {"dynamics": [("psi1", "psi2")]},
        dynamics=[
            None,
            5,
            "ab",
            np.ones((3, 3)),
            Given([("psi1",)], "('psi1',)"),
            Given([(0, 1)], "(0, 1)"),
            Given(nx.path_graph(2), "undirected"),
        ],
        local_actors=NOT_FLAGS,
    ),
    *bad(
        "structure.InfluenceNetwork.save",
        NET.save,
        path=[None, 3, "", "net", "net.pkl", "net.yaml", Given(MISSING, "no-such")],
    ),
    *bad("structure.InfluenceNetwork.load", InfluenceNetwork.load, path=[None, 3, "", Given(MISSING, "no-such")]),
    *bad(
        "structure.InfluenceNetwork.draw",
        NET.draw,
        style=["circle", None, 3, "Matrix"],
        factorisation=[[["a1"]], 3, Given(THREE, "3 actions")],
        ax=[3, "axes"],
    ),
    *bad(
        "structure.draw",
        structure.draw,
        {"net": NET},
        net=NOT_NETWORKS,
        style=["circle", "bipartit", None],
        factorisation=["a1", Given(THREE, "3 actions")],
        ax=["axes"],
    ),
    *bad(
        "structure.close_over",
        structure.close_over,
        {"net": NET, "dynamics": [("psi1", "psi2")]},
        net=[*NOT_NETWORKS, Given(NET.relabel(["x", "y"], ["x", "z"]), "'x'")],
        dynamics=[
            None,
            5,
            "ab",
            np.ones((2, 3)),
            Given([("psi1", "psi2", 1)], "('psi1', 'psi2', 1)"),
            Given([["a"]], "['a']"),
        ],
        local_actors=NOT_FLAGS,
    ),
    *bad(
        "structure.Factorisation",
        Factorisation,
        {"groups": [[0], [1]], "n_actions": 2},
        groups=[
            None,
            3,
            "01",
            Given([0, 1], "got 0"),
            Given([[0], [1], []], "empty"),
            Given([[0], [0, 1]], "0"),
            Given([[0]], "'1'"),
            Given([[0], [1, 2]], "2"),
            Given([[0], [-1]], "-1"),
            Given([[0], [True]], "True"),
            Given([["a1"], ["a2"]], "'a1'"),
        ],
        n_actions=NOT_COUNTS,
    ),
    *bad(
        "structure.Factorisation.from_group_of",
        Factorisation.from_group_of,
        group_of=[
            None,
            3,
            [],
            Given([0.0, 1.0], "float64"),
            Given([0, 2], "2"),
            Given([0, -1], "-1"),
            Given([[0, 1]], "(1, 2)"),
            ["a"],
            Given([True, False], "bool"),
            Given([[0], [1, 2]], "equal length"),
        ],
    ),
    *bad(
        "structure.Factorisation.from_labels",
        Factorisation.from_labels,
        {"groups": [["a"], ["b"]], "actions": ["a", "b"]},
        groups=[
            None,
            3,
            "ab",
            Given(["a", "b"], "'a'"),
            Given([["a"]], "'b'"),
            Given([["a"], ["b", "c"]], "'c'"),
            Given([[0], [1]], "numbers"),
        ],
        actions=[None, 3, "ab", Given(["a", "a", "b"], "'a'")],
    ),
    *bad(
        "structure.Factorisation.split",
        FACTORS.split,
        action=[None, 3, "ab", [1], [1, 2, 3], np.ones(3), np.float64(1)],
    ),
    *bad(
        "structure.Factorisation.merge",
        FACTORS.merge,
        parts=[None, 3, [], [[1, 2], [3]], Given([[1]], "[1]"), Given(["ab"], "'ab'")],
    ),
    *bad(
        "structure.PartitionMap",
        PartitionMap,
        {"indices": [0], "size": 2},
        indices=[
            None,
            3,
            "01",
            Given([0, 0], "[0, 0]"),
            Given([2], "[2]"),
            Given([-1], "-1"),
            Given([0.5], "0.5"),
            Given([True], "True"),
        ],
        size=NOT_COUNTS,
    ),
    *bad("structure.PartitionMap.complement", MAP.complement, action=[None, 3, "abc", [1, 2], np.ones(2)]),
    *bad(
        "structure.PartitionMap.merge",
        MAP.merge,
        {"part": [1, 2], "rest": [3]},
        part=[
            Given(None, head="part, rest"),
            Given("ab", head="part, rest"),
            Given([1], "[1, 1]", "part, rest"),
            Given(np.ones(2), "list, ndarray", "part, rest"),
        ],
        rest=[Given(None, head="part, rest"), Given(3, head="part, rest"), Given([], "[2, 0]", "part, rest")],
    ),
]
