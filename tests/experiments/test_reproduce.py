"""All seven experiments from end to end at tiny sizes: what they leave, what they refuse, and how they continue."""

import dataclasses
import functools
import importlib
import io
import json
import shutil
import threading

import jax
import numpy as np
import pytest
from matplotlib import image
from rich.console import Console

import factorax
from factorax.experiments import BANDITS, NAMES, experiment, figures, find, parts
from factorax.experiments.engine import Learner
from factorax.experiments.experiment import reproduce
from factorax.experiments.search_throughput import LABELS
from factorax.experiments.table import read_csv, write_csv

SIZES = {"seeds": 2, "steps": 40, "every": 10}
TINY = {
    "search-baselines": SIZES | {"n": 3, "step_size": 50.0},
    "search-throughput": {"n": 3, "seeds": 2, "steps": 40, "naive_fraction": 4},
    "search-aliasing": SIZES | {"n": 3},
    "search-stability": SIZES | {"dimensions": (3,), "step_sizes": (0.01, 50.0)},
    "search-rate": SIZES | {"dimensions": (3,), "step_sizes": (1.0,), "tolerance": 2.0},
    "search-discrepancy": SIZES | {"dimensions": (3,), "step_sizes": (0.1, 1.0)},
    "variance-decomposition": {"dimensions": (2,), "samples": 200, "batches": 4},
}
ROWS = {
    "search-baselines": 6 * 2 * 5,  # methods, VPG with two step sizes; seeds; records
    "search-throughput": 6 * 2,
    "search-aliasing": 2 * 2 * 5,
    "search-stability": 2 * 2 * 2,  # methods, step sizes, seeds
    "search-rate": 2 * 2,
    "search-discrepancy": 2 * 2 * 2 * 2,
    "variance-decomposition": 2 * 4 * 4,
}
VALUES = ("gap", "squared_error", "iterations_per_second", "value")
FILES = ["config.json", "data.csv", "figure.pdf", "figure.png", "summary.json"]
DETERMINED = [name for name in BANDITS if name != "search-throughput"]  # it measures time
A_MINUTE = 60.0  # for what comes at once, or never

every_experiment = pytest.mark.parametrize("name", BANDITS)


def settings(name, **changes):
    module = importlib.import_module("factorax.experiments." + name.replace("-", "_"))
    return module.Settings(**TINY[name] | changes)


def go(name, out, *, settings=settings, **options):
    """Run an experiment at its tiny size; options ``parts`` and the like replace what it is made of."""
    changed = {key: options.pop(key) for key in ("parts", "summarise") if key in options}
    small = settings(name) if callable(settings) else settings
    quiet = Console(file=io.StringIO())
    return reproduce(dataclasses.replace(find(name), **changed), settings=small, out=out, console=quiet, **options)


def no_parts(settings, seed):
    def compute(*arguments):
        raise AssertionError("computed what was there")

    return [parts.Part("nothing", 1.0, compute)]


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def strict(path):
    """JSON as the standard has it: no NaN, no Infinity."""

    def refuse(constant):
        raise AssertionError(f"{path} has {constant}")

    return json.loads(path.read_bytes(), parse_constant=refuse)


compile_anew = jax.jit


@functools.cache
def _compiled(problem, *rest):
    return compile_anew(Learner(problem.make, *rest).advance, static_argnames="steps")


