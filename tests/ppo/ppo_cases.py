"""Updates, agents and batches for the tests of `factorax.ppo.update`."""

import equinox as eqx
import jax
import numpy as np
from gymnasium import spaces

import factorax as fx
from factorax.networks.arrangements import Encoded, Joint
from factorax.networks.mlp import LayerSettings
from factorax.networks.policies import Critic, Policy
from factorax.ppo import Agent, Config, TrainingBatch, Update, gae
from factorax.spec import Spec
from ppo.helping import random_network

T, B, N_INPUTS = 6, 4, 3
NET = fx.InfluenceNetwork([[1, 1, 0], [0, 1, 0], [0, 1, 1]])
LAM = np.array([0.5, -1.0, 2.0])
SPACES = {
    "box": spaces.Box(-np.inf, np.inf, (3,)),
    "binary": spaces.MultiBinary(3),
    "choices": spaces.MultiDiscrete([3, 2, 4]),
    "mixed": spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (1,)), spaces.MultiBinary(1)]),
}
SETTINGS = {"n_envs": B, "n_steps": T, "batch_size": T * B, "normalize_advantage": False, "vf_coef": 0.0}


def make_update(space, net=NET, weights=LAM, **settings):
    """An update with the network `net`; one of a single row stands for a complete network of all three components."""
    net = fx.InfluenceNetwork.complete(3, net.shape[1]) if net.shape[0] == 1 else net
    observations = spaces.Box(-np.inf, np.inf, (N_INPUTS,))
    return Update(
        Spec.of_spaces(observations, space, net, weights=weights),
        Config(**{"policy": "joint", "critic": "target"} | SETTINGS | settings),
    )


def make_agent(update, m=3, hidden=(5,), seed=0):
    c, width = len(update.spec.components), update.spec.components.width
    inputs = Encoded(update.spec.observations)

    def joint(outputs, seed):
        return random_network(lambda: Joint(jax.random.key(0), inputs, outputs, 1.0, LayerSettings(hidden)), seed)

    spread = update.spec.components.spread(0.0)._replace(
        log_std=jax.device_put(np.linspace(-0.5, 0.5, c, dtype=np.float32))
    )
    return Agent(Policy(joint((c, width), 2 * seed), spread), Critic(joint((m, 1), 2 * seed + 1)))


def make_batch(update, agent, m=3, seed=0, **more):
    """A rollout with random rewards, in which some episodes are terminated and some truncated."""
    return _draw_batch(update, agent, m, seed)._replace(**more)


def _draw_batch(update, agent, m, seed):
    rng, components = np.random.default_rng(seed + 100), update.spec.components
    obs, next_obs = rng.normal(size=(2, T, B, N_INPUTS)).astype(np.float32)
    noise = components.noise(rng, T * B, np.asarray(agent.policy.spread.log_std))
    parameters = np.asarray(outputs_of(agent.policy, obs)[0])
    action = components.choose(parameters.reshape(noise.shape), noise).reshape(T, B, -1).astype(np.float32)
    terminated, truncated = rng.random(size=(2, T, B)) < 0.2
    psi = jax.device_put(rng.normal(size=(T, B, m)).astype(np.float32))
    batch = TrainingBatch(
        obs=obs,
        local=None,
        action=action,
        psi=psi,
        next_obs=next_obs,
        terminated=terminated,
        truncated=truncated,
    )
    return jax.device_put(batch)


def perturbed(agent, by=0.3, seed=7):
    """A nearby agent, whose probability ratios differ from one."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jax.device_put(np.float32(np.asarray(x) + by * rng.normal(size=x.shape))), agent)


@eqx.filter_jit
def samples_of(update, agent, batch, net):
    return update.samples(agent, batch, net)


@eqx.filter_jit
def loss_gradient(update, agent, samples, old):
    return eqx.filter_grad(lambda a: update.loss(a, samples, old, 0.0)[0])(agent)


@eqx.filter_jit
def loss_of(update, agent, samples, old, kl_coef=0.0):
    return update.loss(agent, samples, old, kl_coef)


@eqx.filter_jit
def loss_and_gradient(update, agent, samples, old):
    """The loss and its metrics, and the gradient."""
    return eqx.filter_value_and_grad(lambda a: update.loss(a, samples, old, 0.0), has_aux=True)(agent)


@eqx.filter_jit
def outputs_of(network, obs):
    """What a policy or a critic puts out."""
    return network(obs, None)


@eqx.filter_jit
def estimates_of(update, agent, batch, net, hyper):
    return update.estimates(agent, batch, net, hyper)


def assert_close(got, want, rtol=2e-4, atol=2e-6):
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=rtol, atol=atol)


@eqx.filter_jit
def advantages(update, agent, batch):
    c, terminated = update.config, batch.terminated[..., None]
    value, after = agent.critic(batch.obs, None), agent.critic(batch.next_obs, None)
    ended = terminated | batch.truncated[..., None]
    return gae(batch.psi, value, after, terminated=terminated, ended=ended, gamma=c.gamma, trace=c.gae_lambda)
