"""Checks of arguments that have to be networks."""

from typing import Any

from .network import InfluenceNetwork


def as_network(value: Any, argument: str, hint: str = "make one with fx.InfluenceNetwork(matrix)") -> InfluenceNetwork:
    """Return `value` if it is an `InfluenceNetwork`; otherwise raise a TypeError that names the argument.

    >>> as_network([[1, 0]], "network")
    Traceback (most recent call last):
    TypeError: network: got list, want an InfluenceNetwork; make one with fx.InfluenceNetwork(matrix)
    """
    if not isinstance(value, InfluenceNetwork):
        raise TypeError(f"{argument}: got {type(value).__name__}, want an InfluenceNetwork; {hint}")
    return value
