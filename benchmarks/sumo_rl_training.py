"""Simulated seconds of sumo-rl for a second of training with Stable-Baselines3, as one line of JSON.

A program of its own, in an environment of its own, as `sumo_rl_rate.py`. Arguments: the network, the routes, the
seconds of an episode, those between two decisions, the copies of the simulation, and the passes over every rollout.

It is what their users do with several lights: sumo-rl's PettingZoo environment, made a vector of rows by SuperSuit, a
row for every light and a process for every copy, and PPO with one policy for all rows. A rollout is an episode of every
copy, in two minibatches; all else is as Stable-Baselines3 has it: two layers of 64 units for the policy and for the
critic, on the observation of one light.
"""

import json
import sys
import time

from sumo_rl_rate import made  # pyright: ignore[reportMissingImports]


def main(net: str, routes: str, seconds: int, every: int, copies: int, epochs: int, rounds: int = 4) -> None:
    import supersuit  # pyright: ignore[reportMissingImports]
    import torch  # pyright: ignore[reportMissingImports]
    from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.callbacks import BaseCallback  # pyright: ignore[reportMissingImports]

    class Clock(BaseCallback):
        """The time at the start of every rollout."""

        def __init__(self) -> None:
            super().__init__()
            self.times: list[float] = []

        def _on_rollout_start(self) -> None:
            self.times.append(time.perf_counter())

        def _on_step(self) -> bool:
            return True

    env = made(net, routes, seconds, every)
    env.unwrapped.render_mode = None  # SuperSuit asks for it, sumo-rl has none
    rows = supersuit.pettingzoo_env_to_vec_env_v1(env)
    envs = supersuit.concat_vec_envs_v1(rows, copies, num_cpus=copies, base_class="stable_baselines3")
    torch.set_num_threads(1)  # with two it was eight times slower
    steps = seconds // every
    size = steps * envs.num_envs
    model = PPO("MlpPolicy", envs, n_steps=steps, batch_size=size // 2, n_epochs=epochs, device="cpu")
    clock = Clock()
    model.learn((rounds + 2) * size, callback=clock)  # the first warms up, the last has no end
    print(json.dumps(copies * seconds * (len(clock.times) - 2) / (clock.times[-1] - clock.times[1])))
    envs.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *(int(argument) for argument in sys.argv[3:]))
