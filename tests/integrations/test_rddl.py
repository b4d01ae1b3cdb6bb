"""RDDL models: their terms, their networks, their environments; what the network says against what actions change."""

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from interventions import moved

import factorax as fx
from factorax.integrations import rddl

pytest.importorskip("pyRDDLGym", reason="needs pyRDDLGym: pip install '.[rddl]'")
pytest.importorskip("rddlrepository", reason="needs rddlrepository: pip install '.[rddl]'")
pytestmark = pytest.mark.rddl

DOMAIN = """
domain houses {
    types { house : {@h1, @h2, @h3}; };
    pvariables {
        LINKED(house, house) : { non-fluent, bool, default = false };
        HEATED(house) : { non-fluent, bool, default = true };
        WANTED : { non-fluent, real, default = 20.0 };
        FEE : { non-fluent, real, default = 2.0 };
        temp(house) : { state-fluent, real, default = 10.0 };
        watched : { state-fluent, house, default = @h1 };
        draught(house) : { interm-fluent, real };
        heat(house) : { action-fluent, real, default = 0.0 };
        OBSERVED
    };
    cpfs {
        draught(?h) = sum_{?k : house} [LINKED(?k, ?h) * (temp(?k) - temp(?h))];
        temp'(?h) = temp(?h) + 0.5 * draught(?h) + HEATED(?h) * heat(?h) + Normal(0.0, 0.1);
        watched' = watched;
        SEEN
    };
    reward = (sum_{?h : house} [-abs[temp(?h) - WANTED]]) - 0.1 * (sum_{?h : house} [pow[heat(?h), 2]]) - FEE MORE;
    ENDS
    action-preconditions { forall_{?h : house} [heat(?h) >= -1 ^ heat(?h) <= 1]; };
}
"""
INSTANCE = """
non-fluents three { domain = houses; non-fluents { LINKED(@h1, @h2); HEATED(@h3) = false; }; }
instance three1 {
    domain = houses; non-fluents = three; init-state { temp(@h1) = 5.0; };
    max-nondef-actions = LIMIT; horizon = 8; discount = 0.95;
}
"""
TARGETS = (*(f"{fluent}[?h=h{i}]" for fluent in ("temp", "heat") for i in (1, 2, 3)), "FEE")
# temp of house 1, 2, 3; cost of heat 1, 2, 3; the fee. House 1 warms house 2; house 3 has no heating, but pays for it.
DYNAMICS = np.array([[1, 1, 0, 1, 0, 0, 0], [0, 1, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1, 0]], bool)
ONE_STEP = np.array([[0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1, 0]], bool)


@pytest.fixture
def houses(tmp_path):
    """The hand-written domain, with something added here and there, as the paths of two files."""

    def write(limit="pos-inf", **additions):
        domain = DOMAIN
        for place in ("OBSERVED", "SEEN", "MORE", "ENDS"):
            domain = domain.replace(place, additions.get(place.lower(), ""))
        paths = tmp_path / "domain.rddl", tmp_path / "instance.rddl"
        paths[0].write_text(domain)
        paths[1].write_text(INSTANCE.replace("LIMIT", limit))
        return paths

    return write


def dense(net):
    return net.to_dense().astype(bool)


def test_hand_written_domain_has_the_network_worked_out_by_hand(houses):
    found = rddl.influence(*houses())
    assert found.network.actions == ("heat___h1", "heat___h2", "heat___h3")
    assert found.network.targets == TARGETS
    np.testing.assert_array_equal(dense(found.one_step_network), ONE_STEP)
    np.testing.assert_array_equal(dense(found.dynamics_network), DYNAMICS)
    # The actor of house 2 reads temp 1, which house 1 moves; that of house 1 reads temp 2, which house 2 moves.
    closed = DYNAMICS.copy()
    closed[0] |= DYNAMICS[1]
    closed[1] |= DYNAMICS[0]
    np.testing.assert_array_equal(dense(found.network), closed)
    assert found.observed == ("temp___h1", "temp___h2", "temp___h3", "watched")
    np.testing.assert_array_equal(found.reads, [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]])


