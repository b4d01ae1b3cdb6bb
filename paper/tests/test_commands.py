"""The command `factorax`: what it prints, what it refuses, and that it can be stopped and continued."""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from factorax_paper.experiments import NAMES, search_aliasing, search_throughput
from factorax_paper.harness import experiment
from factorax_paper.harness.claims import HEADINGS, Claim, published
from factorax_paper.harness.experiment import reproduce
from factorax_paper.harness.parts import Part

NAME = "search-throughput"
FOLDER = Path("out") / f"{NAME}-quick-0"
FILES = ["config.json", "data.csv", "figure.pdf", "figure.png", "summary.json"]
A_MINUTE = 60.0  # for what comes at once, or never


pytestmark = pytest.mark.usefixtures("surroundings")


@pytest.fixture
def computed(monkeypatch):
    """The throughput experiment with made-up measurements and figures of words alone. A list of what it computed."""
    done = []

    def save(figure, out):
        for name in ("figure.png", "figure.pdf"):
            (out / name).write_text(" ".join(text.get_text() for text in figure.axes[0].texts))

    def parts(settings, seed):
        def part(replicate):
            def compute(progress):
                done.append((seed, settings.steps, replicate))
                return {"rate": 1000.0 / np.arange(1, 7) + seed + replicate}

            return Part(f"seed {replicate}", 1.0, compute)

        return [part(replicate) for replicate in range(2)]

    budgets = {"quick": search_throughput.Settings(steps=2), "paper": search_throughput.Settings(steps=4)}
    made_up = dataclasses.replace(search_throughput.EXPERIMENT, budgets=budgets, parts=parts)
    monkeypatch.setattr(search_throughput, "EXPERIMENT", made_up)
    monkeypatch.setattr(experiment, "_save_figure", save)
    return done


@pytest.mark.parametrize("name", ["reproduce", "claims"])
def test_help_is_that_of_the_snapshot(name, same_help):
    same_help(name, Path(__file__).parent / "help")


