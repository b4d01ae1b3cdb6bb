"""JaxMARL: multi-agent JAX environments. Agents become factors, and their rewards become targets."""

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import checked
from .._text import did_you_mean, shown
from ..problems.problem import Problem, Step
from ..spaces import ActionSpace
from ._jax_environments import Package, as_element, problem_of, quietly, reset_shapes, scalar_flag, space_of
from .factors import Rows, fit

_JAXMARL = Package("jaxmarl", "JaxMARL", "MPE_simple_spread_v3")
_ATTRIBUTES = ("reset", "step_env", "agents", "action_space")
_AVAILABILITY = ("get_avail_actions", "get_legal_moves")
"""Methods of environments that return the available actions in a state."""
_FIXED_LENGTH = ("CoinGame",)
"""Classes of environments that end after a fixed number of steps that they do not expose."""


def from_jaxmarl(env: Any, *, network: Any = None, rewards_end_with_agents: bool = False, **settings: Any) -> Problem:
    """Return a JaxMARL environment as a problem: agents are factors, and their rewards are targets.

    **Arguments**

    - `env`: a name such as ``"MPE_simple_spread_v3"``, or a JaxMARL environment.
    - `network`: which agent influences whose reward, with one row and one column per agent, as a matrix or an
      `InfluenceNetwork`. By default every agent may influence every reward, which is always unbiased. The identity
      credits each agent only with its own reward, which is exact only if no action changes the reward of another agent.
    - `rewards_end_with_agents`: whether an agent gets no rewards once it is done. Its target then terminates there
      (`Step.target_terminated`). This holds in JaxNav with `rew_lambda` 1, but not in SMAX, where dead agents share the
      rewards of their team.
    - `settings`: arguments of the environment, such as ``num_agents=5``. `scenario` of SMAX and `layout` of Overcooked
      may be names.

    **The problem**

    - **Observation**: the concatenated observations of all agents, each padded with zeros to the longest;
      `Problem.local` returns the observation of each agent. Observations with several axes are stacked, ``(agents,
      ...)``; if they are images, there is no `local`, because it would flatten them. If the environment defines
      available actions, the observation is a Dict of this ``observation`` and an ``action_mask``.
    - **Action**: a MultiDiscrete or a Box with the components of all agents, in order; a Dict by agent if they have
      different kinds. All components of an agent form one factor.
    - **Targets**: the reward of each agent. If all agents get the same reward, as in MABrax, all targets are equal and
      no network can separate them; `from_brax` offers the terms of that reward instead.
    - **Masks**: an agent that was done before a step did not act in it (`Step.factor_mask`). Unavailable actions
      (`get_avail_actions` of SMAX, `get_legal_moves` of Hanabi) are never chosen.
    - **End**: when all agents are done. JaxMARL does not tell whether the time limit is the reason. If the environment
      tells otherwise (``info["truncation"]`` of MABrax, `is_terminal` of SMAX and Overcooked), the result is exact.
      Otherwise an episode that ends at ``env.max_steps`` or later is truncated, and one that ends earlier is
      terminated. An environment without `max_steps` always terminates.

    A step with a key equals ``env.step`` with the same key, but without a reset.
    """
    jaxmarl = _JAXMARL.load("jaxmarl")
    checked("rewards_end_with_agents", rewards_end_with_agents, bool)
    name = env if isinstance(env, str) else getattr(env, "name", type(env).__name__)
    settings = _with_objects(settings) if isinstance(env, str) else settings
    builders = {name: partial(jaxmarl.make, name) for name in jaxmarl.registered_envs}
    env = _JAXMARL.environment(env, settings, builders, _ATTRIBUTES)
    if getattr(env, "auto_reset", False) and type(getattr(env, "env", None)).__name__ == "AutoResetWrapper":
        # MABrax resets inside `step_env`, which would hide the last observation from the learner.
        env = copy.copy(env)
        env.env, env.auto_reset = env.env.env, False
    agents = _Agents(env)

    def reset(key: jax.Array) -> tuple[Any, Any]:
        observations, state = env.reset(key)
        # Which agents are done, and the time, are not in every state of JaxMARL.
        return (state, jnp.zeros(len(agents.names), bool), jnp.int32(0)), (observations, state)

    def step(key: jax.Array, state: Any, action: Any) -> Step:
        state, done_before, time = state
        key, _ = jax.random.split(key)  # as `env.step` does, so that both draw the same numbers
        observations, state, rewards, dones, info = env.step_env(key, state, agents.split(action))
        time, is_over = time + 1, scalar_flag(dones["__all__"])
        done = agents.stack(dones, is_over).astype(bool)
        terminated = is_over & _ends_by_itself(env, state, info, time)
        ends = done_before | (done & (~is_over | terminated)) if rewards_end_with_agents else None
        return Step(
            (state, done, time),
            (observations, state),
            agents.stack(rewards, 0.0),
            terminated,
            is_over,
            factor_mask=~done_before,
            target_terminated=ends,
        )

    return problem_of(
        f"jaxmarl:{name}",
        reset,
        step,
        observation_space=agents.observation_space,
        action_space=agents.action_space,
        network=fit(network, Rows(agents.names, agents.sizes), "leaves", len(agents.names), agents.names),
        observe=lambda pair: agents.observe(*pair),
        local=agents.local,
    )


