"""Tasks of `benchmarks.jaxmarl_study`: problems, and settings of the methods of JaxMARL and of ours."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from factorax import Factorisation, InfluenceNetwork
from factorax.integrations import from_brax, from_jaxmarl
from factorax.networks.mlp import MLP
from factorax.ppo import Config
from factorax.problems import Problem, Step


@dataclasses.dataclass(frozen=True)
class Theirs:
    """A baseline of JaxMARL."""

    script: str
    """A name in `jaxmarl_baselines.FILES`."""
    env_name: str
    problem: Problem
    """The environment in which its final policies are evaluated."""


@dataclasses.dataclass(frozen=True)
class Ours:
    """One of our methods."""

    problem: Problem
    config: Config


Methods = dict[str, Callable[[], Theirs | Ours]]


def terminating(problem: Problem) -> Problem:
    """Return a problem whose time limit is a termination, since JaxMARL does not bootstrap there."""

    def step(key: Any, state: Any, action: Any) -> Step:
        after = problem.step(key, state, action)
        ended = after.terminated | after.truncated
        return after._replace(terminated=ended, truncated=jnp.zeros_like(ended))

    return dataclasses.replace(problem, step=step)


def config_like(theirs: dict[str, Any], agents: int, steps: int, **more: Any) -> Config:
    """Return the settings of `Config` that correspond to those of JaxMARL.

    JaxMARL's loss is a mean over agents and ours a sum, and its value loss has an additional factor ½. The weight of
    the value loss and the gradient limit therefore contain n.
    """
    n_envs, n_steps = int(theirs["NUM_ENVS"]), int(theirs["NUM_STEPS"])
    settings: dict[str, Any] = {
        "total_timesteps": steps // (n_envs * n_steps) * n_envs * n_steps,
        "n_envs": n_envs,
        "n_steps": n_steps,
        "batch_size": n_envs * n_steps // int(theirs["NUM_MINIBATCHES"]),
        "n_epochs": int(theirs["UPDATE_EPOCHS"]),
        "learning_rate": theirs["LR"],
        "anneal": ("learning_rate",) if theirs["ANNEAL_LR"] else (),
        "gamma": theirs["GAMMA"],
        "gae_lambda": theirs["GAE_LAMBDA"],
        "clip_range": theirs["CLIP_EPS"],
        "clip_range_vf": theirs["CLIP_EPS"],
        "ent_coef": theirs["ENT_COEF"],
        "vf_coef": agents * theirs["VF_COEF"] / 2,
        "max_grad_norm": agents * theirs["MAX_GRAD_NORM"],
        "activation": theirs["ACTIVATION"],
        "hidden": (64, 64),
        "policy": "shared",
        "critic": "target",
        "check_network": False,
    }
    return Config(**settings | more)


class PerAgent(eqx.Module):
    """A perceptron that all agents share, from an agent's observation to the means of its joints, as in JaxMARL."""

    net: MLP
    joints: int = eqx.field(static=True)

    def __call__(self, obs: Any, local: jax.Array) -> jax.Array:
        return self.net(local[:: self.joints]).reshape(-1, 1)

    @classmethod
    def of(cls, spec: Any, key: jax.Array, joints: int, length: int) -> "PerAgent":
        return cls(MLP(key, (length, 64, 64, joints), 0.01), joints)


def spread(settings: dict[str, Any], steps: int) -> Methods:
    """Return the task spread. The team's return is the sum of the agents' returns, which JaxMARL's wrapper also
    logs."""
    env_name = "MPE_simple_spread_v3"
    problem = from_jaxmarl(env_name)
    own, ours = terminating(from_jaxmarl(env_name, network=np.eye(3))), terminating(problem)
    config = config_like(settings, 3, steps)
    return {
        "JaxMARL IPPO": lambda: Theirs("ippo spread", env_name, problem),
        "JaxMARL MAPPO": lambda: Theirs("mappo spread", env_name, problem),
        "own reward, local critic": lambda: Ours(own, dataclasses.replace(config, critic="factor")),
        "own reward": lambda: Ours(own, config),
        "complete K": lambda: Ours(ours, config),
        "vanilla": lambda: Ours(ours, dataclasses.replace(config, method="ppo")),
    }


def ant(settings: dict[str, Any], steps: int) -> Methods:
    """Return the task MABrax ant_4x2: 4 agents with 2 joints each, and a control cost of ½ per squared action."""
    return mabrax("ant_4x2", "ant", 0.5, settings, steps)


