"""Distributions of action components, one file for each kind, for NumPy and JAX.

A new kind is a new file in this folder with a subclass of `Distribution` that `register` decorates; all files here are
imported. Importing this package does not import JAX.
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING, Literal

from .base import KINDS as KINDS
from .base import Distribution as Distribution
from .base import register as register
from .bernoulli import Bernoulli as Bernoulli
from .beta import Beta as Beta
from .categorical import Categorical as Categorical
from .covariance import Spread as Spread
from .gaussian import Gaussian as Gaussian
from .product import Product as Product
from .scaled_gaussian import ScaledGaussian as ScaledGaussian
from .squashed_gaussian import SquashedGaussian as SquashedGaussian

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

if TYPE_CHECKING:
    Bounded = str
else:  # what `register` knows, for the command line and for the check of settings
    Bounded = Literal[tuple(kind.bounded for kind in KINDS.values() if kind.bounded is not None)]
"""How actions of a bounded Box are kept within their bounds."""
