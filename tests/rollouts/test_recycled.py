"""Arrays are handed out again only if nobody refers to them."""

import gc

import jax.numpy as jnp
import numpy as np

from factorax.rollouts.recycled import RecycledArrays


def addresses(arrays, count):
    """Return the addresses of arrays that are dropped at once."""
    return {arrays.get("obs", (40, 30), np.float32).ctypes.data for _ in range(count)}


def test_memory_is_used_again():
    assert len(addresses(RecycledArrays(), 5)) == 1


def test_arrays_in_use_are_kept():
    arrays = RecycledArrays()
    used = arrays.get("obs", (40, 30), np.float32)
    view = arrays.get("obs", (40, 30), np.float32)[3:, ::2]
    assert not addresses(arrays, 5) & {used.ctypes.data, view.base.ctypes.data}
    used[:], view[:] = 1.0, 2.0
    arrays.get("obs", (40, 30), np.float32)[:] = 3.0
    assert (used == 1.0).all()
    assert (view == 2.0).all()


def test_arrays_of_jax_are_not_overwritten():
    """JAX may share the memory of an aligned array on a CPU."""
    arrays = RecycledArrays()
    converted = []
    for k in range(6):
        array = arrays.get("obs", (64, 64), np.float32)
        array[:] = k
        converted.append(jnp.asarray(array))
        del array
        gc.collect()
    assert [np.unique(array).tolist() for array in converted] == [[k] for k in range(6)]


def test_other_shapes_and_types_are_other_arrays():
    arrays = RecycledArrays()
    assert arrays.get("obs", (2, 3), np.float32).shape == (2, 3)
    assert arrays.get("obs", (3, 3), np.float32).shape == (3, 3)
    assert arrays.get("obs", (3, 3), np.float64).dtype == np.float64
    assert arrays.get("psi", (3, 3), np.float64).shape == (3, 3)


def test_few_arrays_are_kept():
    arrays = RecycledArrays()
    for _ in range(3):
        held = [arrays.get("obs", (2, 3), np.float32) for _ in range(50)]
        del held
    assert len(arrays._arrays["obs"]) <= 3