def one_line(error):
    return error.startswith("factorax: ") and error.count("\n") == 1


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("columns", [80, 250])
def test_list_names_all_experiments_with_their_places(columns, factorax, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", str(columns))
    code, output, _ = factorax("reproduce", "--list")
    assert code == 0
    places = {line.split()[0]: line for line in output.splitlines() if line.split()[0] in NAMES}
    assert places.keys() == set(NAMES)
    assert "Table 1" in places["search-throughput"]
    assert "Fig. 3 " in places["variance-decomposition"]
    assert not names(tmp_path)


def test_an_experiment_goes_to_a_folder_of_its_own(factorax, computed):
    code, output, error = factorax("reproduce", NAME)
    assert (code, error) == (0, "")
    assert computed == [(0, 2, 0), (0, 2, 1)]
    assert names(FOLDER) == FILES
    assert "Iterations per second (Table 1)" in output
    assert "FPG costs hardly more time than VPG." in output
    assert f"Table 1 is in {FOLDER / 'figure.png'}" in output
    assert json.loads((FOLDER / "config.json").read_bytes())["budget"] == "quick"


def test_budget_seed_and_folder_are_those_asked_for(factorax, computed):
    assert factorax("reproduce", NAME, "--budget", "paper", "--seed", "7")[0] == 0
    assert computed == [(7, 4, 0), (7, 4, 1)]
    config = json.loads(Path(f"out/{NAME}-paper-7/config.json").read_bytes())
    assert (config["budget"], config["seed"], config["settings"]["steps"]) == ("paper", 7, 4)
    code, output, _ = factorax("reproduce", NAME, "--out", "a/b c")
    assert code == 0
    assert names(Path("a/b c")) == FILES
    assert "a/b c/figure.png" in output
    commands = {row["command"] for row in json.loads(Path("a/b c/summary.json").read_bytes())["claims"]}
    assert commands == {f"factorax reproduce {NAME} --budget quick --seed 0"}


@pytest.mark.parametrize("seed", [0, 2**31, 2**32 - 1])
def test_a_seed_has_32_bits(seed, factorax, computed):
    assert factorax("reproduce", NAME, "--seed", seed)[0] == 0
    assert computed[0][0] == seed


def test_the_same_command_twice_computes_once(factorax, computed):
    assert factorax("reproduce", NAME)[0] == 0
    data = (FOLDER / "data.csv").read_bytes()
    assert factorax("reproduce", NAME)[0] == 0
    assert len(computed) == 2
    assert (FOLDER / "data.csv").read_bytes() == data


def test_plot_only_draws_the_data_that_is_there(factorax, computed):
    factorax("reproduce", NAME)
    before = {name: (FOLDER / name).read_bytes() for name in FILES}
    text = before["data.csv"].decode()
    edited = re.sub(r"^(FPG,0),.*$", r"\1,4321.0", text, flags=re.MULTILINE)
    assert edited != text
    (FOLDER / "data.csv").write_text(edited)
    code, output, _ = factorax("reproduce", NAME, "--plot-only")
    assert code == 0
    assert len(computed) == 2
    assert f"{(4321 + 251) / 2:,.0f}" in output
    after = {name: (FOLDER / name).read_bytes() for name in FILES}
    assert {name for name in FILES if after[name] == before[name]} == {"config.json"}
    assert after["data.csv"].decode() == edited


@pytest.mark.parametrize("folder", ["runs[old]", "a[/b]"])
def test_a_folder_may_have_brackets(folder, factorax, computed):
    code, output, _ = factorax("reproduce", NAME, "--out", folder)
    assert code == 0
    assert f"{folder}/figure.png" in output


def test_an_unknown_experiment_is_told_which_there_are(factorax, tmp_path):
    code, output, error = factorax("reproduce", "search-stabilty")
    assert (code, output) == (2, "")
    assert one_line(error)
    assert "did you mean search-stability?" in error
    assert all(name in error for name in NAMES)
    assert not names(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["reproduce", NAME, "--budget", "huge"], ["huge", "budget", "quick", "paper"]),
        (["reproduce", NAME, "--budgets", "paper"], ["--budgets", "--budget {quick,paper}"]),
        (["reproduce", NAME, "--colour"], ["--colour"]),
        (["reproduce", NAME, "--seed", "many"], ["seed", "many"]),
        (["reproduce", NAME, NAME], [NAME]),
        (["reproduces"], ["reproduce", "claims"]),
        ([], ["reproduce", "claims"]),
    ],
    ids=" ".join,
)
def test_what_is_not_an_option_is_told_what_is(arguments, wanted, factorax, computed, tmp_path):
    code, output, error = factorax(*arguments)
    assert code not in (0, None)
    assert output == ""
    assert all(word in error for word in wanted)
    assert "Traceback" not in error
    assert not computed
    assert not names(tmp_path)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("step=3", "did you mean steps"),
        ("steps", "want key=value"),
        ("steps=many", "steps: got 'many'"),
        ("steps=1.5", "steps: got 1.5"),
    ],
)
def test_a_setting_that_an_experiment_does_not_have_is_refused(pair, message, factorax, computed, tmp_path):
    code, _, error = factorax("reproduce", NAME, "--set", pair)
    assert code == 2
    assert message in error
    assert not names(tmp_path)


def test_settings_of_an_experiment_are_changed(factorax, computed):
    assert factorax("reproduce", NAME, "--set", "steps=3")[0] == 0
    assert computed == [(0, 3, 0), (0, 3, 1)]
    assert (Path("out") / f"{NAME}-quick-0-steps-3" / "data.csv").exists()
    (claim, *_) = json.loads((Path("out") / f"{NAME}-quick-0-steps-3" / "summary.json").read_text())["claims"]
    assert claim["command"] == f"factorax reproduce {NAME} --budget quick --seed 0 --set steps=3"


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_out_of_range_is_refused(seed, factorax, computed, tmp_path):
    code, _, error = factorax("reproduce", NAME, "--seed", seed)
    assert code == 2
    assert error == f"factorax: seed: got {seed}, want a whole number from 0 to 4,294,967,295\n"
    assert not names(tmp_path)


