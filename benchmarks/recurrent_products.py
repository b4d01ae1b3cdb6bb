"""Bare matrix products of an update with a GRU, and of one with plain layers: the lower bounds of `bench_policies`.

    python -m benchmarks.recurrent_products

The shapes are those of the rows of width 256: 2,048 samples, four epochs of minibatches of 256, sequences of 16. Small
products, such as those with observations and actions, are left out.
"""

from typing import Any

import jax

from .timing import medians

WIDTH, ROWS, SEQUENCES, SAMPLES, MINIBATCHES = 256, 256, 16, 2048, 32
AT_ONCE = 16
"""Number of products per call, each of which waits for the one before."""


def product(rows: int, inputs: int, outputs: int, *, copies: int = 1) -> Any:
    """Return a function that computes `AT_ONCE` products ``(rows, inputs) @ (inputs, outputs)`` in sequence, or as many
    of several independent ones at the same time."""
    first, second = jax.random.split(jax.random.key(0))
    x = jax.random.normal(first, (copies, rows, inputs))
    kernel = jax.random.normal(second, (copies, inputs, outputs)) / inputs

    def one(carry: list[jax.Array], _: Any) -> tuple[list[jax.Array], None]:
        # Every output is added up, so that no part of a product is left out.
        return [a + (a @ w).sum() for a, w in zip(carry, kernel, strict=True)], None

    compiled = jax.jit(lambda x: jax.lax.scan(one, x, None, length=AT_ONCE)[0])
    return lambda: jax.block_until_ready(compiled(list(x)))


def main() -> None:
    h = WIDTH
    products = {
        f"{ROWS} × {h} @ {h} × {h}, of two networks": product(ROWS, h, h, copies=2),
        f"{SAMPLES} × {h} @ {h} × {h}": product(SAMPLES, h, h),
        f"{ROWS} × {h} @ {h} × {3 * h}": product(ROWS, h, 3 * h),
        f"{SAMPLES} × {h} @ {h} × {3 * h}": product(SAMPLES, h, 3 * h),
        f"{SEQUENCES} × {h} @ {h} × {3 * h}": product(SEQUENCES, h, 3 * h),
        f"{SEQUENCES} × {3 * h} @ {3 * h} × {h}": product(SEQUENCES, 3 * h, h),
    }
    times = [seconds / AT_ONCE for seconds in medians(*products.values(), repeats=21)]
    for name, seconds in zip(products, times, strict=True):
        print(f"{name:40} {seconds * 1e6:8.1f} µs")
    pair, all_plain, gates, all_gates, forward, backward = times
    # Forward, and gradients with respect to inputs and weights. Values are predicted once before the epochs: by the
    # policy and twice by the critic if there are layers, and twice by the cell that they share.
    plain = MINIBATCHES * 3 * pair + 3 * all_plain
    cell = MINIBATCHES * (ROWS // SEQUENCES * (forward + backward) + gates) + 2 * all_gates
    both = cell + MINIBATCHES * 3 * gates + 2 * all_gates
    for name, seconds in {"two layers": plain, "a layer and a GRU": both, "a GRU alone": cell}.items():
        print(f"{name:40} {seconds * 1e3:8.1f} ms {seconds / plain:6.2f}×")


if __name__ == "__main__":
    main()
