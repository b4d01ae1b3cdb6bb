"""The page of a report: one file, strict about what runs, with texts as texts."""

import json
import re

import pytest
from runs.report.run_folders import write_run

from factorax.runs.report.collection import collect
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
    empty = report | {key: [] for key in ("verdicts", "curves", "networks", "credit", "targets", "acting")}
    assert re.findall(r'<section id="(\w+)"', page(empty)) == ["reproduce"]
    assert re.findall(r'<section id="(\w+)"', page(report)) == [
        *("verdict", "curves", "network", "credit", "targets", "reproduce")
    ]


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