def test_uncoupled_actors_read_what_leaves_the_network_as_it_is(houses):
    found = rddl.influence(*houses(), reads="uncoupled")
    np.testing.assert_array_equal(dense(found.network), DYNAMICS)
    # Temp 1 is moved by heat 1 alone, which does not touch the cost of heat 2; so neither actor reads the other's.
    np.testing.assert_array_equal(found.reads, [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])


def test_fluent_as_argument_gives_dense_column_and_a_warning_that_names_it(houses):
    with pytest.warns(fx.structure.StructureWarning, match=r"cannot analyse temp\(…\).* in the reward"):
        found = rddl.influence(*houses(more="- temp(watched)"))
    # Any temp may be the watched one; house 3 has no heating, so its action cannot matter.
    assert found.network.targets[-1] == "temp+watched"
    np.testing.assert_array_equal(dense(found.dynamics_network)[:, -1], [True, True, False])
    assert found.reads[0].tolist() == [True, True, True, True]


def test_non_fluent_of_a_fluent_needs_no_warning(houses):
    found = rddl.influence(*houses(more="- HEATED(watched)"))
    assert not dense(found.dynamics_network)[:, -1].any()


def test_what_ends_the_episode_influences_every_target(houses):
    found = rddl.influence(*houses(ends="termination { exists_{?h : house} [temp(?h) > 100]; };"))
    expected = DYNAMICS.copy()
    expected[:2] = True
    np.testing.assert_array_equal(dense(found.dynamics_network), expected)
    np.testing.assert_array_equal(dense(found.one_step_network), ONE_STEP)


def test_where_few_actions_are_allowed_the_first_are_done_and_influence_the_others(houses):
    env = rddl.make(*houses(limit="2"))
    expected = np.array([DYNAMICS.any(axis=0), DYNAMICS[1:].any(axis=0), DYNAMICS[2]])
    np.testing.assert_array_equal(dense(env.influence.dynamics_network), expected)
    env.reset(seed=0)
    for heat, cost in (([1, 1, 1], [1, 1, 0]), ([0, 1, 1], [0, 1, 1]), ([1, 0, 1], [1, 0, 1])):
        info = env.step({"heat": np.array(heat, np.float32)})[4]
        np.testing.assert_allclose(info["vector_reward"][3:6], -0.1 * np.array(cost))


def test_constants_are_targets_or_one_target(houses):
    assert rddl.influence(*houses()).network.targets == TARGETS
    env = rddl.make(*houses(), merge_constants=True)
    assert env.network.targets == (*TARGETS[:6], "constant")
    env.reset(seed=0)
    assert env.step(env.action_space.sample())[4]["vector_reward"][-1] == -2.0


def test_observed_fluents_are_read_where_they_tell_of_what_matters(houses):
    observed = "sensor(house) : { observ-fluent, real };"
    paths = houses(observed=observed, seen="sensor(?h) = temp'(?h) + Normal(0.0, 1.0);")
    env = rddl.make(*paths)
    assert env.influence.observed == ("sensor___h1", "sensor___h2", "sensor___h3")
    np.testing.assert_array_equal(env.influence.reads, [[1, 1, 0], [1, 1, 0], [0, 0, 0]])
    obs, _ = env.reset(seed=0)
    np.testing.assert_array_equal(obs, [0, 0, 0, 1])
    assert env.step(env.action_space.sample())[0][:3].all()


def test_python_function_depends_on_its_arguments(houses):
    paths = houses(
        observed="comfort(house) : { interm-fluent, real };",
        seen="comfort(?h) = $feel[?h](temp(_));",
        more="+ (sum_{?h : house} [comfort(?h)])",
    )
    with pytest.warns(fx.structure.StructureWarning, match=r"Python function 'feel' in the fluent 'comfort'"):
        env = rddl.make(*paths, python_functions={"feel": lambda temp: temp - temp.mean()})
    np.testing.assert_array_equal(dense(env.influence.dynamics_network)[:, -3:], [[1] * 3, [1] * 3, [0] * 3])
    env.reset(seed=0)
    assert abs(env.step(env.action_space.sample())[4]["vector_reward"][-3:].sum()) < 1e-9


