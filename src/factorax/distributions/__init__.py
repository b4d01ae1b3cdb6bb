"""Distributions of action components for NumPy and JAX, one file per family.

To add a kind, add a file to this folder with a subclass of `Distribution` decorated with `register`; all files here are
imported. Importing this package does not import JAX.
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING, Literal

from .._lazy import lazy_imports
from . import base as _base

with lazy_imports(__name__):
    from .base import KINDS as KINDS
    from .base import Distribution as Distribution
    from .base import register as register
    from .beta import Beta as Beta
    from .categorical import Bernoulli as Bernoulli
    from .categorical import Categorical as Categorical
    from .covariance import Spread as Spread
    from .gaussian import Gaussian as Gaussian
    from .gaussian import ScaledGaussian as ScaledGaussian
    from .gaussian import SquashedGaussian as SquashedGaussian
    from .product import Product as Product

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

if TYPE_CHECKING:
    Bounded = str
else:  # the registered names, for the command line and the check of settings
    Bounded = Literal[tuple(kind.bounded for kind in _base.KINDS.values() if kind.bounded is not None)]
"""How actions of a bounded Box are kept within their bounds."""
