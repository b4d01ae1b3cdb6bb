"""Factored PPO in one file, to read from top to bottom and copy.

    python examples/factored_ppo.py

trains a controller of sixteen heaters with plain PPO and with factored PPO, with a few seeds each, and prints a table;
it takes less than a minute on two cores. To use it for your own problem, replace `Rooms` by a Gymnasium environment
that returns its targets in ``info["vector_reward"]``, `influence` by its network, and, if observations have another
form, `means` and `values`.

Axes are in the order time T, environment B, and then factor n or target m.
"""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax

from factorax import InfluenceNetwork, credit

# The problem ----------------------------------------------------------------------------------------------------------


class Rooms(gym.Env):
    """n rooms with a heater each, and one electricity bill.

    - **Observation** ``(n, 2)``: the temperature and the desired temperature of each room.
    - **Action** ``(n,)``: the power of each heater.
    - **Targets** ``(n + 1,)``: the comfort of each room, −(temperature − desired)², and the bill, −price Σ aᵢ² / n.
    - **Reward**: the weighted sum of the targets.
    - **Terminated** by a power cut, with a probability of 1 % per step: the value after it is 0.
    - **Truncated** after 50 steps: the night continues, but the episode ends.
    """

    n = 16
    horizon = 50
    weights = np.append(np.ones(n), 1.0)

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (self.n, 2), np.float32)
        self.action_space = gym.spaces.Box(-3.0, 3.0, (self.n,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Start a night with new temperatures and desired temperatures."""
        super().reset(seed=seed)
        self.temperature = self.np_random.normal(size=self.n)
        self.wish = self.np_random.uniform(-1, 1, self.n)
        self.time = 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Simulate one hour."""
        weather = 0.3 * self.np_random.normal(size=self.n)
        self.temperature = 0.8 * self.temperature + action + weather
        self.time += 1
        price = self.np_random.exponential()
        comfort = -((self.temperature - self.wish) ** 2)
        psi = np.append(comfort, -price * np.mean(action**2))
        terminated = bool(self.np_random.random() < 0.01)
        info = {"vector_reward": psi}
        return self._observe(), float(self.weights @ psi), terminated, self.time >= self.horizon, info

    def _observe(self) -> np.ndarray:
        return np.stack([self.temperature, self.wish], axis=-1).astype(np.float32)


def influence(n: int) -> InfluenceNetwork:
    """Return K = [I 1]: a heater influences its room, now and later, and the bill.

    This holds because each heater observes only its own room. If it observed all rooms, one heater would change the
    actions of the others in the next step, and K would be all ones. Power cuts do not depend on the actions; if they
    did, all actions would also influence all targets.
    """
    return InfluenceNetwork(np.hstack([np.eye(n), np.ones((n, 1))]).astype(bool))


# Settings, networks ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters of PPO, the same for both estimators."""

    updates: int = 40
    n_envs: int = 8
    n_steps: int = 64
    epochs: int = 6
    minibatch: int = 128
    learning_rate: float = 1e-3
    gamma: float = 0.95
    trace: float = 0.9  # λ of GAE
    clip: float = 0.2
    value_weight: float = 0.5
    longest_gradient: float = 0.5
    hidden: int = 32


def init_mlp(key: jax.Array, sizes: tuple[int, ...], last_gain: float) -> list[tuple[jax.Array, jax.Array]]:
    """Return layers with orthogonal weights."""
    gains = [2**0.5] * (len(sizes) - 2) + [last_gain]
    keys = jax.random.split(key, len(gains))
    layers = zip(keys, sizes[:-1], sizes[1:], gains, strict=True)
    return [(jax.nn.initializers.orthogonal(gain)(k, (a, b)), jnp.zeros(b)) for k, a, b, gain in layers]


def mlp(layers: list[tuple[jax.Array, jax.Array]], x: jax.Array) -> jax.Array:
    """Map ``(..., first size)`` to ``(..., last size)``."""
    for weights, bias in layers[:-1]:
        x = jnp.tanh(x @ weights + bias)
    return x @ layers[-1][0] + layers[-1][1]


def init_agent(key: jax.Array, n: int, m: int, s: Settings) -> dict[str, Any]:
    """Return one policy network for all heaters, applied to each room, and a critic with one value per target."""
    for_policy, for_critic = jax.random.split(key)
    return {
        "policy": init_mlp(for_policy, (2, s.hidden, s.hidden, 1), 0.01),
        "log_std": jnp.zeros(n) - 0.5,
        "critic": init_mlp(for_critic, (2 * n, 2 * s.hidden, 2 * s.hidden, m), 1.0),
    }


def means(agent: dict[str, Any], obs: jax.Array) -> jax.Array:
    """Return the mean of the Gaussian of each heater: ``(..., n, 2)`` → ``(..., n)``."""
    return mlp(agent["policy"], obs)[..., 0]


def log_prob(agent: dict[str, Any], obs: jax.Array, action: jax.Array) -> jax.Array:
    """Return log πᵢ(aᵢ | sᵢ) of each heater, ``(..., n)``."""
    return jax.scipy.stats.norm.logpdf(action, means(agent, obs), jnp.exp(agent["log_std"]))


@jax.jit
def draw(agent: dict[str, Any], obs: Any, noise: Any) -> jax.Array:
    """Return actions ``(..., n)`` of the policy, given normal noise."""
    return means(agent, obs) + jnp.exp(agent["log_std"]) * noise


def values(agent: dict[str, Any], obs: jax.Array) -> jax.Array:
    """Return the value of each target, ``(..., m)``. The critic may observe everything, since it does not act."""
    return mlp(agent["critic"], obs.reshape(*obs.shape[:-2], -1))


# Rollouts -------------------------------------------------------------------------------------------------------------


class Rollout(NamedTuple):
    """The transitions of B environments in T steps, ``[T, B, ...]``."""

    obs: Any
    action: Any
    psi: Any
    next_obs: Any
    """The next observation; at the end of an episode its *last* observation, not the first of the next episode."""
    terminated: Any
    truncated: Any


class Environments:
    """B environments that are reset when their episode ends, with the returns of ended episodes."""

    def __init__(self, size: int, seed: int) -> None:
        self.envs: list[Any] = [Rooms() for _ in range(size)]
        self.obs = np.stack([env.reset(seed=1000 * seed + i)[0] for i, env in enumerate(self.envs)])
        self.running = np.zeros(size)
        self.returns: list[float] = []

    def collect(self, agent: dict[str, Any], noise: np.ndarray) -> Rollout:
        """Make one step for each row of the policy's noise ``[T, B, n]``."""
        rows = []
        for noise_t in noise:
            actions = np.asarray(draw(agent, self.obs, noise_t))
            results = [self._step(i, action) for i, action in enumerate(actions)]
            psi, next_obs, first_obs, terminated, truncated = map(np.stack, zip(*results, strict=True))
            rows.append(Rollout(self.obs, actions, psi, next_obs, terminated, truncated))
            self.obs = first_obs
        return Rollout(*map(np.stack, zip(*rows, strict=True)))

    def _step(self, i: int, action: np.ndarray) -> tuple[Any, ...]:
        env, space = self.envs[i], self.envs[i].action_space
        # The environment receives the clipped action; the policy learns from the unclipped one.
        next_obs, reward, terminated, truncated, info = env.step(np.clip(action, space.low, space.high))
        self.running[i] += reward
        first_obs = next_obs
        if terminated or truncated:
            self.returns.append(self.running[i])
            self.running[i] = 0.0
            first_obs = env.reset()[0]
        return np.float32(info["vector_reward"]), next_obs, first_obs, terminated, truncated


# The algorithm --------------------------------------------------------------------------------------------------------


def gae(psi: Any, v: Any, v_next: Any, terminated: Any, ended: Any, s: Settings) -> jax.Array:
    """Return the advantages of each target, ``[T, B, m]`` (Schulman et al., 2016).

        δ_t = ψ_t + γ (1 − terminated_t) v(s'_t) − v(s_t),    A_t = δ_t + γλ (1 − ended_t) A_{t+1}

    Only termination cuts the bootstrap: a truncated episode still has a future, with the value of its last observation.
    Both cut the sum, because what follows in the rollout belongs to another episode.
    """
    delta = psi + s.gamma * (1.0 - terminated[..., None]) * v_next - v
    decay = s.gamma * s.trace * (1.0 - ended[..., None])

    def back(after: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        advantage = now[0] + now[1] * after
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(delta[0]), (delta, decay), reverse=True)[1]


class Samples(NamedTuple):
    """The samples of which minibatches are drawn, ``[T · B, ...]``."""

    obs: jax.Array
    action: jax.Array
    log_prob: jax.Array
    """Log-probability of each heater under the acting policy."""
    credit: jax.Array
    """The credit of each factor."""
    returns: jax.Array


def loss(agent: dict[str, Any], batch: Samples, joint: bool, s: Settings) -> jax.Array:
    """Return −E Σᵢ min(rᵢ Cᵢ, clip(rᵢ) Cᵢ), with one ratio rᵢ = πᵢ / πᵢ_old per factor, plus the critic's squared
    error."""
    log_ratio = log_prob(agent, batch.obs, batch.action) - batch.log_prob
    if joint:  # plain PPO: one factor with all actions
        log_ratio = log_ratio.sum(axis=-1, keepdims=True)
    ratio = jnp.exp(log_ratio)
    c = (batch.credit - batch.credit.mean()) / (batch.credit.std(ddof=1) + 1e-8)  # one scale for all factors
    gain = jnp.minimum(ratio * c, jnp.clip(ratio, 1 - s.clip, 1 + s.clip) * c)
    error = batch.returns - values(agent, batch.obs)
    return -gain.sum(axis=-1).mean() + s.value_weight * (error**2).mean()


def make_update(weights: np.ndarray, net: InfluenceNetwork, *, joint: bool, s: Settings) -> tuple[Any, Any]:
    """Return two functions: the initial optimizer state, and a compiled update from one rollout."""
    # The epsilon of Stable-Baselines3: small gradients, as those of a new policy, make smaller steps.
    adam = optax.adam(s.learning_rate, eps=1e-5)
    optimiser = optax.chain(optax.clip_by_global_norm(s.longest_gradient), adam)

    @jax.jit
    def update(agent: dict[str, Any], state: Any, rollout: Rollout, key: jax.Array) -> tuple[dict[str, Any], Any]:
        v, v_next = values(agent, rollout.obs), values(agent, rollout.next_obs)
        ended = rollout.terminated | rollout.truncated
        advantage = gae(rollout.psi, v, v_next, rollout.terminated, ended, s)
        samples = Samples(
            rollout.obs,
            rollout.action,
            log_prob(agent, rollout.obs, rollout.action),
            credit(net, advantage, weights),  # the one line that makes it factored: [K(λ∘A)]
            advantage + v,
        )
        samples = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), samples)

        def minibatch(carry: tuple[Any, Any], indices: jax.Array) -> tuple[Any, None]:
            agent, state = carry
            gradient = jax.grad(loss)(agent, jax.tree.map(lambda x: x[indices], samples), joint, s)
            change, state = optimiser.update(gradient, state, agent)
            return (optax.apply_updates(agent, change), state), None

        keys = jax.random.split(key, s.epochs)
        order = jax.vmap(lambda k: jax.random.permutation(k, len(samples.obs)))(keys)
        (agent, state), _ = jax.lax.scan(minibatch, (agent, state), order.reshape(-1, s.minibatch))
        return agent, state

    return optimiser.init, update


