"""Bad calls of `factorax.problems`, `factorax.distributions`, `factorax.spaces` and `factorax.spec`."""

import gymnasium as gym
import jax.numpy as jnp
import numpy as np

from bad_calls.rows import INF, NAN, NOT_COUNTS, NOT_FLAGS, NOT_NETWORKS, NOT_WHOLE, Given, bad
from factorax import InfluenceNetwork, distributions, problems
from factorax.problems import traffic
from factorax.spaces import ActionSpace
from factorax.spec import Spec

NET = InfluenceNetwork([[1, 1], [0, 1]])
BANDIT = problems.search_bandit([1.0, 2.0])
CHAIN = problems.chain(2, horizon=3)
GRID = traffic.Grid(1, 2)
BOX = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
COMPONENTS = ActionSpace.of(BOX)
SPEC = Spec.of(CHAIN)
FIELDS = {"kinds": ("gaussian", "gaussian"), "choices": np.zeros(2, int), "low": -np.ones(2), "high": np.ones(2)}
PRODUCT = distributions.Product(**FIELDS)
SPREAD = PRODUCT.spread(0.0)
OF_PROBLEM = {
    name: getattr(CHAIN, name)
    for name in ("name", "reset", "step", "observation_space", "action_space", "network", "weights")
}
NOT_SPACES = (None, 3, "Box", [2])
NOT_PROBLEMS = (None, 3, [CHAIN], object())
PARAMETERS = jnp.zeros((2, 1))


class Nameless(distributions.Gaussian):
    name = ""


class Clash(distributions.Gaussian):
    name = "beta"


def no_space():
    """What is no environment."""
    return 3


