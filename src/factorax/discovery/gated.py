"""The gated critic: a critic per target learns which actions it needs."""

from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .._checks import Count, NotNegative, Range, Seed, check_each, check_type
from .batch import Batch
from .result import Discovery
from .score import without_baseline

_LOW, _HIGH, _TEMPERATURE = -0.1, 1.1, 2 / 3  # of the hard-concrete distribution, as published
_WAVES = 4
_OPTIONS = {
    "hidden": Annotated[int, Range(2, 2**16)],
    "steps": Annotated[int, Range(10, 2**31 - 1)],
    "batch_size": Count,
    "penalty": NotNegative,
    "seed": Seed,
}


class _Critic(NamedTuple):
    """Weights of the critics of all m targets; each row of the first two belongs to one action."""

    additive: jax.Array  # (n, waves, m)
    first: jax.Array  # (n, m, h)
    state: jax.Array  # (d, m, h)
    bias: jax.Array  # (m, h)
    last: jax.Array  # (m, h)
    level: jax.Array  # (m,)


class _Data(NamedTuple):
    actions: Any  # (..., n)
    waves: Any  # (..., n, waves)
    state: Any  # (..., d)
    psi: Any  # (..., m)


def gated_critic(
    batch: Batch,
    *,
    hidden: int = 8,
    steps: int = 1500,
    batch_size: int = 128,
    penalty: float = 5.0,
    seed: int = 0,
) -> Discovery:
    """Train critics Qⱼ(s, gⱼ ∘ a) with a random gate on each action; return P(gᵢⱼ ≠ 0) as the effect.

        min over weights  Σⱼ E (ψⱼ − Qⱼ(s, gⱼ ∘ a))²    on one half of the samples, and
        min over gates    Σⱼ E (ψⱼ − Qⱼ(s, gⱼ ∘ a))² + ρ Σᵢⱼ P(gᵢⱼ ≠ 0)    on the other half,

    and the same with the halves swapped and the same gates. An action that a critic only uses to memorise its samples
    therefore increases the loss of the gates, and its gate closes. Gates are hard-concrete (Louizos, Welling, Kingma
    2018): g is a stretched sigmoid, clipped to [0, 1], so that it is exactly 0 or 1 with a differentiable probability.
    The targets have variance one, and ρ = `penalty` · log(20 n m) / N, which grows like the best chance gain of n · m
    null actions.

    A critic is a sum of waves √2 cos(kπUᵢ) of each action, and a layer of `hidden` units of all actions and the state
    for their joint effects: half of the units are squares, which have a gradient towards products such as a₁a₂ from
    the start. These are the effects that the tests on data miss. **No error rate is known**: the number of false edges
    depends on the data.

    - `batch`: a batch with `uniforms`, from `collect` or your own data.
    - `steps`, `batch_size`: of the Adam optimizer. In the first third of the steps all gates stay open.

    >>> from scipy import special
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=(2000, 3))
    >>> psi = np.stack([a[:, 0] ** 2, a[:, 0] * a[:, 1]], axis=1) + rng.normal(size=(2000, 2))
    >>> gated_critic(Batch(a, psi, special.ndtr(a)), steps=600).found()
    array([[ True,  True],
           [False,  True],
           [False, False]])
    """
    check_each(_OPTIONS, hidden=hidden, steps=steps, batch_size=batch_size, penalty=penalty, seed=seed)
    check_type("batch", batch, Batch, "a Batch, as returned by `collect`")
    batch = batch.checked(least=30, uniforms=True)
    n_samples, n, m = batch.shape
    constant_actions, constant_targets, notes = batch.constant()
    half = n_samples // 2
    order = np.random.default_rng(seed).permutation(n_samples)[: 2 * half]
    halves = jax.tree.map(lambda x: jnp.asarray(x[order].reshape(2, half, *x.shape[1:]), jnp.float32), _data(batch))
    rho = penalty * np.log(20 * n * m) / n_samples
    logits = _learn(halves, jax.random.key(seed), rho, hidden=hidden, steps=steps, batch_size=min(batch_size, half))
    effect = np.asarray(_chance(logits), float)
    effect[constant_actions], effect[:, constant_targets] = 0.0, 0.0
    return batch.discovery("gated", effect, effect_unit="probability that the gate is open", notes=notes)


def _data(batch: Batch) -> _Data:
    """Return the training data of the critics, standardised over all samples."""
    acts = batch.scores if batch.scores.ndim == 2 else batch.scores[..., 0]
    assert batch.uniforms is not None
    waves = [np.sqrt(2) * np.cos(k * np.pi * batch.uniforms) for k in range(1, _WAVES + 1)]
    state = np.zeros((len(acts), 0)) if batch.state is None else batch.state
    psi, _ = without_baseline(batch.psi, batch.state)
    return _Data(actions=_standard(acts), waves=np.stack(waves, axis=-1), state=_standard(state), psi=_standard(psi))


