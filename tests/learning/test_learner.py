"""Learners: problems with the structure they claim, seeds side by side, hosts' environments, and that they learn."""

import dataclasses
import itertools
from functools import partial

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import factorax as fx
from factorax.learning import Config, FactoredPPO, Learner, ProblemError, check_problem
from factorax.learning.normalising import Running
from factorax.problems import EpisodeLost, Problem, Step, chain, contextual_bandit, queues
from factorax.rollouts import HostEnvironments, LostWarning

PROBLEMS = {
    "bandit": contextual_bandit(3),
    "chain": chain(3, delay=2, horizon=6),
    "queues": queues(2, 3, horizon=12, hops=3),
}
SMALL = {"n_envs": 4, "n_steps": 6, "batch_size": 12, "n_epochs": 1, "hidden": (8,)}
BACKENDS = ("inline", "processes")
every = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)


def model(problem, network=None, **settings):
    return FactoredPPO(problem, network, **SMALL | settings)


@every
def test_problems_keep_their_shapes(problem):
    check_problem(problem, steps=20)
    n, m = problem.network.shape
    _, obs = problem.reset(jax.random.key(0))
    assert obs.shape == problem.observation_space.shape
    assert problem.observation_space.contains(np.asarray(obs))
    assert problem.weights.shape == (m,)
    local = problem.local(jnp.zeros((5, 2, len(obs))))
    assert local.shape[:-1] == (5, 2, n)


@eqx.filter_jit
def returns(problem, actions, key):
    """Undiscounted returns of every target, under fixed actions ``(T, n)`` and one noise."""
    first, *noise = jax.random.split(key, 1 + len(actions))

    def one(state, now):
        new = problem.step(now[0], state, now[1])
        return new.state, new.psi

    return jax.lax.scan(one, problem.reset(first)[0], (jnp.stack(noise), actions))[1].sum(axis=0)


def reached(problem, T=12, trials=30):
    """Change one action in the first step and see which returns move, the other actions and the noise as they were."""
    n = problem.network.shape[0]
    play = eqx.filter_vmap(returns, in_axes=(None, 0, None))
    rng, moves = np.random.default_rng(0), np.zeros(problem.network.shape, bool)
    for trial in range(trials):
        actions = np.stack([rng.integers(0, 2, (T, n))] * (n + 1))
        actions[np.arange(1, n + 1), 0, np.arange(n)] ^= 1
        got = np.asarray(play(problem, jnp.asarray(actions), jax.random.key(trial)))
        moves |= np.abs(got[1:] - got[0]) > 1e-4
    return moves


def test_problems_have_the_network_they_claim():
    bandit, chain = PROBLEMS["bandit"], PROBLEMS["chain"]
    np.testing.assert_array_equal(reached(bandit, T=1), bandit.network.to_dense())
    np.testing.assert_array_equal(reached(chain), chain.network.to_dense())


def test_cars_drive_straight_on_and_never_upstream():
    """Along their row or column; round a corner a choice is felt only by actors that see the queues."""
    moves, allowed = reached(PROBLEMS["queues"]), PROBLEMS["queues"].network.to_dense()
    assert (moves <= allowed).all()
    row, column = np.divmod(np.arange(6), 3)
    straight = (row[:, None] == row) & (column[:, None] <= column)
    straight |= (column[:, None] == column) & (row[:, None] <= row)
    np.testing.assert_array_equal(moves, straight)


def test_fewer_hops_are_fewer_edges():
    nets = [queues(2, 3, hops=h).network.to_dense() for h in range(4)]
    for near, far in itertools.pairwise(nets):
        assert (near <= far).all()
    np.testing.assert_array_equal(nets[0], np.eye(6))
    assert nets[3].sum() == 18  # a rectangle to the south-east of every node