ROWS = [
    *bad("problems.chain", problems.chain, n=NOT_COUNTS, delay=NOT_COUNTS, horizon=NOT_COUNTS),
    *bad("problems.contextual_bandit", problems.contextual_bandit, n=NOT_COUNTS),
    *bad(
        "problems.contextual_search",
        problems.contextual_search,
        n=NOT_COUNTS,
        features=NOT_COUNTS,
        norm=[0, 3, "1", True],
        seed=[-1, "s"],
    ),
    *bad("problems.queues", problems.queues, rows=NOT_COUNTS, columns=NOT_COUNTS, horizon=NOT_COUNTS, hops=NOT_WHOLE),
    *bad(
        "problems.find_problem",
        problems.find_problem,
        name=[
            Given(None, head="problem"),
            Given(3, head="problem"),
            Given("", head="problem"),
            Given(":", head="problem"),
            Given(CHAIN, head="problem"),
            Given("cartpole", head="problem"),
            Given("no-such-problem", head="problem"),
            Given("CartPole-v9", head="problem"),
            Given("qeues:3x3", "queues:3x3", "problem"),
            Given("chian:4", "chain:4", "problem"),
            Given("queues:0x0", "0", "problem"),
            Given("queues:-1x3", "-1", "problem"),
            Given("queues:3x0", "0", "problem"),
            Given("queues:3x3x3", "queues:3x3x3", "problem"),
            Given("queues:3y3", "'3y3'", "problem"),
            Given("queues:3x3,horizon=0", "0", "problem"),
            Given("queues:3x3,hops=-1", "-1", "problem"),
            Given("queues:3x3,horizn=9", "horizn", "problem"),
            Given("queues:3x3,horizon", "'horizon'", "problem"),
            Given("chain:0", "0", "problem"),
            Given("chain:4,delay=0", "0", "problem"),
            Given("chain:4,delay=nan", "nan", "problem"),
            Given("chain:4,delay=2.5", "2.5", "problem"),
            Given("contextual-bandit:0", "0", "problem"),
            Given("traffic:0x3", "0", "problem"),
            Given("traffic:3x3,kind=lanes", "'lanes'", "problem"),
            Given("traffic:3x3,network=nearby", "'nearby'", "problem"),
            Given("sumo:town.net.xml", "sumo:town.net.xml", "problem"),
            Given("os:getcwd", head="problem"),
            Given("os:no_such_function", head="problem"),
            Given("no_such_module:make", head="problem"),
            Given("math:pi", head="problem"),
            Given("os:environ", head="problem"),
        ],
    ),
    *bad(
        "problems.register",
        problems.register,
        {"prefix": "my-problem", "entry_point": "package.module:function"},
        prefix=[None, 3, "", "My", "a b", "chain", "a:b"],
        entry_point=[None, 3, "", "module", "a:b:c", "os.system('x'):f"],
    ),
    *bad(
        "problems.search_bandit",
        problems.search_bandit,
        {"centre": [1.0, 2.0]},
        centre=[
            None,
            "c",
            0,
            -1,
            True,
            2.5,
            [],
            [[1.0]],
            Given([NAN], "nan"),
            Given([INF], "inf"),
            Given([1j], "1j"),
            ["a"],
        ],
        k=[-1, 3, True, 1.5, "1", None],
        penalty=[-0.1, NAN, INF, "0", None, True],
        norm=[0, 3, 1.5, "1", None, True],
        zeta=[3, "norm"],
        best=[[0.0, 0.0]],
        scale=[NAN, INF, "1", True, 1j],
    ),
    *bad(
        "problems.relu_bandit",
        problems.relu_bandit,
        {"signs": [1, -1]},
        signs=[None, "s", 0, -1, True, 2.5, [], [0.5], [[1.0]], Given([NAN], "nan"), Given([1j], "1j"), ["a"]],
        scale=[NAN, INF, "1", None, True],
    ),
    *bad(
        "problems.separable_bandit",
        problems.separable_bandit,
        {"terms": abs, "best": [0.0]},
        terms=[None, 3, "abs"],
        best=[None, 3, "b", [], [[1.0]], Given([NAN], "nan"), Given([1j], "1j"), ["a"]],
    ),
    *bad(
        "problems.draw_centre",
        problems.draw_centre,
        {"n": 2},
        n=NOT_COUNTS,
        seed=[-1, 0.5, "0", True, [-1], ["a"], None],
    ),
    *bad(
        "problems.Bandit",
        problems.Bandit,
        {"network": NET, "weights": np.ones(2), "targets": abs, "best": np.zeros(2)},
        network=NOT_NETWORKS,
        weights=[None, "w", np.ones(3), Given([NAN, 1], "nan"), Given([1j, 1], "1j")],
        targets=[None, 3],
        best=[None, "b", np.zeros(3), Given([NAN, 1], "nan")],
    ),
    *bad(
        "problems.Bandit.reward",
        BANDIT.reward,
        action=[None, 3, "a", np.ones(3), Given(np.ones(2) * 1j, "complex"), ["a", "b"]],
    ),
    *bad("problems.Bandit.gap", BANDIT.gap, action=[None, "a", np.ones(3), Given(np.array([None, 1]), "object")]),
    *bad("problems.BanditEnv", problems.BanditEnv, bandit=[None, 3, CHAIN, NET]),
    *bad(
        "problems.BanditEnv.step",
        problems.BanditEnv(BANDIT).step,
        action=[None, "a", np.ones(3), ["a", "b"], Given([1j, 1], "1j")],
    ),
    *bad(
        "problems.Problem",
        problems.Problem,
        OF_PROBLEM,
        name=[None, 3],
        reset=[None, 3],
        step=[None, "step"],
        observation_space=NOT_SPACES,
        action_space=NOT_SPACES,
        network=[None, 3, "chain"],
        weights=[None, "w", np.ones(3), Given([NAN, 1], "nan"), Given([1j, 1], "1j")],
        local=[3, "local"],
    ),
    *bad(
        "problems.traffic.Grid",
        traffic.Grid,
        {"rows": 1, "columns": 1},
        rows=[*NOT_COUNTS, 321],
        columns=[*NOT_COUNTS, 321],
    ),
    *bad(
        "problems.traffic.Traffic",
        traffic.Traffic,
        {"rows": 1, "columns": 1},
        rows=NOT_COUNTS,
        columns=NOT_COUNTS,
        horizon=NOT_COUNTS,
        period=NOT_COUNTS,
        initial=["nowhere", None, 3],
        action=["bit", None, 3],
        kind=["lanes", None],
        norm=["none", None, Given("local", "'local'")],
        standstill=[-1, NAN, INF, "0", None, True],
        speed_deviation=[-1, NAN, INF, "0", None, True],
        flow_inflows=NOT_FLAGS,
        flow_order=NOT_FLAGS,
    ),
    *bad(
        "problems.traffic.Traffic.influence",
        traffic.Traffic(1, 2).influence,
        preset=[Given(name, head="network") for name in ("incidnt", None, 3)],
    ),
    *bad(
        "problems.traffic.influence",
        traffic.influence,
        {"grid": GRID},
        grid=[None, 3, "3x3", (3, 3)],
        preset=[Given(name, head="network") for name in ("incidnt", None, 3)],
        kind=["lanes", None],
        n=NOT_WHOLE,
        rows=["all", None],
        alpha=[0, 1.5, NAN, "1", True],
    ),
    *bad(
        "problems.traffic.travel_times",
        traffic.travel_times,
        {"grid": GRID},
        grid=[None, 3, "3x3"],
        kind=["lanes", None],
    ),
    *bad(
        "problems.traffic.lanes",
        traffic.lanes,
        {"rows": 1, "columns": 1},
        rows=NOT_COUNTS,
        columns=NOT_COUNTS,
        network=["incidnt", None, 3, Given([[7.0]], "7"), Given(NET, "(2, 2)")],
        slots=[0, -1, True, 2.5, "9"],
        dtype=["float31", int, Given("float64", "float64")],
        horizn=[Given(9, "horizon")],
        period=[0, 1],
    ),
    *bad(
        "problems.traffic.LaneSimulator",
        traffic.LaneSimulator,
        {"traffic": traffic.Traffic(1, 1)},
        traffic=[None, 3, GRID],
        slots=[0, -1, True, 2.5, "9"],
        dtype=["float31", int],
    ),
    *bad("problems.traffic.Signals.start", traffic.Signals.start, n=NOT_COUNTS),
    *bad(
        "distributions.Product",
        distributions.Product,
        FIELDS,
        kinds=[
            None,
            3,
            "gaussian",
            (),
            Given(("gauss", "gaussian"), "'gauss'"),
            Given(("gaussian",), "want 1", "choices"),
            Given((3, 4), "3"),
        ],
        choices=[None, "c", np.zeros(3, int), Given([0.5, 0], "0.5"), Given([-1, 0], "-1")],
        low=[None, "l", np.zeros(3), Given([NAN, 0], "nan"), Given([2.0, 0.0], "2")],
        high=[None, "h", np.zeros(3), Given([0, NAN], "nan")],
        blocks=[3, "b", np.zeros(2)],
        spread_of_state=[None, 1, "yes"],
    ),
    *bad("distributions.Product.spread", PRODUCT.spread, log_std=["0", NAN, INF, True, 1j], one=[None, 1, "yes"]),
    *bad(
        "distributions.Product.log_prob",
        PRODUCT.log_prob,
        {"parameters": PARAMETERS, "spread": SPREAD, "action": jnp.zeros(2)},
        parameters=[None, 3, "p", jnp.zeros((3, 1)), jnp.zeros(2)],
        spread=[None, 3, jnp.zeros(2)],
        action=[None, 3, "a", jnp.zeros(3)],
    ),
    *bad(
        "distributions.Product.entropy",
        PRODUCT.entropy,
        {"parameters": PARAMETERS, "spread": SPREAD},
        parameters=[None, "p", jnp.zeros((3, 1))],
        spread=[None, 3],
    ),
    *bad(
        "distributions.Product.kl",
        PRODUCT.kl,
        {"old": (PARAMETERS, SPREAD), "new": (PARAMETERS, SPREAD)},
        old=[None, 3, PARAMETERS, Given((jnp.zeros((3, 1)), SPREAD), "(3, 1)")],
        new=[None, 3, (PARAMETERS,), Given((PARAMETERS, None), "None")],
    ),
    *bad("distributions.Product.mode", PRODUCT.mode, parameters=[None, 3, "p", jnp.zeros((3, 1))]),
    *bad(
        "distributions.Product.sample",
        PRODUCT.sample,
        {"key": None, "parameters": PARAMETERS, "spread": SPREAD},
        key=[None, 3, "key"],
        parameters=[None, "p", jnp.zeros((3, 1))],
        spread=[None, 3],
    ),
    *bad(
        "distributions.register",
        distributions.register,
        kind=[None, 3, "gaussian", int, Given(Clash, "'beta'"), Given(Nameless, "''")],
    ),
    *bad(
        "spaces.ActionSpace.of",
        ActionSpace.of,
        {"space": BOX},
        space=[
            *(Given(space, head="action space") for space in (*NOT_SPACES, gym.spaces.Text(3))),
            Given(gym.spaces.Box(0, 5, (2,), np.int32), "int32", "action space"),
            Given(gym.spaces.Tuple([gym.spaces.Text(3)]), "Text", "action space[0]"),
            Given(gym.spaces.Tuple([]), "Tuple", "action space"),
        ],
        bounded=["tan", "Beta", None, 3],
    ),
    *bad(
        "spaces.ActionSpace.with_covariance", COMPONENTS.with_covariance, factor_of=[None, "f", [0], [0.5, 1], [[0, 1]]]
    ),
    *bad(
        "spec.Spec.of",
        Spec.of,
        {"problem": CHAIN},
        problem=[*NOT_PROBLEMS, "chain", Given(gym.spaces, "module"), Given(no_space, "3")],
        network=[3, "net", Given([[7.0]], "7"), Given(InfluenceNetwork([[1, 1]]), "1 row"), object()],
        weights=["w", [1.0], 3.0, Given([NAN, 1], "nan"), Given([INF, 1], "inf"), Given([1j, 1], "1j"), ["a", "b"]],
        local=[3, "local"],
        bounded=["tan", None, 3],
        covariance=["ful", None, 3],
        std=["states", None, 3],
        neighbours=[3, "grid", Given([[1]], "(2, 2)"), Given([[1, 1], [0, 1]], "symmetric")],
    ),
    *bad(
        "spec.Spec.of_spaces",
        Spec.of_spaces,
        {"observation_space": BOX, "action_space": BOX, "network": NET},
        observation_space=[Given(space, head="observation space") for space in (*NOT_SPACES, gym.spaces.Text(3))],
        action_space=[Given(space, head="action space") for space in (*NOT_SPACES, gym.spaces.Text(3))],
        network=[None, 3, "net", Given([[7.0]], "7")],
        weights=["w", [1.0], Given([NAN, 1], "nan")],
        bounded=["tan", None],
        covariance=["ful", None],
        std=["states", None, 3],
    ),
    *bad(
        "spec.Spec.with_network",
        SPEC.with_network,
        network=[None, 3, "net", Given([[7.0]], "7"), Given(InfluenceNetwork([[1, 1]]), "1 row")],
    ),
]
