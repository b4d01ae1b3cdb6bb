"""The terms of the reward of an RDDL model: the targets, their dependencies and their values."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ._rddl_dependencies import Dependencies, Scope

_CONSTANT = "constant"
_MAX_NAMED_FLUENTS = 3
"""Maximum number of fluents in the name of a target."""
_CHECKED_STEPS = 10
"""Number of steps in which the terms are compared with the simulator's reward."""


class Summand(NamedTuple):
    """``scale * expr`` for all objects in scope."""

    scale: np.ndarray
    expr: Any


class Block(NamedTuple):
    """A term of the reward for all objects that it sums over."""

    summands: list[Summand]
    targets: np.ndarray | None
    """Indices of its elements that are targets, the others being merged constants; None if all are."""


class Terms:
    """The terms of the reward. Calling it replaces the simulator's `sample_reward`: it evaluates the terms once, stores
    the vector of targets, and returns the sum."""

    names: tuple[str, ...]
    roots: tuple[int, ...]
    """The fluents that each target depends on within a step."""
    vector: np.ndarray
    """The targets in the last step, ``(m,)``."""

    def __init__(self, dependencies: Dependencies, *, merge_constants: bool = False):
        self._simulator, model = dependencies.simulator, dependencies.model
        self._simulator_reward = self._simulator.sample_reward
        # A random reward would be sampled twice, and differ.
        self._steps_to_check = 0 if _is_random(model.reward) else _CHECKED_STEPS
        self._blocks: list[Block] = []
        names, sources, constant = [], [], 0.0
        blocks = list(_blocks(dependencies))
        bases = _unique(_base(summands, model) for _, summands in blocks)
        for base, (scope, summands) in zip(bases, blocks, strict=True):
            known, total, roots = True, 0.0, 0
            for scale, expr in summands:
                value = dependencies.of(expr, scope, "the reward")
                is_zero = scale == 0
                known = known & (value.known | is_zero)
                total = total + np.where(is_zero, 0.0, scale * value.value)
                roots = roots | np.where(is_zero, 0, value.roots)
            is_merged = np.ravel(known) & merge_constants
            constant += float(np.ravel(total)[is_merged].sum())
            targets = np.flatnonzero(~is_merged)
            if targets.size:
                self._blocks.append(Block(summands, targets if is_merged.any() else None))
                labels = _labels(base, scope, model)
                names += [labels[i] for i in targets]
                sources += [int(np.ravel(roots)[i]) for i in targets]
        # A network has at least one column, so a reward without any other term is one constant.
        self._constant = [constant] if constant or not names else []
        self.names = (*names, *[_CONSTANT] * len(self._constant))
        self.roots = (*sources, *[0] * len(self._constant))

    def __call__(self) -> float:
        """Return the reward of the current step."""
        simulator, parts = self._simulator, []
        for summands, targets in self._blocks:
            values = np.ravel(sum(scale * simulator._sample(expr, simulator.subs) for scale, expr in summands))
            parts.append(values if targets is None else values[targets])
        self.vector = np.concatenate([*parts, self._constant])
        reward = float(self.vector.sum())
        if self._steps_to_check:
            self._steps_to_check -= 1
            expected = self._simulator_reward()
            # Relative to the largest term: the sums add up in different orders.
            if not np.isclose(reward, expected, rtol=1e-6, atol=1e-6 * max(1.0, np.abs(self.vector).max())):
                raise ValueError(
                    f"reward: the terms sum to {reward!r}, but the simulator's reward is {expected!r}; the reward of "
                    "this model cannot be split into its summands (is one of them NaN or infinite?)"
                )
        return reward


def _blocks(dependencies: Dependencies) -> Iterator[tuple[Scope, list[Summand]]]:
    """Yield the top-level summands of the reward separately, and those within a `sum` together by scope."""
    within: dict[int, tuple[Scope, list[Summand]]] = {}
    for at, scope, scale, expr in _summands(dependencies, dependencies.model.reward, [], np.array(1.0), 0):
        if scope:
            within.setdefault(at, (scope, []))[1].append(Summand(scale, expr))
        else:
            within[-1 - len(within)] = scope, [Summand(scale, expr)]
    yield from within.values()


