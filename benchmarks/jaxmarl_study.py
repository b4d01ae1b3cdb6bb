"""Factored PPO and JaxMARL's own IPPO and MAPPO, in the same run: `python -m benchmarks.jaxmarl_study --help`.

- ``spread``: MPE_simple_spread_v3, 3 agents. Ours has the agents' rewards as targets.
- ``ant``: MABrax ant_4x2, 4 agents with 2 joints each. All agents get the same reward there; ours has the terms of
  Brax's reward as targets, with the control cost of every agent as one of its own.

Our settings are those of JaxMARL's IPPO for the task, read from its files: numbers of environments, steps, epochs and
minibatches, learning rate and its decay, γ, λ, clipping, layers of 64 and 64, no bootstrapping at a time limit, actions
without bounds. MAPPO has its own settings. Seeds train side by side, for the same number of steps. The last policies of
all methods are played by the same function, with sampled actions.

``python -m benchmarks.jaxmarl_study spread ant --jaxmarl FOLDER`` trains, and writes ``benchmarks/jaxmarl_study.json``
after every method; ``… draw FILE…`` merges such files, prints the tables and draws ``docs/images/jaxmarl_study.png``.
"""

import argparse
import dataclasses
import json
import time
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from factorax import Factorisation, InfluenceNetwork
from factorax.integrations import from_brax, from_jaxmarl
from factorax.learning import Config, Learner, Program
from factorax.learning.modules.mlp import MLP
from factorax.problems import Problem

from . import jaxmarl_baselines as baselines

RESULTS = Path(__file__).with_suffix(".json")
FIGURE = Path(__file__).parent.parent / "docs" / "images" / "jaxmarl_study.png"
MOST_POINTS = 100
"""Points of a learning curve in the file."""


@dataclasses.dataclass(frozen=True)
class Run:
    """What the command line asks for."""

    checkout: Path
    steps: int
    seeds: int
    episodes: int


# ---- ours -------------------------------------------------------------------------------------------------


def config_like(theirs: dict[str, Any], agents: int, steps: int, **more: Any) -> Config:
    """Our settings that mean what JaxMARL's mean.

    Their loss is a mean over agents and ours a sum, and their value loss has a factor ½ that ours has not: hence n in
    the weight of the value loss and in the limit of the gradient.
    """
    n_envs, n_steps = int(theirs["NUM_ENVS"]), int(theirs["NUM_STEPS"])
    settings: dict[str, Any] = {
        "total_timesteps": steps // (n_envs * n_steps) * n_envs * n_steps,
        "n_envs": n_envs,
        "n_steps": n_steps,
        "batch_size": n_envs * n_steps // int(theirs["NUM_MINIBATCHES"]),
        "n_epochs": int(theirs["UPDATE_EPOCHS"]),
        "learning_rate": theirs["LR"],
        "anneal": ("learning_rate",) if theirs["ANNEAL_LR"] else (),
        "gamma": theirs["GAMMA"],
        "gae_lambda": theirs["GAE_LAMBDA"],
        "clip_range": theirs["CLIP_EPS"],
        "clip_range_vf": theirs["CLIP_EPS"],
        "ent_coef": theirs["ENT_COEF"],
        "vf_coef": agents * theirs["VF_COEF"] / 2,
        "max_grad_norm": agents * theirs["MAX_GRAD_NORM"],
        "activation": theirs["ACTIVATION"],
        "hidden": (64, 64),
        "policy": "shared",
        "identity": 0,
        "bootstrap": "never",
        "check_network": False,
    }
    return Config(**settings | more)


