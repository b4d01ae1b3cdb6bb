"""Train synthetic cities with many lights through Ray; measure memory and speed for the table in
packages/traffic/docs/cities.md.

    python -m benchmarks.city_sizes 10 20        # 100 and 400 lights

Each city is trained in a separate process, with two Ray workers that run one SUMO simulation each. CPU seconds are
summed over the driver and all processes that Ray started, so other work on the machine does not change them. Memory is
the unique set size (USS) of these processes, the largest sum after any update.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WORKERS, SECONDS, UPDATES = 2, 300, 3


def measured(side: int) -> dict[str, Any]:
    """Train a city of `side` by `side` lights and return the measurements."""
    import psutil
    from factorax_traffic.city import CityEnv
    from factorax_traffic.city.synthetic import write_city

    import factorax as fx

    process = psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        net, routes = write_city(folder, side, side, trips=30 * side * side, seconds=3600)
        steps = SECONDS // 10
        model = fx.FactoredPPO(
            lambda: CityEnv(net, routes, network="section", horizon=SECONDS),
            policy="shared",
            architecture="choices",
            critic="factor",
            rollouts=f"ray,workers={WORKERS}",
            n_envs=WORKERS,
            n_steps=steps,
            batch_size=steps,
            n_epochs=4,
            hidden=(32, 32),
            check_network=False,
        )
        rows: list[tuple[float, float, float]] = []

        def look(model: Any, metrics: dict[str, Any]) -> None:
            family = [process, *process.children(recursive=True)]
            times = [each.cpu_times() for each in family]
            memory = [each.memory_full_info().uss for each in family if "ray::" in each.name() or each == process]
            rows.append((time.perf_counter(), sum(t.user + t.system for t in times), sum(memory)))

        model.learn(UPDATES * WORKERS * steps, callback=look, progress_bar=False)
        edges = int(model.network.n_edges) if hasattr(model.network, "n_edges") else 0
        targets = model.spec.n_targets
        model.close()
    done = (len(rows) - 1) * WORKERS * steps
    return {
        "lights": side * side,
        "streets": targets,
        "edges": edges,
        "steps": done,
        "steps per CPU second": round(done / (rows[-1][1] - rows[0][1]), 2),
        "steps per second": round(done / (rows[-1][0] - rows[0][0]), 2),
        "memory, MiB": round(max(row[2] for row in rows) / 2**20),
    }


if __name__ == "__main__":
    if sys.argv[1] == "one":
        print(json.dumps(measured(int(sys.argv[2]))))
    else:
        for size in sys.argv[1:]:
            command = [sys.executable, "-m", "benchmarks.city_sizes", "one", size]
            done = subprocess.run(
                command, cwd=Path(__file__).parent.parent, stdout=subprocess.PIPE, text=True, check=True
            )
            print(done.stdout.splitlines()[-1], flush=True)
