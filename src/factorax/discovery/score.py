"""The score test: if factor i does not influence target j, E[zᵢ ψⱼ] = 0."""

import numpy as np
from scipy import special, stats

from .._checks import Count, check_type, checked
from .batch import Batch
from .result import Discovery


def score_test(batch: Batch, *, robust: bool = False) -> Discovery:
    """Test E[zᵢ ψⱼ] = 0 for all n · m pairs, in one pass over the samples.

        tᵢⱼ = Σ zᵢ ψⱼ / √(Σ zᵢ² · Σ ψⱼ² / N)

    With scores of variance one given the state, and no edge, zᵢ is independent of ψⱼ given the state, so that E[zᵢ²
    ψⱼ²] = E[ψⱼ²], and only the matrix product Zᵀ Ψ must be computed. The linear regression of ψ on the state is
    subtracted as a baseline, which keeps the test valid and increases its power.

    - `batch`: from `collect`, or your own data. With several scores per factor, ``(N, n, p)``, the smallest p-value
      times p is used.
    - `robust`: whether to estimate E[zᵢ² ψⱼ²] for each pair instead, for scores of any variance, by one more product.

    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=(2000, 2))
    >>> found = score_test(Batch(a, np.stack([a[:, 0], a[:, 0] ** 2], axis=1) + rng.normal(size=(2000, 2))))
    >>> found.found()  # a² is not seen: E[a a²] = 0
    array([[ True, False],
           [False, False]])
    """
    checked("robust", robust, bool)
    check_type("batch", batch, Batch, "a Batch, as returned by `collect`")
    batch = batch.checked()
    n_samples, n, m = batch.shape
    constant_actions, constant_targets, notes = batch.constant()
    psi, used = without_baseline(batch.psi, batch.state)
    p_value, effect = np.ones((n, m)), np.zeros((n, m))
    width = 1 if batch.scores.ndim == 2 else batch.scores.shape[-1]
    norm = np.sqrt(np.einsum("tj,tj->j", psi, psi))
    norm[constant_targets] = 1.0
    for k in range(width):
        z = batch.scores if batch.scores.ndim == 2 else np.ascontiguousarray(batch.scores[..., k])
        size = np.sqrt(np.einsum("ti,ti->i", z, z))
        size[size == 0] = 1.0
        product = z.T @ psi
        correlation = product / size[:, None] / norm
        # Standard errors from each pair are valid for scores of any variance, at twice the time.
        if robust:
            t = np.abs(product) / np.sqrt(np.maximum((z * z).T @ (psi * psi), 1e-300))
        else:
            t = np.abs(correlation) * np.sqrt(n_samples)
        many = n_samples > 500  # Student's distribution is then normal
        p_of_score = special.erfc(t / np.sqrt(2)) if many else 2 * stats.t.sf(t, n_samples - used)
        p_value = np.minimum(p_value, width * p_of_score)
        effect = correlation if k == 0 else np.where(np.abs(correlation) > np.abs(effect), correlation, effect)
    p_value[constant_actions], p_value[:, constant_targets] = np.nan, np.nan
    notes.append(_power(n_samples, n * m * width))
    return batch.discovery("score", effect, p_value, effect_unit="correlation of score and target", notes=notes)


def without_baseline(psi: np.ndarray, state: np.ndarray | None) -> tuple[np.ndarray, int]:
    """Return ψ minus its regression on a constant and the state, if samples suffice, and the number of coefficients."""
    centred = psi - psi.mean(axis=0)
    # With few samples per coefficient, the regression would fit the noise and remove power.
    if state is None or len(psi) < 20 * state.shape[1]:
        return centred, 1
    x = state - state.mean(axis=0)
    x = x[:, x.std(axis=0) > 1e-9]
    if x.shape[1] == 0:
        return centred, 1
    return centred - x @ np.linalg.lstsq(x, centred, rcond=None)[0], 1 + x.shape[1]


def detectable(samples: int, tests: int, *, level: float = 0.05, power: float = 0.8) -> float:
    """Return the smallest correlation that is found with probability `power` among `tests` tests, all others null.

    >>> round(detectable(10_000, 100), 3)
    0.043
    """
    checked("samples", samples, Count)
    checked("tests", tests, Count)
    for name, value in (("level", level), ("power", power)):
        if not 0 < checked(name, value, float) < 1:
            raise ValueError(f"{name}: got {value}, want a number between 0 and 1")
    return float((stats.norm.isf(level / tests / 2) + stats.norm.ppf(power)) / np.sqrt(samples))


def _power(samples: int, tests: int) -> str:
    smallest = detectable(samples, tests)
    claim = "a single edge is found with a probability of 80 % if its correlation is"
    power = f"{samples:,} samples and {tests:,} tests: {claim} "
    if smallest >= 1:
        return power + "1 or more: too few samples to find anything"
    return (
        power + f"{smallest:.2g} or more (it then explains {smallest**2:.1%} of its target); weaker ones may be missed"
    )
