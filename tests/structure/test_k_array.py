import numpy as np

import factorax as fx
from factorax.structure import KArray


def test_an_array_credits_as_the_network_it_is():
    rng = np.random.default_rng(0)
    dense, psi, weights = rng.random((3, 5)), rng.normal(size=(7, 5)), rng.random(5)
    np.testing.assert_allclose(
        fx.credit(KArray(dense), psi, weights), fx.credit(fx.InfluenceNetwork(dense), psi, weights)
    )
    each = rng.random((7, 3, 5))
    want = np.stack([fx.credit(fx.InfluenceNetwork(k), x, weights) for k, x in zip(each, psi, strict=True)])
    np.testing.assert_allclose(fx.credit(KArray(each), psi, weights), want)
