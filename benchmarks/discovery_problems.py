"""Twenty problems with known networks of returns, three of which draw more random numbers after some actions."""

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
from factorax_paper.experiments.discover_exact import one_shot
from factorax_paper.experiments.discover_others import uav

from factorax import InfluenceNetwork
from factorax.integrations import rddl
from factorax.problems import BanditEnv, Problem, chain, contextual_bandit, queues, search_bandit
from factorax.structure import gallery

TANKS = (
    (Path(__file__).parent / "tanks.rddl").read_text(encoding="utf-8"),
    """
non-fluents five { domain = tanks; objects { tank : {t1, t2, t3, t4, t5}; };
    non-fluents { NEXT(t1, t2); NEXT(t4, t5); }; }
instance five_tanks {
    domain = tanks; non-fluents = five; max-nondef-actions = pos-inf; horizon = 12; discount = 1.0;
}
""",
)


class Case(NamedTuple):
    """A problem, its network, and how it is run."""

    make: Callable[[], Any]
    """Returns a `Problem` or an environment."""
    truth: Callable[[], np.ndarray]
    horizon: int
    trials: int = 20
    shifts: bool = False


class Repairs(gym.Env):
    """Machines that produce 1 plus noise; a repair takes a random time, drawn only if there is one. K = I."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.MultiBinary(8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        draw = self.np_random
        psi = np.array([1 + draw.normal() - (draw.exponential() if each else 0.0) for each in action])
        return np.zeros(1, np.float32), float(psi.sum()), False, False, {"vector_reward": psi}


class Shops(gym.Env):
    """A row of shops that set prices; an expensive one loses customers to the next. Each customer's spending is drawn
    from NumPy's global generator: Kᵢⱼ = 1 for j = i, i + 1."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(0, 1, (6,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        np.random.seed(seed)  # noqa: NPY002
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        leaving = 2.0 * np.asarray(action, float)
        rate = 4.0 - leaving
        rate[1:] += leaving[:-1]
        customers = np.random.poisson(rate)  # noqa: NPY002
        psi = np.array([np.random.exponential(size=count).sum() for count in customers])  # noqa: NPY002
        return np.zeros(1, np.float32), float(psi.sum()), False, False, {"vector_reward": psi}


def _matrix(problem: Callable[[], Any]) -> Callable[[], np.ndarray]:
    return lambda: problem().network.to_dense() > 0


def _downstream() -> np.ndarray:
    """Return the network of a 3×3 grid of queues: cars never turn, so a node reaches those after it in its row and
    column."""
    row, column = np.divmod(np.arange(9), 3)
    same_row, same_column = row[:, None] == row, column[:, None] == column
    return (same_row & (column[:, None] <= column)) | (same_column & (row[:, None] <= row))


def _random(n: int, m: int, share: float) -> InfluenceNetwork:
    """Return a random network with at least one edge per action and target, and others with this probability."""
    edges = np.random.default_rng(0).random((n, m)) < share
    edges[np.arange(n), np.arange(n) % m] = True
    edges[np.arange(m) % n, np.arange(m)] = True
    return InfluenceNetwork(edges)


def _together(network: InfluenceNetwork, terms: Callable[[Any], Any], space: gym.Space | None = None) -> Problem:
    """Return a one-step problem with ψ = terms(action)."""
    problem = one_shot(network)

    def step(key: Any, state: Any, action: Any) -> Any:
        return problem.step(key, state, jnp.zeros(network.shape[0]))._replace(psi=terms(action))

    return replace(problem, step=step, action_space=problem.action_space if space is None else space)


def _parity() -> Problem:
    truth = InfluenceNetwork(np.kron(np.eye(6, dtype=bool), np.ones((2, 1), bool)))
    return _together(truth, lambda a: (a[::2] + a[1::2]) % 2.0, gym.spaces.MultiBinary(12))


def _products() -> Problem:
    truth = InfluenceNetwork(np.eye(10, 9, dtype=bool) | np.eye(10, 9, -1, dtype=bool))
    return _together(truth, lambda a: a[:-1] * a[1:])


def cases(folder: Path) -> dict[str, Case]:
    """Return the cases by name; model files are written to `folder`. RDDL models need pyRDDLGym."""
    bandit = search_bandit(8, k=3, penalty=0.5)
    problems: dict[str, Case] = {
        f"the paper's {name}": Case(lambda make=make: one_shot(make()), lambda make=make: make().to_dense() > 0, 1)
        for name, make in gallery.PAPER.items()
    }
    plain: dict[str, tuple[Callable[[], Any], int]] = {
        "chain of 8, delay 3": (lambda: chain(8, delay=3), 8),
        "chain of 32, delay 2": (lambda: chain(32, delay=2), 6),
        "contextual bandit": (lambda: contextual_bandit(8), 1),
        "random, 5 % of 20 × 30": (lambda: one_shot(_random(20, 30, 0.05)), 1),
        "parity of pairs": (_parity, 1),
        "products of neighbours": (_products, 1),
    }
    problems |= {name: Case(make, _matrix(make), horizon) for name, (make, horizon) in plain.items()}
    problems["queues 3×3"] = Case(lambda: queues(3, 3), _downstream, 50)
    problems["search bandit (Gymnasium)"] = Case(lambda: BanditEnv(bandit), lambda: bandit.network.to_dense() > 0, 1)
    problems["repairs (Gymnasium)"] = Case(Repairs, lambda: np.eye(8, dtype=bool), 10, 60, shifts=True)
    rows_of_two = np.eye(6, dtype=bool) | np.eye(6, k=1, dtype=bool)
    problems["shops (Gymnasium)"] = Case(Shops, lambda: rows_of_two, 10, 60, shifts=True)
    if find_spec("pyRDDLGym") is not None and find_spec("rddlrepository") is not None:
        paths = [folder / "domain.rddl", folder / "instance.rddl"]
        for path, text in zip(paths, TANKS, strict=True):
            path.write_text(text, encoding="utf-8")

        def tanks() -> Any:
            return rddl.make(*paths)

        def truth() -> np.ndarray:
            return tanks().influence.dynamics_network.to_dense() > 0

        problems["tanks (RDDL)"] = Case(tanks, truth, 12)
        for k in ("2", "3"):
            problems[f"UAV {k} (RDDL)"] = Case(lambda k=k: uav(k), _matrix(lambda k=k: uav(k)), 30)
        problems["tanks (pyRDDLGym's stream)"] = Case(lambda: with_one_stream(tanks()), truth, 12, 60, shifts=True)
    return problems


def with_one_stream(env: Any) -> Any:
    """Return an RDDL environment that samples as pyRDDLGym does, with one generator for all fluents."""
    sampler = env.rddl.sampler
    for name in ("_sample_random", "_sample_random_vector"):
        setattr(sampler, name, getattr(type(sampler), name).__get__(sampler))
    return env