def test_seeds_side_by_side_are_seeds_apart():
    learner = Learner.of(PROBLEMS["chain"], config=Config(**SMALL, policy="shared", normalise_reward=True))
    both = eqx.filter_jit(eqx.filter_vmap(learner.init))(jnp.array([3, 4]))
    together = eqx.filter_jit(eqx.filter_vmap(learner.update))
    for _ in range(2):
        both, metrics = together(both)
    for i, seed in enumerate((3, 4)):
        state = learner.init(seed)
        for _ in range(2):
            state, alone = learner.compiled(state)
        for name, value in alone.items():
            np.testing.assert_allclose(metrics[name][i], value, rtol=2e-3, atol=2e-4, err_msg=name)
        for a, b in zip(jax.tree.leaves(both.agent), jax.tree.leaves(state.agent), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("problem", "settings"),
    [
        (chain(10, delay=2, horizon=10), {"policy": "independent", "n_steps": 20, "initial_log_std": -0.5}),
        (queues(3, 3, horizon=20, hops=1), {"policy": "shared", "n_steps": 20}),
    ],
    ids=["chain", "queues"],
)
def test_factored_beats_vanilla(problem, settings):
    """At equal steps, over ten seeds that both have: the mean difference is above nought with 99 % confidence."""
    final = {}
    settings = SMALL | {"n_envs": 8, "batch_size": 160, "n_epochs": 4, "learning_rate": 1e-2} | settings
    for estimator in ("factored", "vanilla"):
        learner = Learner.of(problem, config=Config(**settings, estimator=estimator))

        @eqx.filter_jit
        @eqx.filter_vmap
        def train(seed, learner=learner):
            _, metrics = jax.lax.scan(lambda s, _: learner.update(s), learner.init(seed), None, 30)
            return metrics["rollout/ep_rew_mean"][-5:].mean()

        final[estimator] = np.asarray(train(jnp.arange(10)))
    difference = final["factored"] - final["vanilla"]
    error = stats.sem(difference) * stats.t.ppf(0.99, 9)
    assert difference.mean() - error > 0, final


def test_a_schedule_moves_from_one_network_to_the_other():
    """Its update is that of the network it has at the step, and training goes through both ends."""
    problem, end = PROBLEMS["chain"], fx.InfluenceNetwork.complete(3, 3)
    schedule = fx.NetworkSchedule(problem.network, end, steps=24)
    learner = Learner.of(problem, schedule, Config(**SMALL))
    state = learner.init()
    for net in (problem.network, end):
        fixed = Learner.of(problem, net, learner.config)
        (new, got), (_, want) = learner.compiled(state), fixed.compiled(state)
        np.testing.assert_allclose(got["train/loss"], want["train/loss"], rtol=1e-5)
        state = new


