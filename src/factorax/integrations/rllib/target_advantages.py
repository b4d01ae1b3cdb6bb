"""Per-target advantages as an RLlib learner connector, credited to the factors: C = [K(λ∘A)]."""

from typing import Any

import numpy as np

from ..._credit import credit
from ...structure import InfluenceNetwork
from ..views import step_targets
from ._packages import DEFAULT_MODULE_ID, Columns, ConnectorV2, torch

FACTOR_MASK = "factor_mask"
"""The entry of `info`, and column of a batch, with the factors that acted, ``(N, n)``."""


class TargetAdvantages(ConnectorV2):
    """Replaces RLlib's `GeneralAdvantageEstimation`.

    The targets are read from ``info["vector_reward"]``, or from the reward if there is one target.
    ``info["target_terminated"]`` and ``info["factor_mask"]`` are used if present. The batch gets the credits of the
    factors ``(N, n)`` as advantages, and one value target per target ``(N, m)``.

    RLlib appends a step to each episode, for the value of its last observation. It is not used for learning, and
    unlike in RLlib's own connector it does not enter the mean and standard deviation of the advantages.
    """

    def __init__(
        self,
        input_observation_space: Any = None,
        input_action_space: Any = None,
        *,
        gamma: float,
        lambda_: float,
        network: InfluenceNetwork,
        weights: np.ndarray,
        standardise: bool = True,
    ):
        super().__init__(input_observation_space, input_action_space)
        self.gamma, self.lambda_ = gamma, lambda_
        self.network, self.weights, self.standardise = network, weights, standardise

    def __call__(self, *, rl_module: Any, episodes: list[Any], batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Add the columns for credits, value targets and acting factors to the batch."""
        part, n_targets = batch[DEFAULT_MODULE_ID], self.network.shape[1]
        # Without gradients, and without the wrapper that a module has with several learners.
        with torch.no_grad():
            predicted = rl_module[DEFAULT_MODULE_ID].unwrapped().compute_values(part)
        if tuple(predicted.shape[1:]) != (n_targets,):
            raise ValueError(
                f"rl_module: its compute_values gave shape {tuple(predicted.shape)}, want (N, {n_targets}), one value "
                "per target; derive from factorax.integrations.rllib.TargetValuesModule"
            )
        infos = [
            info for each in self.single_agent_episode_iterator(episodes) for info in step_infos(each, self.network)
        ]
        psi = np.stack([info["vector_reward"] for info in infos])
        real = part[Columns.LOSS_MASK].cpu().numpy()
        terminated = part[Columns.TERMINATEDS].cpu().numpy()[:, None]
        ended = terminated | part[Columns.TRUNCATEDS].cpu().numpy()[:, None]
        target_ends = _info_column(infos, "target_terminated", n_targets, default=False)
        if target_ends is not None:
            terminated = terminated | target_ends
        values = predicted.cpu().numpy().astype(np.float64)
        advantages = target_advantages(
            psi, values, terminated=terminated, ended=ended, gamma=self.gamma, trace=self.lambda_
        )
        acted = _info_column(infos, FACTOR_MASK, self.network.shape[0], default=True)
        credits = credit(self.network, advantages, self.weights)
        if self.standardise:
            credits = _standardise(credits, real, acted)
        columns = {"advantages": credits, "value_targets": advantages + values}
        if acted is not None:
            columns[FACTOR_MASK] = acted
        for name, column in columns.items():
            part[name] = torch.as_tensor(np.asarray(column, np.float32), device=predicted.device)
        return batch


def step_infos(episode: Any, network: InfluenceNetwork) -> list[dict[str, Any]]:
    """Return the infos of an episode with their vectors of targets, including one for the step that RLlib appended."""
    # The first info is that of the reset, the last that of the step that RLlib appended.
    pairs = zip(episode.get_rewards(), episode.get_infos()[1:-1], strict=False)
    infos = [{**info, "vector_reward": step_targets(network, reward, info)} for reward, info in pairs]
    return [*infos, {"vector_reward": np.zeros(network.shape[1])}]


def _info_column(infos: list[dict[str, Any]], name: str, size: int, *, default: bool) -> np.ndarray | None:
    """Return the entries `name` of all infos, ``(N, size)``; None if no info has one."""
    rows = [np.asarray(info[name], bool) if name in info else np.full(size, default) for info in infos]
    for row in rows:
        if row.shape != (size,):
            raise ValueError(f'environment: info["{name}"] has shape {row.shape}, want ({size},)')
    return np.stack(rows) if any(name in info for info in infos) else None


def target_advantages(
    psi: np.ndarray, values: np.ndarray, *, terminated: np.ndarray, ended: np.ndarray, gamma: float, trace: float
) -> np.ndarray:
    """Return GAE advantages of each target for concatenated episodes.

    δ_t = ψ_t + γ (1 − terminated_t) v(s_{t+1}) − v(s_t),  A_t = δ_t + γλ (1 − ended_t) A_{t+1}.

    As `factorax.ppo.advantages.gae`, but for concatenated episodes, each with an additional row for the value of
    its last observation, which has advantage 0. Uses NumPy, since the lengths differ between batches.

    - `psi`, `values`: ``(N, m)``.
    - `terminated`: ``(N, m)``, or ``(N, 1)`` if all targets end together.
    - `ended`: ``(N, 1)``, terminated or truncated: the last but one row of each episode.

    >>> psi, values = np.array([[1.0], [2.0], [0.0]]), np.array([[0.0], [0.0], [4.0]])
    >>> ended = np.array([[False], [True], [False]])
    >>> target_advantages(psi, values, terminated=ended & False, ended=ended, gamma=0.5, trace=1.0).T
    array([[3., 4., 0.]])
    """
    continues = 1.0 - terminated
    following = np.append(values[1:], np.zeros_like(values[:1]), axis=0)
    delta = psi + gamma * continues * following - values
    # The row after the end of an episode is the appended one: no episode has length zero.
    appended = np.roll(ended[:, 0], 1)
    delta[appended] = 0.0
    decay = np.broadcast_to(gamma * trace * continues * (1.0 - ended), delta.shape)
    for t in range(len(delta) - 2, -1, -1):
        # The row after an appended one is of another episode.
        if not appended[t]:
            delta[t] += decay[t] * delta[t + 1]
    return delta


def _standardise(credits: np.ndarray, real: np.ndarray, acted: np.ndarray | None) -> np.ndarray:
    """Return credits centred and divided by one common standard deviation, over the valid entries."""
    is_valid = np.broadcast_to(real[:, None], credits.shape)
    valid = credits[is_valid if acted is None else is_valid & acted]
    if valid.size == 0:
        return credits
    return (credits - valid.mean()) / max(1e-4, float(valid.std()))  # RLlib's own lower bound
