"""Convolutions for images, and what stands beside them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from factorax.networks.convolution import Convolutional, convolve, native_convolution
from factorax.networks.mlp import LayerSettings
from factorax.observations import ObservationSpace

SETTINGS = LayerSettings((8,), "relu")


def encoder(**parts):
    space = spaces.Dict(parts)
    return Convolutional(jax.random.key(0), ObservationSpace.of(space), SETTINGS), space


def by_hand(tower, image):
    """Sums over windows, in NumPy."""
    for kernel, bias, stride in zip(tower.kernels, tower.biases, tower.strides, strict=True):
        kernel = np.asarray(kernel)
        h, w = kernel.shape[:2]
        rows = range(0, image.shape[0] - h + 1, stride)
        columns = range(0, image.shape[1] - w + 1, stride)
        windows = [[np.tensordot(image[i : i + h, j : j + w], kernel, 3) for j in columns] for i in rows]
        image = np.maximum(np.array(windows) + np.asarray(bias), 0)
    return image.ravel()


@pytest.mark.parametrize(
    ("shape", "first", "layers"),
    [((7, 6, 2), False, 2), ((3, 9, 8), True, 2), ((40, 37, 1), False, 3)],
    ids=["small", "channels first", "large"],
)
def test_a_convolution_is_a_sum_over_windows(shape, first, layers):
    conv, space = encoder(camera=spaces.Box(0.0, 1.0, shape), speed=spaces.Box(-1.0, 1.0, (2,)))
    space.seed(0)
    element = space.sample()
    rows = conv.space.row(element)
    assert len(conv.towers[0].kernels) == layers
    image = element["camera"]
    want = by_hand(conv.towers[0], np.moveaxis(image, 0, -1) if first else image)
    got, batch = map(np.asarray, jax.jit(lambda rows: (conv(rows), conv(jnp.stack([rows, rows])[:, None])))(rows))
    assert got.shape == (conv.size,)
    np.testing.assert_allclose(got[: want.size], want, atol=1e-4)
    np.testing.assert_array_equal(got[want.size :], element["speed"])
    np.testing.assert_allclose(batch[1, 0], got, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "kernel", "stride"), [((10, 9), (3, 3), 1), ((21, 18), (4, 4), 2), ((3, 3), (3, 3), 1)]
)
def test_convolutions_and_their_gradients_are_sums_over_windows(size, kernel, stride):
    rng = np.random.default_rng(0)
    images, weights = (rng.normal(size=shape).astype(np.float32) for shape in [(5, *size, 2), (*kernel, 2, 3)])
    gradient = jax.grad(lambda x, k: jnp.sum(jnp.sin(convolve(x, k, stride))), argnums=(0, 1))
    together = lambda x, k: (convolve(x, k, stride), native_convolution(x, k, stride), *gradient(x, k))  # noqa: E731
    values, of_xla, by_images, by_weights = jax.jit(together)(images, weights)
    windows = np.lib.stride_tricks.sliding_window_view(images, kernel, axis=(1, 2))[:, ::stride, ::stride]
    want = np.einsum("nrcihw,hwio->nrco", windows, weights)
    np.testing.assert_allclose(values, want, atol=1e-5)
    np.testing.assert_allclose(of_xla, want, atol=1e-5)
    np.testing.assert_allclose(by_weights, np.einsum("nrcihw,nrco->hwio", windows, np.cos(want)), atol=1e-4)
    spread = np.zeros_like(images)
    for u, v in np.ndindex(kernel):
        rows, columns = (slice(i, i + stride * count, stride) for i, count in zip((u, v), want.shape[1:3], strict=True))
        spread[:, rows, columns] += np.cos(want) @ weights[u, v].T
    np.testing.assert_allclose(by_images, spread, atol=1e-4)


@pytest.mark.parametrize(("shape", "axes"), [((4, 6, 5, 3), (1, 2, 0, 3)), ((4, 2, 6, 5), (2, 3, 0, 1))])
def test_frames_of_a_stack_are_channels(shape, axes):
    """Also if every frame has its channels first."""
    conv, space = encoder(camera=spaces.Box(0.0, 1.0, shape))
    space.seed(0)
    element = space.sample()
    want = by_hand(conv.towers[0], element["camera"].transpose(axes).reshape(6, 5, -1))
    rows = conv.space.row(element)
    np.testing.assert_allclose(jax.jit(lambda rows: conv(rows))(rows), want, atol=1e-4)
    np.testing.assert_array_equal(conv.space.structured(rows, np)["camera"], element["camera"])


def test_components_see_their_own_and_the_images():
    conv, space = encoder(camera=spaces.Box(0, 255, (7, 6), np.uint8), speed=spaces.Box(-1.0, 1.0, (2,)))
    space.seed(1)
    rows = conv.space.row(space.sample())
    local = np.arange(6, dtype=np.float32).reshape(3, 2)
    seen, alone = jax.jit(lambda rows, local: (conv.inputs(rows, local, 3), conv.inputs(rows, None, 3)))(rows, local)
    assert seen.shape == (3, conv.input_size(2))
    np.testing.assert_array_equal(np.asarray(seen)[:, :2], local)
    np.testing.assert_array_equal(*np.asarray(seen)[[0, 2], 2:])
    assert alone.shape == (3, conv.input_size(None))


def test_there_has_to_be_an_image():
    with pytest.raises(ValueError, match=r"architecture: got 'conv', but no part of the observation is an image"):
        encoder(speed=spaces.Box(-1.0, 1.0, (2,)))
