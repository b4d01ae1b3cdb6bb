"""Distributions of action components for NumPy and JAX, one file per family.

To add a kind, in a file of this folder or in your own package, decorate a subclass of `Distribution` with `register`:
its name `bounded` is then a value of the setting `distribution`. Importing this package does not import JAX.
"""

import importlib
import pkgutil

from .._lazy import lazy_imports

with lazy_imports(__name__):
    from .base import DISTRIBUTIONS as DISTRIBUTIONS
    from .base import KINDS as KINDS
    from .base import BetaChoice as BetaChoice
    from .base import BoundedChoice as BoundedChoice
    from .base import Clip as Clip
    from .base import Distribution as Distribution
    from .base import GaussianChoice as GaussianChoice
    from .base import Scale as Scale
    from .base import Tanh as Tanh
    from .base import register as register
    from .beta import Beta as Beta
    from .categorical import Bernoulli as Bernoulli
    from .categorical import Categorical as Categorical
    from .covariance import Spread as Spread
    from .gaussian import Gaussian as Gaussian
    from .gaussian import ScaledGaussian as ScaledGaussian
    from .gaussian import SquashedGaussian as SquashedGaussian
    from .product import Product as Product

# A kind registers itself when its file is imported, so a new file in this folder needs no entry anywhere.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
