"""Delays of the reference controllers on a network of RESCO; run with ``python -m``."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import tyro
from factorax_traffic.city.controllers import Named, play
from factorax_traffic.city.resco import maker

from factorax._files import write_whole

from .city_training import FIRST_SEED, evaluation_seeds


@dataclass(frozen=True)
class CityControllers:
    """Controllers, city and seeds to evaluate."""

    city: str = "cologne8"
    out: Path = Path("controllers")
    seeds: int = 10
    first_seed: int = FIRST_SEED
    """First evaluation seed; the others follow it."""
    names: tuple[Named, ...] = get_args(Named)
    """Names of the controllers."""
    environment: str = "{}"
    """Settings of `CityEnv`, as JSON."""


def main(options: CityControllers) -> dict[str, dict[str, object]]:
    """Run all controllers on the evaluation seeds and write ``result.json``."""
    options.out.mkdir(parents=True, exist_ok=True)
    result: dict[str, dict[str, object]] = {}
    make = maker(options.city, **json.loads(options.environment))
    for name in options.names:
        begun = time.perf_counter()
        scores = [play(make, name, seed) for seed in evaluation_seeds(options.first_seed, options.seeds)]
        result[name] = {
            "delays": [round(score.delay, 3) for score in scores],
            "collisions": sum(score.collisions for score in scores),
            "teleports": sum(score.teleports for score in scores),
            "seconds": round((time.perf_counter() - begun) / len(scores), 2),
        }
        data = json.dumps(result).encode()
        write_whole(options.out / "result.json", lambda file, data=data: file.write(data))
    return result


if __name__ == "__main__":
    main(tyro.cli(CityControllers))
