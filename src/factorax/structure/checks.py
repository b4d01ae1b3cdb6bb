"""Checks of arguments that have to be networks."""

from typing import Any

from array_api_compat import is_array_api_obj
from scipy import sparse

from .._checks import is_traced
from .network import InfluenceNetwork

HINT = "a matrix does as well: an array, nested lists, or scipy.sparse"


def is_matrix(value: Any) -> bool:
    """Return whether `value` is an array, a sparse matrix or a list: something that may be meant as K."""
    return isinstance(value, list | tuple) or sparse.issparse(value) or is_array_api_obj(value)


def network_of(value: Any, argument: str) -> Any:
    """Return a plain matrix as a network, and anything else as it is, for arguments that take more than networks."""
    return as_network(value, argument) if is_matrix(value) else value


def as_network(value: Any, argument: str, hint: str = HINT) -> InfluenceNetwork:
    """Return `value` if it is an `InfluenceNetwork`, and a network with the usual names if it is a plain matrix.

    Otherwise raise an error that names the argument.

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
            f"{argument}: got an array that JAX traces, and K is a constant of the program; make it outside of the "
            "compiled function, or give credit() a KArray"
        )
    try:
        return InfluenceNetwork(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{argument}: {str(error).removeprefix('matrix: ')}") from None