named = _JAXMARL.by_name(from_jaxmarl)


def _with_objects(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with names of scenarios and layouts replaced by their objects."""
    objects: dict[str, Any] = {}
    if isinstance(scenario := settings.get("scenario"), str):
        known = _JAXMARL.load("jaxmarl.environments.smax.smax_env").MAP_NAME_TO_SCENARIO
        if scenario not in known:
            hint = did_you_mean(scenario, known, quoted=True)
            raise ValueError(f"scenario: got {scenario!r}, want one of {', '.join(known)}{hint}")
        objects["scenario"] = known[scenario]
    if isinstance(layout := settings.get("layout"), str):
        known = _JAXMARL.load("jaxmarl.environments.overcooked").overcooked_layouts
        objects["layout"] = known.get(layout, layout)  # Overcooked V2 resolves its own names
    return settings | objects


class _Agents:
    """The agents of an environment, and the spaces of their combined observations and actions."""

    def __init__(self, env: Any):
        self.keys = tuple(env.agents)  # how the environment calls them, which need not be strings
        self.names = tuple(map(str, self.keys))
        self.spaces: list[Any] = [space_of(env.action_space(key), "JaxMARL") for key in self.keys]
        self.sizes = tuple(len(ActionSpace.of(space)) for space in self.spaces)
        self.action_space = self._joint_action_space()
        observations, state = reset_shapes(env.reset)
        if not isinstance(observations, dict) or any(key not in observations for key in self.keys):
            raise TypeError(
                f"env: its reset returns the observations {shown(observations)}; want a dictionary with one entry per "
                f"agent: {', '.join(self.names)}"
            )
        shapes = [tuple(observations[key].shape) for key in self.keys]
        # Rows of one length let one shared policy serve all agents.
        self._length = max(map(math.prod, shapes)) if all(len(shape) <= 1 for shape in shapes) else None
        self._space = self._joint_observation_space(shapes)
        self._available = self._availability(env, state)

    def _joint_action_space(self) -> gym.Space:
        if all(isinstance(space, gym.spaces.Discrete) for space in self.spaces):
            return gym.spaces.MultiDiscrete([int(space.n) for space in self.spaces])
        if all(isinstance(space, gym.spaces.Box) for space in self.spaces):
            low, high = (
                np.concatenate([np.ravel(getattr(each, side)) for each in self.spaces]) for side in ("low", "high")
            )
            return gym.spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
        return gym.spaces.Dict(dict(zip(self.names, self.spaces, strict=True)))

    def _joint_observation_space(self, shapes: list[tuple[int, ...]]) -> gym.Space:
        """Return the space of observations of all agents, without the mask of available actions."""
        n, unbounded = len(shapes), partial(gym.spaces.Box, -np.inf, np.inf, dtype=np.float32)
        if self._length is not None:
            return unbounded(shape=(n * self._length,))
        if len(set(shapes)) == 1:
            return unbounded(shape=(n, *shapes[0]))
        return gym.spaces.Dict({name: unbounded(shape=each) for name, each in zip(self.names, shapes, strict=True)})

    def _availability(self, env: Any, state: Any) -> Callable[[Any], dict[Any, Any]] | None:
        """Return the method that maps a state to the available actions of each agent, one flag per action.

        None if there is none, or if agents have actions that are not discrete.
        """
        if not isinstance(self.action_space, gym.spaces.MultiDiscrete):
            return None
        for method in (getattr(env, name, None) for name in _AVAILABILITY):
            try:
                flags = None if method is None else quietly(jax.eval_shape, method, state)
            except NotImplementedError:  # the method of the base class
                continue
            if isinstance(flags, dict) and all(
                key in flags and math.prod(flags[key].shape) == int(space.n)
                for key, space in zip(self.keys, self.spaces, strict=True)
            ):
                return method
        return None

    @property
    def observation_space(self) -> gym.Space:
        """The space of observations, including the mask of available actions if there is one."""
        if self._available is None:
            return self._space
        mask = gym.spaces.MultiBinary(sum(int(space.n) for space in self.spaces))
        parts = dict(self._space.spaces) if isinstance(self._space, gym.spaces.Dict) else {"observation": self._space}
        return gym.spaces.Dict(parts | {"action_mask": mask})

    @property
    def local(self) -> Callable[[Any], Any] | None:
        """The function from observations of all agents to that of each, ``(..., d)`` → ``(..., n, l)``; None if those
        are images, which it would flatten."""
        n, axes = len(self.names), len(self._space.shape or ())
        if isinstance(self._space, gym.spaces.Dict) or axes > 3:
            return None

        def local(observation: Any) -> Any:
            rows = observation if self._available is None else observation["observation"]
            return rows.reshape(*rows.shape[:-axes], n, -1)

        return local

    def observe(self, by_agent: dict[Any, Any], state: Any) -> Any:
        """Return the combined observation of all agents, with the mask of available actions if there is one."""
        observation = self._combine(by_agent)
        if self._available is None:
            return observation
        flags = quietly(self._available, state)
        mask = jnp.concatenate([jnp.ravel(flags[key]) for key in self.keys])
        parts = observation if isinstance(observation, dict) else {"observation": observation}
        return parts | {"action_mask": (mask > 0).astype(jnp.int8)}

    def _combine(self, by_agent: dict[Any, Any]) -> Any:
        if isinstance(self._space, gym.spaces.Dict):
            return as_element(
                self._space, {name: by_agent[key] for name, key in zip(self.names, self.keys, strict=True)}
            )
        rows = [jnp.asarray(by_agent[key]).astype(jnp.float32) for key in self.keys]
        if self._length is None:
            return jnp.stack(rows)
        return jnp.concatenate([jnp.pad(row.ravel(), (0, self._length - row.size)) for row in rows])

    def split(self, action: Any) -> dict[Any, Any]:
        """Return the action of each agent, given the joint action."""
        if isinstance(self.action_space, gym.spaces.Dict):
            return {key: action[name] for name, key in zip(self.names, self.keys, strict=True)}
        parts = jnp.split(action, np.cumsum(self.sizes)[:-1])
        return {
            key: part.reshape(space.shape or ()) for key, part, space in zip(self.keys, parts, self.spaces, strict=True)
        }

    def stack(self, by_agent: dict[Any, Any], default: Any) -> jax.Array:
        """Return one entry per agent, ``(n,)``; `default` for agents without an entry."""
        return jnp.stack([jnp.reshape(jnp.asarray(by_agent.get(key, default)), ()) for key in self.keys])


def _ends_by_itself(env: Any, state: Any, info: Any, time: jax.Array) -> jax.Array:
    """Return whether an episode that is over ended for another reason than the time limit."""
    if isinstance(info, dict) and "truncation" in info:
        return ~scalar_flag(info["truncation"])
    if hasattr(env, "is_terminal"):
        return scalar_flag(env.is_terminal(_at_time_zero(state)))
    if type(env).__name__ in _FIXED_LENGTH:
        return jnp.array(False)
    limit = getattr(env, "max_steps", None)
    return jnp.array(True) if limit is None else time < limit


def _at_time_zero(state: Any) -> Any:
    """Return the state with its clock set to 0: `is_terminal` is also true at the time limit."""
    if hasattr(state, "step") and hasattr(state, "done"):
        return state.replace(step=jnp.zeros_like(state.step), done=jnp.zeros_like(state.done))
    return state.replace(state=_at_time_zero(state.state))  # SMAX against a heuristic enemy
