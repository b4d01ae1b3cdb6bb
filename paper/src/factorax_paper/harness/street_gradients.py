"""Gradients of each light by street, and the bias and variance of each network's gradient computed from them.

All networks are compared with one policy, one critic per street and the same batches. The gradient of light i is gᵢ =
E[∇ log πᵢ · [K(λ∘A)]ᵢ], which is linear in K: gᵢ = Σₑ Kᵢₑ Gᵢₑ with Gᵢₑ = E[∇ log πᵢ · λₑ Aₑ]. Gᵢₑ is therefore computed
once per batch and gives the gradient of every network. The variance is estimated over batches, and the bias is the
difference from an unbiased network.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from factorax._credit import credit
from factorax.ppo import Learner, TrainState, gae
from factorax.structure import InfluenceNetwork

_STREETS = 8  # number of streets differentiated at a time


def street_gradients(learner: Learner, state: TrainState, key: jax.Array) -> jax.Array:
    """Return Gᵢₑ of a batch of whole episodes, ``(n, parameters, m)``."""
    c, spec, agent = learner.config, learner.spec, state.agent
    for_environments, key = jax.random.split(key)
    state = state._replace(environments=learner.collector.init(for_environments), key=key)
    t, _, _ = learner.rollout(*learner.collect(state))
    values, next_values = learner.rule.values(agent, t)
    ended = t.ended[..., None]
    terminated = ended if getattr(c.method, "bootstrap", "auto") == "never" else t.terminated[..., None]
    advantage, _ = gae(
        t.psi, values, next_values, terminated=terminated, ended=ended, gamma=c.gamma, trace=c.gae_lambda
    )
    advantage = (advantage * spec.weights).reshape(-1, spec.n_targets)
    local, action = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (t.local, t.action))
    trained, fixed = eqx.partition(agent.policy.net, eqx.is_array)
    flat, unravel = jax.flatten_util.ravel_pytree(trained)

    def of_light(i: jax.Array) -> jax.Array:
        def log_prob(flat: jax.Array) -> jax.Array:
            net: Any = eqx.combine(unravel(flat), fixed)
            net = eqx.tree_at(lambda shared: shared.identity, net, net.identity[i][None])  # of this light only
            one = net(None, local[:, i][:, None])
            parameters = jnp.broadcast_to(one, (len(one), spec.n_factors, one.shape[-1]))
            return spec.components.log_prob(parameters, agent.policy.spread, action)[:, i]

        _, back = jax.vjp(log_prob, flat)
        return jax.lax.map(lambda a: back(a)[0], advantage.T, batch_size=_STREETS).T / len(advantage)

    return jax.lax.map(of_light, jnp.arange(spec.n_factors))


def by_network(nets: Sequence[InfluenceNetwork], streets: np.ndarray) -> np.ndarray:
    """Return the gradient of each light with each network, ``(networks, n, parameters)``."""
    light = np.arange(len(streets))
    return np.stack([credit(net, streets.astype(float))[light, :, light] for net in nets])


def figures_of(g: np.ndarray, exact: int) -> dict[str, np.ndarray]:
    """Map gradients of batches, ``(batches, networks, n, parameters)``, to statistics of each network and light.

    ``signal`` ‖gradient‖² and ``bias`` ‖bias‖², both without the contribution of noise; ``variance`` of one batch's
    gradient; all ``(networks, n)``. ``bias_without`` and ``variance_without``, ``(batches, networks, n)``, leave out
    one batch each, for standard errors. The bias is the difference from the network with index `exact`.
    """
    signal, _ = square(g)
    bias, bias_without = square(g - g[:, [exact]])
    count = len(g)
    apart = ((g - g.mean(axis=0)) ** 2).sum(axis=-1)
    variance = apart.sum(axis=0) / (count - 1)
    variance_without = (apart.sum(axis=0) - apart * count / (count - 1)) / (count - 2)
    return {
        "signal": signal,
        "bias": bias,
        "variance": variance,
        "bias_without": bias_without,
        "variance_without": variance_without,
    }


def jackknife(without: np.ndarray) -> np.ndarray:
    """Return standard errors of the sums over lights, from sums that leave out one batch each, ``(batches, networks,
    n)``."""
    return without.sum(axis=-1).std(axis=0) * np.sqrt(len(without) - 1)


def square(g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ‖E g‖² as the mean of g·g' over pairs of different batches: for all batches, and leaving out each in
    turn."""
    count, total = len(g), g.sum(axis=0)
    squares = (g * g).sum(axis=-1)  # (batches, presets, n)
    pairs = (total * total).sum(axis=-1) - squares.sum(axis=0)
    with_it = 2 * ((g * total).sum(axis=-1) - squares)
    return pairs / (count * (count - 1)), (pairs - with_it) / ((count - 1) * (count - 2))