def _standard(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9)


def _init(key: jax.Array, n: int, d: int, m: int, hidden: int) -> _Critic:
    first, state, last = jax.random.split(key, 3)
    wide = np.sqrt(1.0 / (n + d))
    return _Critic(
        additive=jnp.zeros((n, _WAVES, m)),
        first=wide * jax.random.normal(first, (n, m, hidden)),
        state=wide * jax.random.normal(state, (d, m, hidden)),
        bias=jnp.zeros((m, hidden)),
        last=0.3 * jax.random.normal(last, (m, hidden)) / np.sqrt(hidden),
        level=jnp.zeros(m),
    )


def _value(critic: _Critic, gates: jax.Array, data: _Data) -> jax.Array:
    """Return Q of all targets, ``(B, m)``. Gating an action equals gating its weights, which needs only one product."""
    n, m, hidden = critic.first.shape
    additive = (critic.additive * gates[:, None]).reshape(n * _WAVES, m)
    first = (critic.first * gates[..., None]).reshape(n, m * hidden)
    inside = data.actions @ first + data.state @ critic.state.reshape(-1, m * hidden)
    inside = inside.reshape(-1, m, hidden) + critic.bias
    square, bent = jnp.split(inside, [hidden // 2], axis=-1)
    units = jnp.concatenate([jnp.square(square), jax.nn.silu(bent)], axis=-1)
    return data.waves.reshape(-1, n * _WAVES) @ additive + (units * critic.last).sum(axis=-1) + critic.level


def _loss(critic: _Critic, gates: jax.Array, data: _Data) -> jax.Array:
    """Return the squared error summed over targets; they share no weights, so each critic learns independently."""
    return jnp.square(data.psi - _value(critic, gates, data)).mean(axis=0).sum()


def _gates(logits: jax.Array, key: jax.Array) -> jax.Array:
    """Return a sample of all gates from the hard-concrete distribution, ``(n, m)``."""
    noise = jax.random.logistic(key, logits.shape)
    return jnp.clip(_LOW + (_HIGH - _LOW) * jax.nn.sigmoid((noise + logits) / _TEMPERATURE), 0.0, 1.0)


def _chance(logits: jax.Array) -> jax.Array:
    """Return P(g ≠ 0), the probability that a gate is open, ``(n, m)``."""
    return jax.nn.sigmoid(logits - _TEMPERATURE * np.log(-_LOW / _HIGH))


@partial(jax.jit, static_argnames=("hidden", "steps", "batch_size"))
def _learn(
    halves: _Data, key: jax.Array, rho: jax.Array | float, *, hidden: int, steps: int, batch_size: int
) -> jax.Array:
    """Return the logits of the gates, ``(n, m)``."""
    half, n, m, d = halves.psi.shape[1], halves.actions.shape[-1], halves.psi.shape[-1], halves.state.shape[-1]
    start, key = jax.random.split(key)
    critics = jax.vmap(lambda k: _init(k, n, d, m, hidden))(jax.random.split(start, 2))
    logits = jnp.zeros((n, m))
    for_weights = optax.adam(optax.cosine_decay_schedule(5e-3, steps, 0.1))
    for_gates = optax.adam(0.03, b1=0.9, b2=0.99)

    def held_out(logits: jax.Array, critics: _Critic, noise: jax.Array, data: _Data) -> jax.Array:
        errors = jax.vmap(lambda c, k, x: _loss(c, _gates(logits, k), x))(critics, noise, data)
        return errors.mean() + rho * _chance(logits).sum()

    def step(carry: Any, inputs: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
        t, key = inputs
        critics, logits, moments, gate_moments = carry
        picks, noise = jax.random.split(key)
        rows = jax.random.randint(picks, (2, batch_size), 0, half)
        training = jax.vmap(lambda x, i: jax.tree.map(lambda a: a[i], x))(halves, rows)
        other_half = jax.tree.map(lambda x: x[::-1], training)
        keys = jax.random.split(noise, 2)
        opened = jax.vmap(lambda k: jnp.where(t < steps // 3, 1.0, _gates(logits, k)))(keys)
        slope = jax.vmap(jax.grad(_loss))(critics, opened, training)
        change, moments = for_weights.update(slope, moments)
        gate_slope = jax.grad(held_out)(logits, critics, keys, other_half)
        gate_change, gate_moments = for_gates.update(gate_slope, gate_moments)
        critics = optax.apply_updates(critics, change)
        # At most 3: there the gradient P(1 − P) of the penalty is still noticeable, and gates opened by chance close.
        logits = jnp.where(t < steps // 3, logits, jnp.clip(logits + gate_change, -6.0, 3.0))
        return (critics, logits, moments, gate_moments), None

    carry = critics, logits, for_weights.init(critics), for_gates.init(logits)
    (_, logits, _, _), _ = jax.lax.scan(step, carry, (jnp.arange(steps), jax.random.split(key, steps)))
    return logits
