"""Figures: written as a whole, with names as they are."""

import json

import pytest

from factorax.runs import draw_curves, group_runs, plots


def test_a_figure_replaces_a_link_and_leaves_what_it_leads_to(tmp_path):
    (tmp_path / "thesis.tex").write_text("all of it")
    (tmp_path / "curves.png").symlink_to(tmp_path / "thesis.tex")
    figure, _ = plots.canvas()
    plots.save(figure, tmp_path / "curves.png")
    plots.save(figure, tmp_path / "curves")  # the same name
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "thesis.tex").read_text() == "all of it"
    with pytest.raises(ValueError, match="'xyz' is not supported"):
        plots.save(figure, tmp_path / "curves.xyz")


def test_mathematics_in_names_is_drawn_as_text():
    figure, (ax,) = plots.canvas()
    ax.set_title(plots.plain_text("$\\frac \x1b[2J"))
    figure.draw_without_rendering()  # mathematics that is none would raise


def test_very_long_names_from_files_are_shortened_and_stay_apart(tmp_path):
    """Matplotlib would take minutes for a million characters."""
    settings = {"method": "factored", "hidden": [8], "seed": 0}
    for end in "ab":
        run = tmp_path / end
        run.mkdir()
        content = {"format": 1, "problem": "x" * 900_000 + end * 20, "network": "own", "config": settings}
        (run / "config.json").write_text(json.dumps(content))
        (run / "metrics.jsonl").write_text('{"time/total_timesteps": 8, "rollout/ep_rew_mean": 1.0}\n')
    folders = [tmp_path / "a", tmp_path / "b"]
    groups = group_runs(folders)
    assert all(len(group.name) < 200 for group in groups)
    assert len({group.name for group in groups}) == 2
    draw_curves(groups).draw_without_rendering()