def train(problem: Problem, config: Config, run: Run, policy: Any = None) -> dict[str, Any]:
    """The learning curves of our method, and the returns of its last policies."""
    start = time.perf_counter()
    with warnings.catch_warnings(action="ignore"):  # that K is dense, and actions without bounds are meant
        learner = Learner.of(problem, None, config, policy=policy)
    program = Program(learner)
    states = eqx.filter_vmap(learner.init)(jnp.arange(run.seeds))
    returns = []
    for _ in range(config.total_timesteps // config.rollout_steps):
        states, metrics = program.update_seeds(states)
        returns.append(metrics["rollout/ep_rew_mean"])
    returns = np.stack([np.asarray(each) for each in returns], axis=1)
    seconds = time.perf_counter() - start

    def act(state: Any, key: jax.Array, obs: jax.Array, memory: Any) -> Any:
        return learner.spec.components.to_environment(learner.act(state, key, obs), jnp), memory

    arrays, rest = eqx.partition(states, eqx.is_array)
    final = play(problem, lambda arrays, *more: act(eqx.combine(arrays, rest), *more), None, arrays, run.episodes)
    return result(returns, final, seconds, config.rollout_steps)


class PerAgent(eqx.Module):
    """A perceptron that all agents share, from what an agent sees to the means of its joints, as JaxMARL's."""

    net: MLP
    joints: int = eqx.field(static=True)

    def __call__(self, obs: Any, local: jax.Array) -> jax.Array:
        return self.net(local[:: self.joints]).reshape(-1, 1)

    @classmethod
    def of(cls, spec: Any, key: jax.Array, joints: int, seen: int) -> "PerAgent":
        return cls(MLP(key, (seen, 64, 64, joints), 0.01), joints)


# ---- the same evaluation for all --------------------------------------------------------------------------


def play(
    problem: Problem, act: Callable[..., Any], memory: Any, parameters: Any, episodes: int, steps: int = 1000
) -> np.ndarray:
    """Mean returns λ·ψ, one for every seed, of episodes with sampled actions; none has more steps than this."""
    weights = jnp.asarray(problem.weights, jnp.float32)
    steps = 25 if "MPE" in problem.name else steps

    def episode(parameters: Any, key: jax.Array) -> jax.Array:
        for_reset, for_steps = jax.random.split(key)
        state, obs = problem.reset(for_reset)

        def step(carry: Any, key: jax.Array) -> Any:
            state, obs, memory, total, goes_on = carry
            for_action, for_step = jax.random.split(key)
            action, memory = act(parameters, for_action, obs, memory)
            new = problem.step(for_step, state, action)
            total = total + jnp.where(goes_on, new.psi @ weights, 0.0)
            return (new.state, new.obs, memory, total, goes_on & ~(new.terminated | new.truncated)), None

        start = (state, obs, memory, jnp.float32(0), jnp.array(True))
        return jax.lax.scan(step, start, jax.random.split(for_steps, steps))[0][3]

    # Episodes of its own for every seed, so that intervals over seeds include the chance in them.
    seeds = len(jax.tree.leaves(parameters)[0])
    keys = jax.random.split(jax.random.key(12345), (seeds, episodes))
    means = lambda parameters, keys: jax.vmap(lambda key: episode(parameters, key))(keys).mean()  # noqa: E731
    return np.asarray(jax.jit(jax.vmap(means))(parameters, keys))


def train_theirs(problem: Problem, name: str, run: Run) -> dict[str, Any]:
    """The learning curves of a baseline of JaxMARL, and the returns of its last policies."""
    start = time.perf_counter()
    trained = baselines.train(run.checkout, name, run.steps, run.seeds)
    seconds = time.perf_counter() - start
    assert problem.local is not None
    n = problem.local(jnp.zeros(problem.observation_space.shape)).shape[0]

    def act(parameters: Any, key: jax.Array, obs: jax.Array, memory: Any) -> Any:
        assert problem.local is not None
        action, memory = trained.act(parameters, key, problem.local(obs), memory)
        return action.reshape(-1), memory

    final = play(problem, act, trained.memory(n), trained.parameters, run.episodes)
    settings = baselines.settings_of(run.checkout, name)
    return result(trained.curve, final, seconds, int(settings["NUM_ENVS"]) * int(settings["NUM_STEPS"]))


def result(returns: np.ndarray, final: np.ndarray, seconds: float, rollout_steps: int) -> dict[str, Any]:
    """What the file has of a method: curves are means of neighbouring updates, at most `MOST_POINTS` of them."""
    updates = returns.shape[1]
    edges = np.unique(np.linspace(0, updates, min(MOST_POINTS, updates) + 1).astype(int))
    with warnings.catch_warnings(action="ignore"):  # updates in which no episode ended
        points = np.stack([np.nanmean(returns[:, a:b], axis=1) for a, b in pairwise(edges)], axis=1)
    return {
        "final": np.round(final.astype(float), 3).tolist(),
        "seconds": round(seconds, 1),
        "steps": (edges[1:] * rollout_steps).tolist(),
        "curves": [[None if np.isnan(x) else round(float(x), 2) for x in row] for row in points],
    }


# ---- the tasks --------------------------------------------------------------------------------------------


def spread(run: Run) -> dict[str, Callable[[], dict[str, Any]]]:
    """The team's return is the sum of the agents' returns, which is also what JaxMARL's wrapper logs."""
    problem = from_jaxmarl("MPE_simple_spread_v3")
    own = from_jaxmarl("MPE_simple_spread_v3", network=np.eye(3))
    config = config_like(baselines.settings_of(run.checkout, "ippo spread"), 3, run.steps)
    local_critic = dataclasses.replace(config, critic="factor")
    vanilla = dataclasses.replace(config, estimator="vanilla")
    return {
        "JaxMARL IPPO": lambda: train_theirs(problem, "ippo spread", run),
        "own reward, local critic": lambda: train(own, local_critic, run),
        "own reward": lambda: train(own, config, run),
        "complete K": lambda: train(problem, config, run),
        "vanilla": lambda: train(problem, vanilla, run),
        "JaxMARL MAPPO": lambda: train_theirs(problem, "mappo spread", run),  # the slowest by far, and so the last
    }


def ant(run: Run) -> dict[str, Callable[[], dict[str, Any]]]:
    """The team's return is that of Brax's reward."""
    theirs = from_jaxmarl("ant_4x2")
    theirs = dataclasses.replace(theirs, weights=np.full(4, 0.25))  # every agent gets the whole reward
    config = config_like(baselines.settings_of(run.checkout, "ippo ant"), 4, run.steps)
    vanilla = dataclasses.replace(config, estimator="vanilla")

    def ours(network: np.ndarray, config: Config) -> dict[str, Any]:
        problem, policy = ant_by_terms(network)
        return train(problem, config, run, policy)

    by_agent = np.c_[np.ones((4, 1)), np.eye(4), np.ones((4, 2))]  # contact, ctrl of every agent, forward, survive
    return {
        "JaxMARL IPPO": lambda: train_theirs(theirs, "ippo ant", run),
        "own control cost": lambda: ours(by_agent, config),
        "complete K": lambda: ours(np.ones((4, 7)), config),
        "vanilla": lambda: ours(np.ones((4, 7)), vanilla),
    }


def ant_by_terms(by_agent: np.ndarray) -> tuple[Problem, Callable[..., Any]]:
    """Brax's ant with the agents, observations and actions of MABrax ant_4x2, the terms of the reward as targets, and a
    network with a row for every agent; and a function that makes its policy."""
    import jaxmarl
    from brax import envs
    from brax.envs.base import Wrapper

    with warnings.catch_warnings(action="ignore"):
        mabrax: Any = jaxmarl.make("ant_4x2")
        inner = envs.get_environment("ant", backend="positional", ctrl_cost_weight=0.5)
    joints = np.array([np.asarray(indices) for indices in mabrax.agent_action_mapping.values()])
    seen = np.array([np.asarray(indices) for indices in mabrax.agent_obs_mapping.values()])

    class OwnCosts(Wrapper):
        """The control cost of every agent instead of their sum."""

        def reset(self, rng: jax.Array) -> Any:
            return self._split(self.env.reset(rng), jnp.zeros(joints.size))

        def step(self, state: Any, action: jax.Array) -> Any:
            return self._split(self.env.step(state, action), action)

        def _split(self, state: Any, action: jax.Array) -> Any:
            metrics = {name: value for name, value in state.metrics.items() if name != "reward_ctrl"}
            costs = 0.5 * jnp.square(action)[joints].sum(axis=1)
            return state.replace(metrics=metrics | {f"reward_ctrl_{i}": -cost for i, cost in enumerate(costs)})

    agents, size = joints.shape
    group_of = np.empty(joints.size, int)
    group_of[joints] = np.arange(agents)[:, None]
    network = InfluenceNetwork(by_agent[group_of]).factor(Factorisation.from_group_of(group_of))
    problem = from_brax(OwnCosts(inner), network=network)  # plays it, to see that the terms add up to the reward
    unbounded = gym.spaces.Box(-np.inf, np.inf, (joints.size,), np.float32)
    problem = dataclasses.replace(problem, action_space=unbounded, local=lambda obs: obs[..., seen])
    return problem, lambda spec, key: PerAgent.of(spec, key, size, seen.shape[1])


TASKS = {"spread": spread, "ant": ant}
OURS = ["own reward, local critic", "own reward", "own control cost", "complete K", "vanilla"]
ORDER = ["JaxMARL IPPO", "JaxMARL MAPPO", *OURS]
"""Of methods in tables and figures."""
TITLES = {"spread": "MPE simple_spread, 3 agents", "ant": "MABrax ant_4x2"}
STEPS = {"spread": 2_000_000, "ant": 2_000_000}


# ---- files, tables and the figure ---------------------------------------------------------------------------


def versions() -> dict[str, str]:
    found = {}
    for name in ("jax", "jaxmarl", "flax", "distrax", "optax", "equinox", "brax", "mujoco"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def merged(files: list[dict[str, Any]]) -> dict[str, Any]:
    """Results by task; of methods that several files have, those of the last."""
    found: dict[str, Any] = {}
    for file in files:
        for task, results in file.items():
            before = found.get(task, results)
            for setting in ("steps", "seeds", "episodes"):
                if before[setting] != results[setting]:
                    values = f"{before[setting]} and {results[setting]}"
                    raise ValueError(f"{task}: got {setting} {values}, want the same for all; use another --out")
            methods = found.get(task, {}).get("methods", {}) | results["methods"]
            found[task] = results | {"methods": {name: methods[name] for name in sorted(methods, key=ORDER.index)}}
    return found


def interval(samples: Any) -> tuple[float, float]:
    """A mean, and half the width of Student's 95 % interval."""
    samples = np.asarray(samples, float)
    if len(samples) < 2:
        return float(samples.mean()), float("nan")
    error = samples.std(ddof=1) / len(samples) ** 0.5
    return float(samples.mean()), float(stats.t.ppf(0.975, len(samples) - 1) * error)


def verdict(ours: Any, theirs: Any) -> str:
    """Better or worse if Welch's 95 % interval of the difference of means leaves out 0."""
    test: Any = stats.ttest_ind(ours, theirs, equal_var=False)
    if not np.isfinite(test.pvalue) or test.pvalue >= 0.05:
        return "no difference seen"
    return "better" if np.mean(ours) > np.mean(theirs) else "worse"


def print_tables(found: dict[str, Any]) -> None:
    references = {"JaxMARL IPPO": "against IPPO", "JaxMARL MAPPO": "against MAPPO", "vanilla": "against vanilla"}
    for task, results in found.items():
        methods = results["methods"]
        columns = {name: title for name, title in references.items() if name in methods}
        print(f"\n{TITLES[task]}, {results['steps']:,} steps, {results['seeds']} seeds, {results['device']}\n")
        print("|", " | ".join(["method", "return", *columns.values(), "seconds"]), "|")
        print("|" + "---|" * (len(columns) + 3))
        for name, method in methods.items():
            mean, half = interval(method["final"])
            verdicts = ["" if each == name else verdict(method["final"], methods[each]["final"]) for each in columns]
            cells = [name, f"{mean:.1f} ± {half:.1f}".replace("-", "−"), *verdicts, f"{method['seconds']:.0f}"]
            print("|", " | ".join(cells), "|")


def draw(found: dict[str, Any], path: Path) -> None:
    """Learning curves: means over seeds and Student's 95 % intervals."""
    figure, panels = plt.subplots(1, len(found), figsize=(5 * len(found), 3.6), layout="constrained", squeeze=False)
    for panel, (task, results) in zip(panels[0], found.items(), strict=True):
        for name, method in results["methods"].items():
            curves = np.array(method["curves"], float)[:, 1:]  # in the first, episodes have not ended everywhere
            steps = np.array(method["steps"][1:]) / 1e6
            mean, half = curves.mean(axis=0), np.zeros(curves.shape[1])
            if len(curves) > 1:
                error = curves.std(axis=0, ddof=1) / len(curves) ** 0.5
                half = float(stats.t.ppf(0.975, len(curves) - 1)) * error
            style = "--" if name.startswith("JaxMARL") else "-"
            panel.plot(steps, mean, style, label=name)
            panel.fill_between(steps, mean - half, mean + half, alpha=0.2)
        panel.set(title=TITLES[task], xlabel="million steps", ylabel="return of the team")
        panel.legend(loc="lower right", fontsize="small")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("what", nargs="+", help="spread, ant; or draw, and files")
    parser.add_argument("--jaxmarl", type=Path, help="folder of a checkout of JaxMARL")
    parser.add_argument("--methods", nargs="*", default=[], help="beginnings of names of methods; all if left out")
    parser.add_argument("--steps", type=float, help="steps of all environments; the default depends on the task")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--episodes", type=int, help="episodes per seed that the last policies are played")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--figure", type=Path, default=FIGURE)
    given = parser.parse_args()
    if given.what[0] == "draw":
        found = merged([read(Path(file)) for file in given.what[1:]] or [read(given.out)])
        given.out.write_text(json.dumps(found) + "\n", encoding="utf-8")
        print_tables(found)
        draw(found, given.figure)
        return
    if given.jaxmarl is None:
        parser.error("--jaxmarl: left out, want the folder of a checkout of JaxMARL")
    for task in given.what:
        steps = int(given.steps or STEPS[task])
        run = Run(given.jaxmarl, steps, given.seeds, given.episodes or (1000 if task == "spread" else 64))
        about = {"device": jax.devices()[0].device_kind, "versions": versions(), "steps": steps}
        about |= {"seeds": run.seeds, "episodes": run.episodes}
        merged([read(given.out), {task: about | {"methods": {}}}])  # raises now if it will later
        for name, method in TASKS[task](run).items():
            if given.methods and not any(name.startswith(word) for word in given.methods):
                continue
            trained = method()
            found = merged([read(given.out), {task: about | {"methods": {name: trained}}}])
            given.out.write_text(json.dumps(found) + "\n", encoding="utf-8")
            mean, half = interval(trained["final"])
            print(f"{task}: {name}: {mean:.2f} ± {half:.2f}, {trained['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
