"""Networks by intervention: exact where the network is known, in open and closed loop, on JAX and on the host."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import linalg
from small_settings import SMALL

import factorax as fx
from factorax.discovery import measure_lags
from factorax.discovery.interventional import intervene
from factorax.problems import BanditEnv, Problem, Step, chain, contextual_bandit, queues, search_bandit
from factorax.structure import gallery


def one_shot(network, terms, space=None):
    """A problem of one step, ψ = terms(action, noise)."""
    n, m = network.shape

    def reset(key):
        return jnp.zeros(1), jnp.zeros(1)

    def step(key, state, action):
        return Step(state, state, terms(action, jax.random.normal(key, (m,))), jnp.array(True), jnp.array(False))

    box = gym.spaces.Box(-1.0, 1.0, (n,), np.float32) if space is None else space
    return Problem(
        name="one-shot",
        reset=reset,
        step=step,
        observation_space=gym.spaces.Box(-1, 1, (1,), np.float32),
        action_space=box,
        network=network,
        weights=np.ones(m),
    )


@pytest.mark.slow
def test_what_two_factors_do_alike_does_not_hide_what_each_does():
    """ψ = a₃ − a₆: if both were always changed to the same, nothing would move."""
    problem = one_shot(fx.InfluenceNetwork.complete(8, 1), lambda a, noise: (a[2] - a[5])[None] + 0 * noise)
    for seed in range(30):
        found = intervene(problem, horizon=1, trials=1, one_step=False, seed=seed).found()
        assert np.flatnonzero(found).tolist() == [2, 5]


def all_of_the_paper():
    """Its networks side by side, as one program takes less time than six; no edge leads from one to another."""
    return fx.InfluenceNetwork(linalg.block_diag(*(make().to_dense() for make in gallery.PAPER.values())))


@pytest.mark.parametrize("make", [gallery.three_actions, all_of_the_paper])
def test_the_papers_networks_exactly(make):
    truth = make()
    matrix = truth.to_dense().astype(np.float32)
    complete = fx.InfluenceNetwork.complete(*truth.shape).relabel(truth.actions, truth.targets)
    problem = one_shot(complete, lambda a, noise: (a**2) @ matrix + noise)
    found = intervene(problem, horizon=1, trials=4)
    assert found.network() == truth
    assert found.also["one-step"].network() == truth
    assert (found.p_value == np.where(truth.to_dense(), 0, 1)).all()
    assert (found.samples >= np.where(truth.to_dense(), 1, 4)).all()
    assert found.kind == "return"
    assert found.also["one-step"].kind == "one-step"


@pytest.mark.slow
def test_delayed_influence_is_in_the_returns_alone():
    problem = chain(5, delay=3)
    found = intervene(problem, horizon=8, trials=4)
    assert found.network() == problem.network
    assert not found.also["one-step"].found().any()
    assert "3 steps" not in str(found)
    assert not intervene(problem, horizon=3, trials=4).found().any()  # too short to see it


def test_effects_of_known_size():
    problem = one_shot(fx.InfluenceNetwork.complete(1, 2), lambda a, e: jnp.array([a[0], 3 * a[0]]) + e)
    effect = intervene(problem, horizon=1, trials=2).effect[0]
    assert effect[1] == pytest.approx(3 * effect[0], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [True, False])
def test_parity_does_not_fool_it(groups):
    """Flip two bits at once and nothing moves; ψ₂ moves only if two others change together."""
    truth = fx.InfluenceNetwork(np.kron(np.eye(6, dtype=bool), np.ones((2, 1), bool)))
    space = gym.spaces.MultiBinary(12)
    problem = one_shot(truth, lambda a, e: (a[::2] + a[1::2]) % 2 + 0.0 * e, space)
    for seed in range(6):
        assert intervene(problem, horizon=1, trials=20, one_step=False, groups=groups, seed=seed).network() == truth


@pytest.mark.slow
def test_several_factors_at_once_take_fewer_steps():
    problem = one_shot(fx.InfluenceNetwork.identity(96), lambda a, e: a + e)
    together = intervene(problem, horizon=1, trials=4)
    assert together.network() == problem.network
    apart = 4 * (96 + 1)
    assert together.steps < apart / 4


def test_what_a_given_network_lacks():
    """K = I but for one edge: that is found, the others are taken for granted."""
    problem = one_shot(fx.InfluenceNetwork.identity(40), lambda a, e: a + e)
    matrix = np.eye(40, dtype=bool)
    matrix[7, 7] = False
    start = fx.InfluenceNetwork._derive(matrix, None, None)
    found = intervene(problem, horizon=1, trials=5, one_step=False, start=start)
    assert found.network() == problem.network
    assert found.samples[7, 7] >= 1
    assert "39 edges of start were taken for granted, and 1 found" in found.notes
    assert found.steps < 5 * 41 / 2
    with pytest.raises(ValueError, match=r"start: got shape \(2, 2\), want \(40, 40\)"):
        intervene(problem, start=fx.InfluenceNetwork.identity(2))


@pytest.mark.slow
def test_other_actors_carry_influence_in_a_closed_loop():
    """Actor 2 copies what actor 1 did the step before: a₁ → ψ₂, but only if it may answer."""

    def reset(key):
        return jnp.zeros(2), jnp.zeros(2)

    def step(key, state, action):
        return Step(action, action, action + 0.0, jnp.array(False), jnp.array(False))

    space = gym.spaces.Box(-2.0, 2.0, (2,), np.float32)
    problem = Problem(
        name="copy",
        reset=reset,
        step=step,
        observation_space=space,
        action_space=space,
        network=fx.InfluenceNetwork.identity(2),
        weights=np.ones(2),
    )

    def policy(key, obs):
        return jnp.array([0.0, obs[0]]) + 0.1 * jax.random.normal(key, (2,))

    with pytest.warns(fx.structure.StructureWarning, match="policy: 1 edge, a1 → psi2, exists only because"):
        found = intervene(problem, policy=policy, horizon=5, trials=3)
    assert found.loop == "closed"
    assert found.found().tolist() == [[True, True], [False, True]]
    assert found.also["open-loop"].network() == problem.network
    local = intervene(problem, policy=lambda key, obs: 0.5 * obs + jax.random.normal(key, (2,)), horizon=5, trials=3)
    assert local.network() == problem.network


@pytest.mark.slow
def test_a_trained_policy_may_answer():
    model = fx.FactoredPPO(contextual_bandit(3), **SMALL)
    assert intervene(contextual_bandit(3), policy=model, horizon=1, trials=2).network().n_edges == 3


def test_on_the_host():
    bandit = search_bandit(6, k=3, penalty=0.5)
    found = intervene(lambda: BanditEnv(bandit), horizon=1, trials=3)
    assert found.network() == bandit.network


class Forgetful(gym.Env):
    """Draws from a generator that nobody seeds."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    rng = np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        psi = np.array([action[0], self.rng.normal() if self.time == 3 else 0.0])
        return np.zeros(1, np.float32), float(psi.sum()), False, False, {"vector_reward": psi}