def hopper(settings: dict[str, Any], steps: int) -> Methods:
    """Return the task MABrax hopper_3x1: 3 agents with one joint each, and a control cost of 0.001 per squared
    action."""
    return mabrax("hopper_3x1", "hopper", 1e-3, settings, steps)


def mabrax(env_name: str, inner: str, cost: float, settings: dict[str, Any], steps: int) -> Methods:
    """Return a MABrax task. The team's return is that of Brax's reward."""
    agents = int(env_name[-3])
    config = config_like(settings, agents, steps)

    def theirs() -> Theirs:
        problem = from_jaxmarl(env_name)
        every_agent_gets_it_whole = np.full(agents, 1 / agents)
        return Theirs("ippo mabrax", env_name, dataclasses.replace(problem, weights=every_agent_gets_it_whole))

    def ours(is_own: bool, **more: Any) -> Ours:
        problem, policy = by_terms(env_name, inner, cost, is_own)
        return Ours(terminating(problem), dataclasses.replace(config, policy=policy, **more))

    return {
        "JaxMARL IPPO": theirs,
        "own control cost": lambda: ours(True),
        "complete K": lambda: ours(False),
        "vanilla": lambda: ours(False, method="ppo"),
    }


def by_terms(env_name: str, inner_name: str, cost: float, is_own: bool) -> tuple[Problem, Callable[..., Any]]:
    """Return an environment of Brax with the agents, observations and actions of MABrax and the terms of the reward as
    targets, and a function that makes its policy. The control cost is one target per agent. With `is_own`, only the
    agent itself is credited with it, otherwise all agents."""
    import jaxmarl
    from brax import envs
    from brax.envs.base import Wrapper

    with warnings.catch_warnings(action="ignore"):
        mabrax: Any = jaxmarl.make(env_name)
        inner = envs.get_environment(inner_name, backend="positional", ctrl_cost_weight=cost)
    joints = np.array([np.asarray(indices) for indices in mabrax.agent_action_mapping.values()])
    by_agent = [np.asarray(indices) for indices in mabrax.agent_obs_mapping.values()]
    length = max(map(len, by_agent))
    # Short observations are padded with zeros at the end, as in JaxMARL's IPPO: entry −1 is such a zero.
    observed = np.array([np.pad(indices, (0, length - len(indices)), constant_values=-1) for indices in by_agent])

    class OwnCosts(Wrapper):
        """The control cost of every agent instead of their sum."""

        def reset(self, rng: jax.Array) -> Any:
            return self._split(self.env.reset(rng), jnp.zeros(joints.size))

        def step(self, state: Any, action: jax.Array) -> Any:
            return self._split(self.env.step(state, action), action)

        def _split(self, state: Any, action: jax.Array) -> Any:
            metrics = {name: value for name, value in state.metrics.items() if name != "reward_ctrl"}
            costs = cost * jnp.square(action)[joints].sum(axis=1)
            return state.replace(metrics=metrics | {f"reward_ctrl_{i}": -each for i, each in enumerate(costs)})

    agents, size = joints.shape
    group_of = np.empty(joints.size, int)
    group_of[joints] = np.arange(agents)[:, None]
    metrics = jax.eval_shape(OwnCosts(inner).reset, jax.random.PRNGKey(0)).metrics
    targets = sorted(name.removeprefix("reward_") for name in metrics if name.startswith("reward_"))
    rows = np.ones((agents, len(targets)))
    if is_own:
        for i in range(agents):
            rows[:, targets.index(f"ctrl_{i}")] = np.arange(agents) == i
    network = InfluenceNetwork(rows[group_of]).factor(Factorisation.from_group_of(group_of))
    problem = from_brax(OwnCosts(inner), network=network)  # checks that the terms add up to the reward
    unbounded = gym.spaces.Box(-np.inf, np.inf, (joints.size,), np.float32)

    def local(obs: Any) -> Any:
        return jnp.concatenate([obs, jnp.zeros_like(obs[..., :1])], axis=-1)[..., observed]

    problem = dataclasses.replace(problem, action_space=unbounded, local=local)
    return problem, lambda spec, key: PerAgent.of(spec, key, size, length)


TASKS = {"spread": spread, "ant": ant, "hopper": hopper}
SETTINGS = {"spread": "ippo spread", "ant": "ippo mabrax", "hopper": "ippo mabrax"}
"""Names of the task's baselines in `jaxmarl_baselines.FILES`."""
STEPS = {"spread": 2_000_000, "ant": 5_000_000, "hopper": 5_000_000}