@pytest.mark.filterwarnings("ignore:.*Box observation space:UserWarning")
def test_environment_is_what_the_learner_wants(houses):
    paths = houses()
    env = rddl.make(*paths)
    assert env.discount == 0.95
    check_env(env, skip_render_check=True)
    fx.check_problem(lambda: rddl.make(*paths), steps=20)
    model = fx.FactoredPPO(
        lambda: rddl.make(*paths), policy="shared", n_envs=2, n_steps=8, batch_size=16, n_epochs=1, hidden=(8,)
    )
    assert model.learn(16, progress_bar=False).num_timesteps == 16
    assert model.spec.network == env.network


@pytest.mark.parametrize("time_left", [True, False])
def test_horizon_is_an_end_for_who_knows_it_and_a_limit_for_who_does_not(houses, time_left):
    env = rddl.make(*houses(), time_left=time_left)
    obs, _ = env.reset(seed=0)
    assert len(obs) == 4 + time_left
    for t in range(1, 9):
        obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
        assert (terminated, truncated) == ((t == 8) and time_left, (t == 8) and not time_left)
        if time_left:
            assert obs[-1] == np.float32(1 - t / 8)


def test_broken_invariant_truncates_with_a_warning(houses):
    env = rddl.make(*houses(ends="state-invariants { temp(@h1) <= 5.2; };"))
    env.reset(seed=0)
    with pytest.warns(fx.structure.StructureWarning, match=r"invariant of 'three1' was violated after 1 step,"):
        _, _, terminated, truncated, _ = env.step({"heat": np.ones(3)})
    assert (terminated, truncated) == (False, True)


def test_local_observations_of_numpy_and_jax_are_padded(houses):
    env = rddl.make(*houses())
    obs = np.arange(10, dtype=np.float32).reshape(2, 5)
    seen = env.local(obs)
    np.testing.assert_array_equal(seen[0], [[0, 1, 4], [0, 1, 4], [4, 0, 0]])
    assert seen.dtype == np.float32
    np.testing.assert_array_equal(env.local(jnp.asarray(obs)), seen)


def test_seeds_decide_and_environments_share_no_random_numbers(houses):
    paths = houses()
    action = {"heat": np.zeros(3)}

    def second(env, seed):
        env.reset(seed=seed)
        return env.step(action)[0].tolist()

    one, two = rddl.make(*paths), rddl.make(*paths)
    assert second(one, 3) == second(two, 3) != second(two, 4)
    assert one.rddl.sampler.rng is not two.rddl.sampler.rng
    assert second(rddl.make(*paths), None) != second(rddl.make(*paths), None)


def test_terms_that_do_not_sum_are_an_error(houses):
    env = rddl.make(*houses())
    env._terms._simulator_reward = lambda: 1e6
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"the terms sum to .* but the simulator's reward is"):
        env.step(env.action_space.sample())


ODD_DOMAIN = """
domain odd {
    types { thing : {@x, @y, @z}; mode : {@on, @off}; };
    pvariables {
        KIND(thing) : { non-fluent, mode, default = @on };
        LINK(thing, thing) : { non-fluent, bool, default = false };
        COV(thing, thing) : { non-fluent, real, default = 0.0 };
        MEAN(thing) : { non-fluent, real, default = 0.0 };
        v(thing) : { state-fluent, real, default = 1.0 };
        w(thing) : { state-fluent, real, default = 0.0 };
        u(thing) : { state-fluent, real, default = 0.0 };
        coin(thing) : { state-fluent, bool, default = false };
        how : { state-fluent, mode, default = @on };
        best : { state-fluent, thing, default = @x };
        a(thing) : { action-fluent, real, default = 0.0 };
        pick : { action-fluent, mode, default = @on };
    };
    cpfs {
        v'(?t) = switch (KIND(?t)) { case @on : a(?t), case @off : v(?t) };
        w'(?t) = MultivariateNormal[?t](v(_), COV(_, _));
        u'(?t) = v(?t) + v(@x);
        coin'(?t) = Bernoulli(if (KIND(?t) == @on) then 1.0 else 0.5 + 0.1 * sgn[a(?t)]);
        how' = Discrete(mode, @on : if (pick == @on) then 0.9 else 0.1, @off : if (pick == @on) then 0.1 else 0.9);
        best' = argmax_{?t : thing} [v(?t)];
    };
    reward = (sum_{?t : thing} [v(?t) + (sum_{?s : thing} [LINK(?t, ?s) * w(?s)]) + u(?t)])
             + (how == @on) + (best == @y) - 2 * (sum_{?t : thing} [(coin(?t) => (MEAN(?t) > 1)) ^ LINK(@x, ?t)]) / 4;
    action-preconditions { forall_{?t : thing} [a(?t) >= -1 ^ a(?t) <= 1]; };
}
"""
ODD_INSTANCE = """
non-fluents nf {
    domain = odd;
    non-fluents { KIND(@z) = @off; LINK(@x, @z); COV(@x, @x) = 1.0; COV(@y, @y) = 1.0; COV(@z, @z) = 1.0; };
}
instance odd1 { domain = odd; non-fluents = nf; max-nondef-actions = pos-inf; horizon = 8; discount = 1.0; }
"""


