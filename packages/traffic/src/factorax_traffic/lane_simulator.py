"""The lane simulator: the traffic benchmark as a pure function, for thousands of grids at once. It reproduces SUMO.

Since no car turns, each route is a separate line. A car is in a *section*, a street with the junction at its end, and
has a position in it, so numbers stay small and single precision suffices on routes of any length. The cars of a route
are stored in slots, the foremost first. They never overtake, so the array stays sorted. Slots are the first axis, so
that operations on all routes work on long rows.
"""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from factorax._arrays import drawn
from factorax._checks import Count, check_type, checked
from factorax._xla import separately

from .driving import (
    CAR,
    FAR,
    MIN_GAP,
    TOP_SPEED,
    TWICE_ROOT,
    Obstacle,
    braking_distance,
    follow,
    halt,
    nearest,
    next_speed,
)
from .grid import ENTRY, EXIT, JUNCTION, SPEED_LIMIT, STANDING_AT, STANDING_BETWEEN
from .lane_detectors import LaneDetectors
from .lane_state import Lanes, as_one_grid, first_slots, occupied, of_one_grid, once, pick, shifted
from .observations import Readings
from .settings import Traffic
from .signals import Signals, green_and_yellow, switch

SECTION = ENTRY + JUNCTION
ENTERS_AT = 5.1
"""Position at which later cars enter, at 30 m/s."""
ROOM_FOR = 36
"""Number of cars on a street above which a queue might reach back through a junction, which is not modelled."""
SHORTEST_PERIOD = 12
"""Shortest interval in seconds between cars that enter a route for which the simulator was compared with SUMO."""
GREEN, YELLOW, RED = 0, 1, 2
FEW = 16
"""Number of lights per route up to which comparing with each light is faster than a table lookup."""


class _Stop(NamedTuple):
    """The effect of the lights on each car, floats ``(S, L)``."""

    gap: jax.Array
    """Distance to the point at which it must stop; FAR if there is none."""
    sees_beyond: jax.Array
    """Whether it considers cars beyond its street, 0 or 1: not if it will stop at the line."""
    red: jax.Array
    """Whether its light is red."""