def _summands(
    dependencies: Dependencies, expr: Any, scope: Scope, scale: np.ndarray, at: int
) -> Iterator[tuple[int, Scope, np.ndarray, Any]]:
    """Yield summands with their innermost `sum`; a constant factor becomes part of the scale."""
    model = dependencies.model
    kind, op = expr.etype
    if kind == "aggregation" and op == "sum":
        *bound, arg = expr.args
        inner = scope + [pair for _, pair in bound]
        counts = model.object_counts(kind for _, kind in inner)
        spread = np.broadcast_to(np.expand_dims(scale, tuple(range(scale.ndim, len(inner)))), counts)
        yield from _summands(dependencies, arg, inner, spread, id(expr))
        return
    # Within a `sum`, arithmetic stays one term per object, unless it has further sums.
    if kind == "arithmetic" and (not scope or _has_sum(expr)):
        args = expr.args
        if op == "+":
            for arg in args:
                yield from _summands(dependencies, arg, scope, scale, at)
            return
        if op == "-":
            signs = (-1,) if len(args) == 1 else (1,) + (-1,) * (len(args) - 1)
            for sign, arg in zip(signs, args, strict=True):
                yield from _summands(dependencies, arg, scope, sign * scale, at)
            return
        # A constant factor may stand on either side of a product, but only below a fraction.
        for factor, rest in ((args[0], args[-1]), (args[-1], args[0])) if op == "*" else ((args[-1], args[0]),):
            if len(args) == 2 and model.is_non_fluent_expression(factor):
                constant = dependencies(factor, scope).value
                with np.errstate(all="ignore"):
                    scaled = scale * constant if op == "*" else scale / constant
                yield from _summands(dependencies, rest, scope, scaled, at)
                return
    yield at, scope, scale, expr


def _parts(expr: Any) -> Iterator[Any]:
    """Yield an expression and all its subexpressions."""
    if hasattr(expr, "etype"):
        yield expr
        expr = expr.args
    if isinstance(expr, list | tuple):
        for arg in expr:
            yield from _parts(arg)


def _has_sum(expr: Any) -> bool:
    return any(part.etype == ("aggregation", "sum") for part in _parts(expr))


def _is_random(expr: Any) -> bool:
    return any(part.etype[0] in ("randomvar", "randomvector", "pyfunc") for part in _parts(expr))


def _base(summands: list[Summand], model: Any) -> str:
    """Return the fluents that a term reads, in model order, such as ``pos-x+pos-y``; non-fluents if there are none."""
    parts = [part for _, expr in summands for part in _parts(expr) if part.etype[0] == "pvar"]
    names = dict.fromkeys(str(part.args[0]) for part in parts if str(part.args[0]) in model.variable_types)
    fluents = [name for name in names if model.variable_types[name] != "non-fluent"] or list(names)
    return "+".join(fluents[:_MAX_NAMED_FLUENTS]) + "+…" * (len(fluents) > _MAX_NAMED_FLUENTS) or "reward"


def _unique(names: Iterable[str]) -> list[str]:
    """Return names made unique by numbers from the second occurrence on: ``temp, temp#2``."""
    count = Counter([_CONSTANT])  # the name of the merged constants is taken
    unique = []
    for name in names:
        count[name] += 1
        unique.append(name if count[name] == 1 else f"{name}#{count[name]}")
    return unique


def _labels(base: str, scope: Scope, model: Any) -> list[str]:
    """Return one name per combination of objects, such as ``temp[?h=h1]``."""
    labels = [""]
    for free, kind in scope:
        labels = [f"{label}, {free}={each}" for label in labels for each in model.type_to_objects[kind]]
    return [f"{base}[{label[2:]}]" if label else base for label in labels]
