"""`factorax train` with presets: defaults that options override, and that a run folder does not depend on."""

import json
import shutil
from pathlib import Path

import pytest

from factorax import runs
from factorax.ppo import Config, FactoredPPO
from factorax.ppo.presets import read_preset, settings_with

SMALL = {"n_envs": 4, "n_steps": 8, "batch_size": 32, "n_epochs": 1, "hidden": (4,), "total_timesteps": 64}
OPTIONS = ["--n-envs", 4, "--n-steps", 8, "--batch-size", 32, "--n-epochs", 1, "--hidden", 4, "--total-timesteps", 64]
USING = "using the preset chain: options override its settings, and --preset none trains without it\n"

pytestmark = pytest.mark.usefixtures("surroundings")


@pytest.fixture
def learnt(monkeypatch):
    """What `runs.train` was called with; nothing is trained."""
    calls = []

    def train(problem, config, out, **options):
        calls.append((problem, config, Path(out), options["network"]))
        raise OSError("no more for now")

    monkeypatch.setattr(runs, "train", train, raising=False)
    return calls


def stored(folder):
    return Config.read(json.loads((Path(folder) / "config.json").read_text())["config"])


@pytest.mark.slow
def test_a_problem_with_a_preset_trains_with_it_and_says_so(factorax):
    code, out, err = factorax("train", "chain:2", *OPTIONS)
    assert (code, err) == (0, "")
    assert out.startswith(USING)
    assert stored("runs/chain-2-factored-0") == Config(**settings_with("chain", SMALL))


@pytest.mark.slow
def test_without_a_preset_nothing_is_said(factorax):
    code, out, _ = factorax("train", "chain:2", *OPTIONS, "--preset", "none")
    assert code == 0
    assert "preset" not in out
    assert stored("runs/chain-2-factored-0") == Config(**SMALL)


def test_a_problem_without_a_preset_has_the_bare_defaults(factorax, learnt):
    _, out, _ = factorax("train", "CartPole-v1")
    assert "preset" not in out
    assert learnt == [("CartPole-v1", Config(), Path("runs/CartPole-v1-factored-0"), "own")]


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [
        (["queues:3x3"], "queues-3x3-factored-0"),
        (["queues:3x3", "--preset", "queues"], "queues-3x3-factored-0"),
        (["--preset=queues", "queues:3x3"], "queues-3x3-factored-0"),
        (["chain:2", "--preset", "queues"], "chain-2-factored-queues-0"),
        (["queues:3x3", "--network", "complete", "--seed", 3], "queues-3x3-factored-complete-3"),
    ],
)
def test_which_preset_network_and_folder(arguments, folder, factorax, learnt):
    factorax("train", *arguments)
    [(_, config, out, network)] = learnt
    seed = 3 if "--seed" in arguments else 0
    assert config == Config(**settings_with("queues", {"seed": seed}))
    assert network == (arguments[2] if "--network" in arguments else "own")
    assert out == Path("runs") / folder


def test_options_override_a_preset_and_are_checked_with_it(factorax, learnt):
    preset = read_preset("queues")
    smaller = preset.config.rollout_steps // 2  # a divisor of the preset's rollout
    factorax("train", "queues:3x3", "--batch-size", smaller, "--anneal", "--seed", 1)
    assert learnt[0][1] == Config(**preset.settings | {"batch_size": smaller, "anneal": (), "seed": 1})
    code, _, err = factorax("train", "queues:3x3", "--batch-size", 7)
    assert code != 0
    assert f"want a divisor of n_envs × n_steps = {preset.config.rollout_steps}" in " ".join(
        err.replace("│", "").split()
    )