@pytest.mark.parametrize(
    ("error", "code"),
    [(OSError(28, "No space left on device"), 1), (MemoryError("no room"), 1), (ValueError("out of luck"), 2)],
    ids=repr,
)
def test_what_goes_wrong_is_one_line(error, code, factorax, computed, monkeypatch):
    def fail(*arguments):
        raise error

    broken = dataclasses.replace(search_throughput.EXPERIMENT, tabulate=fail)
    monkeypatch.setattr(search_throughput, "EXPERIMENT", broken)
    assert factorax("reproduce", NAME)[::2] == (code, f"factorax: {error}\n")


def test_a_bug_is_not_hidden(factorax, computed, monkeypatch):
    def fail(*arguments):
        raise AssertionError("a bug")

    broken = dataclasses.replace(search_throughput.EXPERIMENT, summarise=fail)
    monkeypatch.setattr(search_throughput, "EXPERIMENT", broken)
    with pytest.raises(AssertionError, match="a bug"):
        factorax("reproduce", NAME)


def test_ctrl_c_is_no_traceback(factorax, computed, monkeypatch):
    def ctrl_c(*arguments):
        raise KeyboardInterrupt

    broken = dataclasses.replace(search_throughput.EXPERIMENT, tabulate=ctrl_c)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(search_throughput, "EXPERIMENT", broken)
        code, _, error = factorax("reproduce", NAME)
    assert (code, error) == (130, "stopped; run the same command again to resume\n")
    assert factorax("reproduce", NAME)[0] == 0
    assert len(computed) == 2
    assert names(FOLDER) == FILES


def test_claims_are_printed_with_their_verdicts(factorax):
    code, output, _ = factorax("claims")
    assert code == 0
    assert output.startswith(HEADINGS["paper"])
    parts = dict(zip(HEADINGS, output.split(HEADINGS["ours"] + " ("), strict=True))
    for row in published():
        flat = " ".join(parts[row.source].split())
        assert " ".join(row.claim.split()) in flat
        assert row.command in flat
    assert output.count("holds") + output.count("does not hold") >= len(published())


def test_claims_say_who_chose_what_and_what_would_settle_them(factorax):
    words = {"chosen_by": "ten seeds, ours", "would_settle": "a hundred seeds"}
    row = Claim("FPG wins.", "Sec. 5", "curves", "1.5 [0.5, 2.5]", "holds in part", command="factorax", **words)
    Path("run").mkdir()
    for verdict, settles in (("holds in part", True), ("holds", False)):
        content = {"claims": [dataclasses.replace(row, verdict=verdict).as_dict()]}
        Path("run/summary.json").write_text(json.dumps(content))
        _, output, _ = factorax("claims", "--results", "run")
        assert "chosen by ten seeds, ours" in output
        assert ("would settle it a hundred seeds" in output) == settles
        assert HEADINGS["paper"] in output
        assert HEADINGS["ours"] not in output  # there are none


def test_claims_for_programs_are_those_published(factorax):
    code, output, _ = factorax("claims", "--json")
    assert code == 0
    parts = json.loads(output)
    assert list(parts) == ["paper", "ours"]
    assert {source: {row["source"] for row in rows} for source, rows in parts.items()} == {
        "paper": {"paper"},
        "ours": {"ours"},
    }
    assert sorted(row["claim"] for rows in parts.values() for row in rows) == sorted(row.claim for row in published())