def test_odd_constructs(tmp_path):
    """Switch, random vectors, Discrete, argmax, literals, certain coins, implication, sums within sums, fractions."""
    paths = tmp_path / "domain.rddl", tmp_path / "instance.rddl"
    paths[0].write_text(ODD_DOMAIN)
    paths[1].write_text(ODD_INSTANCE)
    env = rddl.make(*paths)
    assert env.network.actions == ("a___x", "a___y", "a___z", "pick")
    pairs = [f"w[?t={t}, ?s={s}]" for t in "xyz" for s in "xyz"]
    ones = [f"v+u[?t={t}]" for t in "xyz"]
    coins = [f"coin[?t={t}]" for t in "xyz"]
    assert set(env.network.targets) == {*ones, *pairs, "how", "best", *coins}
    # Every v matters to every w, x to every u and v to best; a___z moves its coin alone, and that is linked to x.
    expected = {
        "a___x": {*ones, pairs[2], "best"},
        "a___y": {ones[1], pairs[2], "best"},
        "a___z": {coins[2]},
        "pick": {"how"},
    }
    K = dense(env.influence.dynamics_network)
    targets = np.array(env.network.targets)
    assert {action: set(targets[row]) for action, row in zip(env.network.actions, K, strict=True)} == expected
    assert not moved(env, steps=8, trials=10, factors=4)[1][~K].any()


@pytest.mark.filterwarnings("ignore:action .* influences no term of the reward:factorax.structure.StructureWarning")
@pytest.mark.parametrize(("instance", "crafts"), [("1", 1), ("2", 2), ("3", 3), ("4", 10), ("5", 40)])
def test_uav(instance, crafts):
    env = rddl.make("UAV_ippc2023", instance)
    net = env.network
    assert net.shape == (3 * crafts, crafts)
    assert env.one_step_network.matrix.nnz == 0
    assert net == env.influence.dynamics_network
    controlled = env.rddl.sampler.init_values["CONTROLLABLE"]
    actor = np.array([name.partition("___")[2] for name in net.actions])
    craft = np.array([name.removeprefix("pos-x+pos-y+pos-z[?a=").removesuffix("]") for name in net.targets])
    # Craft that nobody controls have a term that is nought, and actions that do nothing.
    np.testing.assert_array_equal(dense(net), (actor[:, None] == craft) & controlled)
    for i in np.flatnonzero(dense(net).any(axis=1)):
        assert {name.partition("___")[2] for name in np.array(env.influence.observed)[env.influence.reads[i]]} == {
            actor[i]
        }
    assert env.local(np.zeros(env.observation_space.shape)).shape == (3 * crafts, 8)


REPOSITORY = {
    "UAV_ippc2023": ("2", {}),  # reals, if
    "HVAC_ippc2023": ("1", {}),  # sums over neighbours, if chains
    "Reservoir_ippc2023": ("2", {}),  # next state in the reward, interm fluents
    "PowerGen_ippc2023": ("2", {}),  # terms of single plants and of all
    "MarsRover_ippc2023": ("1", {}),  # reals and booleans, exists
    "SysAdmin_MDP_ippc2011": ("2", {}),  # booleans, one at a time
    "Elevators": ("1", {}),  # two at a time, many terms
    "GameOfLife_POMDP_ippc2011": ("2", {}),  # observed fluents
    "Quadcopter_physics": ("1", {}),  # sums over pairs
    "Bicycle_physics": ("0", {}),  # termination
    "SupplyChain_or": ("0", {"bounds": {"ship": (0, 5), "produce": (0, 5)}}),  # integers
    "Intruders_Discrete": ("0", {}),  # objects as actions
    "TrafficBLX_SimplePhases": ("0", {}),  # fluents as arguments of non-fluents
    "Manufacturer_ippc2018": ("2", {}),  # many kinds of actions, sparse
}


