"""JaxMARL: multi-agent JAX environments. Agents become factors, and their rewards become targets."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import checked
from .._text import did_you_mean, shown
from ..problems.problem import Problem, Step
from ..spaces import ActionSpace
from ._jax_environments import (
    as_element,
    env_of,
    import_package,
    name_and_settings,
    plain_key,
    quietly,
    scalar_flag,
    space_of,
    strongly_typed,
)
from .factors import Rows, fit

_NEEDED = ("reset", "step_env", "agents", "action_space")
_EXAMPLE = "MPE_simple_spread_v3"
_SAY_WHICH_ACTIONS = ("get_avail_actions", "get_legal_moves")
"""Methods of environments that return the available actions in a state."""
_ENDS_BY_TIME_ALONE = ("CoinGame",)
"""Classes of environments that end after a fixed number of steps that they do not expose."""


def named(text: str) -> Problem:
    """Return the problem named ``jaxmarl:NAME,setting=value``, given the text after the colon."""
    name, settings = name_and_settings("jaxmarl", text, _EXAMPLE)
    return from_jaxmarl(name, **settings)


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
    jaxmarl = import_package("jaxmarl", "JaxMARL")
    checked("rewards_end_with_agents", rewards_end_with_agents, bool)
    missing = [] if isinstance(env, str) else [name for name in _NEEDED if not hasattr(env, name)]
    if missing:
        raise TypeError(f"env: got {shown(env)}, which has no {missing[0]}; want a JaxMARL environment or its name")
    name = env if isinstance(env, str) else getattr(env, "name", type(env).__name__)
    settings = _with_objects(settings) if isinstance(env, str) else settings
    build = lambda **options: jaxmarl.make(name, **options)  # noqa: E731
    env = env_of(env, settings, jaxmarl.registered_envs, build, "JaxMARL", _EXAMPLE)
    env = _without_resets(env)
    agents = _Agents.of(env)
    fitted = fit(network, Rows(agents.names, agents.sizes), "leaves", len(agents.names), agents.names)
    reset, step = _functions(env, agents, rewards_end_with_agents)
    return Problem(
        name=f"jaxmarl:{name}",
        reset=reset,
        step=step,
        observation_space=agents.whole_observation_space,
        action_space=agents.action_space,
        network=fitted,
        weights=np.ones(len(agents.names)),
        local=agents.local,
    )


def _with_objects(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with names of scenarios and layouts replaced by their objects."""
    resolved = dict(settings)
    if isinstance(resolved.get("scenario"), str):
        known = import_package("jaxmarl.environments.smax.smax_env", "JaxMARL").MAP_NAME_TO_SCENARIO
        if resolved["scenario"] not in known:
            hint = did_you_mean(resolved["scenario"], known, quoted=True)
            raise ValueError(f"scenario: got {resolved['scenario']!r}, want one of {', '.join(known)}{hint}")
        resolved["scenario"] = known[resolved["scenario"]]
    if isinstance(resolved.get("layout"), str):
        known = import_package("jaxmarl.environments.overcooked", "JaxMARL").overcooked_layouts
        if resolved["layout"] in known:  # Overcooked V2 resolves its own names
            resolved["layout"] = known[resolved["layout"]]
    return resolved


def _without_resets(env: Any) -> Any:
    """Return the environment; for MABrax, a version that does not reset itself inside `step_env`."""
    if getattr(env, "auto_reset", False) and type(getattr(env, "env", None)).__name__ == "AutoResetWrapper":
        env = copy.copy(env)
        env.env, env.auto_reset = env.env.env, False
    return env


