"""Updates, agents and rollouts for the tests of `factorax.ppo.update`."""

import equinox as eqx
import jax
import numpy as np
from gymnasium import spaces

import factorax as fx
from factorax.networks.arrangements import Encoded, Joint
from factorax.networks.mlp import LayerSettings
from factorax.networks.policies import Critic, Policy
from factorax.ppo import Agent, Config, Rollout, Update, diagnostics, gae
from factorax.spec import Spec
from ppo import helping
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


def make_rollout(update, agent, m=3, seed=0, **more):
    """A rollout with random rewards, in which some episodes are terminated and some truncated."""
    rng, components = np.random.default_rng(seed + 100), update.spec.components
    obs, next_obs = rng.normal(size=(2, T, B, N_INPUTS)).astype(np.float32)
    noise = components.noise(rng, T * B, np.asarray(agent.policy.spread.log_std))
    parameters = np.asarray(outputs_of(agent.policy, obs)[0])
    action = components.choose(parameters.reshape(noise.shape), noise).reshape(T, B, -1).astype(np.float32)
    terminated, truncated = rng.random(size=(2, T, B)) < 0.2
    psi = jax.device_put(rng.normal(size=(T, B, m)).astype(np.float32))
    rollout = Rollout(
        obs=obs,
        local=None,
        action=action,
        psi=psi,
        next_obs=next_obs,
        terminated=terminated,
        truncated=truncated,
    )
    return jax.device_put(rollout._replace(**more))


def perturbed(agent, by=0.3, seed=7):
    """A nearby agent, whose probability ratios differ from one."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jax.device_put(np.float32(np.asarray(x) + by * rng.normal(size=x.shape))), agent)


samples_of = eqx.filter_jit(helping.samples_of)
loss_of = eqx.filter_jit(helping.loss_of)


@eqx.filter_jit
def loss_gradient(update, agent, samples):
    return eqx.filter_grad(lambda a: helping.loss_of(update, a, samples))(agent)


@eqx.filter_jit
def metrics_of(update, acting, agent, samples):
    return diagnostics.update_metrics(update, acting, agent, samples, update.config.hyper)


@eqx.filter_jit
def outputs_of(network, obs):
    """What a policy or a critic puts out."""
    return network(obs, None)


def assert_close(got, want, rtol=2e-4, atol=2e-6):
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=rtol, atol=atol)


@eqx.filter_jit
def advantages(update, agent, rollout):
    c, terminated = update.config, rollout.terminated[..., None]
    value, after = agent.critic(rollout.obs, None), agent.critic(rollout.next_obs, None)
    ended = terminated | rollout.truncated[..., None]
    return gae(rollout.psi, value, after, terminated=terminated, ended=ended, gamma=c.gamma, trace=c.gae_lambda)
