"""What this distribution adds to factorax: three families of problems, their presets and controllers, and `watch`."""

from pathlib import Path
from typing import Any

CONTROLLERS = ("gap-out", "always", "never", "every-10", "every-20", "fixed-time", "actuated")
"""Controllers of grids; `factorax_traffic.controllers` creates them."""


def register() -> None:
    """Register the families of problems and the command. Nothing of theirs is imported."""
    import factorax.plugins

    here = "factorax_traffic"
    grids: dict[str, Any] = {
        "controllers": CONTROLLERS,
        "returns": f"{here}.controller_scores:scored",
        "simulators": {"sumo": f"{here}.families:in_sumo"},
        "film": f"{here}.film:film_of_runs",
        "player": f"{here}.film:player",
        "layout": f"{here}.drawing:layout",
        "presets": Path(__file__).with_name("presets"),
    }
    factorax.plugins.register("traffic", f"{here}.families:traffic", example="traffic:3x3", files="", **grids)
    factorax.plugins.register(
        "sumo", f"{here}.families:sumo", example="sumo:3x3", files=f"{here}.families:sumo_reads_files", **grids
    )
    factorax.plugins.register("resco", f"{here}.families:resco", example="resco:cologne8", files="")
    factorax.plugins.register_choice("architecture", "fused", f"{here}.kernels:Fused")
    factorax.plugins.register_command(
        "watch",
        f"{here}.commands:watch",
        "Make a film of traffic in the lane simulator or of a city in SUMO, or show it in the SUMO GUI.",
    )
