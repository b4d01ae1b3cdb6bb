"""One SUMO simulation: start, reset, step, and the state of its cars."""

import io
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from factorax.problems.failures import EpisodeLost

from .network import MISSING, program

SumoBackend = Literal["libsumo", "traci"]
HALTING = 0.1
"""Speed in m/s at or below which SUMO counts a car as waiting."""
_running: "weakref.ref[Simulation] | None" = None
_QUIET = ["--no-step-log", "--no-warnings", "--duration-log.disable", "--xml-validation", "never"]
_WINDOW = ["--start", "--quit-on-end", "--delay", "100"]
_SETTINGS = ["--step-length", "1", "--time-to-teleport", "-1"]


class Simulation:
    """A SUMO simulation by libsumo, one per process, or by traci, any number in separate processes, optionally with a
    GUI.

    libsumo would silently replace a running simulation, so a second one raises here.
    """

    def __init__(self, arguments: Sequence[str], *, backend: SumoBackend = "libsumo", gui: bool = False):
        if backend not in get_args(SumoBackend):
            raise ValueError(f"backend: got {backend!r}, want one of {', '.join(get_args(SumoBackend))}")
        if gui and sys.platform != "win32" and not os.environ.get("DISPLAY"):
            raise ValueError(
                "gui: got True, but there is no display for sumo-gui, because DISPLAY is not set; want a "
                "desktop, ssh -X, or xvfb-run"
            )
        self.arguments, self.gui = [*arguments, *_SETTINGS, *_QUIET, *(_WINDOW if gui else [])], gui
        self.backend: SumoBackend = "traci" if gui else backend
        # A call of traci is a message to another process, which subscriptions avoid; direct calls are faster in
        # libsumo.
        self.subscribes = self.backend == "traci"
        self.api: Any = None
        self.seed, self.step_count = 0, 0

    def reset(self, seed: int) -> None:
        """Restart the simulation at time 0."""
        arguments = [*self.arguments, "--seed", str(seed)]
        self.seed, self.step_count = seed, 0
        try:
            if self.api is None:
                self._start(arguments)
            else:
                self.api.load(arguments)
        except Exception as error:
            self._fail(error)

    def _start(self, arguments: list[str]) -> None:
        global _running
        other = _running() if _running is not None else None
        if self.backend == "libsumo" and other is not None and other.api is not None:
            raise SecondSimulation(
                "a SUMO simulation is already running in this process, and libsumo supports only one: close() it, "
                "use one "
                'process per environment (rollouts="processes" with as many workers as n_envs), or use '
                "the lane simulator, which runs thousands"
            )
        module = _import(self.backend)
        c = module.constants
        self._wanted = c.VAR_ROAD_ID, c.VAR_LANEPOSITION, c.VAR_SPEED
        self._wanted_of_delays = c.VAR_LANE_ID, c.VAR_LANEPOSITION, c.VAR_SPEED, c.VAR_TIMELOSS, c.VAR_WAITING_TIME
        if self.backend == "traci":
            self.api = _connect(module, [program("sumo-gui" if self.gui else "sumo"), *arguments])
        else:
            module.start(["sumo", *arguments])
            self.api, _running = module, weakref.ref(self)
        self._asked = _asked(self.api.vehicle, "vehicle", ("getRoadID", "getLanePosition", "getSpeed"))
        # libsumo's own step asks in Python whether anyone listens to steps: nobody does.
        compiled = getattr(sys.modules.get(self.api.vehicle.__module__), "_libsumo", None)
        # One call for several seconds, without Python between them, or for a single second if it is given 0.
        self._step_until: Callable[[float], Any] | None = None if compiled is None else compiled.simulation_step
        self._step = self.api.simulationStep if self._step_until is None else partial(self._step_until, 0.0)
        counts = "getCollidingVehiclesNumber", "getStartingTeleportNumber", "getPendingVehicles", "getTime"
        *self.counts, self.pending, self._now = _asked(self.api.simulation, "simulation", counts)
        """Functions that return how many cars collided, and how many were teleported, in the last call of SUMO; and one
        that returns the names of cars that wait to depart."""
        (self.show,) = _asked(self.api.trafficlight, "trafficlight", ["setRedYellowGreenState"])
        """Function of the name of a light and of the colours that it shows from now on."""
        delays = "getLaneID", "getLanePosition", "getSpeed", "getTimeLoss", "getWaitingTime"
        self._asked_of_delays = _asked(self.api.vehicle, "vehicle", delays)

    def step(self) -> None:
        """Simulate one second."""
        try:
            self._step()
        except Exception as error:
            self._fail(error)
        self.step_count += 1
        if self.subscribes:
            self._subscribe()

    def _subscribe(self) -> None:
        """Subscribe to the cars that have departed in the last second."""
        for car in self.api.simulation.getDepartedIDList():
            self.api.vehicle.subscribe(car, {*self._wanted, *self._wanted_of_delays})

    def run(self, seconds: int) -> tuple[int, int]:
        """Simulate some seconds; return how many cars collided in them, and how many were teleported."""
        step, (colliding, teleporting) = self._step, self.counts
        collisions = teleports = 0
        try:
            if self._step_until is not None:
                self._step_until(self._now() + seconds)
                self.step_count += seconds
                return colliding(), teleporting()  # of all seconds of the call
            for _ in range(seconds):
                step()
                self.step_count += 1
                collisions += colliding()
                teleports += teleporting()
                if self.subscribes:
                    self._subscribe()
        except Exception as error:
            self._fail(error)
        return collisions, teleports

    def cars(self) -> tuple[Sequence[str], list[str], np.ndarray, np.ndarray]:
        """Return name, street, position on the street and speed of each car."""
        if self.subscribes:
            cars = self.api.vehicle.getAllSubscriptionResults()
            road, position, speed = ([car[want] for car in cars.values()] for want in self._wanted)
        else:
            cars = self.api.vehicle.getIDList()
            road, position, speed = (map(get, cars) for get in self._asked)
        count = len(cars)
        return list(cars), list(road), np.fromiter(position, float, count), np.fromiter(speed, float, count)

    def delays(self) -> tuple[Sequence[str], list[str], np.ndarray, np.ndarray, list[float], np.ndarray]:
        """Return name, lane, position on the lane, speed, time loss so far and waiting time of each car."""
        if self.subscribes:
            cars = self.api.vehicle.getAllSubscriptionResults()
            lane, position, speed, loss, waiting = (
                [car[want] for car in cars.values()] for want in self._wanted_of_delays
            )
        else:
            cars = self.api.vehicle.getIDList()
            *asked, waited = self._asked_of_delays
            lane, position, speed, loss = (list(map(get, cars)) for get in asked)
            # SUMO sets the waiting time to 0 whenever a car is faster than this, so most cars need not be asked.
            waiting = [waited(car) if v <= HALTING else 0.0 for car, v in zip(cars, speed, strict=True)]
        return cars, lane, np.array(position, float), np.array(speed, float), loss, np.array(waiting, float)

    @property
    def where(self) -> str:
        """Seed and second of the simulation, to reproduce a failure."""
        return f"SUMO, seed {self.seed}, second {self.step_count}"

    @property
    def collided(self) -> bool:
        """Whether cars collided, or one was removed, in this second."""
        simulation = self.api.simulation
        return bool(simulation.getStartingTeleportNumber() or simulation.getCollidingVehiclesNumber())

    def close(self) -> None:
        """Close the simulation, so that another may run in this process."""
        global _running
        if self.api is not None:
            self.api.close()
            self.api = None
            if _running is not None and _running() is self:
                _running = None

    def _fail(self, error: Exception) -> None:
        if isinstance(error, SecondSimulation | ImportError):
            raise error
        try:
            self.close()
        except Exception:  # it is lost in any case
            self.api = None
        raise EpisodeLost(f"{self.where}: {error}") from error


