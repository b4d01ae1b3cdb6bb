"""JaxMARL: the same trajectories, agents as factors, masks, ends by time and by themselves, training, bad input."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from integrations.jax_cases import KEY, TINY, contains, keys_of, play, random_actions, same_types

import factorax as fx
from factorax.integrations import from_jaxmarl
from factorax.ppo import Learner
from factorax.ppo.config import Config
from factorax.problems.registry import find_problem
from factorax.spec import Spec

pytestmark = [pytest.mark.jaxenvs, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("jaxmarl", reason="JaxMARL is an extra: factorax[jax-envs]", exc_type=ImportError)

SPREAD = "MPE_simple_spread_v3"


def map_of(name):
    from jaxmarl.environments.smax import map_name_to_scenario

    return map_name_to_scenario(name)


def make(name, **settings):
    from jaxmarl import make

    return make(name, **settings)


@pytest.mark.parametrize(
    ("name", "rounding"), [(SPREAD, 0), ("MPE_simple_tag_v3", 0), ("MPE_simple_world_comm_v3", 1e-6), ("coin_game", 0)]
)
def test_trajectories_are_those_of_the_package(name, rounding):
    """With discrete actions, observations of different lengths, actions of several numbers (which the compiler adds up
    in another order)."""
    problem, env = from_jaxmarl(name), make(name)
    actions = random_actions(problem, 6)
    for_reset, keys = keys_of(actions)
    first, steps = play(problem, actions)
    observed, state = jax.jit(env.reset)(jax.random.key_data(for_reset))
    step = jax.jit(env.step)
    length = problem.observation_space.shape[0] // len(env.agents)
    ends = np.cumsum([int(np.prod(env.action_space(agent).shape)) for agent in env.agents])

    def same(obs, observed):
        for agent, own in zip(env.agents, problem.local(obs), strict=True):
            np.testing.assert_allclose(own[: observed[agent].size], observed[agent], rounding, rounding)
            assert own.shape == (length,)
            assert not own[observed[agent].size :].any()

    same(first, observed)
    for key, action, new in zip(keys, actions, steps, strict=True):
        parts = zip(env.agents, np.split(np.asarray(action), ends), strict=False)
        by_agent = {agent: jnp.asarray(part.reshape(env.action_space(agent).shape)) for agent, part in parts}
        observed, state, rewards, dones, _ = step(jax.random.key_data(key), state, by_agent)
        same(new.obs, observed)
        np.testing.assert_allclose(new.psi, [rewards[agent] for agent in env.agents], rounding)
        assert not dones["__all__"]
        assert not new.terminated
        assert not new.truncated


def test_agents_are_factors_and_rewards_are_targets():
    spread = from_jaxmarl(SPREAD)
    assert spread.network.actions == spread.network.targets == ("agent_0", "agent_1", "agent_2")
    assert spread.network.to_dense().all()
    assert repr(spread.action_space) == "MultiDiscrete([5 5 5])"
    world = from_jaxmarl("MPE_simple_world_comm_v3")
    spec = Spec.of(world)
    assert world.action_space.shape == (34,)
    assert spec.n_factors == spec.n_targets == 6
    assert [len(group) for group in spec.groups] == [9, 5, 5, 5, 5, 5]
    assert world.network.actions[0] == "leadadversary_0"


def test_a_network_over_agents():
    world = from_jaxmarl("MPE_simple_world_comm_v3", network=np.eye(6))
    assert Spec.of(world).n_factors == 6
    np.testing.assert_array_equal(world.network.to_dense(), np.eye(6))
    names = ("agent_2", "agent_1", "agent_0")
    by_name = fx.InfluenceNetwork([[1, 1, 0], [0, 1, 0], [0, 0, 1]], names, names)
    np.testing.assert_array_equal(
        from_jaxmarl(SPREAD, network=by_name).network.to_dense(), [[1, 0, 0], [0, 1, 0], [0, 1, 1]]
    )


def test_images_are_stacked_and_not_flattened():
    problem = from_jaxmarl("overcooked", layout="cramped_room", max_steps=3)
    assert problem.observation_space.shape == (2, 4, 5, 26)
    assert problem.local is None
    first, steps = play(problem, random_actions(problem, 4))
    observed, _ = jax.jit(make("overcooked", max_steps=3).reset)(jax.random.key_data(keys_of([0] * 4)[0]))
    np.testing.assert_array_equal(first, np.stack([observed["agent_0"], observed["agent_1"]]))
    assert [bool(new.truncated) for new in steps[:3]] == [False, False, True]
    assert not any(new.terminated for new in steps)


def test_the_time_limit_of_particles_truncates():
    _, steps = play(problem := from_jaxmarl(SPREAD, max_steps=4), random_actions(problem, 5))
    assert [bool(new.truncated) for new in steps] == [False] * 4 + [True]  # they act once more than max_steps
    assert not any(new.terminated for new in steps)
    assert all(new.factor_mask.all() for new in steps)
    assert steps[0].target_terminated is None


@pytest.fixture(scope="module")
def battle():
    problem = from_jaxmarl("HeuristicEnemySMAX", scenario="3m", max_steps=2)
    return problem, jax.jit(problem.step), jax.jit(problem.reset)(KEY)[0], random_actions(problem, 1)[0]


def with_health(state, **of_units):
    """The state of a battle with some units, by number, of another health."""
    inner, done, time = state
    health = inner.state.unit_health
    for unit, value in of_units.items():
        health = health.at[int(unit.removeprefix("unit_"))].set(value)
    return inner.replace(state=inner.state.replace(unit_health=health, unit_alive=health > 0)), done, time


def test_a_battle_that_is_won_terminates_also_at_the_time_limit(battle):
    _, step, state, action = battle
    won = dict.fromkeys(["unit_3", "unit_4", "unit_5"], 0.0)
    new = step(KEY, with_health(state, **won), action)
    assert (bool(new.terminated), bool(new.truncated)) == (True, False)
    for _ in range(3):
        state = (new := step(KEY, state, action)).state
    assert (bool(new.terminated), bool(new.truncated)) == (False, True)
    new = step(KEY, with_health(state, **won), action)  # beyond the limit
    assert (bool(new.terminated), bool(new.truncated)) == (True, False)


def test_the_dead_do_not_act_and_share_the_reward(battle):
    _, step, state, action = battle
    new = step(KEY, with_health(state, unit_1=0.0), action)
    assert new.factor_mask.all()  # nobody had said so before
    after = step(KEY, with_health(new.state, unit_4=0.0), action)
    np.testing.assert_array_equal(after.factor_mask, [True, False, True])
    assert after.target_terminated is None
    assert (after.psi == after.psi[0]).all()


def test_unavailable_actions_are_never_chosen(battle):
    problem, step, state, action = battle
    spec = Spec.of(problem)
    assert spec.action_mask.choices == (8, 8, 8)
    new = step(KEY, with_health(state, unit_1=0.0), action)
    env = make("HeuristicEnemySMAX", scenario=map_of("3m"), max_steps=2)
    available = jax.jit(env.get_avail_actions)(new.state[0])
    np.testing.assert_array_equal(new.obs["action_mask"], np.concatenate([available[agent] for agent in env.agents]))
    np.testing.assert_array_equal(new.obs["action_mask"][8:16], [0, 0, 0, 0, 1, 0, 0, 0])  # the dead stay
    assert contains(problem.observation_space, new.obs)
    assert problem.local(new.obs).shape == (3, new.obs["observation"].size // 3)

    learner = Learner.of(problem, None, Config(**TINY, policy="shared"))
    rows = jnp.broadcast_to(spec.observations.row(new.obs, jnp), (64, spec.n_inputs))
    chosen = np.asarray(jax.jit(learner.act)(jax.jit(learner.init)(0), KEY, rows)).astype(int)
    assert (chosen[:, 1] == 4).all()
    assert np.asarray(new.obs["action_mask"]).reshape(3, 8)[np.arange(3), chosen].all()


def test_legal_moves_of_hanabi():
    problem, env = from_jaxmarl("hanabi"), make("hanabi")
    state, first = jax.jit(problem.reset)(KEY)
    legal = jax.jit(env.get_legal_moves)(state[0])
    np.testing.assert_array_equal(first["action_mask"], np.concatenate([legal[agent] for agent in env.agents]))
    assert 0 < first["action_mask"].sum() < first["action_mask"].size


def test_no_mask_where_the_environment_has_none():
    assert [Spec.of(from_jaxmarl(name)).action_mask for name in (SPREAD, "overcooked", "jaxnav")] == [None] * 3


def two_agents(**attributes):
    """Two agents of which the first is done after two steps; both are after four. A reward of one while not done."""
    from jaxmarl.environments import spaces
    from jaxmarl.environments.multi_agent_env import MultiAgentEnv

    class TwoAgents(MultiAgentEnv):
        def __init__(self):
            super().__init__(2)
            self.action_spaces = {"agent_0": spaces.Discrete(2), "agent_1": spaces.Box(-1.0, 1.0, (2,))}
            vars(self).update(attributes)

        def reset(self, key):
            return self.observe(0), 0

        def observe(self, time):
            return {"agent_0": jnp.full(1, time), "agent_1": jnp.full(3, time, jnp.float32)}

        def step_env(self, key, state, actions):
            assert (actions["agent_0"].shape, actions["agent_1"].shape) == ((), (2,))
            rewards = {"agent_0": 1.0 * (state < 2), "agent_1": 1.0}
            state = state + 1
            dones = {"agent_0": state >= 2, "agent_1": state >= 4, "__all__": state >= 4}
            return self.observe(state), state, rewards, dones, {}

    return TwoAgents()


def test_done_agents_are_masked_and_their_targets_end():
    problem = from_jaxmarl(two_agents(), rewards_end_with_agents=True)
    assert isinstance(problem.action_space, gym.spaces.Dict)
    assert problem.observation_space.shape == (6,)
    assert same_types(problem)
    _, steps = play(problem, random_actions(problem, 4))
    np.testing.assert_array_equal([new.psi for new in steps], [[1, 1], [1, 1], [0, 1], [0, 1]])
    np.testing.assert_array_equal([new.factor_mask for new in steps], [[1, 1], [1, 1], [0, 1], [0, 1]])
    np.testing.assert_array_equal([new.target_terminated for new in steps], [[0, 0], [1, 0], [1, 0], [1, 1]])
    assert [bool(new.terminated) for new in steps] == [False, False, False, True]
    np.testing.assert_array_equal(problem.local(steps[0].obs), [[1, 0, 0], [1, 1, 1]])


def test_truncation_ends_no_target():
    _, steps = play(
        problem := from_jaxmarl(two_agents(max_steps=4), rewards_end_with_agents=True), random_actions(problem, 4)
    )
    assert (bool(steps[3].terminated), bool(steps[3].truncated)) == (False, True)
    np.testing.assert_array_equal(steps[3].target_terminated, [True, False])


@pytest.mark.slow
def test_agents_of_brax_do_not_reset_themselves(monkeypatch):
    """Physics take long to compile, and are those of Brax: here every number of the state drifts with the action."""
    from brax.envs.hopper import Hopper

    def drift(self, state, action):
        return jax.tree.map(lambda x: x + 0.01 * action[0] if jnp.issubdtype(x.dtype, jnp.inexact) else x, state)

    monkeypatch.setattr(Hopper, "pipeline_step", drift)
    problem, env = from_jaxmarl("hopper_3x1", episode_length=2), make("hopper_3x1", episode_length=2, auto_reset=False)
    actions = random_actions(problem, 2)
    for_reset, _ = keys_of(actions)
    _, steps = play(problem, actions)
    _, state = jax.jit(env.reset)(jax.random.key_data(for_reset))
    step = jax.jit(env.step_env)  # without it every operation of the physics is compiled for itself
    for action, new in zip(actions, steps, strict=True):
        by_agent = {agent: action[i : i + 1] for i, agent in enumerate(env.agents)}
        observed, state, rewards, _, _ = step(None, state, by_agent)
        own = problem.local(new.obs)
        np.testing.assert_allclose(own[0, : observed["agent_0"].size], observed["agent_0"], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(new.psi, [rewards["agent_0"]] * 3, rtol=1e-4)  # the same for all
    assert (bool(steps[1].terminated), bool(steps[1].truncated)) == (False, True)


def test_agents_with_several_numbers_train():
    problem = from_jaxmarl(two_agents(), rewards_end_with_agents=True)
    model = fx.FactoredPPO(problem, policy="independent", **TINY).learn(8, progress_bar=False)
    np.testing.assert_allclose(model.evaluate(2)["targets"], [2.0, 4.0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: from_jaxmarl("MPE_simple_spraed_v3"), ValueError, f"env: got .*; did you mean '{SPREAD}'"),
        (lambda: find_problem("jaxmarl:,num_agents=3"), ValueError, "problem: got 'jaxmarl:,num_agents=3', want"),
        (lambda: find_problem(f"jaxmarl:{SPREAD},num_agents=9999"), ValueError, "num_agents=9999, want at most 4,096"),
        (lambda: from_jaxmarl("SMAX", scenario="3marines"), ValueError, "scenario: got '3marines', want one of 3m, "),
        (lambda: from_jaxmarl("SMAX", max_step=3), ValueError, "settings: got .*max_step"),
        (lambda: from_jaxmarl(3), TypeError, "env: got 3, which has no reset; want a JaxMARL environment or its name"),
        (
            lambda: from_jaxmarl(two_agents(), max_steps=3),
            TypeError,
            "max_steps: got a setting with an environment object",
        ),
        (lambda: from_jaxmarl(SPREAD, network=np.eye(4)), ValueError, "network: got shape .*want 3 × 3"),
        (lambda: from_jaxmarl(SPREAD, rewards_end_with_agents=3), ValueError, "rewards_end_with_agents: got 3, want"),
        (lambda: from_jaxmarl("storm"), TypeError, "env: its reset returns the observations .*; want a dictionary"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
