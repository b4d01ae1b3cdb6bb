"""A small decision process, all trajectories of it, and the gradient of the objective by enumeration."""

from functools import cache

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import factorax as fx
from factorax.ppo import Config, Learner, Rollout
from factorax.problems import Problem, Step
from ppo.helping import loss_of, samples_of

H = 3
LAM = np.array([1.0, -2.0])
RETURNS = fx.InfluenceNetwork([[1, 1], [0, 1]])
WRONG = fx.InfluenceNetwork.identity(2)  # the network of rewards within a step: a₀ → ψ₁ comes later
REWARDS = jnp.asarray(np.random.default_rng(3).normal(size=(2, 2, 2, 2)), jnp.float32)


def two_bits():
    """Two bits, each set by its own action; bit 0 also turns bit 1. ψⱼ is a table of bit j and action j."""

    def observe(bits, time):
        return jnp.append(bits, time).astype(jnp.float32)

    def reset(key):
        state = {"bits": jnp.array([1, 0]), "time": jnp.int32(0)}
        return state, observe(**state)

    def step(key, state, action):
        x, y = state["bits"]
        psi = jnp.array([REWARDS[0, x, action[0], 0], REWARDS[1, y, action[1], 0]])
        after = {"bits": jnp.array([action[0], (y + action[1] + x) % 2]), "time": state["time"] + 1}
        return Step(after, observe(**after), psi, after["time"] >= H, jnp.array(False))

    def local(obs):
        """Factor 1 sees all; factor 0 must not see bit 1, or a₁ would reach ψ₀ through it."""
        return jnp.stack([obs * jnp.array([1.0, 0.0, 1.0]), obs], axis=-2)

    box = gym.spaces.Box(0.0, float(H), (3,), np.float32)
    return Problem(
        name="two-bits",
        reset=reset,
        step=step,
        observation_space=box,
        action_space=gym.spaces.MultiBinary(2),
        network=RETURNS,
        weights=LAM,
        local=local,
    )


SETTINGS = {
    "policy": "independent",
    "hidden": (3,),
    "gamma": 1.0,
    "gae_lambda": 1.0,
    "normalize_advantage": False,
    "vf_coef": 0.0,
    "n_envs": 2048,
    "n_steps": H,
    "batch_size": 2048 * H,
    "n_epochs": 1,
}


@cache
def learner(net=RETURNS, **settings):
    return Learner.of(two_bits(), net, Config(**{"policy": "joint", "critic": "target"} | SETTINGS | settings))


@cache
def start():
    """A state whose policy is not uniform."""
    state = learner().init(0)

    @jax.jit
    def noisy(net):
        return jax.tree.map(lambda x: x + 0.7 * jax.random.normal(jax.random.key(9), x.shape), net)

    return state._replace(agent=eqx.tree_at(lambda a: a.policy.net, state.agent, noisy(state.agent.policy.net)))


@cache
def trajectories():
    """All 2⁶ of them as a rollout ``[H, 64, ...]``."""
    problem, local = two_bits(), learner().rule.local
    actions = np.stack(np.meshgrid(*[[0, 1]] * 2 * H, indexing="ij"), -1).reshape(-1, H, 2)

    @jax.vmap
    def follow(actions):
        state, first = problem.reset(jax.random.key(0))

        def one(carry, action):
            state, obs = carry
            new = problem.step(jax.random.key(0), state, action)
            return (new.state, new.obs), (obs, action, new.psi, new.obs, new.terminated, new.truncated)

        return jax.lax.scan(one, (state, first), actions)[1]

    @jax.jit
    def rollout(actions):
        obs, action, psi, next_obs, terminated, truncated = (jnp.swapaxes(x, 0, 1) for x in follow(actions))
        return Rollout(
            obs=obs,
            local=local(obs),
            action=action.astype(jnp.float32),
            psi=psi,
            next_obs=next_obs,
            terminated=terminated,
            truncated=truncated,
        )

    return rollout(actions)


def log_probs(policy, rollout=None):
    """log πᵢ of every step, ``[H, 64, 2]``."""
    rollout = rollout or trajectories()
    return learner().rule.log_prob(policy(rollout.obs, rollout.local), rollout.action)


def flat(tree):
    return np.concatenate([np.asarray(x, float).ravel() for x in jax.tree.leaves(tree)])


@cache
def exact():
    """∇J of J(θ) = Σ_trajectories π(τ) Σ_t λ·ψ_t, by differentiating the sum."""
    total = (np.asarray(trajectories().psi) @ LAM).sum(axis=0)
    gradient = jax.jit(jax.grad(lambda policy: jnp.exp(log_probs(policy).sum(axis=(0, 2))) @ total))
    return flat(gradient(start().agent.policy))


@cache
def bias():
    """−E Σ_t z₀ λ₁ G₁: what the edge a₀ → ψ₁ would have given (maths.md, 1)."""
    to_go = np.cumsum(np.asarray(trajectories().psi)[::-1], axis=0)[::-1]

    @jax.jit
    @jax.grad
    def missing(policy):
        logs = log_probs(policy)
        share = jax.lax.stop_gradient(jnp.exp(logs.sum(axis=(0, 2))))
        return (logs[..., 0] * share * LAM[1] * to_go[..., 1]).sum()

    return -flat(missing(start().agent.policy))


def ascent(learner, agent, samples):
    """The direction in which the loss sends the policy."""
    gradient = eqx.filter_grad(lambda a: loss_of(learner.rule, a, samples))(agent)
    return jax.tree.map(jnp.negative, gradient.policy)


@cache
def expected_update(net, **settings):
    """The update's gradient averaged over all trajectories by their probability, times the steps of one."""
    this, agent, rollout = learner(net, **settings), start().agent, trajectories()

    @eqx.filter_jit
    def mean(agent):
        samples = samples_of(this.rule, agent, rollout)
        share = jnp.tile(jnp.exp(log_probs(agent.policy).sum(axis=(0, 2))) * 64, H)
        return ascent(this, agent, samples._replace(credit=samples.credit * share[:, None]))

    return H * flat(mean(agent))
