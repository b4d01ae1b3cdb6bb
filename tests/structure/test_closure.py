import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from strategies import quietly

from factorax import InfluenceNetwork, close_over
from factorax.structure import StructureWarning

HOUSES = InfluenceNetwork.from_edges([("heat1", "bill1"), ("heat2", "bill2")])
ROOMS = [("heat1", "temp1"), ("heat2", "temp2"), ("temp1", "bill1"), ("temp2", "bill2")]
BOTH, FIRST_REACHES_BOTH, APART = [[1, 1], [1, 1]], [[1, 1], [0, 1]], [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("typo", "what"),
    [
        (("heat_1", "temp1"), "nothing changes the state variable 'heat_1'"),
        (("temp1", "bil2"), "nothing depends on the state variable 'bil2'"),
    ],
)
def test_a_mistyped_name_is_warned_of(typo, what):
    with pytest.warns(StructureWarning, match=what):
        close_over(HOUSES, [*ROOMS, typo])


def run_through_time(net, pairs, local_actors):
    """The first actions on which some reward depends at some step, found by running the problem step by step.

    At every step the state follows from the step before; then the actors read and act; then the rewards come.
    What everything depends on is carried along as a set of first actions.
    """
    direct = [edge[:2] for edge in net.edges()]
    named = {name for pair in pairs for name in pair}
    memory = {t for t in net.targets if any(u == t for u, _ in pairs)}  # state that is kept by target
    memory |= {v for u, v in pairs if u in net.targets and v in net.targets}
    state = named - set(net.actions) - set(net.targets)
    parents = {v: {u for u, w in pairs if w == v} for v in state | {*net.actions, *net.targets}}
    for a in net.actions:
        touched = {v for u, v in [*pairs, *direct] if u == a} & (state | memory)
        if not local_actors:
            parents[a] |= state | memory
        elif not parents[a]:
            parents[a] = touched
    for a, t in direct:
        parents[t].add(a)
    before = {name: set() for name in parents}
    depends = {t: set() for t in net.targets}
    for step in range(len(parents) + 2):
        now = {}
        for layer in (state, net.actions, net.targets):
            known = before | now
            now |= {v: set().union(*(known[u] for u in parents[v])) for v in layer}
            if step == 0 and layer is net.actions:
                now |= {a: {a} for a in net.actions}
        for t in net.targets:
            depends[t] |= now[t]
        before = now
    return np.array([[a in depends[t] for t in net.targets] for a in net.actions])


@st.composite
def problems(draw):
    """A one-step network of up to 3 actions and 3 targets, and any edges over them and up to 4 state variables."""
    n, m, k = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(0, 4))
    rows = draw(st.lists(st.lists(st.booleans(), min_size=m, max_size=m), min_size=n, max_size=n))
    net = InfluenceNetwork(rows)
    names = [*net.actions, *net.targets, *(f"x{i}" for i in range(k))]
    between_targets = st.tuples(*[st.sampled_from(net.targets)] * 2)
    anywhere = st.tuples(*[st.sampled_from(names)] * 2)
    return net, draw(st.lists(between_targets, max_size=3)) + draw(st.lists(anywhere, max_size=8))


@quietly
@settings(max_examples=200)
@given(problems(), st.booleans())
def test_closure_is_what_running_through_time_shows(problem, local_actors):
    net, pairs = problem
    closed = close_over(net, pairs, local_actors=local_actors)
    assert (closed.actions, closed.targets) == (net.actions, net.targets)
    np.testing.assert_array_equal(closed.to_dense(), run_through_time(net, pairs, local_actors))


@quietly
@given(problems(), st.integers(0, 9))
def test_more_dynamics_and_wider_sight_only_add_edges(problem, k):
    net, pairs = problem
    widest = close_over(net, pairs, local_actors=False).to_dense()
    assert (net.to_dense() <= close_over(net, pairs).to_dense()).all()
    assert (close_over(net, pairs).to_dense() <= widest).all()
    assert (close_over(net, pairs[:k], local_actors=False).to_dense() <= widest).all()


@quietly
@given(problems(), st.booleans())
def test_pairs_and_directed_graphs_say_the_same(problem, local_actors):
    net, pairs = problem
    as_graph = close_over(net, nx.DiGraph(pairs), local_actors=local_actors)
    assert as_graph == close_over(net, pairs, local_actors=local_actors)
    assert as_graph == close_over(net, iter(pairs), local_actors=local_actors)


# ---- cases to read ----------------------------------------------------------------------------------------


def test_without_dynamics_nothing_is_added():
    assert close_over(HOUSES, []) == close_over(HOUSES, [], local_actors=False) == HOUSES


@pytest.mark.parametrize(
    ("pairs", "local_actors", "expected"),
    [
        (ROOMS, True, APART),  # two houses
        ([*ROOMS, ("temp1", "temp2")], True, FIRST_REACHES_BOTH),  # a wall that lets warmth through one way
        ([*ROOMS, ("temp1", "temp2"), ("temp2", "temp1")], True, BOTH),
        (ROOMS, False, BOTH),  # both thermostats read both temperatures
        ([*ROOMS, ("temp1", "heat2")], True, FIRST_REACHES_BOTH),  # the second thermostat reads the first room
    ],
)
def test_two_houses(pairs, local_actors, expected):
    np.testing.assert_array_equal(close_over(HOUSES, pairs, local_actors=local_actors).to_dense(), expected)


