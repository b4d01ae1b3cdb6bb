"""Control of the false discovery rate: step-up rules against their definition."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from factorax._false_discovery import discoveries
from factorax.discovery import adjusted


def by_definition(p, fdr, factor):
    """Benjamini and Hochberg's step-up rule: the largest k with p₍ₖ₎ ≤ k fdr / (K factor)."""
    order = np.sort(p)
    passes = np.flatnonzero(order <= np.arange(1, len(p) + 1) * fdr / (len(p) * factor))
    return p <= order[passes[-1]] if len(passes) else np.zeros(len(p), bool)


@given(arrays(float, st.integers(1, 30), elements=st.floats(0, 1)), st.sampled_from([0.013, 0.05, 0.21]))
def test_step_up_rules_equal_their_definition(p, fdr):
    harmonic = (1 / np.arange(1, len(p) + 1)).sum()
    for control, factor in (("bh", 1.0), ("by", harmonic)):
        edge = np.abs(adjusted(p, control) - fdr) < 1e-12  # rounding decides
        assert ((adjusted(p, control) <= fdr) == by_definition(p, fdr, factor))[~edge].all()
        assert (discoveries(p, fdr, control) == by_definition(p, fdr, factor))[~edge].all()