@pytest.mark.filterwarnings(
    "ignore:(action .* influences no term of the reward|a state invariant):factorax.structure.StructureWarning"
)
@pytest.mark.parametrize("domain", REPOSITORY)
def test_no_action_changes_a_target_outside_its_row(domain):
    """One action is changed and nothing else, random numbers included; with later actions as they were, and with
    actors that answer to what they read."""
    instance, options = REPOSITORY[domain]
    env = rddl.make(domain, instance, **options)
    uncoupled = rddl.make(domain, instance, reads="uncoupled", **options)
    settings = {"steps": min(12, env.horizon), "trials": 3, "factors": 6}
    at_once, ever = moved(env, **settings)
    for name, seen, net in (
        ("one step", at_once, env.one_step_network),
        ("dynamics", ever, env.influence.dynamics_network),
        ("relevant", moved(env, closed_loop=True, **settings)[1], env.network),
        ("uncoupled", moved(uncoupled, closed_loop=True, **settings)[1], uncoupled.network),
    ):
        K = dense(net)
        outside = np.argwhere(seen & ~K)
        assert not len(outside), [(net.actions[i], net.targets[j]) for i, j in outside]
        print(f"{domain}, {name}: {seen.sum()} of {K.sum()} edges seen to matter")  # pytest -rP shows it


def test_network_of_the_dynamics_is_tight_where_little_is_hidden(houses):
    at_once, ever = moved(rddl.make(*houses()), steps=6, trials=3, factors=3)
    np.testing.assert_array_equal(at_once, ONE_STEP)
    np.testing.assert_array_equal(ever, DYNAMICS)


def test_network_of_the_dynamics_misses_what_actors_answer(houses):
    env = rddl.make(*houses())
    answered = moved(env, steps=6, trials=3, factors=3, closed_loop=True)[1]
    assert (answered & ~DYNAMICS).any()
    assert not (answered & ~dense(env.network)).any()


def test_bad_input_is_named(houses, tmp_path):
    domain, instance = houses()
    for arguments, error, message in (
        (("UAV_ippc2032", "4"), ValueError, "domain: got 'UAV_ippc2032'.*'UAV_ippc2023'"),
        (("UAV_ippc2023", "9"), ValueError, "instance: got '9', want one of '1', '2'"),
        ((tmp_path / "none.rddl", instance), FileNotFoundError, "domain: no file"),
        ((domain, "none/1.rddl"), FileNotFoundError, "instance: no file"),
        ((domain, "1"), ValueError, "only the domain is a file"),
        ((domain, None), TypeError, "instance: got NoneType"),
        ((3, "1"), TypeError, "domain: got int"),
    ):
        with pytest.raises(error, match=message):
            rddl.influence(*arguments)
    with pytest.raises(ValueError, match="reads: got 'all'"):
        rddl.make(domain, instance, reads="all")
    with pytest.raises(ValueError, match="bounds: got 'cool', want action fluents: 'heat'"):
        rddl.make(domain, instance, bounds={"cool": (0, 1)})
    with pytest.raises(ValueError, match="has 125,000 actions and 13,801 states, want at most 20,000 in total"):
        rddl.influence("RecSim_ippc2023", "7")
    env = rddl.make(domain, instance)
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        env.step({"heat": np.zeros(3)})
    env.reset(seed=0)
    for action in ({}, {"heat": np.zeros(2)}, {"heat": "warm"}, np.zeros(3)):
        with pytest.raises(ValueError, match=r"action: got \w+, want a dictionary of arrays of shapes {heat: \(3,\)}"):
            env.step(action)
    with pytest.raises(ValueError, match="action fluent 'ship' is an integer without bounds"):
        rddl.make("SupplyChain_or", "0")


def test_model_of_pyrddlgym_is_taken_as_it_is(houses):
    paths = houses()
    model = rddl.make(*paths).rddl.model
    assert rddl.influence(model).network == rddl.influence(*paths).network
    with pytest.raises(ValueError, match="the model already has one"):
        rddl.influence(model, "1")
