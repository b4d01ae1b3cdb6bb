"""The benchmark in SUMO as a Gymnasium environment: one agent for all lights."""

import dataclasses
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from factorax.problems.failures import EpisodeLost
from factorax.structure import InfluenceNetwork
from factorax.structure.network import as_network

from ..grid import SPEED_LIMIT, Grid
from ..observations import SEEN, Readings, observe
from ..settings import Traffic
from ..signals import Signals, colours, switch
from ..targets import global_reward
from .network import actuated, build, write_demand
from .simulation import Simulation, SumoBackend

_NEAREST = np.arange(SEEN)
Program = Literal["green", "static", "actuated"]


class TrafficEnv(gym.Env[np.ndarray, np.ndarray]):
    """A grid of traffic lights in SUMO that works with all standard wrappers and vectorisers.

    - **Observation**: joint, ``Box(0, 3)`` of length 24n + 2m + 3n; `local` extracts 42 numbers per light.
    - **Action**: the lights to switch, ``MultiBinary(n)`` or ``Box(−1, 1)``.
    - **Reward**: the scalar Σⱼ ψⱼ; the targets ψ are in ``info["vector_reward"]``, the number of cars in
      ``info["cars"]``, and Flow's reward, independent of the kind of targets, in ``info["global_reward"]``.
    - **End**: truncated after `horizon` steps. A collision of cars has never been observed; it would be a fault of the
      simulation and raises `EpisodeLost`, as does an error of SUMO.

    **Arguments**

    - `traffic`: the settings of the benchmark.
    - `network`: a preset of `influence`, or an influence network.
    - `program`: the programme of lights before their first request: ``"green"`` north–south, the paper's ``"static"``
      (38 s green, 7 s yellow; Flow calls it actuated), or SUMO's ``"actuated"`` lights.
    - `stochastic`: whether cars enter at random, at the same average rate, instead of evenly spaced.
    - `flow_persist`: whether to reproduce a defect of Flow: the state of the lights survives a reset.
    - `backend`, `gui`: traci instead of libsumo (slower, but allows several simulations at once); the SUMO GUI.
    """

    metadata: dict[str, Any] = {"render_modes": [], "one_per_process": True}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self,
        traffic: Traffic | None = None,
        *,
        network: str | InfluenceNetwork = "incident",
        program: Program = "green",
        stochastic: bool = False,
        flow_persist: bool = False,
        backend: SumoBackend = "libsumo",
        gui: bool = False,
    ):
        self.traffic = traffic or Traffic()
        self.grid = self.traffic.grid
        self.network = self.traffic.influence(network) if isinstance(network, str) else as_network(network, "network")
        self.weights, self.local, self.influence = self.traffic.weights, self.traffic.local, self.traffic.influence
        self.program, self.flow_persist = program, flow_persist
        self.observation_space = self.traffic.observation_space
        self.action_space = self.traffic.action_space
        self.reward_dim = self.traffic.n_targets
        self.reward_space = gym.spaces.Box(-np.inf, 0.0, (self.reward_dim,), np.float32)
        self.streets = _streets(self.grid)
        self.signals = Signals.start(self.grid.n_lights)
        self.time = 0
        folder = Path(tempfile.mkdtemp(prefix="factorax-sumo-"))
        self._remove_files = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        write_demand(self.traffic, folder / "demand.rou.xml", stochastic=stochastic)
        arguments = ["-n", str(build(self.grid)), "-r", str(folder / "demand.rou.xml")]
        arguments += ["--collision.check-junctions", "true"]
        if program == "actuated":
            actuated(self.grid, folder / "lights.add.xml")
            arguments += ["-a", str(folder / "lights.add.xml")]
        self.simulation = Simulation(arguments, backend=backend, gui=gui)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode, at second 2; without a seed it differs from the previous one by SUMO's own draws."""
        super().reset(seed=seed)
        self.simulation.reset(seed if seed is not None else int(self.np_random.integers(2**31)))
        if not self.flow_persist:
            self.signals = Signals.start(self.grid.n_lights)
        if self.program == "green":
            for k in range(self.grid.n_lights):
                self._show(k)
        self.time = 0
        for _ in range(2):
            self.simulation.step()
        readings = self.read()
        return self._observe(readings), {"cars": int(readings.cars.sum())}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Simulate one second: lights, cars, observation, targets."""
        request = np.asarray(action) > 0
        if request.shape != (self.grid.n_lights,):
            raise ValueError(f"action: got shape {request.shape}, want ({self.grid.n_lights},), one per light")
        before = self.signals
        self.signals = switch(before, request)
        for k in (before.yellow != self.signals.yellow).nonzero()[0].tolist():  # every change involves yellow
            self._show(k)
        self.simulation.step()
        self.time += 1
        readings = self.read()
        psi = self.traffic.targets(readings)
        if self.simulation.collided:
            raise EpisodeLost(f"{self.simulation.where}: cars collided")
        info: dict[str, Any] = {
            "vector_reward": psi.astype(np.float32),
            "global_reward": float(global_reward(readings)),
            "cars": int(readings.cars.sum()),
        }
        truncated = self.time >= self.traffic.horizon
        return self._observe(readings), float(self.weights @ psi), False, truncated, info

    def read(self) -> Readings:
        """Return the current readings of the detectors, in double precision."""
        _, roads, position, speed = self.simulation.cars()
        place = np.fromiter(map(self.streets.__getitem__, roads), int, len(roads))
        return read(self.grid, place, position, speed, self.traffic.standstill)

    def _observe(self, readings: Readings) -> np.ndarray:
        return observe(self.grid, readings, self.signals, dtype=np.float32)

    def _show(self, k: int) -> None:
        self.simulation.show(self.grid.lights[k], colours(self.signals, k))

    def close(self) -> None:
        """Close SUMO and remove its files."""
        self.simulation.close()
        self._remove_files()


def read(grid: Grid, place: np.ndarray, position: np.ndarray, speed: np.ndarray, standstill: float) -> Readings:
    """Return readings, given the place, the position along it and the speed of each car, ``(cars,)``.

    A place below m is the index of a street; m more is the way from that street through the junction.
    """
    m, incoming = grid.n_edges, grid.incoming[..., None]
    order = np.argsort(1000 * place - position, kind="stable")  # sorted by street, the foremost car first
    count = np.bincount(place, minlength=2 * m)[:m]
    present = count[incoming] > _NEAREST
    nearest = order[((np.cumsum(count) - count)[incoming] + _NEAREST)[present]]
    near, ahead = np.zeros(present.shape), np.zeros(present.shape)
    near[present], ahead[present] = speed[nearest], grid.lengths[place[nearest]] - position[nearest]
    edge = place % m
    return Readings(
        speed=near,
        distance=ahead,
        present=present,
        count=count,
        total_speed=np.bincount(place[order], speed[order], minlength=2 * m)[:m],
        cars=np.bincount(edge, minlength=m),
        delay=np.bincount(edge, 1 - speed / SPEED_LIMIT, minlength=m),
        stopped=np.bincount(edge, speed <= standstill, minlength=m),
    )


def _streets(grid: Grid) -> dict[str, int]:
    """Map SUMO's names to places: indices of streets and, m more, the ways through a junction by their approach."""
    streets = dict(grid.number)
    for k, name in enumerate(grid.lights):
        west, south, east, north = (int(e) for e in grid.incoming[k])
        for link, approach in enumerate((north, east, south, west)):  # in netconvert's numbering
            streets[f":{name}_{link}"] = grid.n_edges + approach
    return streets


def make_traffic(rows: int = 3, columns: int = 3, **settings: Any) -> TrafficEnv:
    """Return the environment of ``gymnasium.make("factorax_traffic.sumo:factorax/Traffic-v0", rows=…, columns=…)``.

    `settings` are those of `Traffic` and `TrafficEnv`.
    """
    fields = {field.name for field in dataclasses.fields(Traffic)}
    traffic = Traffic(rows, columns, **{name: value for name, value in settings.items() if name in fields})
    return TrafficEnv(traffic, **{name: value for name, value in settings.items() if name not in fields})
