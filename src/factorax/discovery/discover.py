"""`discover`: one function for all methods of discovery."""

from collections.abc import Callable
from inspect import signature
from typing import Any

from .._checks import check_options, checked
from .batch import Batch, collect
from .dependence import dependence_test
from .gated import gated_critic
from .interventional import intervene
from .result import Discovery, MethodName
from .score import score_test

# Methods that need samples only, so that recorded data will do.
_OF_DATA = {"score": score_test, "dependence": dependence_test, "gated": gated_critic}


def discover(problem: Any, method: MethodName = "interventional", **options: Any) -> Discovery:
    """Estimate which action influences which target.

    - ``"interventional"``, for simulators that are deterministic given a seed: `intervene`, with its options;
    - ``"score"``, ``"dependence"``, ``"gated"``, from data: `score_test`, `dependence_test`, `gated_critic`. Samples
      are collected by `collect`, with its own options (`policy`, `samples`, `horizon` …), unless `problem` is a
      `Batch`.

    >>> from factorax.problems import chain
    >>> found = discover(chain(4), "score", samples=20_000, horizon=4)
    >>> (found.found() & ~chain(4).network.to_dense()).sum()
    np.int64(0)
    """
    checked("method", method, MethodName)
    if method == "interventional":
        if isinstance(problem, Batch):
            raise TypeError("problem: got a Batch, which cannot be replayed; want method='score' or 'dependence'")
        check_options(options, _options_of(intervene), "method='interventional'")
        return intervene(problem, **options)
    # Before samples are collected, which may take minutes.
    check_options(options, (*_options_of(_OF_DATA[method]), *_options_of(collect)), f"method={method!r}")
    if isinstance(problem, Batch):
        check_options(options, _options_of(_OF_DATA[method]), f"method={method!r} on a Batch")
        return _OF_DATA[method](problem, **options)
    collecting = {name: options.pop(name) for name in _options_of(collect) if name in options}
    return _OF_DATA[method](collect(problem, **collecting), **options)


def _options_of(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's keyword-only arguments."""
    return [name for name, each in signature(function).parameters.items() if each.kind is each.KEYWORD_ONLY]
