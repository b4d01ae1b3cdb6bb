"""Drawings of discoveries."""

import matplotlib.pyplot as plt
import pytest
from discovery.result_cases import make_discovery


@pytest.mark.parametrize("style", ["matrix", "bipartite"])
def test_drawings(style):
    ax = make_discovery().draw(style)
    if style == "matrix":
        framed, crossed = (collection.get_offsets() for collection in ax.collections)
        assert sorted(map(tuple, framed)) == [(0, 0), (0, 1), (2, 1)]
        assert list(map(tuple, crossed)) == [(2, 0)]
    plt.close(ax.figure)
    with pytest.raises(ValueError, match="style: got 'cake'"):
        make_discovery().draw("cake")
