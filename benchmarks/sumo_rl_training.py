"""Print the simulated seconds of sumo-rl per second of training with Stable-Baselines3, as one line of JSON.

This is a separate program with its own virtual environment, like `sumo_rl_rate.py`. Arguments: the network, the routes,
the seconds per episode, the seconds between two decisions, the number of simulations, and the number of passes over a
rollout.

This is the usual setup of sumo-rl for several lights: its PettingZoo environment, vectorised by SuperSuit with one row
per light and one process per simulation, and PPO with one policy for all rows. A rollout is one episode of each
simulation, in two minibatches. Everything else is the default of Stable-Baselines3: two layers of 64 units for the
policy and for the critic, on the observation of one light.
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
        """Records the time at the start of each rollout."""

        def __init__(self) -> None:
            super().__init__()
            self.times: list[float] = []

        def _on_rollout_start(self) -> None:
            self.times.append(time.perf_counter())

        def _on_step(self) -> bool:
            return True

    env = made(net, routes, seconds, every)
    env.unwrapped.render_mode = None  # SuperSuit reads this attribute, which sumo-rl lacks
    rows = supersuit.pettingzoo_env_to_vec_env_v1(env)
    envs = supersuit.concat_vec_envs_v1(rows, copies, num_cpus=copies, base_class="stable_baselines3")
    torch.set_num_threads(1)  # two threads were eight times slower
    steps = seconds // every
    size = steps * envs.num_envs
    model = PPO("MlpPolicy", envs, n_steps=steps, batch_size=size // 2, n_epochs=epochs, device="cpu")
    clock = Clock()
    model.learn((rounds + 2) * size, callback=clock)  # the first rollout warms up, and the end of the last is unknown
    print(json.dumps(copies * seconds * (len(clock.times) - 2) / (clock.times[-1] - clock.times[1])))
    envs.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *(int(argument) for argument in sys.argv[3:]))