def train(functions: tuple[Any, Any], seed: int, s: Settings) -> list[float]:
    """Train one run; return the mean return of the episodes that ended in each fifth of it."""
    init_optimiser, update = functions
    key, for_agent = jax.random.split(jax.random.key(seed))
    agent = init_agent(for_agent, Rooms.n, len(Rooms.weights), s)
    state = init_optimiser(agent)
    environments = Environments(s.n_envs, seed)
    fifths = []
    for u in range(s.updates):
        key, for_noise, for_update = jax.random.split(key, 3)
        noise = np.asarray(jax.random.normal(for_noise, (s.n_steps, s.n_envs, Rooms.n)))
        agent, state = update(agent, state, environments.collect(agent, noise), for_update)
        if (u + 1) % (s.updates // 5) == 0:
            fifths.append(float(np.mean(environments.returns)))
            environments.returns.clear()
    return fifths


def main(seeds: int = 3) -> None:
    """Train both estimators with the same seeds, and thus the same initial environments and networks."""
    s, n, weights = Settings(), Rooms.n, Rooms.weights
    estimators = {
        "vanilla": make_update(weights, InfluenceNetwork.complete(1, n + 1), joint=True, s=s),
        "factored": make_update(weights, influence(n), joint=False, s=s),
    }
    steps = [s.n_envs * s.n_steps * s.updates * fifth // 5 for fifth in range(1, 6)]
    print(f"mean episode return, {seeds} seeds (± standard deviation), in the steps up to")
    print(" " * 10 + "".join(f"{step:>16,}" for step in steps))
    for name, functions in estimators.items():
        started = time.perf_counter()
        runs = np.array([train(functions, seed, s) for seed in range(seeds)])
        cells = zip(runs.mean(axis=0), runs.std(axis=0, ddof=1), strict=True)
        row = "".join(f"{f'{mean:.0f} ± {deviation:.0f}':>16}" for mean, deviation in cells)
        print(f"{name:<10}{row}   ({time.perf_counter() - started:.0f} s)")


if __name__ == "__main__":
    main()
