"""Traffic lights of any SUMO network as a Gymnasium environment: each light chooses its next green phase."""

import math
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args
from xml.etree import ElementTree as Xml

import gymnasium as gym
import numpy as np

from factorax.structure import BaseNetwork
from factorax.structure.network import as_network

from ..sumo.safe_xml import copy_checked, parse
from ..sumo.simulation import Simulation, SumoBackend
from .demand import Demand
from .detectors import STANDING, Cars, Detectors
from .influence import influence
from .phases import is_green, yellow_between
from .roads import Roads
from .turns import TurnDetectors, Turns
from .views import PhaseView

Programme = Literal["chosen", "fixed", "actuated", "delay_based"]
Targets = Literal["street", "lane"]
LARGEST_ELAPSED = 120.0
"""Seconds in a phase at which observations saturate."""
SLOW = 5.0
"""Speed in m/s below which a car does not leave a junction before crossing cars enter it."""

LEAST_GREEN, MOST_GREEN = 5, 50
"""Seconds of green of SUMO's actuated and delay-based lights: SUMO's own defaults when netconvert makes them."""


class Score(NamedTuple):
    """The score of an episode as in the RESCO benchmark, over all trips that wanted to depart in it."""

    delay: float
    """Mean delay per trip in seconds: time loss and departure delay, including trips under way or not departed."""
    trips: int
    arrived: int
    waiting: int
    """Number of cars that could not depart for lack of room."""
    collisions: int
    teleports: int