def test_a_simulator_that_does_not_repeat_itself_is_found_out():
    with pytest.raises(ValueError, match="seed 0 and the same actions differ in step 2, target 'psi2'; want"):
        intervene(Forgetful, horizon=4)


class Tanks(gym.Env):
    """Two tanks that share nothing but the step of their integration, chosen by the faster outflow."""

    observation_space = gym.spaces.Box(0, 10, (2,), np.float32)
    action_space = gym.spaces.Box(0, 1, (2,), np.float32)
    valve = 0.0
    """How much of tank 1 flows into tank 2 if its valve is opened above 0.9."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.height = self.np_random.uniform(1, 3, 2)
        return self.height.astype(np.float32), {}

    def step(self, action):
        left, out = 1.0, np.zeros(2)
        while left > 1e-12:
            flow = action * np.sqrt(np.maximum(self.height, 0))
            dt = min(left, 1e-3 / max(flow.max(), 1e-3))
            self.height = np.maximum(self.height - dt * flow + 0.3 * dt, 0)
            out += dt * flow
            left -= dt
        self.height[1] += self.valve * (action[0] > 0.9)
        psi = -np.abs(out - 0.5)
        return self.height.astype(np.float32), float(psi.sum()), False, False, {"vector_reward": psi}


@pytest.mark.parametrize("groups", [True, False])
def test_rounding_of_a_common_time_step_is_not_an_edge(groups):
    with pytest.warns(
        fx.structure.StructureWarning,
        match=r"of 2 pairs without an edge .*, 2 changed",
    ):
        found = intervene(Tanks, horizon=4, trials=8, groups=groups)
    assert found.network() == found.also["one-step"].network() == fx.InfluenceNetwork.identity(2)
    assert "2 changed the target by less than the tolerance" in str(found)
    with pytest.warns(fx.structure.StructureWarning, match="2 of 4 edges change the target by less than 0.1%"):
        every = intervene(Tanks, horizon=4, trials=8, groups=groups, tolerance=0)
    assert every.found().all()
    assert (every.relative[~np.eye(2, dtype=bool)] < 1e-3).all()


@pytest.mark.filterwarnings("ignore::factorax.structure.StructureWarning")
def test_a_rare_effect_is_found_among_rounding_errors():
    class WithValve(Tanks):
        valve = 0.5

    network = intervene(WithValve, horizon=4, trials=20, one_step=False).network()
    assert network.to_dense().tolist() == [[True, True], [False, True]]


def test_weak_edges_are_found_where_streams_are_exact():
    coupling = np.eye(6, dtype=np.float32) + 1e-5 * np.eye(6, k=1, dtype=np.float32)
    problem = one_shot(fx.InfluenceNetwork(coupling > 0), lambda a, e: a @ coupling + e)
    found = intervene(problem, horizon=1, trials=10)
    assert found.network() == problem.network
    assert "5 edges change the target by less than 0.1% of its spread" in str(found)
    assert intervene(problem, horizon=1, trials=10, tolerance=1e-3).network() == fx.InfluenceNetwork.identity(6)


def test_effects_relative_to_the_spread_do_not_depend_on_the_unit_of_a_target():
    problem = one_shot(fx.InfluenceNetwork.complete(2, 2), lambda a, e: jnp.array([a.sum(), 1e4 * a.sum()]) + 0 * e)
    found = intervene(problem, horizon=1, trials=10)
    np.testing.assert_allclose(found.relative[:, 0], found.relative[:, 1], rtol=1e-3)
    assert "effects relative to the spread of the target: median" in str(found)
    assert found.network(n_samples=10**6).to_dense() == pytest.approx(1, abs=0.1)


def test_open_loop_networks_say_that_reactions_are_missing():
    def make(**options):
        return intervene(chain(3, delay=1), horizon=4, trials=2, one_step=False, **options)

    found, closed = make(), make(policy=lambda key, obs: jnp.zeros(3))
    assert found.network().lacks_reactions
    assert "policy=model" in str(found)
    assert not closed.network().lacks_reactions
    assert not intervene(contextual_bandit(2), horizon=1, trials=2).lacks_reactions  # there is no later action


def test_numbers_that_are_none():
    def terms(a, e):
        return jnp.where(a[0] > 0.9, jnp.nan, a) + e

    problem = one_shot(fx.InfluenceNetwork.identity(2), terms)
    found = intervene(problem, horizon=1, trials=40, one_step=False)
    assert any("non-finite targets, the first at step 0, target 'psi1'" in note for note in found.notes)
    broken = one_shot(fx.InfluenceNetwork.identity(2), lambda a, e: jnp.array([1.0, jnp.inf]) + e)
    with pytest.raises(ValueError, match="target 'psi2' is not finite in step 0 with the seed 0"):
        intervene(broken, horizon=1)


def test_targets_that_never_move_are_named():
    problem = one_shot(fx.InfluenceNetwork.complete(2, 2), lambda a, e: jnp.array([a[0], 1.0]))
    found = intervene(problem, horizon=1, trials=20)
    assert "never changed: target 'psi2'" in found.notes
    assert "changed no target: action 'a2'" in found.notes
    assert "less than 14% of such episodes" in str(found)  # 1 − 0.05^(1/20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": -1}, "tolerance: got -1, want"),
        ({"horizon": 0}, "horizon: got 0, want a whole number from 1"),
        ({"trials": 0}, "trials: got 0, want a whole number from 1"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        intervene(contextual_bandit(2), **options)
    with pytest.raises(TypeError, match="problem: got int, want a Problem or a function"):
        intervene(3)
    with pytest.raises(TypeError, match="policy: got 3, want a FactoredPPO"):
        intervene(contextual_bandit(2), policy=3)


def test_hops_of_a_grid_take_a_step_each():
    """What a node serves leaves in the same step, and is at the next node then: a hop later it may be served on."""
    found = measure_lags(queues(1, 4, hops=3), horizon=30, trials=40).lags
    assert (found[0] >= [0, 0, 1, 2]).all()
    np.testing.assert_array_equal(found[2], [-1, -1, 0, 0])


def test_other_edges_than_the_problems_own():
    found = measure_lags(chain(2, delay=1), fx.InfluenceNetwork.complete(2, 2), horizon=6, trials=2)
    np.testing.assert_array_equal(found.lags, [[1, 1], [0, 1]])  # a2 never moves psi1: nought is safe


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="trials"):
        measure_lags(chain(2), trials=0)
    with pytest.raises(ValueError, match="network"):
        measure_lags(chain(2), fx.InfluenceNetwork.identity(3))
