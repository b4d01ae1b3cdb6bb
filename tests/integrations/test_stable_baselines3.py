"""Stock PPO of Stable-Baselines3 on rows that are factors."""

import warnings

import numpy as np
import pytest
from integrations.environments import EYE, Plain

import factorax as fx
from factorax.integrations import to_stable_baselines3
from factorax.problems import chain, queues

pytestmark = [pytest.mark.sb3, pytest.mark.filterwarnings("ignore")]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch", reason="PyTorch is no dependency of factorax")
    sb3 = pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is no dependency of factorax")

HOST = fx.wrap(lambda: Plain(cut=4), EYE, reward="info:a,b.c", local=lambda obs: obs[..., :, None])


@pytest.mark.parametrize("problem", [chain(3, delay=2, horizon=6), HOST], ids=["jax", "host"])
def test_rows_are_factors(problem):
    env = to_stable_baselines3(problem, n_envs=4)
    n = env.factors.n
    assert env.num_envs == 4 * n
    env.seed(3)
    first = env.reset()
    env.seed(3)
    np.testing.assert_array_equal(env.reset(), first)
    assert first.shape == (4 * n, *env.observation_space.shape)
    np.testing.assert_array_equal(first[:, -n:], np.tile(np.eye(n), (4, 1)))
    total, length = np.zeros(4 * n), 6 if n == 3 else 4
    for t in range(1, length + 1):
        obs, rewards, dones, infos = env.step(np.full((4 * n, 1), 0.25, np.float32))
        total += rewards
        np.testing.assert_array_equal(dones, t == length)
    assert all(info["TimeLimit.truncated"] for info in infos)
    last = np.stack([info["terminal_observation"] for info in infos])
    assert (last != obs).any()
    np.testing.assert_array_equal(last[:, -n:], obs[:, -n:])
    if n == 2:  # with K = I the credits of an episode add up to its return
        np.testing.assert_allclose(total.reshape(4, n).sum(axis=1), [infos[b * n]["episode"]["r"] for b in range(4)])
    assert env.env_is_wrapped(object) == [False] * env.num_envs
    with pytest.raises(AttributeError, match="the rows of this VecEnv are factors"):
        env.get_attr("network")
    env.close()


def test_credits_and_actions_of_each_copy():
    env = to_stable_baselines3(HOST, fx.InfluenceNetwork([[1, 1], [0, 1]]), n_envs=2, weights=[1.0, 10.0])
    env.seed(0)
    env.reset()
    alone = [HOST() for _ in range(2)]
    for i, one in enumerate(alone):
        one.reset(seed=i)
    actions = np.float32([[0.1], [0.2], [-0.3], [0.4]])
    _, rewards, _, _ = env.step(actions)
    for b, one in enumerate(alone):
        psi = one.step(actions[2 * b : 2 * b + 2, 0])[4]["vector_reward"]
        np.testing.assert_allclose(rewards[2 * b : 2 * b + 2], [psi[0] + 10 * psi[1], 10 * psi[1]], rtol=1e-5)


def test_stock_ppo_with_a_shared_policy_learns():
    torch.set_num_threads(1)
    env = to_stable_baselines3(chain(6, delay=2, horizon=10), n_envs=8)
    ppo = sb3.PPO("MlpPolicy", env, n_steps=20, batch_size=240, n_epochs=4, learning_rate=5e-3, seed=0, device="cpu")
    ppo.learn(20 * env.num_envs)
    before = np.mean([episode["r"] for episode in ppo.ep_info_buffer])
    ppo.learn(12 * 20 * env.num_envs)
    after = np.mean([episode["r"] for episode in ppo.ep_info_buffer])
    assert after > before / 2, (before, after)  # of a negative number


def test_different_action_spaces_are_refused():
    net = queues(2, 2).network
    grouped = net.factor([net.actions[:3], net.actions[3:]])
    with pytest.raises(
        ValueError, match=r"has another action space than factor .*equal action spaces .*, or to_pettingzoo"
    ):
        to_stable_baselines3(queues(2, 2), grouped)
