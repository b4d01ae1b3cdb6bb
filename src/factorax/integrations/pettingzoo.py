"""Parallel PettingZoo environments: agents become factors, and their rewards become targets."""

from collections import OrderedDict
from typing import Any

import gymnasium as gym
import numpy as np

from ..rollouts.step_checks import Misfit, check_step, checked_reset, flag, real_numbers
from ..spaces import ActionSpace
from ..structure import InfluenceNetwork
from .agent_observations import AgentObservations
from .canonical import FactoredEnv, copied
from .factors import FactorRule, Rows, fit, weights_of
from .rewards import parts_of

_DICTS = ("observation", "reward", "terminated", "truncated")


def wrap_parallel(
    env: Any,
    *,
    network: Any,
    reward: Any,
    weights: Any,
    factors: FactorRule | None,
    local: Any,
    check_sum: bool,
) -> FactoredEnv:
    """Wrap a `pettingzoo.ParallelEnv` for `factorax.wrap`; there is no scalar reward to which parts should add up."""
    if reward not in (None, "collapse"):
        parts_of(reward)  # raises for invalid values
        raise ValueError(
            f"reward: got {reward!r} for a PettingZoo environment, want None (the rewards of the agents) or "
            '"collapse"; '
            "pettingzoo.utils.BaseParallelWrapper can change their rewards"
        )
    wrapped = FactoredParallel(env, collapse=reward == "collapse")
    m = 1 if wrapped.collapse else len(wrapped.possible_agents)
    wrapped.has_no_network, wrapped.network_is_given = network is None, True
    kind = factors or "leaves"
    fitted = fit(network, wrapped.rows, kind, m, ("shared",) if wrapped.collapse else wrapped.rows.names)
    wrapped.adopt(fitted, weights_of(weights, None, m), local)
    return wrapped


class FactoredParallel(FactoredEnv):
    """The agents of a PettingZoo environment as the factors of one action.

    - **Observation**: the concatenated observations of all agents, each padded with zeros to the longest; zeros for
      dead agents. If an agent observes an image, a Dict with the observation of each agent, and no `local`.
      If agents observe an ``action_mask``, a Dict with the masks of all agents as one, and the rest as
      ``observation``.
    - **Action**: a Dict with the action of each agent; the entries of dead agents are ignored.
    - **Targets**: the reward of each agent, including its last one, then zeros; or the reward that they share.
    - ``info["factor_mask"]``: the agents that were alive before the step. ``info["target_terminated"]``: the agents
      whose rewards have ended.
    - **End**: when no agent is left. Truncated if some agent was truncated in that step, otherwise terminated.
    """

    def __init__(self, env: Any, *, collapse: bool):
        super().__init__(env)
        self.collapse = collapse
        self.possible_agents = tuple(env.possible_agents)
        spaces = {agent: env.action_space(agent) for agent in self.possible_agents}
        self.action_space = gym.spaces.Dict(OrderedDict(spaces))
        self.rows = Rows(
            tuple(str(agent) for agent in self.possible_agents),
            tuple(len(ActionSpace.of(space)) for space in spaces.values()),
        )
        observed = {agent: env.observation_space(agent) for agent in self.possible_agents}
        self._observed = AgentObservations(observed, spaces)
        self.observation_space = self._observed.space
        self._alive = np.zeros(len(self.possible_agents), bool)
        self._index = {agent: i for i, agent in enumerate(self.possible_agents)}

    def adopt(self, network: InfluenceNetwork, weights: np.ndarray, local: Any) -> None:
        """Set a network with agents, parts of agents or groups of agents as rows."""
        n_agents, leaf_of = len(self.possible_agents), self.rows.leaf_of
        sigma = network.factorisation
        groups = [[c] for c in range(len(leaf_of))] if sigma is None else sigma.groups
        members = np.zeros((len(groups), n_agents), bool)
        for i, group in enumerate(groups):
            members[i, leaf_of[list(group)]] = True
        self._members = None if members.shape == (n_agents, n_agents) and members.trace() == n_agents else members
        # Agents observe separately: a factor of several has no single local observation.
        if local is None and (members.sum(axis=1) == 1).all():
            local = self._observed.local(members.argmax(axis=1).tolist())
        self.describe(network, weights, local)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        obs, infos = checked_reset(self.env, seed=seed, options=options)
        self._alive = self._living()
        return self._observed(obs), {"agents": infos}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act with all living agents."""
        acted = self._alive
        living = {agent: copied(action[agent]) for agent in self.env.agents}
        returned = self.env.step(living)
        check_step(returned)
        obs, rewards, terminations, truncations, infos = returned
        for name, part in zip(_DICTS, returned, strict=False):
            if not isinstance(part, dict):
                raise Misfit(f"{name}: got {type(part).__name__}, want a dict with one entry per agent")
        ended, cut = self._flags("terminated", terminations), self._flags("truncated", truncations)
        self._alive = alive = self._living() & ~ended & ~cut
        over = not alive.any()
        truncated = over and bool((cut & ~ended & acted).any())
        # An agent that is truncated while others continue gets no more rewards either: its return ends here.
        stopped = ~alive & ~(cut & ~ended & acted) if truncated else ~alive
        if self.collapse:
            psi, stopped = self._shared(rewards), np.array([over and not truncated])
        else:
            parts = [rewards.get(agent, 0.0) for agent in self.possible_agents]
            psi = real_numbers("reward", parts).astype(np.float64)
        mask = acted if self._members is None else (self._members & acted).any(axis=1)
        info = {"vector_reward": psi, "factor_mask": mask, "target_terminated": stopped, "agents": infos}
        return self._observed(obs), float(self.weights @ psi), over and not truncated, truncated, info

    def _flags(self, name: str, of_agents: dict[Any, Any]) -> np.ndarray:
        values = [of_agents.get(agent, False) for agent in self.possible_agents]
        return np.array([value if type(value) is bool else flag(name, value) for value in values], bool)

    def _living(self) -> np.ndarray:
        alive = np.zeros(len(self.possible_agents), bool)
        try:
            alive[[self._index[agent] for agent in self.env.agents]] = True
        except KeyError as error:
            raise ValueError(
                f"agents: {error.args[0]!r} is not in possible_agents; want all agents that can ever appear there"
            ) from None
        return alive

    def _shared(self, rewards: dict[Any, Any]) -> np.ndarray:
        values = np.fromiter(rewards.values(), np.float64)
        if values.size == 0:
            return np.zeros(1)
        if not np.allclose(values, values[0], rtol=1e-4, atol=1e-8):
            raise ValueError(
                f'reward: got "collapse", but the agents have different rewards, from {values.min():.6g} to '
                f"{values.max():.6g}; want the default, which makes each a target"
            )
        return values[:1].copy()
