"""Car-following in the lane simulator: SUMO's intelligent driver model in steps of one second, for all cars at once.

The rules are those of SUMO 1.28.0 for straight single lanes. Gaps are from bumper to bumper, in metres.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

ACCELERATION, BRAKING, EMERGENCY = 2.6, 7.5, 9.0
HEADWAY = 1.0
"""Time headway to the car ahead in seconds."""
MIN_GAP = 2.5
TOP_SPEED = 30.0
CAR = 5.0
TWICE_ROOT = 2 * (ACCELERATION * BRAKING) ** 0.5
FAR = 1e6
"""The gap if there is no obstacle."""


class Obstacle(NamedTuple):
    """An obstacle ahead of each car."""

    gap: jax.Array
    speed: jax.Array


def follow(v: jax.Array, wanted: jax.Array, ahead: Obstacle, *, margin: float = MIN_GAP) -> jax.Array:
    """Return the speed after one second behind an obstacle of constant speed, by four steps of the driver model,

    w ← w + ¼ a (1 − (w/v₀)⁴ − (s/g)²) with s = max(0, w T + w (w − u) / 2√(ab)) + margin.

    The margin is the gap kept at standstill: 2.5 m to cars, none to a stop line.
    """
    w, gap = v, ahead.gap
    clearance = jnp.where(gap < FAR, margin, 0)
    for _ in range(4):
        desired = jnp.maximum(w * HEADWAY + w * (w - ahead.speed) / TWICE_ROOT, 0) + clearance
        gap = jnp.maximum(gap, 1e-3)
        ratio, crowding = w / wanted, desired / gap
        w = jnp.maximum(w + 0.25 * ACCELERATION * (1 - (ratio * ratio) * (ratio * ratio) - crowding * crowding), 0)
        gap = gap - jnp.maximum(0.25 * (w - ahead.speed), 0)
    return w


def nearest(v: jax.Array, obstacles: tuple[Obstacle, ...]) -> Obstacle:
    """Return the most restrictive obstacle: the one with the largest ratio of desired to actual gap."""

    def crowding(o: Obstacle) -> jax.Array:
        desired = jnp.maximum(v * HEADWAY + v * (v - o.speed) / TWICE_ROOT, 0) + MIN_GAP
        return desired / jnp.maximum(o.gap, 1e-3)

    first, *others = obstacles
    worst = crowding(first)
    for other in others:
        crowded = crowding(other)
        more = crowded > worst
        first = Obstacle(*(jnp.where(more, b, a) for a, b in zip(first, other, strict=True)))
        worst = jnp.maximum(worst, crowded)
    return first


def braking_distance(v: jax.Array) -> jax.Array:
    """Return the distance until a car stops, in steps of whole seconds: 45 m at 30 m/s."""
    n = jnp.floor(v / BRAKING)
    return n * v - BRAKING * n * (n + 1) / 2


def halt(v: jax.Array, wanted: jax.Array, gap: jax.Array) -> jax.Array:
    """Return the speed after one second of approaching a stop line."""
    w = follow(v, wanted, Obstacle(gap, jnp.zeros_like(v)), margin=0)
    w = jnp.where((v < 1e-3) & (w < 1e-3), jnp.maximum(gap - 1e-3, 0), w)
    return jnp.where(gap < 0.01, 0, jnp.minimum(w, gap))


def next_speed(v: jax.Array, wanted: jax.Array, planned: jax.Array) -> jax.Array:
    """Return the planned speed limited by what a car can do: it gains at most 2.6 m/s and loses at most 9 per
    second."""
    slowest = jnp.minimum(jnp.maximum(v - BRAKING, 0), jnp.maximum(jnp.maximum(planned, v - EMERGENCY), 0))
    fastest = jnp.minimum(jnp.minimum(wanted, v + ACCELERATION), planned)
    new = jnp.maximum(slowest, fastest)
    return jnp.where(new < 1e-4, 0, new)