class CityEnv(gym.Env[np.ndarray, np.ndarray]):
    """Traffic lights of a SUMO network, with the demand of a file of routes.

    - **Observation**: for each light, the readings of `Detectors` on its lanes (padded to the largest number), its
      current phase one-hot, and the time in it. `local` returns the observation of each phase of a light.
    - **Action**: ``MultiDiscrete``, the next green phase of each light. If it differs from the current one, the light
      first shows `yellow` seconds of yellow.
    - **Reward**: the scalar Σⱼ ψⱼ; the targets ψ, one per street or lane, are in ``info["vector_reward"]``: minus the
      seconds of delay of its cars since the last decision, times `scale`. Cars that wait to depart count on the street
      of their departure. The sum over targets and steps is `scale` times the total delay, except for the last seconds
      of each trip (less than a decision interval), which SUMO does not report.
    - **End**: truncated after `horizon` seconds, or once a car has not moved for `patience` seconds. ``info["score"]``
      of the last step is a `Score`. Collisions and teleports are counted in ``info["collisions"]`` and
      ``info["teleports"]``. Cars are never teleported out of a jam.

    **Arguments**

    - `net`, `routes`: SUMO files, not compressed.
    - `network`: a preset of `influence`, or an influence network.
    - `horizon`, `begin`: the length of an episode in seconds, and the second of the demand at which it starts.
    - `interval`: seconds between decisions; `yellow`: seconds of them without green; `min_green`: minimum duration of
      green in seconds, before which other requests are ignored.
    - `clearing`: number of cars standing inside a junction from which on a request that would start other traffic is
      replaced by the phase that lets most of them go, if one gives them protected green; 0 for never. Left turns of two
      crossing streets that wait inside a junction can block each other permanently.
    - `all_red`: maximum seconds for which a light stays red before green begins, while slow cars are inside the
      junction whose way is red in the next phase; 0 for never. Otherwise cars of crossing streets can enter and block
      them.
    - `reach`, `zones`: metres covered by detectors, and the number of zones for approaching cars; `extended`: whether
      they reach beyond the start of the lane that leads to the light; `turns`: whether they know which way each car
      will take through the next light (see `TurnDetectors`).
    - `travel_time`: seconds of free-flow travel that presets of `network` cover up- and downstream.
    - `programme`: ``"chosen"`` by actions, the network's own ``"fixed"`` one, or SUMO's ``"actuated"`` and
      ``"delay_based"`` lights. Actions are then ignored.
    - `patience`: seconds after which a car that has not moved ends the episode; 0 for never. For training: decisions
      in a permanent jam teach nothing. The score of an episode that was ended so is that of its first part.
    - `trips`: whether SUMO keeps a record of each trip, which `score` needs. Without it there is no ``info["score"]``,
      and SUMO takes about a tenth less time.
    """

    metadata: dict[str, Any] = {"render_modes": [], "one_per_process": True}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self,
        net: str | Path,
        routes: str | Path,
        *,
        network: str | BaseNetwork = "incident",
        horizon: int = 3600,
        begin: int = 0,
        interval: int = 10,
        yellow: int = 3,
        min_green: int = 5,
        clearing: int = 3,
        all_red: int = 0,
        reach: float = 200.0,
        zones: int = 3,
        extended: bool = True,
        turns: bool = False,
        targets: Targets = "street",
        scale: float = 0.01,
        travel_time: float = 30.0,
        programme: Programme = "chosen",
        patience: int = 0,
        trips: bool = True,
        backend: SumoBackend = "libsumo",
        gui: bool = False,
    ):
        _check(interval=interval, yellow=yellow, min_green=min_green, clearing=clearing, all_red=all_red,
               horizon=horizon, reach=reach, zones=zones, extended=extended, turns=turns, targets=targets, scale=scale,
               programme=programme, patience=patience)  # fmt: skip
        net, routes = Path(net).expanduser(), Path(routes).expanduser()
        self.roads = Roads.read(net)
        self.demand = Demand.read(routes, self.roads)
        self.demand.check_window(begin, begin + horizon)
        self.horizon, self.begin, self.interval = horizon, begin, interval
        self.yellow, self.min_green = yellow, min_green
        self.scale, self.programme, self.travel_time, self.trips = scale, programme, travel_time, trips
        self.targets: Targets = targets
        self.detectors = (TurnDetectors if turns else Detectors)(self.roads, reach, zones, extended)
        self._turns = Turns(self.detectors) if isinstance(self.detectors, TurnDetectors) else None
        self.network = self.influence(network) if isinstance(network, str) else as_network(network, "network")
        names = self.roads.streets if targets == "street" else self.roads.lanes
        m = self.reward_dim = len(names)
        self.weights = np.ones(m)
        # Indices of lanes; an internal lane of a junction has the index of the lane before it plus the number of lanes.
        count = len(self.roads.lanes)
        inside = {name: lane + count for name, lane in self.roads.crossed_from.items()}
        self._lane = inside | {name: i for i, name in enumerate(self.roads.lanes)}
        of_street = range(len(self.roads.streets)) if targets == "street" else _first_lanes(self.roads)
        of_lane = (self.roads.street_of if targets == "street" else np.arange(m)).tolist()
        self._target_of_lane: list[int] = [*of_lane, *of_lane, -1]  # the last index stands for unknown lanes
        self._target_of_street = dict(zip(self.roads.streets, of_street, strict=True))
        self.clearing, self.all_red, self.patience = clearing, all_red, patience
        self._within: list[list[tuple[str, int]]] = [[] for _ in self.roads.lights]
        for name, (i, link) in self.roads.links_inside.items():
            self._within[i].append((name, link))
        self._protected = [np.array([[c == "G" for c in state] for state in x.greens]) for x in self.roads.lights]
        self.view = self.local = PhaseView.of(self.detectors)
        self.action_space = gym.spaces.MultiDiscrete(list(self.roads.n_phases))
        self.observation_space = gym.spaces.Box(0.0, np.inf, (self.view.n_inputs,), np.float32)
        self.reward_space = gym.spaces.Box(-np.inf, 0.0, (m,), np.float32)
        self.neighbours = _neighbours(self.roads)
        folder = Path(tempfile.mkdtemp(prefix="factorax-city-"))
        self._remove_files = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        copy_checked(net, "net", folder / "streets.net.xml")
        copy_checked(routes, "routes", folder / "demand.rou.xml")
        arguments = ["-n", str(folder / "streets.net.xml"), "-r", str(folder / "demand.rou.xml")]
        arguments += ["--begin", str(begin), *(["--tripinfo-output", str(folder / "trips.xml")] if trips else [])]
        if programme in ("actuated", "delay_based"):
            write_programmes(net, programme, folder / "lights.add.xml", yellow)
            arguments += ["-a", str(folder / "lights.add.xml")]
        self.simulation = Simulation(arguments, backend=backend, gui=gui)
        self.time = 0
        self.every_second: Callable[[], None] | None = None

    def influence(self, preset: str, n: int = 0) -> BaseNetwork:
        """Return the influence network of a preset; see `factorax_traffic.city.influence`."""
        return influence(self.roads, self.demand, preset, n=n, targets=self.targets, travel_time=self.travel_time,
                         interval=self.interval)  # fmt: skip

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode with each light in its first green phase."""
        super().reset(seed=seed)
        self.simulation.reset(seed if seed is not None else int(self.np_random.integers(2**31)))
        n = len(self.roads.lights)
        self.phase, self.since = np.zeros(n, int), np.zeros(n)
        self.time, self.collisions, self.teleports = 0, 0, 0
        self._before: dict[str, tuple[float, int]] = {}
        self._inside: dict[int, list[int]] = {}
        self._red: dict[int, int] = {}
        if self._turns is not None:
            self._turns.reset()
        if self.programme == "chosen":
            for i, light in enumerate(self.roads.lights):
                self._show(i, light.greens[0])
        self.cars, _ = self._read()
        return self.observe(self.cars), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Simulate one decision interval."""
        requested = np.asarray(action)
        if requested.shape != self.phase.shape:
            raise ValueError(f"action: got shape {requested.shape}, want {self.phase.shape}, one phase per light")
        if self.programme == "chosen":
            self._choose(requested.astype(int))
        else:
            self._run(self.interval)
        self.time += self.interval
        self.cars, psi = self._read()
        truncated = self.time >= self.horizon or self._longest_stop >= (self.patience or math.inf)
        info: dict[str, Any] = {
            "vector_reward": psi,
            "cars": len(self._before),
            "collisions": self.collisions,
            "teleports": self.teleports,
        }
        if truncated and self.trips:
            info["score"] = self.score()
        return self.observe(self.cars), float(psi.sum()), False, truncated, info

    def _choose(self, requested: np.ndarray) -> None:
        """Show yellow, then green, if the requested phase differs and green has lasted long enough."""
        n_phases, lights = self.roads.n_phases, self.roads.lights
        if not all(0 <= phase < count for phase, count in zip(requested.tolist(), n_phases, strict=True)):
            raise ValueError(
                f"action: got {requested.tolist()}, want for each light a phase from 0 to below {n_phases}"
            )
        # Lists, because the few lights of a city take less time than a dozen operations on short arrays.
        wanted = (self._clearing(requested) if self.clearing else requested).tolist()
        current, since = self.phase.tolist(), self.since.tolist()
        may = [self.time == 0 or seconds >= self.min_green for seconds in since]
        switching = [i for i, phase in enumerate(wanted) if may[i] and phase != current[i]]
        before, left = {}, self.interval
        for i in switching:
            before[i] = lights[i].greens[current[i]]
            self._show(i, yellow_between(before[i], lights[i].greens[wanted[i]]))
            self.phase[i] = wanted[i]
        if switching:
            self._run(self.yellow)
            left -= self.yellow
            self._red |= dict.fromkeys(before, 0)
        self._run(left - self._wait_for_clear_junctions(left, before))
        self.since += self.interval
        for i in switching:
            self.since[i] = self.interval - self.yellow

    def _wait_for_clear_junctions(self, seconds: int, before: dict[int, str]) -> int:
        """Show green at lights that change, once no car stands in its way; return the seconds simulated.

        - `before`: phases before the change.
        """
        red = self._red
        for second in range(seconds):
            for i, waited in list(red.items()):
                after = self.roads.lights[i].greens[self.phase[i]]
                if waited >= self.all_red or self._is_clear(i, after):
                    self._show(i, after)
                    del red[i]
                else:
                    if i in before and waited == 0:
                        self._show(i, yellow_between(before[i], after).replace("y", "r"))
                    red[i] = waited + 1
            if not red:
                return second
            self._run(1)
        return seconds

    def _is_clear(self, i: int, state: str) -> bool:
        """Return whether no slow car is inside a junction whose way is red in this phase."""
        api = self.simulation.api
        cars, speed = api.lane.getLastStepVehicleIDs, api.vehicle.getSpeed
        return not any(
            state[link] not in "Gg" and any(speed(car) < SLOW for car in cars(name)) for name, link in self._within[i]
        )

    def _clearing(self, requested: np.ndarray) -> np.ndarray:
        """Return the requests, with those replaced that would start other traffic before a junction is clear."""
        chosen = requested.copy()
        for i, standing in self._inside.items():
            if 0 < self.clearing <= len(standing):
                let_go = self._protected[i][:, standing].sum(axis=1)
                if let_go[chosen[i]] < let_go.max():
                    chosen[i] = int(let_go.argmax())
        return chosen

    def _run(self, seconds: int) -> None:
        look = self.every_second
        for part in [seconds] if look is None else [1] * seconds:
            collisions, teleports = self.simulation.run(part)
            self.collisions += collisions
            self.teleports += teleports
            if look is not None:
                look()

    def _read(self) -> tuple[Cars, np.ndarray]:
        """Return the cars on lanes, and the targets since the last decision."""
        names, lanes, position, speed, loss, waiting = self.simulation.delays()
        lane_number, of_lane, count = self._lane, self._target_of_lane, len(self.roads.lanes)
        numbers = [lane_number.get(lane, -1) for lane in lanes]
        before, now = self._before, {}
        place, lost = [], []
        for name, number, total in zip(names, numbers, loss, strict=True):
            target = of_lane[number]
            earlier = before.get(name)
            if earlier is not None:
                place.append(earlier[1] if earlier[1] >= 0 else target)  # where it was delayed
                lost.append(total - earlier[0])
            else:
                place.append(target)
                lost.append(total)
            now[name] = total, target
        self._before = now
        pending = self.simulation.pending()
        if pending:
            first = self.simulation.api.vehicle.getRoute
            for name in pending:
                place.append(self._target_of_street.get(first(name)[0], -1))
                lost.append(self.interval)
        if -1 in place:
            place = [max(target, 0) for target in place]
        psi = np.bincount(place, lost, self.reward_dim) if place else np.zeros(self.reward_dim)
        self._longest_stop = float(waiting.max(initial=0.0))
        # Few cars are inside junctions: lists are faster than a dozen operations on short arrays.
        standing = [i for i, number in enumerate(numbers) if number >= count and speed[i] <= STANDING]
        self._inside = {}
        for i in standing:
            if lanes[i] in self.roads.links_inside:
                light, link = self.roads.links_inside[lanes[i]]
                self._inside.setdefault(light, []).append(link)
        there = np.array([i for i, number in enumerate(numbers) if 0 <= number < count], int)
        on_lane = np.array(numbers, int)
        inside = np.array([numbers[i] - count for i in standing], int)
        cars = Cars(on_lane[there], position[there], speed[there], waiting[there], inside)
        if self._turns is not None and isinstance(self.detectors, TurnDetectors):
            column_of = self.detectors.column_of
            columns = [column_of[i, link] for i, links in self._inside.items() for link in links]
            route = self.simulation.api.vehicle.getRoute
            cars = cars._replace(
                approach=self._turns.approach(names, numbers, position, speed, waiting, route),
                inside_columns=np.array(columns, int),
            )
        return cars, (-self.scale * psi).astype(np.float32)

    def observe(self, cars: Cars) -> np.ndarray:
        """Return the joint observation, ``(d,)``."""
        return self.view.observation(self.detectors.read(cars), self.phase, np.minimum(self.since, LARGEST_ELAPSED))

    def score(self) -> Score:
        """Return the score of the episode so far."""
        api = self.simulation.api
        ask = lambda name: float(api.simulation.getParameter("", f"device.tripinfo.{name}"))  # noqa: E731
        arrived = int(ask("count"))
        total = arrived * (ask("timeLoss") + ask("departDelay")) if arrived else 0.0
        total += sum(api.vehicle.getTimeLoss(name) + api.vehicle.getDepartDelay(name) for name in self._before)
        pending = api.simulation.getPendingVehicles()
        total += sum(max(api.vehicle.getDepartDelay(name), 0.0) for name in pending)
        trips = arrived + len(self._before) + len(pending)
        return Score(total / max(trips, 1), trips, arrived, len(pending), self.collisions, self.teleports)

    def _show(self, i: int, state: str) -> None:
        self.simulation.show(self.roads.lights[i].name, state)

    def close(self) -> None:
        """Close SUMO and remove its files."""
        self.simulation.close()
        self._remove_files()


