"""Third-party JAX environments: PPO on Gymnax's CartPole compared with Rejax, with the same settings.

Both run complete updates, including rollouts, in compiled programs: two tanh layers of 64 units for the policy and the
critic, Adam, the same numbers of environments, steps, epochs and minibatches, normalised advantages, clipped ratios and
values. Ours also separates truncation from termination and computes metrics; Rejax does neither. Gymnax and Rejax are
optional: without them (``pip install 'factorax[bench]'``) the rows are left out.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax

from factorax._lazy import import_quietly
from factorax.integrations import from_gymnax
from factorax.ppo import Compiled, Config, Learner

from .timing import Row, at_least, cpu_medians, repeated

SIZES = (((8, 256, 64), 1.1), ((64, 64, 512), 1.3), ((512, 32, 4096), 1.3))
"""Environments, steps per rollout, minibatch size, and the required speed-up over Rejax."""
EPOCHS, RATE, CLIP, ENTROPY, NORM = 10, 3e-4, 0.2, 0.01, 0.5
UPDATES = 5
"""Number of updates timed together."""


def ours(n_envs: int, n_steps: int, batch_size: int) -> Callable[[], Any]:
    config = Config(
        n_envs=n_envs,
        n_steps=n_steps,
        batch_size=batch_size,
        n_epochs=EPOCHS,
        learning_rate=RATE,
        clip_range=CLIP,
        clip_range_vf=CLIP,
        ent_coef=ENTROPY,
        max_grad_norm=NORM,
        hidden=(64, 64),
    )
    learner = Learner.of(from_gymnax("CartPole-v1"), None, config)
    compiled = Compiled(learner)
    state, _ = compiled.updates(learner.init(0))

    def run() -> None:
        nonlocal state
        state, _ = compiled.updates(state, UPDATES)
        jax.block_until_ready(state.timesteps)

    return run


def rejax(n_envs: int, n_steps: int, batch_size: int) -> Callable[[], Any]:
    """Return Rejax's own `train`, without evaluations."""
    gymnax = import_quietly("gymnax")

    env, params = gymnax.make("CartPole-v1")

    class FiveValues(type(env)):
        """The environment in the interface of Gymnax before 1.0, which Rejax expects."""

        def step(self, key: Any, state: Any, action: Any, params: Any) -> Any:  # pyright: ignore
            obs, state, reward, terminated, truncated, info = super().step(key, state, action, params)
            return obs, state, reward, terminated | truncated, info

    steps = n_envs * n_steps
    algorithm = (
        import_quietly("rejax")
        .PPO.create(
            env=FiveValues(),
            env_params=params,
            agent_kwargs={"activation": "tanh", "hidden_layer_sizes": (64, 64)},
            num_envs=n_envs,
            num_steps=n_steps,
            num_minibatches=steps // batch_size,
            num_epochs=EPOCHS,
            learning_rate=RATE,
            clip_eps=CLIP,
            ent_coef=ENTROPY,
            max_grad_norm=NORM,
            total_timesteps=UPDATES * steps,
            eval_freq=UPDATES * steps,
            skip_initial_evaluation=True,
        )
        .replace(eval_callback=lambda algorithm, state, key: ())
    )
    train = jax.jit(lambda state: algorithm.train(train_state=state)[0])
    state = algorithm.init_state(jax.random.key(0))

    def run() -> None:
        nonlocal state
        state = jax.block_until_ready(train(state))

    return run


def rows() -> Iterator[Row]:
    try:
        import_quietly("rejax")
    except ImportError:
        print("Rejax is left out: it is not installed; pip install 'factorax[bench]'")
        return
    for size, bound in SIZES:
        n_envs, n_steps, batch_size = size
        steps = UPDATES * n_envs * n_steps
        name = f"PPO, Gymnax CartPole, {n_envs} environments × {n_steps}, minibatches of {batch_size:,}"
        programs = ours(*size), rejax(*size)

        def measure(name: str = name, steps: int = steps, programs: Any = programs, bound: float = bound) -> list[Row]:
            mine, theirs = cpu_medians(*programs, repeats=5)
            return [at_least(name, steps / mine, steps / theirs, "Rejax; CPU time", bound, "steps/s")]

        yield from repeated(measure, runs=3, tolerance=0.03)
