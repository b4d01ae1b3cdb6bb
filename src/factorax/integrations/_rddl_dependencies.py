"""Dependencies of the expressions of an RDDL model: the model is evaluated once with sets of fluents instead of
numbers.

Each expression is evaluated for all objects in its scope at once, as in the simulator. If non-fluents determine its
value (a product with zero, the branch of an `if`, an `exists` over pairs that are not linked), it depends on nothing.
Fluents computed within a step (interm, derived, next state) are replaced by the fluents they are computed from, so that
only the action and state fluents of the step remain.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from .._text import warn

Scope = list[tuple[str, str]]
"""Free objects with their types, such as ``[("?x", "computer")]``."""
MAX_FLUENTS = 20_000
"""Maximum number of ground fluents of a model."""


class Value(NamedTuple):
    """The known value and dependencies of an expression, as arrays with one axis per free object in its scope."""

    known: np.ndarray
    value: np.ndarray
    """The value if it is known; arbitrary otherwise."""
    roots: np.ndarray
    """Sets of ground fluents as Python integers: bit k is set if fluent k matters. 0 if the value is known."""


def members(roots: int) -> list[int]:
    """Return the indices of the fluents in a set."""
    packed = np.frombuffer(roots.to_bytes(roots.bit_length() // 8 + 1, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(packed, bitorder="little")).tolist()


def _value(known: Any, value: Any, roots: Any) -> Value:
    known = np.asarray(known)
    # Python integers as sets: NumPy has no type with 20,000 bits, and `|` works on arrays of objects.
    out = np.empty(known.shape, object)  # filled by assignment, because NumPy unwraps scalar objects
    out[...] = roots
    out[known] = 0
    return Value(known, np.broadcast_to(value, known.shape), out)


def _constant(value: Any) -> Value:
    return _value(np.ones(np.shape(value), bool), value, 0)


def _unknown(roots: Any) -> Value:
    return _value(np.zeros(np.shape(roots), bool), 1, roots)


def _union(*roots: np.ndarray) -> np.ndarray:
    return reduce(np.bitwise_or, roots)


def _over(roots: np.ndarray, axes: Sequence[int], keepdims: bool = False) -> Any:
    """Return the union over some axes."""
    return np.bitwise_or.reduce(roots, axis=tuple(axes), keepdims=keepdims, initial=0)


class Dependencies:
    """Dependencies of the expressions of a compiled model: ``dependencies(expr, scope)`` returns a `Value`."""

    def __init__(self, simulator: Any):
        self.simulator, self.model = simulator, simulator.rddl
        model = self.model
        # In the order of Gymnasium, which sorts the names of a Dict space.
        self.actions = _ground(model, sorted(model.action_fluents))
        self.states = _ground(model, model.state_fluents)
        if len(self.actions) + len(self.states) > MAX_FLUENTS:
            raise ValueError(
                f"domain: {model.instance_name!r} has {len(self.actions):,} actions and {len(self.states):,} states, "
                f"want at most {MAX_FLUENTS:,} in total, because tracking all pairs takes too much memory"
            )
        number = {name: k for k, name in enumerate((*self.actions, *self.states))}
        self._everything = (1 << len(number)) - 1
        self._where, self._warned = "", set[tuple[str, str]]()
        self.values: dict[str, Value] = {}
        for name, value in simulator.init_values.items():
            kind = model.variable_types[name]
            if kind == "non-fluent":
                self.values[name] = _constant(value)
            elif kind in ("action-fluent", "state-fluent"):
                roots = np.array([1 << number[g] for g in model.variable_groundings[name]], object)
                self.values[name] = _unknown(roots.reshape(np.shape(value)))
        for name, expr, _ in simulator.cpfs:
            if model.variable_types[name] != "observ-fluent":
                self.values[name] = self.of(expr, model.cpfs[name][0], f"the fluent {name!r}")

    def of(self, expr: Any, scope: Scope, where: str) -> Value:
        """Return the dependencies of an expression; `where` is its position for warnings."""
        self._where = where
        return self(expr, scope)

    def observations(self) -> list[tuple[str, int]]:
        """Return the names of the observed fluents in the simulator's order, each with the states and actions it
        reveals."""
        if not self.model.observ_fluents:
            start = len(self.actions)
            return [(name, 1 << (start + k)) for k, name in enumerate(self.states)]
        within = self.values
        # An observation reveals the state at its own time, whatever that state was computed from.
        self.values = within | {after: within[before] for before, after in self.model.next_state.items()}
        observed = []
        for name in self.model.observ_fluents:
            scope, expr = self.model.cpfs[name]
            value = self.of(expr, scope, f"the fluent {name!r}")
            observed += zip(self.model.variable_groundings[name], value.roots.ravel(), strict=True)
        self.values = within
        return observed

    def _opaque(self, what: str) -> None:
        if (what, self._where) in self._warned:  # one warning, however often the expression has it
            return
        self._warned.add((what, self._where))
        warn(
            f"cannot analyse {what} in {self._where}: it is assumed to depend on every fluent that it could depend on; "
            "the influence network is safe, but may have more edges than needed"
        )

    def _shape(self, scope: Scope) -> tuple[int, ...]:
        return self.model.object_counts(kind for _, kind in scope)

    def __call__(self, expr: Any, scope: Scope) -> Value:
        kind, op = expr.etype
        match kind:
            case "constant":
                return _constant(np.broadcast_to(expr.args, self._shape(scope)))
            case "pvar":
                return self._variable(expr, scope)
            case "arithmetic" | "relational" | "boolean" | "func":
                return self._operation(kind, op, [self(arg, scope) for arg in expr.args])
            case "aggregation":
                return self._aggregation(expr, op, scope)
            case "control":
                return self._control(expr, op, scope)
            case "randomvar":
                return self._random(expr, op, scope)
            case "randomvector" | "pyfunc":
                return self._captured(expr, kind, op, scope)
            case "matrix" if op == "det":
                return _aggregate(self._body(expr.args, scope), scope)
            case "matrix":  # an inverse: each element depends on all
                (row, column), arg = expr.args
                inner = self(arg, scope)
                axes = [i for i, (name, _) in enumerate(scope) if name in (row, column)]
                return _unknown(np.broadcast_to(_over(inner.roots, axes, keepdims=True), inner.roots.shape))
            case _:  # everything, so that the network is safe with later versions of RDDL
                self._opaque(f"an expression of type {op!r}")
                return _unknown(np.full(self._shape(scope), self._everything, object))

    def _variable(self, expr: Any, scope: Scope) -> Value:
        name, args = expr.args
        shape = self._shape(scope)
        axis_of = {free: i for i, (free, _) in enumerate(scope)}
        if name in axis_of:
            return _constant(np.indices(shape)[axis_of[name]])
        if not args and self.model.is_object(name):
            return _constant(np.broadcast_to(self._number(name), shape))
        base = self.values[name]
        blanks = [i for i, arg in enumerate(args or ()) if isinstance(arg, str) and arg == "_"]
        # A blank adds an axis after those in scope.
        full = shape + tuple(base.known.shape[i] for i in blanks)
        objects = np.indices(full, sparse=True)
        index: list[Any] = []
        extra: Any = 0
        for axis, arg in enumerate(args or ()):
            if not isinstance(arg, str):
                inner = self(arg, scope)
                if inner.known.all():
                    index.append(_behind(inner.value.astype(int), len(blanks)))
                else:
                    if not base.known.all():
                        self._opaque(f"{name}(…), which has a fluent as argument,")
                    extra = extra | _behind(inner.roots, len(blanks))
                    # A non-fluent with one value for all objects does not reveal which of them is meant.
                    first = base.value.take([0], axis)
                    same = base.known.all(axis, keepdims=True) & (base.value == first).all(axis, keepdims=True)
                    base = _value(same, first, _over(base.roots, [axis], keepdims=True))
                    index.append(0)
            elif axis in blanks:
                index.append(objects[len(shape) + blanks.index(axis)])
            elif arg in axis_of:
                index.append(objects[axis_of[arg]])
            else:
                index.append(self._number(arg))
        where = tuple(index)
        return _value(np.broadcast_to(base.known[where], full), base.value[where], base.roots[where] | extra)

    def _number(self, literal: str) -> int:
        return self.model.object_to_index[self.model.strip_literal(literal)]

    def _apply(self, operation: Callable[..., Any], args: Sequence[Value], decided: Any = None) -> Value:
        """Apply an operation to values; `decided` tells where the result does not depend on unknown operands."""
        known = reduce(np.logical_and, (arg.known for arg in args))
        try:
            with np.errstate(all="ignore"):
                value = operation(*(arg.value for arg in args))
        except (ArithmeticError, ValueError):  # an unknown value was out of range
            known, value = np.zeros_like(known), np.ones(known.shape)
        roots = _union(*(arg.roots for arg in args))
        if decided is None:
            return _value(known, value, roots)
        mask, what = decided
        return _value(known | mask, np.where(mask, what, value), roots)

    def _operation(self, kind: str, op: str, args: list[Value]) -> Value:
        simulator = self.simulator
        if kind == "boolean":
            if len(args) == 1:
                return self._apply(np.logical_not, args)
            op = "^" if op == "&" else op
            return reduce(lambda a, b: self._apply(simulator.LOGICAL_OPS[op], (a, b), _decided(op, a, b)), args)
        # The simulator counts with booleans as well: NumPy has no minus for them.
        args = [Value(arg.known, 1 * arg.value, arg.roots) for arg in args]
        if kind == "arithmetic":
            if len(args) == 1 and op == "-":
                return self._apply(np.negative, args)
            return reduce(lambda a, b: self._apply(simulator.ARITHMETIC_OPS[op], (a, b), _decided(op, a, b)), args)
        table = simulator.RELATIONAL_OPS if kind == "relational" else {**simulator.UNARY, **simulator.BINARY}
        return self._apply(table[op], args)

    def _body(self, args: Sequence[Any], scope: Scope) -> Value:
        """Return what is aggregated over objects: these add axes behind those in scope."""
        *bound, arg = args
        return self(arg, scope + [pair for _, pair in bound])

    def _aggregation(self, expr: Any, op: str, scope: Scope) -> Value:
        inner = self._body(expr.args, scope)
        axes = tuple(range(len(scope), inner.known.ndim))
        value = inner.value if op in ("forall", "exists") else 1 * inner.value  # a sum of booleans is their number
        operation = self.simulator.AGGREGATION_OPS[op]
        with np.errstate(all="ignore"):
            value = operation(value, axis=axes[0] if op in ("argmin", "argmax") else axes)
        known, roots = inner.known.all(axes), _over(inner.roots, axes)
        deciding = {"prod": False, "forall": False, "exists": True}.get(op)
        if deciding is None:
            return _value(known, value, roots)
        # One known zero decides a product, whatever the other factors are.
        mask = (inner.known & (inner.value.astype(bool) == deciding)).any(axes)
        return _value(known | mask, np.where(mask, deciding, value), roots)

    def _control(self, expr: Any, op: str, scope: Scope) -> Value:
        condition = self(expr.args[0], scope)
        if op == "if":
            return _choose(condition, *(self(arg, scope) for arg in expr.args[1:]))
        cases, default = self.simulator.traced.cached_sim_info(expr)
        values = [self(default if case is None else case, scope) for case in cases]
        chosen = values[-1]
        for k, value in list(enumerate(values))[-2::-1]:
            chosen = _choose(Value(condition.known, condition.value == k, condition.roots), value, chosen)
        return chosen

    def _random(self, expr: Any, op: str, scope: Scope) -> Value:
        if op in ("KronDelta", "DiracDelta"):
            return self(expr.args[0], scope)
        if op.endswith("(p)"):
            *bound, (arg,) = expr.args
            return _aggregate(self._body((*bound, arg), scope), scope)
        args = self.simulator.traced.cached_sim_info(expr) if op.endswith("Discrete") else expr.args
        values = [self(arg, scope) for arg in args]
        roots = _union(*(value.roots for value in values))
        if op == "Bernoulli":  # certain at the ends: many models use it as a test
            (p,) = values
            return _value(p.known & ((p.value == 0) | (p.value == 1)), p.value.astype(bool), roots)
        return _unknown(np.broadcast_to(roots, self._shape(scope)))

    def _captured(self, expr: Any, kind: str, op: str, scope: Scope) -> Value:
        """Return a function that computes an array over the captured objects; each element depends on all arguments."""
        captured, args = expr.args
        if kind == "pyfunc":
            self._opaque(f"the Python function {op!r}")
        batch = [pair for pair in scope if pair[0] not in captured]
        roots = [_aggregate(self(arg, batch), batch).roots for arg in args]
        new = tuple(i for i, pair in enumerate(scope) if pair[0] in captured)
        union = np.expand_dims(_union(np.zeros(self._shape(batch), object), *roots), new)
        return _unknown(np.broadcast_to(union, self._shape(scope)))


def _aggregate(inner: Value, scope: Scope) -> Value:
    """Return what depends on an expression for all objects that are not in scope: the axes behind those that are."""
    return _unknown(_over(inner.roots, range(len(scope), inner.roots.ndim)))


def _ground(model: Any, names: Any) -> tuple[str, ...]:
    return tuple(g for name in names for g in model.variable_groundings[name])


def _behind(array: np.ndarray, axes: int) -> np.ndarray:
    return array.reshape(array.shape + (1,) * axes)


def _decided(op: str, a: Value, b: Value) -> tuple[np.ndarray, Any] | None:
    """Return where one operand alone determines the result, and the result there."""

    def either(what: bool) -> np.ndarray:
        return (a.known & (a.value.astype(bool) == what)) | (b.known & (b.value.astype(bool) == what))

    match op:
        case "*":
            return either(False), 0
        case "^":
            return either(False), False
        case "|":
            return either(True), True
        case "=>":
            return (a.known & ~a.value.astype(bool)) | (b.known & b.value.astype(bool)), True
        case _:
            return None


def _choose(condition: Value, yes: Value, no: Value) -> Value:
    known, true = condition.known, condition.value.astype(bool)
    with np.errstate(invalid="ignore"):
        same = yes.known & no.known & (yes.value == no.value)  # the condition does not matter there
    roots = np.where(true, yes.roots, no.roots)
    return _value(
        np.where(known, np.where(true, yes.known, no.known), same),
        np.where(true, yes.value, no.value),
        np.where(known, roots, _union(condition.roots, yes.roots, no.roots)),
    )