def _first_lanes(roads: Roads) -> Sequence[int]:
    return np.unique(roads.street_of, return_index=True)[1].tolist()


def _neighbours(roads: Roads) -> np.ndarray:
    """Return which lights are connected by a street, booleans ``(n, n)``."""
    into = [{int(roads.street_of[lane]) for lane in light.lanes} for light in roads.lights]
    out = [{int(roads.street_of[lane]) for lane in light.exits} for light in roads.lights]
    joined = np.array([[bool(a & b) for b in into] for a in out])
    return joined | joined.T


def _check(**settings: Any) -> None:
    """Raise ValueError for an invalid setting."""
    whole = {"interval": 1, "yellow": 0, "min_green": 0, "clearing": 0, "all_red": 0, "horizon": 1, "zones": 1,
             "patience": 0}  # fmt: skip
    for name, least in whole.items():
        value = settings[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name}: got {value!r}, want a whole number of at least {least}")
    for name in ("extended", "turns"):
        if not isinstance(settings[name], bool):
            raise ValueError(f"{name}: got {settings[name]!r}, want True or False")
    for name in ("reach", "scale"):
        if not 0 < settings[name] < math.inf:
            raise ValueError(f"{name}: got {settings[name]!r}, want a number above 0")
    if settings["interval"] <= settings["yellow"]:
        raise ValueError(
            f"interval: got {settings['interval']} s between decisions with {settings['yellow']} s of yellow, which "
            "leaves no green; want an interval longer than yellow"
        )
    for name, kind in (("targets", Targets), ("programme", Programme)):
        if settings[name] not in get_args(kind):
            raise ValueError(f"{name}: got {settings[name]!r}, want one of {', '.join(get_args(kind))}")


def write_programmes(net: Path, kind: Literal["actuated", "delay_based"], to: Path, yellow: int) -> None:
    """Write the programmes of a network as actuated or delay-based programmes of SUMO, with `yellow` seconds of
    yellow."""
    additional = Xml.Element("additional")
    for logic in parse(net, "net").iter("tlLogic"):
        phases = [phase.get("state", "") for phase in logic.iter("phase")]
        copy = Xml.SubElement(additional, "tlLogic", id=logic.get("id", ""), type=kind, programID="own", offset="0")
        for state, phase in zip(phases, logic.iter("phase"), strict=True):
            copied_phase = Xml.SubElement(copy, "phase", state=state, duration=phase.get("duration", "30"))
            if is_green(state):
                copied_phase.set("minDur", str(LEAST_GREEN))
                copied_phase.set("maxDur", str(MOST_GREEN))
            elif "y" in state.lower():
                copied_phase.set("duration", str(yellow))
    to.write_bytes(Xml.tostring(additional))