def test_claims_of_one_s_own_experiments(factorax, computed):
    for seed in (0, 1):
        factorax("reproduce", NAME, "--seed", seed, "--out", f"run {seed}")
    code, output, _ = factorax("claims", "--json", "--results", "run 1", "run 0")
    assert code == 0
    rows = [row for seed in (1, 0) for row in json.loads(Path(f"run {seed}/summary.json").read_bytes())["claims"]]
    assert len(rows) == 6
    assert json.loads(output) == {"paper": rows, "ours": []}
    code, _, error = factorax("claims", "--results", "run 1", "run 2")
    assert code == 2
    assert one_line(error)
    assert "run 2/summary.json: no summary" in error


@pytest.mark.parametrize("text", ["FPG [0.1, 0.2]", "[bold]", "[/]", r"a \[b]"])
def test_claims_are_shown_as_they_are(text, factorax):
    row = Claim(text, text, text, text, "holds in part", text, text)
    Path("run").mkdir()
    Path("run/summary.json").write_text(json.dumps({"claims": [row.as_dict()]}))
    code, output, _ = factorax("claims", "--results", "run")
    assert code == 0
    assert output.count(text) == 6


SCRIPT = shutil.which("factorax", path=Path(sys.executable).parent)


@pytest.mark.slow
def test_the_installed_command_has_help():
    assert SCRIPT, "pip install -e . makes the command"
    done = subprocess.run([SCRIPT, "--help"], capture_output=True, text=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    assert "reproduce" in done.stdout
    assert "claims" in done.stdout


# What Python reads when it starts: the experiment is small, and waits after its first record if it is told to.
SMALL = """
import dataclasses, os, pathlib
from factorax_paper.experiments import search_aliasing
from factorax_paper.harness import sweep
sizes = search_aliasing.Settings(n=3, seeds=2, steps=40, every=10)
search_aliasing.EXPERIMENT = dataclasses.replace(search_aliasing.EXPERIMENT, budgets={"quick": sizes, "paper": sizes})
run = sweep.run
def patient(job, seed, progress):
    def wait(done):
        progress.report(done)
        pathlib.Path(os.environ["WAITING"]).touch()
        progress.stop.wait()
    return run(job, seed, dataclasses.replace(progress, report=wait))
if "WAITING" in os.environ:
    sweep.run = patient
"""


def stopped_by(number, command, environment, waiting):
    """Run a command until it says that it waits, and send it a signal."""
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN  # as in a background job; children would inherit it
    if ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            command,
            env=environment | {"WAITING": str(waiting)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while not waiting.exists():
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.02)
        process.send_signal(number)
        return *process.communicate(timeout=A_MINUTE), process.returncode
    finally:
        process.kill()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no such signals")
def test_signals_stop_it_and_the_same_command_continues(tmp_path):
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "sitecustomize.py").write_text(SMALL)
    path = os.pathsep.join(filter(None, [str(tmp_path / "start"), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "PYTHONUTF8": "1"}
    command = [SCRIPT, "reproduce", "search-aliasing", "--seed", "3"]
    out = tmp_path / "out" / "search-aliasing-quick-3"
    for records, number in [(1, signal.SIGINT), (2, signal.SIGTERM)]:
        _, error, code = stopped_by(number, command, environment, tmp_path / number.name)
        assert (code, error) == (130, "stopped; run the same command again to resume\n")
        assert names(out) == ["config.json", "parts"]
        with np.load(out / "parts" / "000.partial.npz") as archive:
            assert archive["done"] == records
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=5 * A_MINUTE)
    assert (done.returncode, done.stderr) == (0, "")
    assert names(out) == FILES
    sizes = search_aliasing.Settings(n=3, seeds=2, steps=40, every=10)
    reproduce(search_aliasing.EXPERIMENT, settings=sizes, seed=3, out=tmp_path / "whole")
    assert (out / "data.csv").read_bytes() == (tmp_path / "whole" / "data.csv").read_bytes()
