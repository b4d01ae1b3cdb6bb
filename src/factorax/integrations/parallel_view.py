"""Any problem as a PettingZoo environment, with one agent per factor and the factor's credit as its reward."""

import copy
from typing import Any

import gymnasium as gym
import numpy as np

from .views import FactorViews, Observe, step_targets, to_gymnasium

try:
    from pettingzoo import ParallelEnv  # pyright: ignore[reportMissingImports]
except ImportError:  # an extra; without it, the module can still be imported for documentation
    ParallelEnv: Any = None
_Base: Any = object if ParallelEnv is None else ParallelEnv


def to_pettingzoo(
    problem: Any, network: Any = None, *, weights: Any = None, local: Any = None, observe: Observe = "local"
) -> "ParallelView":
    """Return a problem as a parallel PettingZoo environment, so that any multi-agent trainer becomes a factored one.

    **Arguments**

    - `problem`, `network`, `weights`, `local`: as for `FactoredPPO`.
    - `observe`: ``"local"``: an agent receives its local observation if the problem has one; ``"global"``: all of it.

    The agents are the rows of the network, and the reward of agent i is [K(λ∘r)]ᵢ. A trainer in which each agent
    maximises its own return then follows the factored policy gradient. If the problem has a factor mask,
    ``infos[agent]["acted"]`` is False for an agent whose factor did not act.
    """
    if ParallelEnv is None:
        raise ImportError("to_pettingzoo needs PettingZoo: pip install 'factorax[marl]'")
    return ParallelView(problem, FactorViews(problem, network, weights=weights, local=local, observe=observe))


class ParallelView(_Base):
    """The environment that `to_pettingzoo` returns."""

    metadata: Any = {"name": "factorax", "render_modes": [], "is_parallelizable": True}  # noqa: RUF012 (PettingZoo's)
    render_mode = None

    def __init__(self, problem: Any, factors: FactorViews):
        self.env, self.factors = to_gymnasium(problem), factors
        self.network, self.weights = factors.network, factors.weights
        self.possible_agents = list(factors.names)
        self.agents: list[str] = []
        inner, n_inputs = factors.spec.observation_space, factors.spec.n_inputs
        is_box = isinstance(inner, gym.spaces.Box)
        low, high = (inner.low, inner.high) if is_box else (np.full(n_inputs, -np.inf), np.full(n_inputs, np.inf))
        self.state_space = gym.spaces.Box(low.ravel(), high.ravel(), dtype=np.float32)
        self.action_spaces = dict(zip(self.possible_agents, factors.action_spaces, strict=True))
        # One each: seeding a space that all agents share for one of them would seed it for all.
        self.observation_spaces = {agent: copy.deepcopy(factors.observation_space) for agent in self.possible_agents}
        self._state = np.zeros(n_inputs, np.float32)

    def observation_space(self, agent: str) -> gym.Space:
        """Return the observation space of an agent."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gym.Space:
        """Return the action space of an agent."""
        return self.action_spaces[agent]

    def state(self) -> np.ndarray:
        """Return the full observation, flattened."""
        return self._state

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Start an episode."""
        obs, _ = self.env.reset(seed=seed, options=options)
        self.agents = list(self.possible_agents)
        return self._observe(obs), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Act with all agents."""
        agents, factors = self.agents, self.factors
        missing = [agent for agent in agents if agent not in actions]
        if missing:
            raise ValueError(f"actions: got no action for agent {missing[0]!r}; want one per entry of `agents`")
        row = factors.join([actions[agent] for agent in agents])
        obs, reward, terminated, truncated, info = self.env.step(factors.components.to_environment(row))
        rewards = factors.credit(step_targets(self.network, reward, info)).tolist()
        acted = info.get("factor_mask")  # PettingZoo has no masks: trainers that know this one read it from `infos`
        infos = [{} for _ in agents] if acted is None else [{"acted": bool(x)} for x in acted]
        if terminated or truncated:
            self.agents = []  # so PettingZoo says that the episode is over
        return (
            self._observe(obs),
            dict(zip(agents, rewards, strict=True)),
            dict.fromkeys(agents, bool(terminated)),
            dict.fromkeys(agents, bool(truncated)),
            dict(zip(agents, infos, strict=True)),
        )

    def _observe(self, obs: Any) -> dict[str, np.ndarray]:
        self._state = np.array(obs, np.float32).ravel()  # a copy: the environment may write into its array
        return dict(zip(self.possible_agents, self.factors.observe(self._state), strict=True))

    def render(self) -> Any:
        """Render the environment."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()
