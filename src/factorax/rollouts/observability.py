"""Tests whether actions change later observations.

If they do, a policy that reads them responds to other actions and carries influence that K may lack. A K that is sparse
because the dynamics are sparse is exact only with policies that observe no more than their own part of the state.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ..problems.failures import EpisodeLost
from ..spec import Spec, is_jax
from ..structure.labels import warn
from .seeding import differ, observed, warn_if_seed_ignored


def actions_reach_observations(problem: Any) -> bool:
    """Return whether later observations depend on actions.

    For a JAX problem, the result is whether they can, by the data flow in its `step`. For an environment factory, it is
    whether they do in a few steps from the same seed with different actions; for an environment that is not
    reproducible, the result is False, with a `SeedWarning`.

    >>> from factorax.problems import chain, queues
    >>> actions_reach_observations(chain(3)), actions_reach_observations(queues(3))
    (False, True)
    """
    return _can_reach(problem) if is_jax(problem) else _does_reach(problem())


def _can_reach(problem: Any) -> bool:
    key = jax.random.key(0)
    state, _ = jax.eval_shape(problem.reset, key)
    action = jax.tree.map(np.asarray, copy.deepcopy(problem.action_space).sample())

    def step(key: jax.Array, state: Any, action: Any) -> tuple[Any, Any]:
        new = problem.step(key, state, action)
        return new.obs, new.state

    program = jax.make_jaxpr(step)(key, state, action).jaxpr
    n_state = len(jax.tree.leaves(state))
    state_depends = [False] * n_state
    while True:
        inputs = [False, *state_depends, *[True] * (len(program.invars) - 1 - n_state)]
        outputs = _dependent_outputs(program, inputs)
        split = len(outputs) - n_state
        if any(outputs[:split]):
            return True
        before, state_depends = state_depends, [a or b for a, b in zip(state_depends, outputs[split:], strict=True)]
        if state_depends == before:
            return False


def _dependent_outputs(program: Any, inputs: Sequence[bool]) -> list[bool]:
    """Return which outputs of a jaxpr depend on the marked inputs, by its data flow."""
    marked = {variable for variable, mark in zip(program.invars, inputs, strict=True) if mark}

    def is_marked(atom: Any) -> bool:
        return not hasattr(atom, "val") and atom in marked  # only literals have `val`

    for equation in program.eqns:
        arguments = [is_marked(atom) for atom in equation.invars]
        if any(arguments):
            results = _equation_outputs(equation, arguments)
            marked |= {variable for variable, mark in zip(equation.outvars, results, strict=True) if mark}
    return [is_marked(atom) for atom in program.outvars]


def _equation_outputs(equation: Any, arguments: list[bool]) -> list[bool]:
    params, n_outputs = equation.params, len(equation.outvars)
    name = equation.primitive.name
    if name == "cond":
        branches = [_dependent_outputs(_open(branch), arguments[1:]) for branch in params["branches"]]
        return [arguments[0] or any(marks) for marks in zip(*branches, strict=True)]
    if name == "while":
        n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
        constants, carry = arguments[n_cond : n_cond + n_body], arguments[n_cond + n_body :]
        carry = _until_stable(
            lambda carry: _dependent_outputs(_open(params["body_jaxpr"]), [*constants, *carry]), carry
        )
        stops = _dependent_outputs(_open(params["cond_jaxpr"]), [*arguments[:n_cond], *carry])
        return [True] * n_outputs if any(stops) else carry
    inner = next((params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params), None)
    # Unlike a call, a reduction applies its inner program again to the results.
    if inner is None or name.startswith("reduce"):
        return [True] * n_outputs
    if len(_open(inner).invars) != len(arguments) or len(_open(inner).outvars) != n_outputs:
        return [True] * n_outputs
    if name == "scan":
        first, end = _carry_of_scan(equation, _open(inner))
        n_carry = end - first

        def body(carry: list[bool]) -> list[bool]:
            return _dependent_outputs(_open(inner), [*arguments[:first], *carry, *arguments[end:]])

        carry = _until_stable(lambda carry: body(carry)[:n_carry], arguments[first:end])
        return [*carry, *body(carry)[n_carry:]]
    return _dependent_outputs(_open(inner), arguments)


def _carry_of_scan(equation: Any, inner: Any) -> tuple[int, int]:
    """Return where the carry of a scan starts and ends among its inputs, between constants and scanned arrays.

    It is derived from the number of axes, because the parameters that define it differ between versions of JAX: scanned
    and stacked arrays have one more axis outside than inside.
    """

    def n_stacked(outside: Sequence[Any], inside: Sequence[Any]) -> int:
        return sum(len(a.aval.shape) > len(b.aval.shape) for a, b in zip(outside, inside, strict=True))

    end = len(equation.invars) - n_stacked(equation.invars, inner.invars)
    return end - (len(equation.outvars) - n_stacked(equation.outvars, inner.outvars)), end


def _open(program: Any) -> Any:
    """Return a jaxpr without its constants, from an open or closed one."""
    return getattr(program, "jaxpr", program)


def _until_stable(step: Callable[[list[bool]], list[bool]], marks: list[bool]) -> list[bool]:
    while True:
        new = [a or b for a, b in zip(marks, step(marks), strict=True)]
        if new == marks:
            return marks
        marks = new


def _does_reach(env: Any, *, training: bool = False) -> bool:
    try:
        first, again, other = observed(env, 0), observed(env, 0), observed(env, 1)
    except EpisodeLost:
        return True
    finally:
        env.close()
    warn_if_seed_ignored(env, first, again, training=training)
    return differ(first, other) and not differ(first, again)


def warn_if_actors_respond(spec: Spec, policy: str) -> None:
    """Warn if the policy reads the full observation although the network is sparse, unless no action changes it.

    - `policy`: the kind of policy, as in `factorax.learning.Config`.

    Environments that need one process each are not tested and count as changed by actions. Missing edges to a target
    that no factor influences do not count, because responses cannot reach it either.
    """
    edges = spec.network.static.to_dense() > 0
    lacking = int((~edges & edges.any(axis=0)).sum())
    if not lacking or (spec.local is not None and policy != "joint"):
        return
    problem: Any = spec.problem
    if spec.one_per_process or (_can_reach(problem) if spec.is_jax else _does_reach(problem(), training=True)):
        warn(
            f"policy: all actors read the full observation, and the network lacks {lacking:,} of {edges.size:,} pairs. "
            "If an actor responds to what another one changed, the response carries influence, and the gradient is "
            "biased without these edges. Use policy='shared' or 'independent' with local observations, a network with "
            "these edges (fx.discover(…, policy=model) finds them), or check_network=False to leave them out "
            "on purpose"
        )