def test_a_running_mean_is_that_of_all_that_was_seen():
    x = np.random.default_rng(0).normal(3, 2, (5, 40, 2)).astype(np.float32)
    seen = Running.of((2,))
    for part in x:
        seen = seen.seen(part.reshape(8, 5, 2))
    flat = x.reshape(-1, 2)
    np.testing.assert_allclose(seen.mean, flat.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(seen.variance, flat.var(axis=0), rtol=1e-3)
    np.testing.assert_allclose(seen.normalise(flat), (flat - flat.mean(0)) / flat.std(0), rtol=1e-2, atol=1e-3)
    assert Running.of(()).normalise(jnp.float32(1e9)) == 10.0


class Counter(gym.Env):
    """Counts up from its seed; ends by itself after `ends` steps, or is cut short after `cut`."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gym.spaces.MultiBinary(2)
    network = fx.InfluenceNetwork.identity(2)
    weights = np.array([1.0, 2.0])

    def __init__(self, ends=99, cut=99, spoil=None, **changes):
        self.ends, self.cut, self.spoil, self.changes = ends, cut, spoil, changes
        self.time = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observe(), {}

    def observe(self):
        return np.float32([self.time])

    def step(self, action):
        self.time += 1
        psi = np.array([1.0, self.time])
        if self.spoil == self.time:
            psi[1] = np.nan
        out = [self.observe(), float(psi @ self.weights), self.time >= self.ends, self.time >= self.cut]
        info = {"vector_reward": psi} | self.changes.get("info", {})
        for i, name in enumerate(("obs", "reward", "terminated", "truncated")):
            out[i] = self.changes.get(name, out[i])
        return *out, {name: x for name, x in info.items() if x is not None}


def collect(T, n_envs=2, **options):
    learner = Learner.of(lambda: Counter(**options), config=Config(**SMALL))
    hosts = HostEnvironments(learner.problem, n_envs, learner.space, 2)
    hosts.init(0)
    return hosts, lambda: hosts.collect(lambda obs: np.zeros((n_envs, 2), np.float32), T)


@pytest.mark.parametrize("options", [{"ends": 4}, {"cut": 4}], ids=["terminated", "truncated"])
def test_an_episode_of_a_host_ends_with_its_own_last_observation(options):
    _, roll = collect(6, **options)
    seen = roll()
    np.testing.assert_array_equal(seen.obs[:, 0, 0], [0, 1, 2, 3, 0, 1])
    np.testing.assert_array_equal(seen.next_obs[:, 0, 0], [1, 2, 3, 4, 1, 2])
    np.testing.assert_array_equal(seen.terminated[:, 0], np.arange(6) == 3 if "ends" in options else False)
    np.testing.assert_array_equal(seen.truncated[:, 0], np.arange(6) == 3 if "cut" in options else False)
    np.testing.assert_array_equal(seen.episode_length[:, 0], [0, 0, 0, 4, 0, 0])
    np.testing.assert_array_equal(seen.episode_psi[3], [[4, 10]] * 2)
    seen = roll()  # goes on where it was
    np.testing.assert_array_equal(seen.obs[:, 1, 0], [2, 3, 0, 1, 2, 3])
    np.testing.assert_array_equal(seen.episode_psi[1], [[4, 10]] * 2)


def test_masks_that_come_and_go():
    class Sometimes(Counter):
        def step(self, action):
            *out, info = super().step(action)
            return *out, info | ({"factor_mask": [True, False]} if self.time == 2 else {})

    learner = Learner.of(Sometimes, config=Config(**SMALL))
    hosts = HostEnvironments(Sometimes, 2, learner.space, 2)
    hosts.init(0)
    seen = hosts.collect(lambda obs: np.zeros((2, 2), np.float32), 3)
    np.testing.assert_array_equal(seen.factor_mask[:, 0], [[True, True], [True, False], [True, True]])
    assert seen.target_terminated is None


def test_a_host_that_gives_nonsense_is_named():
    _, roll = collect(6, spoil=3)
    with pytest.raises(FloatingPointError, match="environment 0, step 2 of this rollout: target 1 is nan"):
        roll()
    _, roll = collect(6, obs=np.float32([np.inf]))
    with pytest.raises(FloatingPointError, match="environment 0, step 0 of this rollout: the observation"):
        roll()
    _, roll = collect(6, info={"vector_reward": np.ones(3)})
    with pytest.raises(ValueError, match=r"info\['vector_reward'\]: got 3 targets, want 2"):
        roll()


def test_hosts_are_seeded():
    drawn = []
    for seed in (0, 0, 5):
        learner = Learner.of(lambda: gym.make("CartPole-v1"), config=Config(**SMALL))
        hosts = HostEnvironments(learner.problem, 3, learner.space, 1)
        hosts.init(seed)
        drawn.append(hosts.obs)
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).all()
    assert (drawn[0][0] != drawn[0][1]).all()


def test_a_host_is_learnt_from_predicted_for_evaluated_and_kept(tmp_path):
    ppo = model(lambda: Counter(cut=3), normalise_obs=True, normalise_reward=True)
    seen = []
    ppo.learn(72, progress_bar=False, callback=lambda m, metrics: seen.append(metrics) or len(seen) < 2)
    assert ppo.timesteps == 48  # the callback said so
    assert seen[0]["rollout/ep_len_mean"] == 3
    np.testing.assert_allclose(seen[0]["rollout/ep_targets_mean"], [3, 6])
    np.testing.assert_allclose(seen[0]["rollout/ep_rew_mean"], 15)
    result = ppo.evaluate(5)
    assert (result["return"], result["error"]) == (15, 0)
    assert len(result["episodes"]) == 5
    ppo.save(tmp_path / "m.safetensors")
    other = FactoredPPO.load(tmp_path / "m.safetensors", lambda: Counter(cut=3))
    obs = np.float32([[0.0], [1.0], [5.0]])
    np.testing.assert_array_equal(ppo.predict(obs, deterministic=True), other.predict(obs, deterministic=True))
    assert Counter.action_space.contains(ppo.predict(obs[0]))
    assert len(ppo.predict(obs)) == 3
    with pytest.raises(ValueError, match=r"obs: got shape \(2,\), want \(1,\), or a batch"):
        ppo.predict([1.0, 2.0])


def test_lost_episodes_are_begun_anew_in_training_and_evaluation():
    class Fragile(Counter):
        def reset(self, *, seed=None, options=None):
            self.strong = seed % 3 > 0
            return super().reset(seed=seed)

        def step(self, action):
            if self.time == 2 and not self.strong:
                raise EpisodeLost("broke")
            return super().step(action)

    ppo = model(lambda: Fragile(cut=3), check_network=False)
    with pytest.warns(LostWarning, match=r"environment \d began an episode anew: broke"):
        ppo.learn(24, progress_bar=False)
    assert ppo.timesteps == 24
    assert ppo.history[0]["rollout/ep_rew_mean"] == 15  # of whole ones alone
    with pytest.warns(LostWarning, match=r"environment \d began an episode anew: broke"):
        assert (ppo.evaluate(5)["episodes"] == 15).all()


def test_who_steps_the_environments_makes_no_difference(tmp_path):
    """The same parameters to the bit, by two processes as by this one."""
    ppo = [model(partial(gym.make, "CartPole-v1"), rollouts=r, workers=2 * (r != "inline")) for r in BACKENDS]
    for one in ppo:
        one.learn(48, progress_bar=False)
    for one, other in zip(jax.tree.leaves(ppo[0].state), jax.tree.leaves(ppo[1].state), strict=True):
        if not jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            np.testing.assert_array_equal(one, other)
    for one in ppo:
        one.close()
    with pytest.raises(ValueError, match="rollouts: got 'processes', and the problem is a JAX problem"):
        model(PROBLEMS["chain"], rollouts="processes")


def test_environments_that_need_a_process_each():
    class Alone(Counter):
        metadata = {"one_per_process": True}  # noqa: RUF012
        there = 0

        def reset(self, *, seed=None, options=None):
            assert Alone.there in (0, id(self))
            Alone.there = id(self)
            return super().reset(seed=seed)

        def close(self):
            Alone.there = 0

    for settings, got in (({}, "'inline'"), ({"rollouts": "processes", "workers": 2}, "'processes' with 2 workers")):
        with pytest.raises(
            ValueError, match=rf"rollouts: got {got} for 4 environments, .* with workers=4, or n_envs=1"
        ):
            model(lambda: Alone(cut=3), check_network=False, **settings).learn(24, progress_bar=False)
    ppo = model(lambda: Alone(cut=3), rollouts="processes", check_network=False)
    assert len(ppo.learner.rollouts.workers) == 4
    ppo.close()
    assert len(ppo.evaluate(3)["episodes"]) == 3  # one after the other


def test_a_rollout_may_be_played_while_the_last_is_learnt_from():
    """With the policy of one update ago, and log-probabilities that say so; whoever plays it."""
    models = [model(partial(gym.make, "CartPole-v1"), overlap=True, rollouts=r, workers=0) for r in BACKENDS]
    first = models[0].state
    batches, learn = [], models[0].learner._learn
    models[0].learner.__dict__["_learn"] = lambda state, seen: batches.append(seen) or learn(state, seen)
    for one in models:
        one.learn(72, progress_bar=False).close()
        assert [int(row["rollout/policy_lag"]) for row in one.history] == [0, 1, 1]
    for a, b in zip(*(jax.tree.leaves(eqx.filter(m.state.agent, eqx.is_array)) for m in models), strict=True):
        np.testing.assert_array_equal(a, b)
    for seen in batches[:2]:  # the second, too, is of the policy that had learnt nothing
        out = first.agent.policy(jnp.asarray(seen.obs), None)
        np.testing.assert_allclose(models[0].learner.space.log_prob(*out, seen.action), seen.log_prob, atol=1e-5)
    assert (batches[0].action != batches[1].action).any()
    with pytest.raises(ValueError, match="overlap: got objective 'a2c', want 'ppo'"):
        Config(overlap=True, objective="a2c")
    with pytest.raises(ValueError, match="overlap: got True, and the problem is a JAX problem"):
        model(PROBLEMS["chain"], overlap=True)


def test_a_host_goes_on_from_a_file_to_the_bit(tmp_path):
    """In the middle of episodes, whose first steps are played again; by others than those who began them."""
    make, settings = partial(gym.make, "CartPole-v1"), {"normalise_obs": True, "normalise_reward": True}
    whole = model(make, **settings).learn(96, progress_bar=False)
    part = model(make, **settings).learn(48, progress_bar=False)
    part.save(tmp_path / "m.safetensors")
    assert max(episode.length for episode in part._episodes) > 6  # some began before the last rollout
    other = model(make, rollouts="processes", workers=2, **settings)
    other.restore(tmp_path / "m.safetensors")
    other.learn(96, progress_bar=False).close()
    for a, b in zip(*(jax.tree.leaves(eqx.filter(m.state.agent, eqx.is_array)) for m in (whole, other)), strict=True):
        np.testing.assert_array_equal(a, b)
    for name in ("rollout/ep_rew_mean", "train/loss"):
        assert whole.history[-1].get(name) == other.history[-1].get(name)
    with pytest.raises(ValueError, match="was it made with other settings"):
        model(make, n_envs=2, n_steps=12, **settings).restore(tmp_path / "m.safetensors")


def test_an_evaluation_is_not_of_the_shortest_episodes():
    """Of two environments, one ends after 2 steps and one after 20: both count alike."""
    lengths = iter([2, 2, 20])  # the first is looked at for its spaces
    ppo = model(lambda: Counter(cut=next(lengths)), n_envs=1, n_steps=6, batch_size=6)
    ppo.config = dataclasses.replace(ppo.config, n_envs=2)
    assert sorted(ppo.evaluate(4)["episodes"]) == [8, 8, 440, 440]


def test_a_jax_model_goes_on_from_a_file_to_the_bit(tmp_path):
    ppo = model(PROBLEMS["chain"], policy="shared", critic="factor").learn(48, progress_bar=False)
    ppo.save(tmp_path / "m.safetensors")
    other = FactoredPPO.load(tmp_path / "m.safetensors", PROBLEMS["chain"])
    assert other.config == ppo.config
    a, b = (m.learn(72, progress_bar=False).evaluate(4, seed=3)["episodes"] for m in (ppo, other))
    np.testing.assert_array_equal(a, b)
    assert len(other.history) == 1
    with pytest.raises(ValueError, match=r"checkpoint of something else|was it made with other settings"):
        FactoredPPO.load(tmp_path / "m.safetensors", chain(4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"info": {"vector_reward": None}}, "info: has no 'vector_reward', and the network has 2 targets"),
        ({"info": {"vector_reward": np.ones(3)}}, r"targets: got shape \(3,\), want \(2,\)"),
        ({"reward": 7.0}, "reward: got 7 in step 0, want weights @ vector_reward = 3"),
        ({"spoil": 4}, "targets: entry 1 is not finite in step 3; clip it"),
        ({"obs": np.float32([np.nan])}, "observation: entry 0 is not finite in step 0"),
        ({"obs": np.zeros(3, np.float32)}, r"observation: got shape \(3,\), want that of its space, \(1,\)"),
        ({"terminated": 0}, "terminated: got int, want a boolean"),
        ({"truncated": None}, "truncated: got NoneType, want a boolean"),
        ({"info": {"factor_mask": np.ones(5, bool)}}, r"info\['factor_mask'\]: got shape \(5,\), want \(2,\)"),
        ({"info": {"target_terminated": True}}, r"info\['target_terminated'\]: got shape \(\), want \(2,\)"),
    ],
)
def test_mistakes_of_a_host_are_found(options, message):
    with pytest.raises(ProblemError, match=message):
        check_problem(lambda: Counter(cut=5, **options), steps=8)


def test_a_host_without_mistakes_passes():
    check_problem(lambda: Counter(cut=5), steps=8)
    check_problem(lambda: gym.make("CartPole-v1"), steps=30)
    check_problem(lambda: gym.make("factorax/SearchBandit-v0", n=4), steps=3)


def planted(**changes):
    """The bandit with something in its step changed."""
    good = PROBLEMS["bandit"]

    def step(key, state, action):
        new = good.step(key, state, action)
        return new._replace(**{name: change(getattr(new, name)) for name, change in changes.items()})

    return dataclasses.replace(good, step=step)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"psi": lambda x: x[:2]}, r"targets: got shape \(2,\), want \(3,\)"),
        ({"psi": lambda x: x.at[2].set(jnp.nan)}, "targets: entry 2 is not finite in step 0"),
        ({"obs": lambda x: x[:1]}, r"step: the observation has shape \(1,\), after a reset \(3,\)"),
        ({"state": lambda x: x[:1]}, "step: the new state has another structure, shape or dtype"),
        ({"state": lambda x: {"x": x}}, "step: the new state has another structure, shape or dtype"),
        ({"terminated": lambda x: jnp.float32(1)}, r"terminated: got shape \(\) and type float32, want one boolean"),
        ({"factor_mask": lambda x: jnp.ones(2, bool)}, r"factor_mask: got shape \(2,\), want \(3,\)"),
        ({"target_terminated": lambda x: jnp.ones(4, bool)}, r"target_terminated: got shape \(4,\), want \(3,\)"),
        ({"psi": lambda x: np.asarray(x)}, "step: cannot be traced by JAX"),
    ],
)
def test_mistakes_of_a_jax_problem_are_found(changes, message):
    with pytest.raises(ProblemError, match=message):
        check_problem(planted(**changes), steps=2)


def test_mistakes_beside_the_step_are_found():
    good = PROBLEMS["bandit"]
    wide = fx.InfluenceNetwork.complete(4, 3)
    cases = {
        r"network: has 4 rows, and the action space 3 components": {"network": wide},
        r"weights: got shape \(2,\), want \(3,\)": {"weights": np.ones(2)},
        r"local: got shape \(1, 3\), want \(3, …\)": {"local": lambda obs: obs[..., None, :]},
        r"action space: got Text": {"action_space": gym.spaces.Text(3)},
        r"observation space: got .*FlattenObservation": {
            "observation_space": gym.spaces.Dict({"x": gym.spaces.Discrete(2)})
        },
    }
    for message, changes in cases.items():
        with pytest.raises(ProblemError, match=message):
            check_problem(dataclasses.replace(good, **changes), steps=2)
    with pytest.raises(ProblemError, match="problem: got int, want a Problem or a function"):
        check_problem(3)


def test_factors_of_several_components_are_learnt():
    """Twins of K as one factor: with local policies, and a critic for every factor."""
    net = fx.InfluenceNetwork([[1, 0], [1, 0], [0, 1]])
    good = PROBLEMS["bandit"]

    def step(key, state, action):
        new = good.step(key, state, action)
        return new._replace(psi=jnp.array([new.psi[0] + new.psi[1], new.psi[2]]))

    problem = Problem("twins", good.reset, step, good.observation_space, good.action_space, net, np.ones(2))
    ppo = model(problem, net.factor(net.minimum_factorisation()), critic="factor", policy="independent")
    ppo.learn(24, progress_bar=False)
    assert ppo.learner.update_rule.n_factors == 2
    assert ppo.state.agent.critic(jnp.zeros(3), None).shape == (2,)


def test_idle_factors_keep_their_policy():
    """Of independent policies, the one that is never asked does not move."""
    good = PROBLEMS["bandit"]

    def step(key, state, action):
        return Step(*good.step(key, state, action)[:5], factor_mask=jnp.array([True, False, True]))

    ppo = model(dataclasses.replace(good, step=step), policy="independent")
    before = ppo.state.agent.policy.net.nets.weights[-1]
    ppo.learn(24, progress_bar=False)
    moved = (np.asarray(ppo.state.agent.policy.net.nets.weights[-1]) != before).any(axis=(1, 2))
    np.testing.assert_array_equal(moved, [True, False, True])