class SecondSimulation(RuntimeError):
    """Raised for a second libsumo simulation in a process, which supports only one."""


def _import(backend: SumoBackend) -> Any:
    try:
        if backend == "traci":
            import traci  # pyright: ignore[reportMissingImports]

            return traci
        import libsumo  # pyright: ignore[reportMissingImports]

        return libsumo
    except ImportError:
        raise ImportError(MISSING) from None


def _connect(traci: Any, command: Sequence[str]) -> Any:
    """Start SUMO in its own process and connect to it on a free port."""
    port = traci.getFreeSocketPort()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([*command, "--remote-port", str(port)], stdout=subprocess.DEVNULL, stderr=said)
        try:
            with redirect_stdout(io.StringIO()):  # traci prints every attempt
                connection = traci.connect(port, numRetries=300, proc=process, waitBetweenRetries=0.1)
            connection.getVersion()  # returns once SUMO has read its files
            return connection
        except Exception as error:
            process.kill()
            process.wait()
            said.seek(0)
            raise RuntimeError(said.read().decode(errors="replace").strip() or str(error)) from error


def version() -> str:
    """Return the version of SUMO, for result files."""
    return str(_import("libsumo").__version__)


def _asked(domain: Any, name: str, functions: Sequence[str]) -> list[Callable[..., Any]]:
    """Return functions of a domain of the interface, such as `vehicle`.

    For libsumo these are the compiled functions without their Python wrappers, since they are called for each car or in
    each second.
    """
    compiled = getattr(sys.modules.get(domain.__module__), "_libsumo", None)
    return [getattr(compiled, f"{name}_{function}", None) or getattr(domain, function) for function in functions]
