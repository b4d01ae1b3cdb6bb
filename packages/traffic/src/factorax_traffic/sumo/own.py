"""Any SUMO network as a Gymnasium environment: lights are factors, streets are targets."""

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from factorax.structure import InfluenceNetwork
from factorax.structure.checks import as_network

from ..targets import STANDSTILL_PENALTY, STANDSTILL_SPEED
from .files import Preset, Streets
from .safe_xml import copy_checked
from .simulation import Simulation, SumoBackend

_HOLD = 1e6


class OwnTrafficEnv(gym.Env[np.ndarray, np.ndarray]):
    """The traffic lights of any SUMO network, with the demand of any file of routes.

    - **Observation**: for each light and each of its approaches (padded with 0 to the largest number of approaches),
      cars per metre times 5, and mean speed divided by the largest limit; then whether the light can switch, and its
      phase from 0 to 1. `local` returns one row per light.
    - **Action**: ``MultiBinary(n)``, where 1 requests a light to leave its green phase. Phases without green, or with
      yellow, have the duration of the network's own programme.
    - **Reward**: the scalar Σⱼ ψⱼ; the targets, one per street, are in ``info["vector_reward"]``.
    - **End**: truncated after `horizon` steps. Collisions, which occasionally occur where cars turn, are handled by
      SUMO's defaults and reported in ``info["collided"]``.

    **Arguments**

    - `net`, `routes`: the files, not compressed. They may contain streets, lights, vehicles and routes; anything else,
      such as a detector that writes to a file, is rejected, because the files may be untrusted.
    - `network`: ``"in"``, ``"incident"``, ``"n-level"``, ``"corridor"`` or ``"complete"``, computed from the graph of
      the streets; or an influence network.
    - `horizon`, `begin`: the length of an episode in seconds, and the second of the demand at which it starts.
    """

    metadata: dict[str, Any] = {"render_modes": [], "one_per_process": True}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self,
        net: str | Path,
        routes: str | Path,
        *,
        network: Preset | InfluenceNetwork = "incident",
        horizon: int = 400,
        begin: int = 0,
        standstill: float = STANDSTILL_SPEED,
        backend: SumoBackend = "libsumo",
        gui: bool = False,
    ):
        net, routes = Path(net).expanduser(), Path(routes).expanduser()
        self.streets = streets = Streets.read(net, routes)
        self.network = streets.influence(network) if isinstance(network, str) else as_network(network, "network")
        n, m = len(streets.lights), len(streets.edges)
        self.influence = streets.influence
        self.weights, self.reward_dim = np.ones(m), m
        self.horizon, self.standstill, self.time = horizon, standstill, 0
        self.approaches = max(map(len, streets.incoming))
        self.action_space = gym.spaces.MultiBinary(n)
        self.observation_space = gym.spaces.Box(0.0, np.inf, (n * self._width,), np.float32)
        self.reward_space = gym.spaces.Box(-np.inf, 0.0, (m,), np.float32)
        self.number = {name: e for e, name in enumerate(streets.edges)} | streets.approach
        folder = Path(tempfile.mkdtemp(prefix="factorax-"))
        self._remove_files = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        copies = folder / "streets.net.xml", folder / "demand.rou.xml"
        copy_checked(net, "net", copies[0])
        copy_checked(routes, "routes", copies[1])
        arguments = ["-n", str(copies[0]), "-r", str(copies[1]), "--begin", str(begin)]
        self.simulation = Simulation(arguments, backend=backend, gui=gui)

    @property
    def _width(self) -> int:
        return 2 * self.approaches + 2

    def local(self, obs: Any) -> Any:
        """Return the local observation of each light, ``(..., n, l)``, from joint observations."""
        return obs.reshape(*obs.shape[:-1], len(self.streets.lights), self._width)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode with each light in its first green phase."""
        super().reset(seed=seed)
        self.simulation.reset(seed if seed is not None else int(self.np_random.integers(2**31)))
        self.phase = [0] * len(self.streets.lights)
        for i, phases in enumerate(self.streets.phases):
            self._enter(i, next((k for k, shown in enumerate(phases) if is_green(shown)), 0))
        self.time = 0
        self.simulation.step()
        edge, speed = self._cars()
        return self._observe(edge, speed), {"cars": len(edge)}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Simulate one second."""
        request = np.asarray(action) > 0
        if request.shape != (len(self.streets.lights),):
            want = len(self.streets.lights)
            raise ValueError(f"action: got shape {request.shape}, want ({want},), one per light")
        for i in np.flatnonzero(request):
            if self._can_switch(int(i)):
                self._enter(int(i), self.phase[i] + 1)
        self.simulation.step()
        for i, light in enumerate(self.streets.lights):
            now = self.simulation.api.trafficlight.getPhase(light)
            if now != self.phase[i]:  # a yellow phase has ended
                self._enter(i, now)
        self.time += 1
        edge, speed = self._cars()
        psi = self._targets(edge, speed)
        collided = self.simulation.collided
        info = {"vector_reward": psi.astype(np.float32), "cars": len(edge), "collided": collided}
        truncated = self.time >= self.horizon
        return self._observe(edge, speed), float(psi.sum()), False, truncated, info

    def _can_switch(self, i: int) -> bool:
        return is_green(self.streets.phases[i][self.phase[i]])

    def _enter(self, i: int, phase: int) -> None:
        """Start a phase of light i; green is held until a switch is requested."""
        self.phase[i] = phase % len(self.streets.phases[i])
        lights = self.simulation.api.trafficlight
        lights.setPhase(self.streets.lights[i], self.phase[i])
        if self._can_switch(i):
            lights.setPhaseDuration(self.streets.lights[i], _HOLD)

    def _cars(self) -> tuple[np.ndarray, np.ndarray]:
        """Return street and speed of each car, without cars on ways that belong to no street."""
        _, roads, _, speed = self.simulation.cars()
        edge = np.array([self.number.get(road, -1) for road in roads], int)
        return edge[edge >= 0], speed[edge >= 0]

    def _targets(self, edge: np.ndarray, speed: np.ndarray) -> np.ndarray:
        m = self.reward_dim
        delay = np.bincount(edge, np.maximum(1 - speed / self.streets.speed_limit, 0), minlength=m)
        stopped = np.bincount(edge, speed <= self.standstill, minlength=m)
        return -delay / max(len(edge), 1) - STANDSTILL_PENALTY * stopped

    def _observe(self, edge: np.ndarray, speed: np.ndarray) -> np.ndarray:
        m = self.reward_dim
        count = np.bincount(edge, minlength=m)
        mean = np.bincount(edge, speed, minlength=m) / np.maximum(count, 1) / self.streets.speed_limit
        density = 5 * count / self.streets.lengths
        rows = np.zeros((len(self.streets.lights), self._width))
        for i, into in enumerate(self.streets.incoming):
            rows[i, : len(into)] = density[list(into)]
            rows[i, self.approaches : self.approaches + len(into)] = mean[list(into)]
            rows[i, -2:] = self._can_switch(i), self.phase[i] / len(self.streets.phases[i])
        return rows.ravel().astype(np.float32)

    def close(self) -> None:
        """Close SUMO."""
        self.simulation.close()


def is_green(shown: str) -> bool:
    """Return whether cars may go and no light is yellow."""
    return "g" in shown.lower() and "y" not in shown.lower()
