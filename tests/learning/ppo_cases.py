"""Updates, agents and batches for the tests of `factorax.learning.ppo`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

import factorax as fx
from factorax.learning import Agent, Config, TrainingBatch, Update, gae
from factorax.learning.modules.arrangements import Encoded, Joint
from factorax.learning.modules.mlp import LayerSettings
from factorax.learning.policies import Critic, Policy
from factorax.spec import Spec

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
    return Update(Spec.of_spaces(observations, space, net, weights=weights), Config(**SETTINGS | settings))


def make_agent(update, m=3, hidden=(5,), seed=0):
    one, two = jax.random.split(jax.random.key(seed))
    c, width = len(update.spec.components), update.spec.components.width
    inputs = Encoded(update.spec.observations)
    policy = Policy(
        Joint(one, inputs, (c, width), 1.0, LayerSettings(hidden)),
        update.spec.components.spread(0.0)._replace(log_std=jnp.linspace(-0.5, 0.5, c)),
    )
    return Agent(policy, Critic(Joint(two, inputs, (m, 1), 1.0, LayerSettings(hidden))))


def make_batch(update, agent, m=3, seed=0, **more):
    """A rollout with random rewards, in which some episodes are terminated and some truncated."""
    return _draw_batch(update, agent, m, seed)._replace(**more)


@eqx.filter_jit
def _draw_batch(update, agent, m, seed):
    keys = jax.random.split(jax.random.key(seed + 100), 5)
    obs, next_obs = jax.random.normal(keys[0], (2, T, B, N_INPUTS))
    action = update.spec.components.sample(keys[1], *agent.policy(obs, None))
    terminated, truncated = jax.random.bernoulli(keys[2], 0.2, (2, T, B))
    psi = jax.random.normal(keys[3], (T, B, m))
    return TrainingBatch(
        obs=obs,
        local=None,
        action=action,
        psi=psi,
        next_obs=next_obs,
        next_local=None,
        terminated=terminated,
        truncated=truncated,
    )


def perturbed(agent, by=0.3, seed=7):
    """A nearby agent, whose probability ratios differ from one."""
    leaves, tree = jax.tree.flatten(agent)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    moves = [x + by * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(tree, moves)


@eqx.filter_jit
def samples_of(update, agent, batch, net):
    return update.samples(agent, batch, net)


@eqx.filter_jit
def loss_gradient(update, agent, samples, old):
    return eqx.filter_grad(lambda a: update.loss(a, samples, old, 0.0)[0])(agent)


def assert_close(got, want, rtol=2e-4, atol=2e-6):
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=rtol, atol=atol)


def advantages(update, agent, batch):
    c, terminated = update.config, batch.terminated[..., None]
    value, after = agent.critic(batch.obs, None), agent.critic(batch.next_obs, None)
    ended = terminated | batch.truncated[..., None]
    return gae(batch.psi, value, after, terminated=terminated, ended=ended, gamma=c.gamma, trace=c.gae_lambda)