class LaneSimulator:
    """Reset, step and read grids of traffic lights. All methods are pure functions of one grid, for use with
    ``jax.vmap``.

    **Arguments**

    - `traffic`: the settings of the benchmark.
    - `slots`: maximum number of cars per route; by default the largest possible number. Fewer slots are faster. A grid
      with a full route has NaN targets, so that cars are never dropped silently.
    - `dtype`: float32, or float64 if enabled in JAX.
    """

    def __init__(self, traffic: Traffic, *, slots: int | None = None, dtype: Any = jnp.float32):
        check_type("traffic", traffic, Traffic, "a Traffic, such as Traffic(3, 3)")
        checked("slots", slots, Count | None)
        self.traffic, self.grid = traffic, traffic.grid
        name = getattr(dtype, "__name__", str(dtype))
        self.dtype = jnp.dtype(checked("dtype", name, Literal["float32", "float64"]))
        if self.dtype == jnp.float64 and not jax.config.read("jax_enable_x64"):
            raise ValueError(
                "dtype: got float64, want float32, because JAX is in single precision; set jax_enable_x64 to use "
                "float64"
            )
        if traffic.period < SHORTEST_PERIOD:
            raise ValueError(
                f"period: got {traffic.period}, want at least {SHORTEST_PERIOD} s: with more cars, queues reach back "
                "through junctions, which SUMO models and the lane simulator does not"
            )
        grid = self.grid
        self.n_lights_of = np.array([len(lights) for lights in grid.route_lights])
        self.longest = int(self.n_lights_of.max())
        self.n_first = self.n_lights_of if traffic.initial == "everywhere" else np.ones(grid.n_routes, int)
        most = int(self.n_first.max())
        self.slots = most + -(-(traffic.horizon + 1) // traffic.period) + 1 if slots is None else int(slots)
        if self.slots <= most:
            raise ValueError(f"slots: got {slots}, want more than {most}, the number of cars at the start of a route")
        seconds = min((SECTION * self.longest + EXIT) / TOP_SPEED, traffic.horizon)
        least = int(seconds // traffic.period)
        if self.slots < least:
            raise ValueError(
                f"slots: got {slots}, want at least {least}, the number of cars on the longest route if none waits"
            )
        self.looks_up = self.longest > FEW
        self.axis = np.repeat([0, 1], [2 * grid.columns, 2 * grid.rows])  # north–south routes first
        self.lights = np.zeros((self.longest, grid.n_routes), int)
        where = np.zeros((grid.n_edges, 2), int)  # section and route of every street
        for i, (streets, passed) in enumerate(zip(grid.routes, grid.route_lights, strict=True)):
            self.lights[: len(passed), i] = passed
            for j, name in enumerate(streets):
                where[grid.number[name]] = j, i
        self.inner = np.flatnonzero((where[:, 0] > 0) & (grid.lengths != EXIT))
        streets = where[:, 0] * grid.n_routes + where[:, 1]  # index of each street in a flat (K + 1, L)
        self.detectors = LaneDetectors(streets, grid.incoming, self.longest + 1, traffic.standstill, self.looks_up)

    def reset(self, key: jax.Array) -> Lanes:
        """Return the initial state: standing cars with random desired speeds."""
        shape = self.slots, self.grid.n_routes
        slot = np.arange(self.slots)[:, None]
        alive = slot < self.n_first
        section = np.where(alive, self.n_first - 1 - slot, 0)
        factor = 1 + self.traffic.speed_deviation * drawn(jax.random.normal, key, shape, self.dtype)
        wanted = jnp.minimum(TOP_SPEED, SPEED_LIMIT * jnp.clip(factor, 0.2, 2.0))
        return Lanes(
            section=jnp.asarray(section, self.dtype),
            place=jnp.asarray(np.where(alive, np.where(section == 0, STANDING_AT, STANDING_BETWEEN), 0), self.dtype),
            speed=jnp.zeros(shape, self.dtype),
            wanted=jnp.where(alive, wanted, TOP_SPEED).astype(self.dtype),
            cars=jnp.asarray(self.n_first, jnp.int32),
            waiting=jnp.asarray(self.traffic.inflows, jnp.int32),
            signals=Signals.start(self.grid.n_lights, jnp),
            time=jnp.int32(0),
        )

    def step(self, state: Lanes, request: jax.Array) -> Lanes:
        """Simulate one second, given the lights that are requested to switch, booleans ``(n,)``."""
        return self._of_one_grid(self._step_all)(state, request)

    def _of_one_grid(self, of_all: Callable[..., Any]) -> Callable[..., Any]:
        # Grids with long routes fill a device by themselves: 100×100 lights take 4 % longer together.
        return of_one_grid(of_all, together=not self.looks_up)

    def _step_all(self, states: Lanes, requests: jax.Array) -> Lanes:
        """Simulate one second of B grids whose states and requests, ``(n, B)``, have the axis of grids last.

        Routes do not depend on each other, so B grids of L routes are simulated as one of L B routes, in loops over
        long rows. Otherwise `jax.vmap` would move the axis of grids to the front, and leave loops over the few routes
        of a grid.
        """
        signals = switch(states.signals, requests, jnp)
        time = jnp.broadcast_to(states.time, states.cars.shape).reshape(-1)
        routes = as_one_grid(states)
        moving = routes._replace(signals=signals, time=time)
        new = separately(lambda: self._step_routes(moving), routes, states.time)
        return jax.tree.map(
            lambda x, y: x.reshape(y.shape), new._replace(signals=signals, time=states.time + 1), states
        )

    def _step_routes(self, state: Lanes) -> Lanes:
        """Return all routes, ``(S, L B)``, one second later, without lights and time. Lights ``(n, B)`` have already
        switched."""
        stop = once(self._stop(state, *self._lights_ahead(state)), state.place)
        planned = self._plan(state, stop)
        speed = jnp.where(occupied(state), next_speed(state.speed, state.wanted, planned), 0)
        section, place, speed = once(self._move(state, once(speed, state.place), stop.red), state.place)
        moved = state._replace(section=section, place=place, speed=speed)
        return self._enter(self._leave(moved))._replace(signals=None, time=None)

    def _of_routes(self, values: np.ndarray, cars: jax.Array) -> np.ndarray:
        """Return values of the L routes of a grid, ``(L,)``, for the L B routes of all grids."""
        return np.repeat(values, len(cars) // self.grid.n_routes)

    # ---- lights -------------------------------------------------------------------------------------------

    def _lights_ahead(self, state: Lanes) -> tuple[jax.Array, jax.Array]:
        """Return the colours of the next light and of the one after it for each car, ``(S, L)``; GREEN if none."""
        signals = Signals(*(x[self.lights].reshape(self.longest, -1) for x in state.signals))
        axis, n_lights = (self._of_routes(x, state.cars) for x in (self.axis, self.n_lights_of))
        green, yellow = green_and_yellow(signals, axis)
        has_light = np.arange(self.longest)[:, None] < n_lights
        colour = jnp.where(green | ~has_light, GREEN, jnp.where(yellow, YELLOW, RED))
        colour = jnp.pad(colour, ((0, 3), (0, 0))).astype(self.dtype)  # (K + 3, L)
        two = colour[:-1] + 3 * colour[1:]  # colours of light k and of light k + 1
        inside = state.place > ENTRY
        both = once(self._pick(two, state.section + inside), state.place)
        far = (both > 2.5) * 1.0 + (both > 5.5)
        return both - 3 * far, jnp.where(inside, GREEN, far)

    def _pick(self, table: jax.Array, index: jax.Array) -> jax.Array:
        """Return table[index[s, i], i] for each slot s and route i."""
        if self.looks_up:
            return pick(table, index)
        picked = table[-1]
        for k in range(len(table) - 1):
            picked = jnp.where(index == k, table[k], picked)
        return picked

    # ---- driving ------------------------------------------------------------------------------------------

    def _stop(self, state: Lanes, light: jax.Array, next_light: jax.Array) -> "_Stop":
        """Return where each car must stop for a light."""
        place, v, wanted = state.place, state.speed, state.wanted
        inside = place > ENTRY
        to_line = jnp.where(inside, SECTION + ENTRY, ENTRY) - place  # distance to the next stop line
        brake = braking_distance(v)
        can_brake = to_line >= brake
        stops = (light == RED) | ((light == YELLOW) & can_brake)
        offset = jnp.where(can_brake, jnp.clip(to_line - brake, 0.1, 1.0), 1.0)
        later = jnp.where(next_light == GREEN, FAR, to_line + SECTION - 1.0)
        gap = jnp.where(stops, jnp.maximum(to_line - offset, 0), later)
        # Of later cars, 0.4 % have a desired speed of 29.9985 m/s in SUMO and enter at 30, so SUMO brakes them at the
        # end.
        gap = jnp.where(v > wanted, jnp.minimum(gap, ENTRY - place), gap)
        n_lights = self._of_routes(self.n_lights_of, state.cars)
        beyond = (inside | ~stops) & (state.section < n_lights) & occupied(state)
        red = (light == RED) & ~inside
        return _Stop(gap, beyond.astype(self.dtype), red.astype(self.dtype))

    def _plan(self, state: Lanes, stop: "_Stop") -> jax.Array:
        """Return the planned speed of each car, given the current positions of all cars."""
        v, wanted = state.speed, state.wanted
        leaders = once(self._leaders(state, stop.sees_beyond > 0), state.place)
        # usually only one obstacle matters, and the approximation error is below rounding
        if self.dtype == jnp.float32:
            leaders = (nearest(v, leaders),)
        halts = jnp.where(stop.gap < FAR, halt(v, wanted, stop.gap), FAR)
        return functools.reduce(jnp.minimum, (follow(v, wanted, leader) for leader in leaders), halts)

    def _leaders(self, state: Lanes, beyond: jax.Array) -> tuple[Obstacle, Obstacle, Obstacle]:
        """Return the cars that a driver considers: the next one in the same street or junction, the rearmost in the
        next junction, and the rearmost in the next street. Nothing beyond a line at which the car will stop is
        considered."""
        section, place, inside = state.section, state.place, state.place > ENTRY
        n_lights = self._of_routes(self.n_lights_of, state.cars)
        on_the_way_out = section >= n_lights

        def behind(where: jax.Array, speed: jax.Array, end: jax.Array, sees: jax.Array) -> Obstacle:
            """Return a car `where` metres from the start of the section as an obstacle, if its rear is before `end`."""
            gap = where - place - CAR
            sees = sees & (where < FAR) & (gap < end)
            return Obstacle(jnp.where(sees, gap, FAR), jnp.where(sees, speed, TOP_SPEED))

        lane_end = jnp.where(on_the_way_out, FAR, jnp.where(inside, SECTION, ENTRY) - place)
        street_end = jnp.where(section + 1 >= n_lights, FAR, SECTION + ENTRY - place)  # end of the next street
        ahead = SECTION * (shifted(section, 1) - section) + shifted(place, 1)
        first_slot = np.arange(self.slots)[:, None] == 0
        (junction, junction_speed), (street, street_speed) = (
            tuple(self._pick(x, section) for x in table) for table in self._rear_most(state)
        )
        return (
            behind(jnp.where(first_slot, FAR, ahead), shifted(state.speed, 1), lane_end, occupied(state)),
            behind(junction, junction_speed, SECTION - place, beyond & ~inside),
            behind(street, street_speed, street_end, beyond),
        )

    def _rear_most(self, state: Lanes) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
        """Return distance (FAR if there is no car) and speed of the rearmost cars past each stop line and junction."""
        location = jnp.where(occupied(state), 2 * state.section + (state.place > ENTRY), -1)
        sections = np.arange(self.longest + 1)[:, None]
        rear_most = []
        for past in (1, 2):
            if not self.looks_up:
                section, place, v = self._last_beyond(state, location, 2 * sections + past)
            else:
                section, place, v = self._looked_up(state, self._count_from(location, past) - 1)
            rear_most.append(once((jnp.where(place < FAR, SECTION * (section - sections) + place, FAR), v), v))
        return rear_most[0], rear_most[1]

    def _last_beyond(self, state: Lanes, location: jax.Array, line: np.ndarray) -> tuple[jax.Array, ...]:
        """Return section, place (FAR if there is none) and speed of the last car of a route at or beyond a line."""
        rows = (len(line),)
        last = [jnp.full((*rows, len(state.cars)), x, self.dtype) for x in (0, FAR, 0)]
        line = line.astype(location.dtype)
        for at, *car in zip(location, state.section, state.place, state.speed, strict=True):  # the foremost first
            beyond = jax.lax.broadcast(at, rows) >= line
            last = [
                jax.lax.select(beyond, jax.lax.broadcast(new, rows), old) for new, old in zip(car, last, strict=True)
            ]
        return tuple(last)

    def _looked_up(self, state: Lanes, slot: jax.Array) -> tuple[jax.Array, ...]:
        """Return section, place (FAR if there is none) and speed of cars by slot, ``(K + 1, L)``; −1 is no slot."""
        section, place, v = (pick(x, jnp.maximum(slot, 0)) for x in (state.section, state.place, state.speed))
        return section, jnp.where(slot < 0, FAR, place), v

    def _count_from(self, location: jax.Array, past: int) -> jax.Array:
        """Return the number of cars of a route at location 2j + past or beyond, for each section j, ``(K + 1, L)``."""
        sections, routes = self.longest + 1, location.shape[1]
        j = jnp.floor((location - past) / 2).astype(jnp.int32)  # the last section that the car has passed
        flat = jnp.where(j < 0, sections * routes, j * routes + np.arange(routes)).reshape(-1)
        counts = jax.ops.segment_sum(jnp.ones_like(flat), flat, sections * routes).reshape(-1, routes)
        return jnp.cumsum(counts[::-1], axis=0)[::-1]

    # ---- moving -------------------------------------------------------------------------------------------

    def _move(self, state: Lanes, speed: jax.Array, red: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        place = state.place + speed
        crosses_red = (red > 0) & (place > ENTRY)
        place, speed = jnp.where(crosses_red, ENTRY, place), jnp.where(crosses_red, 0, speed)
        on = place > SECTION
        place = jnp.where(on, place - SECTION, place)
        return state.section + on, place, speed

    def _leave(self, state: Lanes) -> Lanes:
        """Remove the foremost car of each route that has reached its end."""
        n_lights = self._of_routes(self.n_lights_of, state.cars)
        at_end = (state.section[0] >= n_lights) & (state.place[0] > EXIT - 0.1)
        gone = at_end & (state.cars > 0)

        def closed_up(x: jax.Array, fill: float = 0) -> jax.Array:
            return jnp.where(gone, jnp.concatenate([x[1:], jnp.full_like(x[:1], fill)]), x)

        return state._replace(
            section=closed_up(state.section),
            place=closed_up(state.place),
            speed=closed_up(state.speed),
            wanted=closed_up(state.wanted, TOP_SPEED),
            cars=state.cars - gone,
        )

    def _enter(self, state: Lanes) -> Lanes:
        """Let one waiting car enter each route if there is room at its speed."""
        inflows = self._of_routes(self.traffic.inflows, state.cars)
        due = inflows & ((state.time + 1) % self.traffic.period == 0)  # SUMO's clock shows time + 2
        waiting = state.waiting + due
        slot = np.arange(self.slots)[:, None]

        def of_last(x: jax.Array) -> jax.Array:
            if self.looks_up:
                return jnp.where(state.cars > 0, pick(x, jnp.maximum(state.cars - 1, 0)), 0)
            return jnp.where(slot == state.cars - 1, x, 0).sum(axis=0)  # at most one term is not 0

        position, v = once(
            (SECTION * of_last(state.section) + of_last(state.place), of_last(state.speed)),
            state.cars.astype(self.dtype),
        )
        needed = TOP_SPEED + TOP_SPEED * (TOP_SPEED - v) / TWICE_ROOT + MIN_GAP
        room = (state.cars == 0) | (position - CAR > ENTRY) | (position - CAR - ENTERS_AT >= needed)
        enters = (waiting > 0) & room & (state.cars < self.slots)
        new = (slot == state.cars) & enters
        return state._replace(
            section=jnp.where(new, 0, state.section),
            place=jnp.where(new, ENTERS_AT, state.place).astype(self.dtype),
            speed=jnp.where(new, TOP_SPEED, state.speed).astype(self.dtype),
            wanted=jnp.where(new, TOP_SPEED, state.wanted).astype(self.dtype),
            cars=state.cars + enters,
            waiting=waiting - enters,
        )

    # ---- reading ------------------------------------------------------------------------------------------

    def read(self, state: Lanes) -> Readings:
        """Return the readings of the detectors."""
        return self._of_one_grid(self.detectors.read)(state)

    def visible(self, first: Lanes) -> Lanes:
        """Return an initial state with the slots that have cars: the others would only take time to compile."""
        return first_slots(first, int(self.n_first.max()))

    @functools.cached_property
    def first_readings(self) -> Readings:
        """The readings at the start of every episode, in NumPy: cars start at the same places, at rest.

        If XLA had to find out that they do not change, it would compute them while it compiles, for seconds on large
        grids.
        """
        with jax.ensure_compile_time_eval():
            state = jax.jit(self.reset)(jax.random.key(0))
            return jax.tree.map(np.asarray, jax.jit(self.read)(self.visible(state)))

    def invalid(self, state: Lanes, readings: Readings) -> jax.Array:
        """Return whether the state is outside the exact range of the simulator: a route is full, or a queue might
        reach back through a junction."""
        full = ((state.cars >= self.slots) & (state.waiting > 0)).any()
        return full | (readings.cars[self.inner] > ROOM_FOR).any()
