"""An update of factored PPO: epochs, minibatches, the step of the optimiser and the coefficient of the KL penalty."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

from factorax.ppo import update
from factorax.ppo.epochs import shuffled
from factorax.ppo.update import FlatParameters
from ppo.ppo_cases import NET, SPACES, assert_close, loss_gradient, make_agent, make_batch, make_update, samples_of


@pytest.mark.slow
@pytest.mark.parametrize(("target", "grows"), [(1e-9, 1.5), (1e3, 0.5), (None, 1.0), ("near", 1.0)])
def test_the_kl_coefficient_adapts(target, grows):
    settings = {"n_epochs": 2, "learning_rate": 1e-2, "kl_coef": 0.2}
    if target == "near":
        target = float(adapt(kl_coef_target=1e3, **settings)[1]["train/kl"])
    coefficient, metrics = adapt(kl_coef_target=target, **settings)
    assert metrics["train/kl"] > 1e-8
    np.testing.assert_allclose(coefficient, 0.2 * grows, rtol=1e-6)
    np.testing.assert_allclose(metrics["train/kl_coef"], coefficient)


def adapt(**settings):
    update = make_update(SPACES["box"], **settings)
    agent = make_agent(update, hidden=())
    state = update.optimiser().init(eqx.filter(agent, eqx.is_array))
    batch = make_batch(update, agent)
    _, _, coefficient, metrics = update.learn(agent, state, batch, kl_coef=jnp.float32(0.2), key=jax.random.key(0))
    return coefficient, metrics


@pytest.mark.slow
def test_all_samples_are_seen_in_every_epoch():
    """One minibatch, one epoch, no cut: the step of Adam is the sign of the whole batch's gradient."""
    update = make_update(SPACES["box"], n_epochs=1, learning_rate=1e-3, max_grad_norm=1e9)
    agent = make_agent(update, hidden=())
    batch = make_batch(update, agent)
    state = update.optimiser().init(eqx.filter(agent, eqx.is_array))
    new, _, _, metrics = update.learn(agent, state, batch, kl_coef=jnp.float32(0.0), key=jax.random.key(0))
    g = loss_gradient(update, agent, samples_of(update, agent, batch, NET), agent.policy.spread)
    want = jax.tree.map(lambda x, g: x - 1e-3 * g / (jnp.abs(g) + 1e-5), agent, g)
    assert_close(new, want, rtol=1e-4, atol=1e-5)
    length = np.sqrt(sum((np.asarray(x) ** 2).sum() for x in jax.tree.leaves(g)))
    np.testing.assert_allclose(metrics["train/grad_norm"], length, rtol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 6, 64, 1000, 70_000])
def test_a_shuffle_has_every_number_once(size):
    order = jax.jit(shuffled, static_argnums=1)(jax.random.key(0), size)
    np.testing.assert_array_equal(np.sort(order), np.arange(size))


def test_a_shuffle_is_uniform():
    """Each of the 24 orders of four numbers in 24,000 shuffles, by χ²; passed with a chance of 99.9 %."""
    draw = jax.jit(lambda key: jax.vmap(lambda key: shuffled(key, 4))(jax.random.split(key, 24_000)))
    orders = draw(jax.random.key(1))
    counts = np.unique(np.asarray(orders), axis=0, return_counts=True)[1]
    assert len(counts) == 24
    assert ((counts - 1000) ** 2 / 1000).sum() < stats.chi2.ppf(0.999, 23)


def test_the_learning_rate_is_the_length_of_a_step():
    """Adam moves every parameter by the rate in its first step, whatever the gradient."""
    update = make_update(SPACES["box"])
    optimiser = update.optimiser(update.config.hyper._replace(learning_rate=0.25))
    step, _ = jax.jit(lambda x: optimiser.update(x, optimiser.init(x)))(np.ones(1, np.float32))
    np.testing.assert_allclose(step, [-0.25], rtol=1e-3)


class Layers(eqx.Module):
    kernel: jax.Array
    bias: jax.Array
    steps: jax.Array
    name: str = eqx.field(static=True, default="layers")


def layers() -> Layers:
    return Layers(jnp.arange(6.0).reshape(2, 3), jnp.array([6.0, 7.0]), jnp.array(3))


def test_a_tree_comes_back_with_what_is_not_learnt():
    flat = FlatParameters(layers())
    np.testing.assert_array_equal(flat.vector, np.arange(8.0))
    back = flat.tree(flat.vector + 1)
    np.testing.assert_array_equal(back.kernel, 1 + np.arange(6.0).reshape(2, 3))
    assert (back.steps, back.name) == (3, "layers")


def test_adam_on_the_vector_is_adam_on_the_tree():
    optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.1))

    @eqx.filter_jit
    def three_steps(tree):
        learnt = eqx.filter(tree, eqx.is_inexact_array)
        state, flat = optimiser.init(learnt), FlatParameters(tree)
        vector, flat_state = flat.vector, flat.flat_state(state)
        for i in range(3):
            gradient = jax.tree.map(lambda x, i=i: jnp.sin(x + i), learnt)
            updates, state = optimiser.update(gradient, state, learnt)
            changes, flat_state = optimiser.update(FlatParameters(gradient).vector, flat_state, vector)
            learnt, vector = optax.apply_updates(learnt, updates), vector + changes
        return flat.tree(vector), learnt, flat.full_state(flat_state, state), state

    from_vector, learnt, back, state = three_steps(layers())
    np.testing.assert_allclose(from_vector.kernel, learnt.kernel, rtol=1e-6)
    assert jax.tree.structure(back) == jax.tree.structure(state)
    for ours, theirs in zip(jax.tree.leaves(back), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_what_stays_in_its_arrays(monkeypatch: pytest.MonkeyPatch):
    assert FlatParameters.can_hold(layers())
    assert not FlatParameters.can_hold(jnp.zeros(3))  # one array is a vector already
    assert not FlatParameters.can_hold([jnp.zeros(3), jnp.zeros(3, jnp.float16)])
    monkeypatch.setattr(update, "MAX_FLAT_SIZE", 7)
    assert not FlatParameters.can_hold(layers())