@pytest.fixture(scope="module", autouse=True)
def shared():
    """To compile takes longer than to run: sweeps of one problem and method share what was compiled."""

    def jit(function, **options):
        learner = getattr(function, "__self__", None)
        problem = getattr(learner.make, "__self__", None) if isinstance(learner, Learner) else None
        if problem is None:
            return compile_anew(function, **options)
        return _compiled(problem, learner.method, learner.tolerance, learner.measure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "jit", jit)
        yield
    _compiled.cache_clear()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Folders of experiments that were run once, to look at; `copied` gives one to work in."""

    @functools.cache
    def folder(name):
        out = tmp_path_factory.mktemp(name) / "new" / "folder"
        go(name, out)
        return out

    return folder


@pytest.fixture
def copied(finished, tmp_path):
    return lambda name: shutil.copytree(finished(name), tmp_path / name)


@pytest.fixture
def undrawn(monkeypatch):
    """Most of the time goes into figures."""
    monkeypatch.setattr(experiment, "_save_figure", lambda figure, out: None)


@every_experiment
def test_it_leaves_five_files_and_no_others(name, finished):
    out = finished(name)
    assert sorted(contents(out)) == FILES
    assert not (out / "parts").exists()
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert (out / "figure.pdf").read_bytes().startswith(b"%PDF-")
    assert b"%%EOF" in (out / "figure.pdf").read_bytes()[-8:]
    pixels = image.imread(out / "figure.png")
    assert min(pixels.shape[:2]) > 400
    assert len(np.unique(pixels[..., :3].sum(axis=-1))) > 50  # more than an empty frame


@every_experiment
def test_the_config_says_how_to_do_it_again(name, finished):
    config = strict(finished(name) / "config.json")
    assert config["format"] == experiment.FORMAT
    assert (config["experiment"], config["budget"], config["seed"]) == (name, "custom", 0)
    want = dataclasses.asdict(settings(name))
    assert config["settings"] == {key: list(x) if isinstance(x, tuple) else x for key, x in want.items()}
    versions = config["made_with"]
    assert (versions["factorax"], versions["jax"]) == (factorax.__version__, jax.__version__)
    assert versions.keys() == {"factorax", "jax", "numpy", "python", "device"}
    assert all(versions.values())


@every_experiment
def test_the_summary_is_strict_and_its_claims_complete(name, finished):
    summary = strict(finished(name) / "summary.json")
    assert summary["experiment"] == name
    assert summary["figures"]
    assert summary["claims"]
    for row in summary["claims"]:
        assert all(row[key].strip() for key in ("claim", "where", "paper", "ours", "command"))
        assert row["verdict"] in ("holds", "holds in part", "does not hold")
        assert row["command"].startswith(f"factorax reproduce {name} ")


@pytest.mark.parametrize("hole", [float("nan"), float("inf")])
def test_a_summary_with_holes_is_not_written(hole, copied):
    out = copied("search-aliasing")
    before = contents(out)

    def summarise(settings, table):
        return find("search-aliasing").summarise(settings, table) | {"hole": hole}

    with pytest.raises(ValueError, match="not JSON compliant"):
        go("search-aliasing", out, summarise=summarise)
    assert contents(out) == before


@pytest.mark.usefixtures("undrawn")
@every_experiment
def test_what_comes_back_is_the_summary(name, copied):
    out = copied(name)
    assert json.loads(json.dumps(go(name, out, plot_only=True))) == strict(out / "summary.json")["figures"]


@every_experiment
def test_the_data_has_a_row_for_everything_and_no_holes(name, finished):
    table = read_csv(finished(name) / "data.csv")
    assert {len(column) for column in table.values()} == {ROWS[name]}
    for column in table.values():
        assert column.dtype.kind in "ifU"
        assert column.dtype.kind == "U" or not np.isnan(column).any()
    keys = [column for column in table if column not in (*VALUES, "diverged", "reached", "exact")]
    assert len(set(zip(*(table[key].tolist() for key in keys), strict=True))) == ROWS[name]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", DETERMINED)
def test_the_seed_determines_the_data_to_the_byte(name, finished, tmp_path):
    want = (finished(name) / "data.csv").read_bytes()
    go(name, tmp_path / "same")
    assert (tmp_path / "same" / "data.csv").read_bytes() == want
    go(name, tmp_path / "other", seed=1)
    got = (tmp_path / "other" / "data.csv").read_bytes()
    assert got != want
    assert got.count(b"\n") == want.count(b"\n")


@every_experiment
def test_a_second_call_changes_nothing(name, copied):
    out = copied(name)
    before = contents(out)
    go(name, out, parts=no_parts)
    assert contents(out) == before


def test_what_is_missing_is_made_from_the_data(copied):
    out = copied("search-baselines")
    before = contents(out)
    for file in ("summary.json", "figure.png", "figure.pdf"):
        (out / file).unlink()
    go("search-baselines", out, parts=no_parts)
    assert contents(out) == before


@pytest.mark.parametrize("name", ["search-aliasing", "search-throughput", "search-rate", "variance-decomposition"])
def test_plot_only_takes_the_data_as_it_finds_it(name, copied):
    out = copied(name)
    before = contents(out)
    table = read_csv(out / "data.csv")
    for column in {*VALUES, "reached"} & set(table):
        table[column] = np.where(table[column] > 0, 3 * table[column], table[column])
    write_csv(out / "data.csv", table)
    edited = (out / "data.csv").read_bytes()
    go(name, out, plot_only=True, parts=no_parts)
    after = contents(out)
    assert after["data.csv"] == edited
    assert after["config.json"] == before["config.json"]
    for file in ("summary.json", "figure.png", "figure.pdf"):
        assert after[file] != before[file]
    assert sorted(after) == FILES


@pytest.mark.usefixtures("undrawn")
def test_plot_only_triples_what_was_tripled(copied):
    out = copied("search-throughput")
    table = read_csv(out / "data.csv")
    before = go("search-throughput", out)["methods"]
    write_csv(out / "data.csv", table | {"iterations_per_second": 3 * table["iterations_per_second"]})
    after = go("search-throughput", out, plot_only=True)["methods"]
    for label in LABELS:
        ours, theirs = (entry[label]["iterations per second"] for entry in (after, before))
        np.testing.assert_allclose([*ours.values()], 3 * np.array([*theirs.values()]), rtol=1e-6)
        assert after[label]["of VPG"] == pytest.approx(before[label]["of VPG"], rel=1e-9)


def test_plot_only_needs_data(tmp_path, copied):
    with pytest.raises(FileNotFoundError, match=r"out: no data\.csv in '.*nowhere' to draw"):
        go("search-aliasing", tmp_path / "nowhere", plot_only=True)
    assert not (tmp_path / "nowhere").exists()
    out = copied("search-aliasing")
    (out / "data.csv").unlink()
    before = contents(out)
    with pytest.raises(FileNotFoundError, match=r"no data\.csv"):
        go("search-aliasing", out, plot_only=True)
    assert contents(out) == before


ASKED = {
    "another experiment": ({"name": "search-baselines"}, "holds search-aliasing; nothing was changed"),
    "another seed": ({"seed": 1}, "holds search-aliasing with seed 0, not 1; nothing was changed"),
    "other settings": (
        {"settings": lambda name: settings(name, n=4)},
        r"holds search-aliasing with settings \{.*; nothing was changed",
    ),
    "a budget": ({"settings": None, "budget": "quick"}, 'with budget "custom", not "quick"'),
}


@pytest.mark.parametrize("asked", ASKED)
def test_a_folder_of_something_else_is_refused_and_left_as_it_was(asked, copied):
    out = copied("search-aliasing")
    before = contents(out)
    options, message = ASKED[asked]
    with pytest.raises(FileExistsError, match=message):
        go(**{"name": "search-aliasing"} | options, out=out, parts=no_parts)
    assert contents(out) == before


def test_plot_only_refuses_the_data_of_another_experiment(copied):
    out = copied("search-aliasing")
    before = contents(out)
    with pytest.raises(FileExistsError, match="holds search-aliasing; nothing was changed"):
        go("search-baselines", out, plot_only=True)
    assert contents(out) == before


@pytest.mark.parametrize("asked", [asked for asked in ASKED if asked != "another experiment"])
def test_plot_only_takes_seed_and_settings_from_the_folder(asked, copied):
    out = copied("search-aliasing")
    before = contents(out)
    go(**{"name": "search-aliasing"} | ASKED[asked][0], out=out, plot_only=True, parts=no_parts)
    assert contents(out) == before


@pytest.mark.parametrize("config", [None, b"{", b'{"format": 1}'])
def test_plot_only_needs_to_know_what_the_data_is_of(config, copied):
    out = copied("search-aliasing")
    (out / "config.json").unlink()
    if config is not None:
        (out / "config.json").write_bytes(config)
    before = contents(out)
    with pytest.raises((ValueError, OSError), match=r"out: .*config\.json"):
        go("search-aliasing", out, plot_only=True)
    assert contents(out) == before


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("notes.txt", b"mine", "holds files that are not an experiment's; give another folder"),
        ("data.csv", b"n,gap\n1,2\n", "holds files that are not an experiment's"),
        ("config.json", b"{", r"config\.json is damaged .*give another folder"),
        ("config.json", b"[]", r"config\.json is damaged"),
        ("config.json", b'{"format": 1, "experiment": "search-aliasing"}', r"config\.json is damaged"),
        ("config.json", b"\xff", r"config\.json is damaged"),
    ],
)
def test_a_foreign_folder_is_refused_and_left_as_it_was(file, content, message, tmp_path):
    (tmp_path / file).write_bytes(content)
    with pytest.raises((FileExistsError, ValueError), match=message):
        go("search-aliasing", tmp_path)
    assert contents(tmp_path) == {file: content}


def test_a_file_for_a_folder_is_refused(tmp_path):
    path = tmp_path / "thesis.pdf"
    path.write_bytes(b"%PDF-")
    with pytest.raises(FileExistsError, match=r"out: '.*thesis\.pdf' is a file; give a folder"):
        go("search-aliasing", path)
    assert contents(tmp_path) == {"thesis.pdf": b"%PDF-"}


@pytest.mark.usefixtures("undrawn")
def test_an_empty_folder_is_taken(tmp_path, finished):
    go("search-aliasing", tmp_path)
    assert (tmp_path / "data.csv").read_bytes() == (finished("search-aliasing") / "data.csv").read_bytes()


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", ["search-aliasing", "variance-decomposition"])
def test_the_largest_seed_will_do(name, tmp_path):
    go(name, tmp_path / "large", seed=2**32 - 1)
    go(name, tmp_path / "half", seed=2**31 - 1)  # another one, even to those who count in 31 bits
    assert (tmp_path / "large" / "data.csv").read_bytes() != (tmp_path / "half" / "data.csv").read_bytes()


def test_an_unknown_budget_makes_no_folder(tmp_path):
    with pytest.raises(ValueError, match="budget: got 'huge', want one of quick, paper"):
        reproduce(find("search-rate"), budget="huge", out=tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bad", [{"settings": settings("search-aliasing", every=3)}, {"seed": -1}], ids=str)
def test_what_cannot_be_run_makes_no_folder(bad, tmp_path):
    with pytest.raises(ValueError, match=r"every|seed|negative"):
        go("search-aliasing", tmp_path / "out", **bad)
    assert not list(tmp_path.iterdir())


def observed(name, under_way=None):
    """The parts of an experiment, and the fractions that each has told; they wait at half-time to be stopped."""
    told = {}

    def watched(index, part):
        def compute(checkpoint, tick, stop):
            def tell(fraction):
                tick(fraction)
                told.setdefault(index, []).append(fraction)
                if under_way and fraction >= 0.5:
                    under_way.release()
                    assert stop.wait(A_MINUTE)

            return part.compute(checkpoint, tell, stop)

        return dataclasses.replace(part, compute=compute)

    make = find(name).parts
    return told, lambda settings, seed: [watched(i, part) for i, part in enumerate(make(settings, seed))]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", DETERMINED)
def test_stopped_and_continued_leaves_no_trace(name, finished, tmp_path, monkeypatch):
    out, under_way = tmp_path / "out", threading.Semaphore(0)

    def ctrl_c(futures, return_when):
        assert under_way.acquire(timeout=A_MINUTE)
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(parts, "wait", ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            go(name, out, parts=observed(name, under_way)[1])
    assert not (out / "data.csv").exists()
    kept = {path.name for path in (out / "parts").iterdir()}
    assert kept or name == "variance-decomposition"  # which is short, and begins its parts anew
    told, watched = observed(name)
    go(name, out, parts=watched)
    assert told
    for index, fractions in told.items():
        assert f"{index:03d}.npz" not in kept
        assert (fractions[0] > 0.25) == (f"{index:03d}.partial.npz" in kept)
    assert (out / "data.csv").read_bytes() == (finished(name) / "data.csv").read_bytes()
    assert not (out / "parts").exists()


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("no space left on device")], ids=repr)
def test_what_is_computed_is_not_lost_when_the_data_cannot_be_written(error, finished, tmp_path, monkeypatch):
    def fail(path, table):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(experiment, "write_csv", fail)
        with pytest.raises(type(error)):
            go("search-aliasing", tmp_path / "out")
    assert sorted(contents(tmp_path / "out")) == ["config.json", "parts/000.npz", "parts/001.npz"]
    told, watched = observed("search-aliasing")
    go("search-aliasing", tmp_path / "out", parts=watched)
    assert not told
    assert (tmp_path / "out" / "data.csv").read_bytes() == (finished("search-aliasing") / "data.csv").read_bytes()


@pytest.mark.usefixtures("undrawn")
def test_parts_are_gone_even_if_it_was_stopped_just_before(tmp_path, monkeypatch):
    def ctrl_c(path, ignore_errors):
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(shutil, "rmtree", ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            go("search-aliasing", tmp_path / "out")
    go("search-aliasing", tmp_path / "out")
    assert not (tmp_path / "out" / "parts").exists()


def test_diverged_runs_are_marked_and_counted(finished):
    table = read_csv(finished("search-stability") / "data.csv")
    np.testing.assert_array_equal(table["diverged"], np.where(np.isfinite(table["gap"]), 0, 1))
    assert set(table["diverged"]) == {0, 1}
    assert (table["gap"][table["diverged"] == 1] == np.inf).all()
    cells = strict(finished("search-stability") / "summary.json")["figures"]["cells"]
    assert len(cells) == 4
    for cell in cells:
        ours = np.all([table[key] == cell[key] for key in ("method", "n", "step_size")], axis=0)
        assert (cell["runs"], cell["diverged"]) == (2, table["diverged"][ours].sum())
        assert cell["usable"] == cell["runs"] - cell["diverged"]
        assert (cell["mean"] is None) == (cell["usable"] == 0)
    assert any(cell["mean"] is None for cell in cells)
    assert any(cell["mean"] for cell in cells)


@pytest.mark.parametrize("name", [name for name in DETERMINED if name != "variance-decomposition"])
def test_a_figure_is_drawn_even_if_everything_diverges(name, copied):
    out = copied(name)
    table = read_csv(out / "data.csv")
    late = table["step"] > 0 if "step" in table else np.full(ROWS[name], True)
    for column in {"gap", "squared_error"} & set(table):
        table[column] = np.where(late, np.inf, table[column])
    table |= {key: np.full(ROWS[name], value) for key, value in {"diverged": 1, "reached": -1}.items() if key in table}
    write_csv(out / "data.csv", table)
    (out / "figure.png").unlink()
    go(name, out, plot_only=True)
    assert (out / "figure.png").stat().st_size > 5000
    for row in strict(out / "summary.json")["claims"]:
        assert row["verdict"] in ("holds", "holds in part", "does not hold")


@every_experiment
@pytest.mark.parametrize("budget", ["quick", "paper"])
def test_the_budgets_are_made_of_parts_that_can_be_told_apart(name, budget):
    assert find(name).budgets.keys() == {"quick", "paper"}
    todo = find(name).parts(find(name).budgets[budget], 0)
    assert all(part.cost > 0 for part in todo)
    assert len({part.name for part in todo}) == len(todo) > 1


def test_every_experiment_has_a_name_and_a_place():
    assert [find(name).name for name in NAMES] == list(NAMES)
    assert len({find(name).paper for name in BANDITS}) == len({find(name).title for name in BANDITS}) == 7


@pytest.mark.parametrize("name", ["", "search_rate", "rate", "factorax"])
def test_an_unknown_experiment_is_told_which_there_are(name):
    with pytest.raises(ValueError, match=f"unknown experiment '{name}'.*There are: {', '.join(NAMES)}"):
        find(name)


def test_a_slip_of_the_pen_is_told_what_was_meant():
    with pytest.raises(ValueError, match=r"did you mean search-stability\?"):
        find("search-stabilty")


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (0, "0"),
        (0.00004, "4e-5"),
        (0.0351, "0.035"),
        (1.26, "1.3"),
        (42.4, "42"),
        (123.4, "123"),
        (999.7, "1k"),
        (1300, "1.3k"),
        (42_000, "42k"),
        (500_000, "500k"),
    ],
)
def test_numbers_in_cells_are_short(value, want):
    assert figures.short(value) == want
