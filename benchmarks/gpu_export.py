"""Small checkpoints of runs, for another machine: ``python -m benchmarks.gpu_export OUT RUN …``, with one environment
in place of hundreds."""

import sys
from pathlib import Path

from factorax.runs import load


def main() -> None:
    """Write a file for every run, named after its folder and that above it."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for run in map(Path, sys.argv[2:]):
        model = load(run, n_envs=1, n_steps=1, batch_size=1)
        model.save(out / f"{run.parent.name}-{run.name}.safetensors")
        print(run, model.num_timesteps, flush=True)


if __name__ == "__main__":
    main()
