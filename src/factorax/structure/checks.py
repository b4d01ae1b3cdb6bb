"""Checks of arguments that must be networks."""

from typing import Any

from scipy import sparse

from .._checks import is_traced
from .network import InfluenceNetwork
from .partition import is_array

HINT = "an array, nested lists or a scipy.sparse matrix also work"


def is_matrix(value: Any) -> bool:
    """Return whether `value` is an array, a sparse matrix or a list, and may therefore stand for K."""
    return isinstance(value, list | tuple) or sparse.issparse(value) or is_array(value)


def network_of(value: Any, argument: str) -> Any:
    """Return a plain matrix as an `InfluenceNetwork` and any other value unchanged."""
    return as_network(value, argument) if is_matrix(value) else value


def as_network(value: Any, argument: str, hint: str = HINT) -> InfluenceNetwork:
    """Return `value` as an `InfluenceNetwork`; a plain matrix gets the default labels.

    Raises TypeError or ValueError with the name of the argument if that is not possible.

    >>> as_network([[1, 0], [0, 1]], "network")
    InfluenceNetwork(2 actions → 2 targets, 2 edges, density 0.5)
    >>> as_network("chain", "net", "load one with InfluenceNetwork.load")
    Traceback (most recent call last):
    TypeError: net: got str, want an InfluenceNetwork; load one with InfluenceNetwork.load
    """
    if isinstance(value, InfluenceNetwork):
        return value
    if not is_matrix(value):
        raise TypeError(f"{argument}: got {type(value).__name__}, want an InfluenceNetwork; {hint}")
    if is_traced(value):
        raise TypeError(
            f"{argument}: got an array that is traced by JAX, but K must be a constant of the program; create it "
            "outside the compiled function, or pass a KArray to credit()"
        )
    try:
        return InfluenceNetwork(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{argument}: {str(error).removeprefix('matrix: ')}") from None
