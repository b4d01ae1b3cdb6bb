"""`factorax watch`: films of traffic."""

from pathlib import Path
from typing import Annotated, Any

import tyro

from factorax._checks import Count, Range, Seed
from factorax._text import printable
from factorax.cli.arguments import MAX_PATH, Switch, check_output


def watch(
    what: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")],
    /,
    *,
    out: Path = Path("traffic.gif"),
    grid: str = "",
    seconds: Count = 120,
    speed: Annotated[int, Range(1, 1000)] = 10,
    sampled: Switch = False,
    seed: Seed = 0,
    gui: Switch = False,
    problem: str = "own",
) -> None:
    """Make a film of traffic in the lane simulator or of a city in SUMO, or show it in the SUMO GUI.

    Args:
        what: Folders of traffic runs, or controllers: always, never, every-10, every-20, fixed-time, actuated, gap-out.
            Several are shown side by side. In cities: runs on resco:cologne8 and others, fixed, greedy, max-pressure,
            actuated, delay-based.
        out: Output file: gif, mp4 or html.
        grid: Rows and columns, as in 3x3; by default those of the first run, or 3x3. Shared policies can be shown on
            other grids than the one they were trained on.
        seconds: Simulated time in seconds.
        speed: Simulated seconds per second of film.
        sampled: Sample actions from policies instead of taking the most probable ones.
        seed: Random seed of the initial cars and of sampled actions.
        gui: Open sumo-gui (extra sumo) instead of writing a film.
        problem: City in which to show controllers, or policies trained in another city, such as resco:cologne8. Also
            required to load a problem whose name refers to code or files; repeat the name only if you trust it.
    """
    from .city.film import city_of, write_city_film
    from .film import show_in_gui, write_film

    check_output("out", out, ".gif", ".mp4", ".html")
    city = "" if gui else city_of(what, problem)
    if city:
        delays = write_city_film(
            what, out, city, seconds=seconds, speed=speed, sampled=sampled, seed=seed, trusted=problem
        )
        for title, value in delays.items():
            print(f"{printable(title)}: mean delay {value:.4g} s")
        print(f"the film is in {printable(out, limit=MAX_PATH)}")
        return
    if gui:
        if len(what) != 1:
            raise ValueError(f"what: got {len(what)} names with --gui, want one")
        returned = show_in_gui(what[0], grid=grid, seconds=seconds, sampled=sampled, seed=seed, trusted=problem)
        print(f"return {returned:.5g}")
        return
    options: dict[str, Any] = {"grid": grid, "seconds": seconds, "speed": speed, "sampled": sampled, "seed": seed}
    returns = write_film(what, out, **options, trusted=problem)
    for title, value in returns.items():
        print(f"{printable(title)}: return {value:.5g}")
    print(f"the film is in {printable(out, limit=MAX_PATH)}")
