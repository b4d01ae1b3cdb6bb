"""The page of a report: one file, strict about what runs, with texts as texts."""

import json
import re
import time
import webbrowser

import pytest
from runs.report.run_folders import write_run

import factorax as fx
from factorax.runs.report.contents import collect
from factorax.runs.report.page import content_security_policy, page, script_json


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for seed in range(2):
        write_run(folder / f"{seed}", seed=seed)
    return collect([folder], play=False)


def test_the_page_loads_nothing_and_runs_only_its_own_scripts(report):
    text = page(report)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert policy.startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    assert "unsafe" not in policy
    assert "connect-src" not in policy
    assert not re.search(r"<(link|script|img|iframe)[^>]*(src|href)=\"(?!data:)", text)
    assert " style=" not in text.partition("<body>")[2].partition("<script")[0]
    assert text.count("<script") == 1 + 4
    assert "Permission is hereby granted" in text  # of the chart library
    assert len(text) < 300_000


def test_texts_are_escaped(report):
    hostile = "<b>&\"'"
    text = page(report | {"notes": [hostile], "warnings": [hostile]})
    assert "<b>" not in text
    assert text.count("&lt;b&gt;&amp;&#34;&#39;") == 2


def test_sections_without_content_are_left_out(report):
    empty = report | {key: [] for key in ("verdicts", "curves", "networks", "credit", "targets", "episodes")}
    assert re.findall(r'<section id="(\w+)"', page(empty)) == ["reproduce"]
    assert re.findall(r'<section id="(\w+)"', page(report)) == [
        *("verdict", "curves", "network", "credit", "targets", "reproduce")
    ]


def test_one_folder_or_a_list_of_them_becomes_a_file(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run")
    told, opened = [], []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    out = fx.report(run, tmp_path / "a.html", play=False, tell=told.append, open_browser=True)
    assert out == tmp_path / "a.html"
    assert out.read_text().startswith("<!doctype html>")
    assert opened == [out.resolve().as_uri()]
    assert told
    assert fx.report([str(run)], str(tmp_path / "b.html"), play=False).exists()


def test_an_earlier_report_stays_if_a_new_one_fails(tmp_path):
    run = write_run(tmp_path / "run")
    out = fx.report(run, tmp_path / "a.html", play=False)
    before = out.read_bytes()
    (run / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"damaged|delimiter|Expecting"):
        fx.report(run, out, play=False)
    assert out.read_bytes() == before


def test_a_watched_report_is_written_until_training_ends(tmp_path, monkeypatch):
    """Its page loads itself again while training runs; the last one does not."""
    run, out = write_run(tmp_path / "run"), tmp_path / "a.html"
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:5]))
    pages, pauses = [], []

    def train(seconds):
        pages.append(out.read_text())
        pauses.append(seconds)
        (run / "metrics.jsonl").write_text("".join(lines[: 5 + 8 * len(pauses)]))
        if len(pauses) == 1:
            (run / "config.json").rename(run / "kept")  # cannot be read: the page stays as it is
        elif len(pauses) == 2:
            (run / "kept").rename(run / "config.json")

    monkeypatch.setattr(time, "sleep", train)
    fx.report(run, out, play=False, watch=True)
    assert len(pages) == 2
    assert pages[0] == pages[1]
    assert "80 of 320 steps" in pages[0]
    assert '"refresh":5' in pages[0]
    assert '"refresh":0' in out.read_text()
    assert "of 320 steps" not in out.read_text()


def test_an_interrupt_ends_watching_with_a_page_that_stays(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run")
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:5]))

    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    assert '"refresh":0' in fx.report(run, tmp_path / "a.html", watch=True).read_text()


HOSTILE = ["</script><img src=x onerror=alert(1)>", "<!--", "\u2028\u2029", "a & b", "\ud800", "\"'`", "]]>"]


@pytest.mark.parametrize("text", HOSTILE)
def test_script_json_escapes_html(text):
    embedded = script_json({"name": [text]})
    assert not set("<>&\u2028\u2029") & set(embedded)
    assert json.loads(embedded)["name"] == [text.encode(errors="replace").decode()]


def test_script_json_refuses_nan():
    with pytest.raises(ValueError, match=r"not JSON compliant|Out of range"):
        script_json([float("nan")])


def test_content_security_policy_allows_only_our_scripts():
    policy = content_security_policy(["let a = 1"], ["p {}"])
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "connect-src" not in policy
    assert content_security_policy(["let a = 2"], ["p {}"]) != policy
