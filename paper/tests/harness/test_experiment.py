"""All bandit experiments from end to end at tiny sizes: what they leave, and what they refuse."""

import numpy as np
import pytest
from factorax_paper.experiments import find
from factorax_paper.harness.experiment import _claim_folder, reproduce
from factorax_paper.harness.table import read_csv, write_csv
from tiny_experiments import (
    DETERMINED,
    FILES,
    ROWS,
    VALUES,
    contents,
    every_experiment,
    go,
    no_parts,
    settings,
    strict,
)

pytestmark = [pytest.mark.usefixtures("shared"), pytest.mark.slow]


@pytest.mark.slow
@every_experiment
def test_an_experiment_leaves_five_files(name, finished):
    out = finished(name)
    assert sorted(contents(out)) == FILES
    assert not (out / "parts").exists()
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert (out / "figure.pdf").read_bytes().startswith(b"%PDF-")


@every_experiment
def test_the_summary_is_strict_and_its_claims_complete(name, finished):
    summary = strict(finished(name) / "summary.json")
    assert summary["experiment"] == name
    assert summary["figures"]
    assert summary["claims"]
    for row in summary["claims"]:
        assert all(row[key].strip() for key in ("claim", "where", "paper", "ours", "command"))
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


@pytest.mark.parametrize("asked", [asked for asked in ASKED if asked != "another experiment"])
def test_plot_only_takes_seed_and_settings_from_the_folder(asked, copied):
    out = copied("search-aliasing")
    before = contents(out)
    go(**{"name": "search-aliasing"} | ASKED[asked][0], out=out, plot_only=True, parts=no_parts)
    assert contents(out) == before


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("notes.txt", b"mine", "contains files that do not belong to an experiment; want another folder"),
        ("data.csv", b"n,gap\n1,2\n", "contains files that do not belong to an experiment"),
        ("config.json", b"{", r"config\.json is damaged .*want another folder"),
    ],
)
def test_a_foreign_folder_is_refused_and_left_as_it_was(file, content, message, tmp_path):
    (tmp_path / file).write_bytes(content)
    with pytest.raises((FileExistsError, ValueError), match=message):
        go("search-aliasing", tmp_path)
    assert contents(tmp_path) == {file: content}


def test_a_folder_whose_first_write_was_killed_is_taken(tmp_path):
    request = {"experiment": "search-aliasing", "budget": "quick", "seed": 0, "settings": {}}
    (tmp_path / ".config.json.x1y2z3").write_text("{")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="do not belong to an experiment"):
        _claim_folder(tmp_path, request)
    assert (tmp_path / ".config.json.x1y2z3").exists()
    (tmp_path / "notes.txt").unlink()
    _claim_folder(tmp_path, request)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.parametrize("bad", [{"settings": settings("search-aliasing", every=3)}, {"seed": -1}], ids=str)
def test_wrong_settings_make_no_folder(bad, tmp_path):
    with pytest.raises(ValueError, match=r"every|seed|negative"):
        go("search-aliasing", tmp_path / "out", **bad)
    assert not list(tmp_path.iterdir())


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
    assert "holds" not in [row["verdict"] for row in strict(out / "summary.json")["claims"]]


def test_other_experiments_have_no_simulator(tmp_path):
    with pytest.raises(
        ValueError, match="sim: got 'sumo', and the experiment search-rate has no such setting; leave it out"
    ):
        reproduce(find("search-rate"), out=tmp_path / "out", change={"sim": "sumo"})
    assert not (tmp_path / "out").exists()
