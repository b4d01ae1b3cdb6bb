"""Films of grids under controllers and trained policies: cars and lights from above, second by second."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from factorax._checks import Count, Seed, check_each, checked, listed, path_of
from factorax._text import did_you_mean
from factorax.ppo.model import FactoredPPO
from factorax.problems.registry import find_problem
from factorax.runs.folder import read_config

from . import LaneSimulator, Traffic
from .animation import (
    SPEED_UNIT,
    STANDING,
    film_script,
    film_style,
    film_writer,
    flipped,
    packed,
    write_film_page,
    write_frames,
)
from .controller_scores import is_grid
from .controllers import CONTROLLERS, Controller, trained
from .drawing import SIGNAL_COLOURS, Ways
from .episode import TrafficEpisode, play, play_in_sumo
from .grid import Grid
from .lane_simulator import SECTION
from .lane_state import Lanes

REFERENCE = "gap-out"
"""The controller that films show next to trained policies."""
SECONDS = 120
"""Length of a film of a report in simulated seconds."""
_OPTIONS = {"seconds": Count, "speed": Count, "sampled": bool, "seed": Seed}


def write_film(
    what: Sequence[str],
    out: Path,
    *,
    grid: str = "",
    seconds: int = 120,
    speed: int = 10,
    sampled: bool = False,
    seed: int = 0,
    trusted: str | None = None,
) -> dict[str, float]:
    """Write a film of controllers and runs side by side; return the return of each, by title.

    **Arguments**

    - `what`: names of controllers, or folders of runs.
    - `out`: the output file, .gif, .mp4 or .html.
    - `grid`: rows and columns, as in ``"3x3"``; by default those of the first run, or 3x3.
    - `seconds`: simulated time; `speed`: simulated seconds per second of film.
    - `sampled`: sample actions from the policies instead of taking the most probable ones.
    - `trusted`: the name of a problem that may be loaded although it refers to files; see `load`.
    """
    out = path_of("out", out, "a file that ends in .gif, .mp4 or .html")
    check_each(_OPTIONS, seconds=seconds, speed=speed, sampled=sampled, seed=seed)
    film_writer(out, speed)  # checks `out` before anything is simulated
    traffic, played = play_scenes(what, grid=grid, seconds=seconds, sampled=sampled, seed=seed, trusted=trusted)
    scenes = {Path(name).name: scene for name, scene in played.items()}
    animate(traffic.grid, scenes, Path(out), speed=speed)
    return {title: float(np.sum(episode.reward, dtype=float)) for title, (episode, _) in scenes.items()}


def play_scenes(
    what: Sequence[str],
    *,
    grid: str = "",
    seconds: int = 120,
    sampled: bool = False,
    seed: int = 0,
    trusted: str | None = None,
) -> tuple[Traffic, dict[str, tuple[TrafficEpisode, Lanes]]]:
    """Run controllers and policies on the same traffic; return the traffic, and the episode and states of each by name.

    Arguments are as in `write_film`.
    """
    models, traffic = _open(what, grid, seconds, trusted)
    simulator = LaneSimulator(traffic)
    scenes = {}
    for name, model in models.items():
        controller = _controller(name, model, traffic, sampled=sampled, seed=seed)
        scene = jax.jit(lambda key, c=controller: play(simulator, c, key))(jax.random.key(seed))
        if not np.isfinite(scene[0].reward).all():
            raise FloatingPointError(
                f"{name}: queues grew beyond the exact range of the lane simulator; want fewer --seconds"
            )
        scenes[name] = scene
    return traffic, scenes


def film_of_runs(problem: str, runs: Mapping[Path, str], *, trusted: str | None) -> dict[str, Any] | None:
    """Return a film of runs next to a reference controller for a report; None for networks from files.

    - `runs`: the title of each folder.
    """
    if not is_grid(problem):
        return None
    size = problem.partition(":")[2].split(",")[0] or "3x3"
    titles = {str(path): title for path, title in runs.items()} | {REFERENCE: REFERENCE}
    traffic, scenes = play_scenes(list(titles), grid=size, seconds=SECONDS, trusted=trusted)
    return {
        "name": f"{size} lights",
        "caption": "The most probable actions, on the same traffic; the colour of a car is its speed, from blue for "
        "standing to yellow.",
        "film": encode_film(traffic.grid, {titles[name]: scene for name, scene in scenes.items()}),
    }


def player() -> tuple[str, str]:
    """Return the script and the style sheet that play films."""
    return film_script(), film_style()


def show_in_gui(
    what: str,
    *,
    grid: str = "",
    seconds: int = 120,
    sampled: bool = False,
    seed: int = 0,
    trusted: str | None = None,
) -> float:
    """Show a controller or a run in sumo-gui; return the return of the episode."""
    from .sumo import TrafficEnv

    models, traffic = _open([what], grid, seconds, trusted)
    env = TrafficEnv(traffic, gui=True)
    try:
        controller = _controller(what, models[what], traffic, sampled=sampled, seed=seed)
        return float(play_in_sumo(env, controller, seed).reward.sum())
    finally:
        env.close()


def _open(
    what: Sequence[str], grid: str, seconds: int, trusted: str | None
) -> tuple[dict[str, FactoredPPO | None], Traffic]:
    """Return the models of runs (None for controllers) and the traffic to show them on."""
    checked("grid", grid, str)
    checked("trusted", trusted, str | None)
    what = listed("what", what, f"a list of folders of runs or some of {', '.join(CONTROLLERS)}")
    for name in what:
        path_of("what", name, "folders of runs, or names of controllers")
    if not what:
        raise ValueError(f"what: got an empty list, want folders of runs or some of {', '.join(CONTROLLERS)}")
    models: dict[str, FactoredPPO | None] = {}
    size = grid
    for name in what:
        if name in CONTROLLERS:
            models[name] = None
            continue
        if not Path(name).is_dir():
            hint = did_you_mean(name, CONTROLLERS)
            raise FileNotFoundError(
                f"what: got {name!r}, want the folder of a run or one of {', '.join(CONTROLLERS)}{hint}"
            )
        models[name] = FactoredPPO.load(Path(name), trusted=trusted)
        problem = read_config(Path(name))["problem"]
        if not problem.startswith(("traffic:", "sumo:")):
            raise ValueError(
                f"what: {name!r} is a run on {problem}, which is not a traffic problem; want one on traffic:3x3"
            )
        size = size or problem.partition(":")[2].split(",")[0]
    try:
        rows, columns = (int(n) for n in (size or "3x3").split("x"))
    except ValueError:
        raise ValueError(f"grid: got {size!r}, want rows and columns, as in 3x3") from None
    if min(rows, columns) < 1:
        raise ValueError(f"grid: got {size!r}, want at least one row and one column, as in 3x3")
    return models, Traffic(rows, columns, horizon=seconds)


def _controller(name: str, model: FactoredPPO | None, traffic: Traffic, *, sampled: bool, seed: int) -> Controller:
    if model is None:
        return CONTROLLERS[name](traffic.grid)
    if model.spec.n_factors != traffic.grid.n_lights:
        kind = "gaussian" if isinstance(model.spec.action_space, gym.spaces.Box) else "bits"
        model = model.on(find_problem(f"traffic:{traffic.rows}x{traffic.columns},action={kind}"))
    return trained(model, sampled=sampled, seed=seed)


def animate(
    grid: Grid, scenes: Mapping[str, tuple[TrafficEpisode, Lanes]], path: Path, *, speed: int = 10, size: float = 4.0
) -> None:
    """Write episodes side by side as a film: ``.gif``, ``.mp4``, or ``.html``, a page with a canvas and controls.

    - `scenes`: the results of `play`, by title.
    - `speed`: seconds of traffic per second of film.
    - `size`: the size of a scene in inches of 100 pixels.
    """
    path = Path(path)
    if path.suffix == ".html":
        film_writer(path, speed)
        write_film_page(path, encode_film(grid, scenes), speed=speed)
        return
    ways = Ways(grid)
    width, height = ways.extent
    per_metre = size / max(width, height)
    shape = len(scenes) * (width * per_metre + 0.15) + 0.75, height * per_metre + 0.6
    seconds = min(len(episode.reward) for episode, _ in scenes.values())
    draw = partial(_draw_scene, ways, size / max(grid.rows, grid.columns))
    write_frames(path, scenes, draw, size=shape, seconds=seconds, speed=speed)


def _draw_scene(ways: Ways, scale: float, ax: Axes, title: str, scene: tuple[TrafficEpisode, Lanes]) -> Callable:
    episode, states = scene
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.add_collection(LineCollection(list(ways.streets), colors="#E4E4E4", linewidths=4 * scale))
    lights = LineCollection(list(ways.stop_lines), linewidths=2.6 * scale, zorder=2)
    ax.add_collection(lights)
    cars = ax.scatter([], [], s=7 * scale**2, c=[], cmap="cividis", vmin=0, vmax=30, zorder=3, linewidths=0)
    heading = ax.set_title(" ", fontsize=8, loc="left")
    ax.margins(0.01)
    ax.autoscale()
    place, v, section, present, signals = (
        np.asarray(x) for x in (states.place, states.speed, states.section, states.cars, states.signals)
    )
    so_far = np.cumsum(np.asarray(episode.reward, float))

    def draw(t: int) -> None:
        there = np.arange(place.shape[1])[:, None] < present[t]
        cars.set_offsets(ways.where(section[t], place[t])[there])
        cars.set_array(v[t][there])
        lights.set_color(SIGNAL_COLOURS[ways.signal_codes(signals[:, t])].tolist())
        standing = int((v[t][there] <= STANDING).sum())
        lost = f"{so_far[t]:.0f}".replace("-", "−")
        heading.set_text(f"{title}, {t + 1} s: {there.sum()} cars, {standing} standing, return {lost}")

    return draw


def encode_film(grid: Grid, scenes: Mapping[str, tuple[TrafficEpisode, Lanes]]) -> dict[str, Any]:
    """Return episodes as JSON: the map, and for each second the positions and speeds of cars and the colours of lights.

    - `scenes`: the results of `play`, by title.
    """
    ways = Ways(grid)
    longest = float(np.linalg.norm(ways.streets[:, 1] - ways.streets[:, 0], axis=1).max())
    unit = max(0.1, longest / 65_000)
    return {
        "streets": flipped(ways.streets),
        "stop_lines": flipped(ways.stop_lines),
        "start": flipped(ways.start),
        "ahead": flipped(ways.ahead),
        "unit": unit,
        "speed_unit": SPEED_UNIT,
        "scenes": [_encode_scene(ways, title, *scene, unit=unit) for title, scene in scenes.items()],
    }


def _encode_scene(ways: Ways, title: str, episode: TrafficEpisode, states: Lanes, *, unit: float) -> dict[str, Any]:
    place, speed, section, present, signals = (
        np.asarray(x) for x in (states.place, states.speed, states.section, states.cars, states.signals)
    )
    is_car = np.arange(place.shape[1])[:, None] < present[:, None, :]  # (T, slots, routes)
    by_route = is_car.swapaxes(1, 2)
    along = np.clip((SECTION * section + place) / unit, 0, 65_535).astype("<u2").swapaxes(1, 2)[by_route]
    speeds = np.clip(np.round(speed / SPEED_UNIT), 0, 255).astype(np.uint8).swapaxes(1, 2)[by_route]
    return {
        "title": title,
        "seconds": len(place),
        "counts": packed(np.clip(present, 0, 65_535).astype("<u2")),
        "along": packed(along),
        "speeds": packed(speeds),
        "lights": packed(np.stack([ways.signal_codes(signals[:, t]) for t in range(len(place))])),
        "returns": np.round(np.cumsum(np.asarray(episode.reward, float)), 1).tolist(),
    }