@quietly
def test_an_actor_reads_what_its_own_action_touches_unless_told_otherwise():
    shared = [("heat1", "air"), ("heat2", "air")]
    np.testing.assert_array_equal(close_over(HOUSES, shared).to_dense(), BOTH)
    told = [*shared, ("clock", "heat2")]  # the second heater now runs by the clock, blind to the air
    np.testing.assert_array_equal(close_over(HOUSES, told).to_dense(), [[1, 0], [1, 1]])


def test_a_chain_of_state_reaches_the_far_end_however_long():
    net = InfluenceNetwork.from_edges([("a", "near"), ("b", "far")])
    chain = [("a", "x0"), *((f"x{i}", f"x{i + 1}") for i in range(200)), ("x200", "far")]
    np.testing.assert_array_equal(close_over(net, chain).to_dense(), FIRST_REACHES_BOTH)


def test_a_cycle_in_the_state_is_no_trouble():
    cycle = [("x", "y"), ("y", "x"), ("heat1", "x"), ("y", "bill2")]
    np.testing.assert_array_equal(close_over(HOUSES, cycle).to_dense(), FIRST_REACHES_BOTH)


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array, sparse.coo_array])
def test_a_target_to_target_matrix_is_a_list_of_pairs_of_targets(kind):
    streets = InfluenceNetwork.identity(3)
    flow = kind(np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]]))
    closed = close_over(streets, flow)
    assert closed == close_over(streets, [("psi1", "psi2"), ("psi2", "psi3")])
    np.testing.assert_array_equal(closed.to_dense(), [[1, 1, 1], [0, 1, 1], [0, 0, 1]])


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_a_target_that_depends_on_itself_is_state_in_a_matrix_as_in_pairs(kind):
    net = InfluenceNetwork.identity(2)
    closed = close_over(net, kind(np.eye(2)), local_actors=False)
    assert closed == InfluenceNetwork.complete(2, 2)
    assert closed == close_over(net, [("psi1", "psi1"), ("psi2", "psi2")], local_actors=False)


@quietly
def test_a_target_that_something_depends_on_is_state_for_actors_to_read():
    both_serve_the_first = InfluenceNetwork([[1, 0], [1, 1]])  # the second light reads the queue that the first moves
    closed = close_over(both_serve_the_first, [("psi1", "stock")]).to_dense()
    np.testing.assert_array_equal(closed, BOTH)
    apart = InfluenceNetwork.identity(3)
    seen_by_all = close_over(apart, [("psi1", "psi2")], local_actors=False).to_dense()
    np.testing.assert_array_equal(seen_by_all, [[1, 1, 1], [1, 1, 1], [0, 0, 1]])


def test_the_last_of_a_row_of_queues_is_state_too():
    """What is moved by another target is kept: the last street of a row has a queue although it feeds none."""
    streets = InfluenceNetwork.identity(4)
    assert close_over(streets, np.eye(4, k=1), local_actors=False).density == 1
    fork = InfluenceNetwork([[1, 1], [0, 1]])  # a2 moves the second queue, a1 reads it and moves the first
    np.testing.assert_array_equal(close_over(fork, [("psi1", "psi2")]).to_dense(), BOTH)


def test_closing_twice_changes_nothing():
    for local_actors in (True, False):
        once = close_over(HOUSES, [*ROOMS, ("temp1", "temp2")], local_actors=local_actors)
        assert close_over(once, [*ROOMS, ("temp1", "temp2")], local_actors=local_actors) == once


def test_soft_edges_count_as_edges():
    net = InfluenceNetwork([[0.5, 0], [0, 1]])
    np.testing.assert_array_equal(close_over(net, [("psi1", "psi2")]).to_dense(), FIRST_REACHES_BOTH)


# ---- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dynamics", "error", "message"),
    [
        (nx.Graph([("x", "y")]), ValueError, r"dynamics: got an undirected graph; want a networkx.DiGraph"),
        (np.eye(3), ValueError, r"dynamics: got a matrix of shape \(3, 3\), want \(2, 2\), target to target"),
        (sparse.csr_array((2, 3)), ValueError, r"dynamics: got a matrix of shape \(2, 3\), want \(2, 2\)"),
        ([("x", "y", 1.0)], ValueError, r"dynamics: got \('x', 'y', 1.0\), want \(from, to\) pairs of names"),
        (["ab"], ValueError, r"dynamics: got 'ab', want \(from, to\) pairs of names"),
        ([[0, 1], [1, 0]], ValueError, r"dynamics: got \[0, 1\], want pairs of names; give a matrix as a NumPy array"),
        ([[True, False], [True, True]], ValueError, r"dynamics: got \[True, False\], want pairs of names"),
        (HOUSES, TypeError, r"dynamics: got an InfluenceNetwork"),
        ("xy", TypeError, r"dynamics: got str, want a networkx.DiGraph, pairs of names or a matrix"),
        (None, TypeError, r"dynamics: got NoneType, want"),
    ],
)
def test_bad_dynamics_are_named(dynamics, error, message):
    with pytest.raises(error, match=message):
        close_over(HOUSES, dynamics)


def test_a_name_on_both_sides_is_refused():
    net = InfluenceNetwork([[1]], actions=["x"], targets=["x"])
    with pytest.raises(ValueError, match=r"net: 'x' names both an action and a target; .* relabel\(\)"):
        close_over(net, [])
