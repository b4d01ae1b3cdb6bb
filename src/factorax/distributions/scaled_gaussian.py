"""Scaled Gaussian distribution: a Gaussian in units in which the bounds of the space are −1 and 1, clipped."""

import math
from functools import cached_property

import numpy as np

from .base import register
from .functions import Array
from .gaussian import Gaussian


@register
class ScaledGaussian(Gaussian):
    """Raw actions u = μ + σ ε; environments receive low + (u + 1)(high − low)/2, clipped to the bounds.

    σ = 1 is therefore half the width of the bounds, whatever their units. An untrained policy has mean 0 and σ = ½: the
    bounds are two standard deviations away, so it covers the range and few actions are clipped. On a Box from −1 to 1
    it is bit-identical to the clipped `Gaussian` with the same σ. The density is that of u before clipping; the width
    of the bounds would add a constant, which cancels in ratios and gradients.

    >>> scaled = ScaledGaussian(low=np.array([0.0]), high=np.array([365.0]), choices=np.array([0]))
    >>> [float(scaled.rescale(np.array([u]))[0]) for u in (-1.0, 0.0, 0.5)]
    [0.0, 182.5, 273.75]
    """

    name = "scaled"
    title = "Gaussian"
    bounded = "scale"
    initial_log_std = math.log(0.5)
    rescales = True

    @cached_property
    def _middle_and_half_width(self) -> tuple[np.ndarray, np.ndarray]:
        """The middle and half the width of the bounds, rounded up so that u = ±1 reaches both bounds after clipping."""
        middle = ((self.low.astype(float) + self.high) / 2).astype(np.float32)
        half = np.maximum(self.high - middle.astype(float), middle.astype(float) - self.low).astype(np.float32)
        short = (middle + half < self.high) | (middle - half > self.low)
        return middle, np.where(short, np.nextafter(half, np.float32(np.inf)), half)

    def rescale(self, action: Array) -> Array:
        """Return low + (u + 1)(high − low)/2, summed in an order that leaves u unchanged for bounds of −1 and 1."""
        middle, half = self._middle_and_half_width
        return middle + half * action

    def neutral(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the middle of the bounds and a quarter of their width, as for the Gaussian in raw units."""
        return np.zeros((len(self), 1), np.float32), np.full(len(self), 0.5)
