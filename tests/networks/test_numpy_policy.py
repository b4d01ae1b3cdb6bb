"""The policy in NumPy is the policy in JAX: its parameters, its distribution, in batches of any size."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rollouts.environments import Drift
from rollouts.helping import factory, parameters, plan_of

from factorax import Factorisation, InfluenceNetwork
from factorax.networks import numpy_policy
from factorax.networks.numpy_policy import TILE, NumpyPolicy, PolicyArrays
from factorax.ppo import Config, Learner
from factorax.ppo.state import RunningMoments

SMALL = {"n_envs": 2, "n_steps": 4, "batch_size": 8, "hidden": (16, 16)}


def learner_of(space="mixed", policy="joint", **settings):
    learner = Learner.of(lambda: Drift(space), config=Config(policy=policy, **SMALL, **settings))
    state, rng = learner.init(3), np.random.default_rng(3)
    noisy = lambda x: jax.device_put(np.float32(np.asarray(x) + 0.3 * rng.normal(size=x.shape)))  # noqa: E731
    agent = jax.tree.map(noisy, state.agent)
    moments = RunningMoments(
        jnp.float32(9), *(jax.device_put(np.linspace(*x, 5, dtype="f4")) for x in ((-1, 1), (0.5, 2)))
    )
    return learner, state._replace(agent=agent, obs=moments)


def policy_of(learner):
    local = None if learner.config.policy.name == "joint" else learner.spec.local
    spec = learner.spec
    return NumpyPolicy(space=spec.components, kind=learner.config.policy.name, factors=spec.factors, local=local)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("space", "policy", "settings"),
    [
        ("categorical", "joint", {}),
        ("gaussian", "joint", {"normalize_obs": True, "distribution": "tanh"}),
        ("gaussian", "joint", {"distribution": "beta"}),
        ("mixed", "shared", {"distribution": "beta"}),
        ("mixed", "shared", {"normalize_obs": True}),
        ("bernoulli", "shared", {}),
        ("mixed", "independent", {}),
    ],
)
def test_log_probabilities_are_those_of_the_learner(space, policy, settings):
    learner, state = learner_of(space, policy, **settings)
    obs = np.random.default_rng(0).normal(size=(11, 5)).astype(np.float32) * 3
    policy, arrays = policy_of(learner), learner.behaviour(state).arrays()
    ours = policy.network(arrays, len(obs))(obs)
    normalised = learner.normalised(state.obs, obs)
    theirs, spread = state.agent.policy(normalised, learner.rule.local(normalised))
    action = learner.act(state, jax.random.key(0), obs)
    np.testing.assert_allclose(
        learner.spec.components.log_prob(jnp.asarray(ours), spread, action),
        want := learner.spec.components.log_prob(theirs, spread, action),
        atol=1e-5,
    )
    np.testing.assert_allclose(policy.log_prob(arrays, ours, np.asarray(action)), want, atol=1e-5)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("policy", ["joint", "shared", "independent"])
def test_outputs_are_those_of_the_layers_written_out(policy, activation):
    """Biases are added by a constant one that passes through all hidden layers, which must not change on the way."""
    plan = plan_of(factory(Drift, size=5), policy)
    arrays = parameters(plan, 0, 8)._replace(centre=None, scale=None)
    obs = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    rows = Drift.local(obs).astype(np.float64) if policy != "joint" else obs.astype(np.float64)
    if arrays.identity is not None:
        rows = np.concatenate([rows, np.broadcast_to(arrays.identity, (3, *arrays.identity.shape))], axis=-1)
    rows = rows[..., None, :]
    for k, (kernel, bias) in enumerate(zip(arrays.kernels, arrays.biases, strict=True)):
        rows = rows @ kernel + bias[..., None, :]
        if k + 1 < len(arrays.kernels):
            rows = np.tanh(rows) if activation == "tanh" else np.maximum(rows, 0)
    network = replace(plan.policy, local=Drift.local, activation=activation).network(arrays, 3)
    for _ in range(2):
        output = network(obs)
        np.testing.assert_allclose(output, rows.reshape(output.shape), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_one_of_the_biases_stays_exactly_one(activation):
    """For arrays of any size, because vectorised loops treat the rest of an array differently."""
    constant = numpy_policy._BECOMES_ONE[activation]
    for width in range(1, 70):
        layers = numpy_policy._Layers(
            arrays=PolicyArrays(
                kernels=(np.zeros((1, width), np.float32), np.zeros((width, 1), np.float32)),
                biases=(np.full(width, constant, np.float32), np.zeros(1, np.float32)),
                identity=None,
                log_std=np.zeros(1, np.float32),
                mixing=np.zeros((0, 0, 0), np.float32),
            ),
            kind="joint",
            shape=(1, 1, 1),
            first=0,
            activation=activation,
        )
        layers.forward()
        hidden = layers._hidden[0][2]
        assert hidden.shape[-1] == width + 1
        assert (hidden == 1).all()


@pytest.mark.parametrize("n_envs", [1, TILE + 1])
@pytest.mark.parametrize("policy", ["joint", "shared", "independent"])
def test_parameters_in_double_precision_are_rounded(policy, n_envs):
    """Biases have double precision if JAX computes in it."""
    plan = plan_of(factory(Drift, size=5), policy)
    arrays = parameters(plan, 0, 8)
    double = arrays._replace(biases=tuple(bias.astype(np.float64) for bias in arrays.biases))
    obs = np.random.default_rng(0).normal(size=(n_envs, 5)).astype(np.float32)
    single, rounded = (replace(plan.policy, local=Drift.local).network(each, n_envs)(obs) for each in (arrays, double))
    assert rounded.dtype == np.float32
    np.testing.assert_array_equal(rounded, single)


def test_outputs_that_were_kept_do_not_change_in_later_steps():
    plan = plan_of(factory(Drift, size=5), "joint")
    arrays, rng, kept = parameters(plan, 0, 8), np.random.default_rng(0), []
    noise = np.stack([plan.policy.draw(rng, arrays, 3) for _ in range(2)], axis=1)
    act, obs = plan.policy.playing(arrays, 0, noise, kept), rng.normal(size=(3, 2, 5)).astype(np.float32)
    for rows in obs:
        act(rows)
    for output, rows in zip(kept, obs, strict=True):
        np.testing.assert_array_equal(output, plan.policy.network(arrays, 2)(rows))


@pytest.mark.parametrize("policy", ["joint", "shared", "independent"])
def test_an_environment_gets_the_same_output_in_any_batch(policy):
    """Bit for bit, in any part of a large batch, and where BLAS would use several threads."""
    for hidden, size in ((8, 5), (400, 3000)):
        plan = plan_of(factory(Drift, size=size), policy)
        of_factors = replace(plan.policy, local=Drift.local)
        arrays = parameters(plan, 0, hidden)
        obs = np.random.default_rng(0).normal(size=(3 * TILE + 1, size)).astype(np.float32)
        whole = of_factors.network(arrays, len(obs))(obs)
        for first, end in ((0, 1), (1, 2), (3, 12), (7, 9), (8, 16), (20, 25)):
            part = of_factors.network(arrays, end - first, first)(obs[first:end])
            np.testing.assert_array_equal(part, whole[first:end])


@pytest.mark.parametrize("policy", ["shared", "independent"])
def test_local_observations_written_to_the_inputs_give_the_same_outputs(policy):
    class Written:
        def __call__(self, obs):
            raise AssertionError("is not called")

        def writer(self, out):
            def write(obs):
                out[...] = Drift.local(obs)

            return write

    plan = plan_of(factory(Drift, size=5), policy)
    arrays, obs = parameters(plan, 0, 8), np.random.default_rng(0).normal(size=(2, 3, 5)).astype(np.float32)
    plain, written = (replace(plan.policy, local=local).network(arrays, 3, 1) for local in (Drift.local, Written()))
    for rows in obs:
        np.testing.assert_array_equal(written(rows), plain(rows))


@pytest.mark.slow
def test_actions_have_the_distribution_of_the_policy():
    """Frequencies of choices within five standard errors; of Gaussians mean and deviation."""
    learner, state = learner_of("mixed")
    policy, arrays = policy_of(learner), learner.behaviour(state).arrays()
    obs = np.float32([[0.5, -1.0, 0.3, 2.0, 0.0]])
    N = 40_000
    noise = policy.draw(np.random.default_rng(0), arrays, N)
    out = policy.network(arrays, len(obs))(obs)
    drawn = policy.space.choose(np.broadcast_to(out, noise.shape), noise)
    logits = jax.nn.softmax(out[0, 0])
    for choice in range(3):
        p = float(logits[choice])
        assert abs((drawn[:, 0] == choice).mean() - p) < 5 * np.sqrt(p * (1 - p) / N)
    p = float(jax.nn.sigmoid(out[0, 2, 0]))
    assert abs(drawn[:, 2].mean() - p) < 5 * np.sqrt(p * (1 - p) / N)
    deviation = float(np.exp(arrays.log_std[1]))
    assert abs(drawn[:, 1].mean() - out[0, 1, 0]) < 5 * deviation / np.sqrt(N)
    assert abs(drawn[:, 1].std() / deviation - 1) < 5 / np.sqrt(2 * N)


@pytest.mark.slow
def test_a_covariance_within_a_factor():
    net = InfluenceNetwork.complete(3, 3).factor(Factorisation([[0, 2], [1]], 3))
    learner = Learner.of(lambda: Drift("gaussian"), net, Config(distribution="scale,std=full", **SMALL))
    state = learner.init(0)
    mixing = state.agent.policy.spread.mixing.at[0, 1, 0].set(0.8)
    spread = state.agent.policy.spread._replace(mixing=mixing, log_std=jnp.float32([0.1, -0.4, 0.2]))
    agent = eqx.tree_at(lambda agent: agent.policy.spread, state.agent, spread)
    policy, arrays = policy_of(learner), learner.behaviour(state._replace(agent=agent)).arrays()
    drawn = policy.draw(np.random.default_rng(0), arrays, 50_000)[..., 0]
    theirs = learner.spec.components.sample(jax.random.key(0), jnp.zeros((50_000, 3, 1)), spread)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(np.asarray(theirs).T), atol=0.06)
    ours = policy.log_prob(arrays, np.zeros((9, 3, 1)), drawn[:9])
    want = learner.spec.components.log_prob(jnp.zeros((9, 3, 1)), spread, drawn[:9])
    np.testing.assert_allclose(ours, want, atol=1e-5)
    assert abs(np.cov(drawn.T)[0, 1]) < 0.03 < np.cov(drawn.T)[0, 2]


@pytest.mark.parametrize("distribution", ["scale", "clip", "tanh", "beta"])
def test_actions_depend_on_the_environments_own_noise_alone(distribution):
    """Bit for bit: the actions of one environment are the same alone and in a batch."""
    learner, state = learner_of("gaussian", distribution=distribution)
    policy, arrays = policy_of(learner), learner.behaviour(state).arrays()
    obs = np.random.default_rng(0).normal(size=(4, 11, 5)).astype(np.float32)
    noise = np.stack([policy.draw(np.random.default_rng(i), arrays, 4) for i in range(11)], axis=1)
    together = policy.playing(arrays, 0, noise)
    alone = policy.playing(arrays, 7, noise[:, 7:8])
    for row in obs:
        np.testing.assert_array_equal(together(row)[7:8], alone(row[7:8]))
