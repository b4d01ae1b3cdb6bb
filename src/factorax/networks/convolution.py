"""Encoding of images by convolutions, next to the other parts of an observation."""

import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp

from .._arrays import zeros
from ..observations import ObservationSpace, Part
from .arrangements import repeated
from .mlp import ACTIVATIONS, LayerSettings

MIN_LARGE_IMAGE = 36
"""Minimum height and width of images for large kernels with strides, as in Mnih et al. (2015)."""
_LARGE_LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
_SMALL_LAYERS = ((16, 3, 1), (32, 3, 1))
"""Channels, kernel and stride of every layer."""


def convolve(images: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    """Return the convolution of images ``(b, h, w, c)`` with a kernel ``(kh, kw, c, out)``, without padding.

    On a CPU it is computed as one product of the images' patches with the kernel.
    """
    # Inside a loop, where all of training runs, XLA has no fast convolution for CPUs: the gradient of two layers on 256
    # images of 10 × 10 took 232 ms, and takes 8 ms in this way.
    return jax.lax.platform_dependent(
        images,
        kernel,
        cpu=partial(product_of_patches, stride=stride),
        default=partial(native_convolution, stride=stride),
    )


def native_convolution(images: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    """Compute `convolve` with XLA's own operation."""
    return jax.lax.conv_general_dilated(
        images, kernel, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def product_of_patches(images: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    """Compute `convolve` as a product of two matrices."""
    kernel_height, kernel_width, channels, out = kernel.shape
    batch, height, width, _ = images.shape
    rows, columns = (height - kernel_height) // stride + 1, (width - kernel_width) // stride + 1
    shifted = [
        images[:, i : i + stride * (rows - 1) + 1 : stride, j : j + stride * (columns - 1) + 1 : stride]
        for i in range(kernel_height)
        for j in range(kernel_width)
    ]
    patches = jnp.concatenate(shifted, axis=-1).reshape(-1, kernel_height * kernel_width * channels)
    return (patches @ kernel.reshape(-1, out)).reshape(batch, rows, columns, out)


class _Tower(eqx.Module):
    """The layers for one image."""

    kernels: list[jax.Array]
    """``(height, width, channels in, channels out)``"""
    biases: list[jax.Array]
    part: Part = eqx.field(static=True)
    channels_first: bool = eqx.field(static=True)
    strides: tuple[int, ...] = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __init__(self, key: jax.Array, part: Part, settings: LayerSettings):
        self.part, self.activation = part, settings.activation
        shape = part.shape[-3:] if len(part.shape) > 2 else (*part.shape, 1)
        # Of equal axes, as for 3 × 3 × 3, the last has the channels, as in Gymnasium's images.
        self.channels_first = shape[0] < min(shape[1:])
        height, width, channels = (*shape[1:], shape[0]) if self.channels_first else shape
        channels *= math.prod(part.shape[:-3])
        layers = _LARGE_LAYERS if min(height, width) >= MIN_LARGE_IMAGE else _SMALL_LAYERS
        self.kernels, self.biases, strides = [], [], []
        for k, (out, kernel, stride) in zip(jax.random.split(key, len(layers)), layers, strict=True):
            # Without padding, a kernel larger than the image would leave no output.
            h, w = min(kernel, height), min(kernel, width)
            self.kernels.append(settings.kernel(k, (h * w * channels, out)).reshape(h, w, channels, out))
            self.biases.append(zeros(out))
            strides.append(stride)
            height, width, channels = (height - h) // stride + 1, (width - w) // stride + 1, out
        self.strides, self.size = tuple(strides), height * width * channels

    def __call__(self, obs: jax.Array) -> jax.Array:
        """Map rows ``(..., d)`` to vectors ``(..., size)``."""
        image = self.part.view(obs, jnp)
        lead = image.shape[: image.ndim - len(self.part.shape)]
        shape = self.part.shape if len(self.part.shape) > 2 else (*self.part.shape, 1)
        image = image.reshape(math.prod(lead), math.prod(shape[:-3]), *shape[-3:])
        if self.channels_first:
            image = jnp.moveaxis(image, 2, -1)
        image = jnp.moveaxis(image, 1, -2)  # the channels of all images of a stack next to each other
        image = image.reshape(*image.shape[:3], -1)
        for kernel, bias, stride in zip(self.kernels, self.biases, self.strides, strict=True):
            image = ACTIVATIONS[self.activation](convolve(image, kernel, stride) + bias)
        return image.reshape(*lead, self.size)


class Convolutional(eqx.Module):
    """Encodes each image of an observation with its own layers, and other parts as in `ObservationSpace.encoded`.

    Images have their channels last, or first if that axis is the shortest. Axes in front of the last three are a stack
    of images, such as successive frames, whose channels are concatenated. Components with a local observation receive
    it together with the images.
    """

    towers: list[_Tower]
    space: ObservationSpace = eqx.field(static=True)

    def __init__(self, key: jax.Array, space: ObservationSpace, settings: LayerSettings):
        if not space.images:
            raise ValueError(
                "architecture: got 'conv', but no part of the observation is an image (a Box with three axes or "
                "more, or two of uint8); want 'mlp'"
            )
        keys = jax.random.split(key, len(space.images))
        self.towers = [_Tower(k, part, settings) for k, part in zip(keys, space.images, strict=True)]
        self.space = space

    @property
    def _others(self) -> list[Part]:
        return [part for part in self.space.parts if not part.is_image]

    @property
    def _image_size(self) -> int:
        return sum(tower.size for tower in self.towers)

    @property
    def size(self) -> int:
        """Size of a vector."""
        return self._image_size + sum(part.encoded_size for part in self._others)

    def _images(self, obs: jax.Array) -> jax.Array:
        return jnp.concatenate([tower(obs) for tower in self.towers], axis=-1)

    def __call__(self, obs: jax.Array) -> jax.Array:
        """Map rows ``(..., d)`` to vectors ``(..., size)``."""
        others = [part.view(obs, jnp).reshape(*obs.shape[:-1], part.encoded_size) for part in self._others]
        return jnp.concatenate([self._images(obs), *others], axis=-1)

    def inputs(self, obs: jax.Array, local: jax.Array | None, components: int) -> jax.Array:
        """Return the observation of each component as a vector, ``(..., c, l)``."""
        if local is None:
            return repeated(self(obs), components)
        # Convolutions are computed once per observation and then repeated, not once per component.
        return jnp.concatenate([local, repeated(self._images(obs), components)], axis=-1)

    def input_size(self, local: int | None) -> int:
        """Return the input size of a component, given the size of its local observation (None if there is none)."""
        return self.size if local is None else local + self._image_size
