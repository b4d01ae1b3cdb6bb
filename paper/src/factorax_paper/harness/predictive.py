"""The predictive method, after Causal MoMa: an edge exists if a model of the target needs the action."""

import numpy as np

from factorax.discovery import Batch

THRESHOLDS = {"low": 0.003, "high": 0.12}
"""The range of the thresholds of the published method, each set by hand for one task, in nats."""


def predictive(batch: Batch, *, waves: int = 4, ridge: float = 1e-3) -> np.ndarray:
    """Return the conditional mutual information I(ψⱼ; aᵢ | s, ā_i), ``(n, m)`` in nats, from held-out errors of two
    models per target.

        Iᵢⱼ = ½ log(error without aᵢ / error with all actions)

    A model is a ridge regression on the state and on waves cos(kπUᵢ) of each action, trained on one half of the
    samples and evaluated on the other, and vice versa. There are no p-values: an edge is a number above a threshold,
    such as ``THRESHOLDS["low"]``. For comparison with the tests of the library, which control an error rate.

    >>> from scipy import special
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=(2000, 2))
    >>> found = predictive(Batch(a, a**2 + rng.normal(size=(2000, 2)), special.ndtr(a)))
    >>> found > THRESHOLDS["high"]
    array([[ True, False],
           [False,  True]])
    """
    batch = batch.checked(least=30)
    assert batch.uniforms is not None
    n_samples, n, m = batch.shape
    dead, still, _ = batch.constant()
    parts = [np.sqrt(2) * np.cos(k * np.pi * batch.uniforms) for k in range(1, waves + 1)]
    actions = np.stack(parts, axis=-1).reshape(n_samples, n * waves)
    state = np.zeros((n_samples, 0)) if batch.state is None else batch.state
    state = (state - state.mean(axis=0)) / np.maximum(state.std(axis=0), 1e-9)
    x = np.concatenate([np.ones((n_samples, 1)), state, actions], axis=1)
    psi = (batch.psi - batch.psi.mean(axis=0)) / np.maximum(batch.psi.std(axis=0), 1e-12)
    first = x.shape[1] - n * waves
    columns = [np.arange(first + i * waves, first + (i + 1) * waves) for i in range(n)]
    half = n_samples // 2
    with_all, without = np.zeros(m), np.zeros((n, m))
    for train, held in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
        inverse = np.linalg.inv(x[train].T @ x[train] + ridge * n_samples * np.eye(x.shape[1]))
        beta = inverse @ (x[train].T @ psi[train])
        errors = psi[held] - x[held] @ beta
        with_all += (errors**2).sum(axis=0)
        for i, block in enumerate(columns):
            # The regression without these columns follows from the full one by a Schur complement of its inverse.
            change = inverse[:, block] @ np.linalg.solve(inverse[np.ix_(block, block)], beta[block])
            without[i] += ((errors + x[held] @ change) ** 2).sum(axis=0)
    effect = 0.5 * np.log(np.maximum(without, 1e-300) / np.maximum(with_all, 1e-300))
    effect = np.maximum(effect, 0.0)
    effect[dead], effect[:, still] = 0.0, 0.0
    return effect