@pytest.mark.parametrize(
    ("arguments", "preset"),
    [
        (["chain:8"], "chain"),
        (["--hidden", "8", "8", "--preset", "none", "chain:8"], "none"),
        (["--seed=3", "chain:8", "--preset=queues"], "queues"),
        (["--out", "queues", "--no-check-network", "chain:8"], "chain"),
        (["--distribution", "scale,initial_log_std=-1", "--normalize_obs", "chain:8"], "chain"),
    ],
)
def test_the_preset_is_found_wherever_it_is_named(arguments, preset, factorax, learnt):
    factorax("train", *arguments)
    options = {"--hidden": {"hidden": (8, 8)}, "--seed=3": {"seed": 3}, "--out": {"check_network": False}}
    options["--distribution"] = {"distribution": "scale,initial_log_std=-1", "normalize_obs": True}
    assert learnt[0][1] == Config(**settings_with(preset, options.get(arguments[0], {})))


def test_an_option_with_the_default_of_the_library_overrides_a_preset(factorax, learnt):
    default = Config().learning_rate
    assert read_preset("queues").config.learning_rate != default
    factorax("train", "queues:3x3", "--learning-rate", default)
    assert learnt[0][1].learning_rate == default


@pytest.mark.slow
def test_the_same_command_resumes(factorax):
    command = ["train", "chain:2", *OPTIONS]
    assert factorax(*command)[0] == 0
    metrics = runs.read_metrics(Path("runs/chain-2-factored-0"))
    code, out, err = factorax(*command)
    assert (code, err) == (0, "")
    assert "64 steps" in out
    assert runs.read_metrics(Path("runs/chain-2-factored-0")) == metrics


@pytest.mark.slow
def test_a_run_from_before_presets_resumes_without_one(factorax):
    """And with the preset the error says so; the folder is unchanged."""
    folder = Path("runs/chain-2-factored-0")
    runs.train("chain:2", Config(**SMALL), folder)
    before = (folder / "config.json").read_bytes()
    code, _, err = factorax("train", "chain:2", *OPTIONS)
    assert code == 2
    assert "contains a run with other settings" in err
    assert "A run that was started without the preset chain resumes with --preset none" in err
    assert (folder / "config.json").read_bytes() == before
    code, _, err = factorax("train", "chain:2", *OPTIONS, "--preset", "none")
    assert (code, err) == (0, "")
    shutil.rmtree(folder)
    assert factorax("train", "chain:2", *OPTIONS)[0] == 0
    code, _, err = factorax("train", "chain:2", *OPTIONS, "--preset", "none")
    assert code == 2
    assert "A run that was started with the preset chain resumes with --preset chain" in err


@pytest.mark.slow
def test_several_seeds_with_a_preset(factorax):
    code, out, err = factorax("train", "chain:2", *OPTIONS, "--seeds", 2)
    assert (code, err) == (0, "")
    assert out.startswith(USING)
    assert stored("runs/chain-2-factored-1") == Config(**settings_with("chain", SMALL | {"seed": 1}))


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["queues"])  # on the others, the defaults are as good
def test_other_presets_beat_the_bare_defaults(name, factorax):
    """With as many steps, every seed of three beats all three: by chance, of equal ones, once in twenty times."""
    problem = {"chain": "chain:8", "queues": "queues:4x4", "contextual-bandit": "contextual-bandit:8"}[name]
    steps = read_preset(name).config.total_timesteps
    scores = {}
    for preset in (name, "none"):
        code, *_ = factorax(
            "train", problem, "--preset", preset, "--seeds", 3, "--out", preset, "--total-timesteps", steps
        )
        assert code == 0
        models = [FactoredPPO.load(Path(preset) / f"seed-{i}") for i in range(3)]
        scores[preset] = [model.evaluate(200, deterministic=False)["return"] for model in models]
    print(scores)
    assert min(scores[name]) > max(scores["none"])


def test_as_many_environments_as_a_vector_environment_has(factorax, learnt, tmp_path, monkeypatch):
    carts = "def carts(): return gym.make_vec('CartPole-v1', num_envs=3)"
    (tmp_path / "of_carts.py").write_text(f"import gymnasium as gym\n{carts}\ndef fails(): raise KeyError\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for arguments in (["of_carts:carts"], ["of_carts:carts", "--n-envs", 6], ["of_carts:fails"], ["CartPole-v1"]):
        factorax("train", *arguments)
    assert [config.n_envs for _, config, *_ in learnt] == [3, 6, 8, 8]