@dataclass(frozen=True)
class _Agents:
    """The agents of an environment and their combined spaces."""

    names: tuple[str, ...]
    keys: tuple[Any, ...]
    """Names of the agents in the environment."""
    spaces: tuple[gym.Space, ...]
    """Their action spaces."""
    action_space: gym.Space
    shapes: tuple[tuple[int, ...], ...]
    """Shapes of their observations."""
    observation_space: gym.Space
    """The space of observations without the mask."""
    available: Callable[[Any], dict[Any, Any]] | None = None
    """Maps a state to the available actions of each agent, one flag per action; None if all are always available."""

    @classmethod
    def of(cls, env: Any) -> "_Agents":
        keys = tuple(env.agents)
        names = tuple(str(key) for key in keys)
        spaces = tuple(space_of(env.action_space(key), "JaxMARL") for key in keys)
        observed, state = quietly(jax.eval_shape, env.reset, plain_key(jax.random.key(0)))
        if not isinstance(observed, dict) or any(key not in observed for key in keys):
            raise TypeError(
                f"env: its reset returns the observations {shown(observed)}; want a dictionary with one entry per "
                f"agent: {', '.join(names)}"
            )
        shapes = tuple(tuple(observed[key].shape) for key in keys)
        if all(len(shape) <= 1 for shape in shapes):
            length = len(keys) * max(map(math.prod, shapes))
            observation_space: gym.Space = gym.spaces.Box(-np.inf, np.inf, (length,), np.float32)
        elif len(set(shapes)) == 1:
            observation_space = gym.spaces.Box(-np.inf, np.inf, (len(keys), *shapes[0]), np.float32)
        else:
            observation_space = gym.spaces.Dict(
                {
                    name: gym.spaces.Box(-np.inf, np.inf, shape, np.float32)
                    for name, shape in zip(names, shapes, strict=True)
                }
            )
        available = _available(env, state, dict(zip(keys, spaces, strict=True)))
        return cls(
            names,
            keys,
            spaces,
            action_space=_together(names, spaces),
            shapes=shapes,
            observation_space=observation_space,
            available=available,
        )

    @property
    def whole_observation_space(self) -> gym.Space:
        """The space of observations, including the mask of available actions if there is one."""
        if self.available is None:
            return self.observation_space
        mask = gym.spaces.MultiBinary(sum(int(space.n) for space in self.spaces))  # pyright: ignore
        parts = self.observation_space
        named = dict(parts.spaces) if isinstance(parts, gym.spaces.Dict) else {"observation": parts}
        return gym.spaces.Dict(named | {"action_mask": mask})

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of components of the action of each agent."""
        return tuple(len(ActionSpace.of(space)) for space in self.spaces)

    @property
    def local(self) -> Callable[[Any], Any] | None:
        """The function from observations of all agents to that of each, ``(..., d)`` → ``(..., n, l)``; None if those
        are images."""
        n, axes = len(self.names), len(self.observation_space.shape or ())
        if isinstance(self.observation_space, gym.spaces.Dict) or axes > 3:
            return None
        if self.available is None:
            return lambda obs: obs.reshape(*obs.shape[:-axes], n, -1)
        return lambda obs: obs["observation"].reshape(*obs["observation"].shape[:-axes], n, -1)

    def observe(self, observed: dict[Any, Any], state: Any) -> Any:
        """Return the combined observation of all agents, with the mask of available actions if there is one."""
        together = self._observed(observed)
        if self.available is None:
            return together
        of_agents = quietly(self.available, state)
        mask = jnp.concatenate([jnp.ravel(of_agents[key]) for key in self.keys])
        named = together if isinstance(together, dict) else {"observation": together}
        return named | {"action_mask": (mask > 0).astype(jnp.int8)}

    def _observed(self, observed: dict[Any, Any]) -> Any:
        if isinstance(self.observation_space, gym.spaces.Dict):
            by_name = {name: observed[key] for name, key in zip(self.names, self.keys, strict=True)}
            return as_element(self.observation_space, by_name)
        parts = [jnp.asarray(observed[key]).astype(jnp.float32) for key in self.keys]
        if len(self.observation_space.shape or ()) > 1:
            return jnp.stack(parts)
        length = max(map(math.prod, self.shapes))
        return jnp.concatenate([jnp.pad(part.ravel(), (0, length - part.size)) for part in parts])

    def act(self, action: Any) -> dict[Any, Any]:
        """Return the action of each agent, given the joint action."""
        if isinstance(self.action_space, gym.spaces.Dict):
            return {key: action[name] for name, key in zip(self.names, self.keys, strict=True)}
        ends = np.cumsum(self.sizes)
        return {
            key: action[end - size : end].reshape(space.shape or ())
            for key, size, end, space in zip(self.keys, self.sizes, ends, self.spaces, strict=True)
        }

    def stacked(self, by_agent: dict[Any, Any], missing: Any) -> jax.Array:
        """Return one entry per agent, ``(n,)``; `missing` for agents without an entry."""
        return jnp.stack([jnp.reshape(jnp.asarray(by_agent.get(key, missing)), ()) for key in self.keys])


def _available(env: Any, state: Any, spaces: dict[Any, gym.Space]) -> Callable[[Any], dict[Any, Any]] | None:
    """Return the method of available actions, if it exists and all agents have discrete actions."""
    for method in (getattr(env, name, None) for name in _SAY_WHICH_ACTIONS):
        try:
            flags = None if method is None else quietly(jax.eval_shape, method, state)
        except NotImplementedError:  # the method of the base class
            continue
        if isinstance(flags, dict) and all(
            isinstance(space, gym.spaces.Discrete) and key in flags and math.prod(flags[key].shape) == int(space.n)
            for key, space in spaces.items()
        ):
            return method
    return None


def _together(names: tuple[str, ...], spaces: tuple[gym.Space, ...]) -> gym.Space:
    """Return the joint action space of all agents."""
    if all(isinstance(space, gym.spaces.Discrete) for space in spaces):
        return gym.spaces.MultiDiscrete([int(space.n) for space in spaces])  # pyright: ignore
    if all(isinstance(space, gym.spaces.Box) for space in spaces):
        boxes: list[Any] = list(spaces)
        low, high = (np.concatenate([np.ravel(getattr(each, side)) for each in boxes]) for side in ("low", "high"))
        return gym.spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
    return gym.spaces.Dict(dict(zip(names, spaces, strict=True)))


def _functions(env: Any, agents: _Agents, rewards_end: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return `reset` and `step` of the problem.

    Its state has the state of JaxMARL, which agents are done, and the time.
    """

    def reset(key: jax.Array) -> tuple[Any, Any]:
        observed, state = quietly(env.reset, plain_key(key))
        done = jnp.zeros(len(agents.names), bool)
        return strongly_typed((state, done, jnp.int32(0))), agents.observe(observed, state)

    def step(key: jax.Array, state: Any, action: Any) -> Step:
        inner, done_before, time = state
        key, _ = jax.random.split(plain_key(key))  # as `env.step` does
        inner = jax.tree.map(lambda leaf: leaf, inner)  # a copy, because some environments write into its dictionaries
        observed, inner, rewards, dones, info = quietly(env.step_env, key, inner, agents.act(action))
        over, time = scalar_flag(dones["__all__"]), time + 1
        done = agents.stacked(dones, over).astype(bool)
        terminated = over & _ends_by_itself(env, inner, info, time)
        truncated = over & ~terminated
        return Step(
            state=strongly_typed((inner, done, time)),
            obs=agents.observe(observed, inner),
            psi=agents.stacked(rewards, 0.0).astype(jnp.float32),
            terminated=terminated,
            truncated=truncated,
            factor_mask=~done_before,
            target_terminated=done_before | (done & ~truncated) if rewards_end else None,
        )

    return reset, step


def _ends_by_itself(env: Any, state: Any, info: Any, time: jax.Array) -> jax.Array:
    """Return whether an episode that is over ended for another reason than the time limit."""
    if isinstance(info, dict) and "truncation" in info:
        return ~scalar_flag(info["truncation"])
    if hasattr(env, "is_terminal"):
        return scalar_flag(env.is_terminal(_at_the_start(state)))
    if type(env).__name__ in _ENDS_BY_TIME_ALONE:
        return jnp.array(False)
    limit = getattr(env, "max_steps", None)
    return jnp.array(True) if limit is None else time < limit


def _at_the_start(state: Any) -> Any:
    """Return the state with its clock set to 0, so that no time limit is reached."""
    if hasattr(state, "step") and hasattr(state, "done"):
        return state.replace(step=jnp.zeros_like(state.step), done=jnp.zeros_like(state.done))
    return state.replace(state=_at_the_start(state.state))  # SMAX against a heuristic enemy
