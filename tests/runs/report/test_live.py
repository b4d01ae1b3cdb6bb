"""The live view: for this machine alone, read-only, and as new as the folders."""

import http.client
import json
import socket
import threading
import time

import pytest
from runs.report.run_folders import improving, write_run

from factorax.runs.report.live import LiveReport


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", updates=4)


@pytest.fixture
def live(run):
    with LiveReport([run], play=False) as served:
        yield served


def ask(live, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=20)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def test_the_page_is_served_under_its_secret_path(live):
    answer, content = ask(live, live.path)
    assert answer.status == 200
    assert content.startswith(b"<!doctype html>")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert live.address.endswith(live.path)
    assert len(live.path) > 10


def test_news_come_when_the_folder_changes_and_only_then(live, run):
    answer, content = ask(live, f"{live.path}update?since=")
    news = json.loads(content)
    assert answer.status == 200
    assert len(news["data"]["charts"]["chart1"]["series"][0]["y"]) == 4
    answer, content = ask(live, f"{live.path}update?since={news['version']}")
    assert answer.status == 204
    with (run / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in [*improving(6)][4:])
    answer, content = ask(live, f"{live.path}update?since={news['version']}")
    assert answer.status == 200
    chart = json.loads(content)["data"]["charts"]["chart1"]
    assert len(chart["series"][0]["y"]) == 6
    assert json.loads(content)["version"] != news["version"]


def test_a_folder_caught_while_it_is_written_leaves_the_last_report(live, run):
    config = (run / "config.json").read_text()
    (run / "config.json").write_text(config[:20])
    assert ask(live, live.path)[0].status == 200
    (run / "config.json").write_text(config)
    assert ask(live, live.path)[0].status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/update",
        "/{token}",
        "/{token}/config.json",
        "/{token}/../config.json",
        "/{token}/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/{token}/?/../../etc/passwd#",
        "/{token}//",
    ],
)
def test_no_file_can_be_asked_for(live, path, run):
    answer, content = ask(live, path.replace("/{token}", live.path.rstrip("/")))
    assert answer.status == 404 or content.startswith(b"<!doctype html>")
    assert b"root:" not in content
    assert (run / "config.json").read_bytes() not in content


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT"])
def test_nothing_can_be_changed(live, method):
    assert ask(live, live.path, method)[0].status == 501


def test_head_has_no_content(live):
    answer, content = ask(live, live.path, "HEAD")
    assert answer.status == 200
    assert int(answer.headers["Content-Length"]) > 1000
    assert content == b""


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "", "[::1]:{port}"])
def test_other_names_of_this_machine_are_refused(live, host):
    """A page elsewhere may give its own name our address, and would then read what we answer."""
    answer, content = ask(live, live.path, Host=host.format(port=live.port))
    assert answer.status == 403
    assert b"doctype" not in content


def test_only_the_loopback_interface_is_served(live):
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1"}:
        if address.startswith("127."):
            continue
        with pytest.raises(OSError, match=r".*"):
            socket.create_connection((address, live.port), timeout=2)
    assert live._server.server_address[0] == "127.0.0.1"


def test_what_is_wrong_is_said_before_anything_is_served(tmp_path):
    with pytest.raises(FileNotFoundError, match="what: no "):
        LiveReport([tmp_path / "missing"], play=False)
    with pytest.raises((TypeError, ValueError), match="play: got 3"):
        LiveReport([tmp_path], play=3)  # pyright: ignore[reportArgumentType]


def test_policies_act_again_when_there_is_a_newer_checkpoint(run, monkeypatch):
    from factorax.runs.report import live as module

    acted = threading.Event()
    collect = module.collect

    def played(what, *, play, **options):
        if play:
            options["played"].acting.append({"kind": "film", "name": "a film", "film": {"scenes": []}})
            acted.set()
        return collect(what, play=False, **options)

    monkeypatch.setattr(module, "collect", played)
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "last.safetensors").write_bytes(b"new")
    with LiveReport([run]) as live:
        assert acted.wait(60)
        for _ in range(1200):
            news = json.loads(ask(live, f"{live.path}update?since=")[1])
            if news["data"]["films"]:
                break
            time.sleep(0.05)
        assert news["data"]["films"] == [{"scenes": []}]


@pytest.mark.browser
@pytest.mark.slow
def test_the_page_in_a_browser_follows_training(browser, live, run):
    from pages import watched

    page = browser.new_page()
    problems = watched(page)
    page.goto(live.address)
    page.locator("#live", has_text="updated at").wait_for()
    points = page.locator("#curves .chart-stage").get_attribute("data-points")
    page.locator("#curves .chart-axes input").nth(1).check()
    page.locator("details").last.evaluate("each => { each.open = true }")
    with (run / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in [*improving(8)][4:])
    page.locator(f"#curves .chart-stage:not([data-points='{points}'])").wait_for()
    assert page.locator("#curves .chart-axes input").nth(1).is_checked()  # what the reader chose stays
    assert page.locator("details").last.evaluate("each => each.open")
    live.__exit__()
    page.locator("#live", has_text="the server has ended").wait_for()
    assert [text for text in problems if "ERR_CONNECTION_REFUSED" not in text] == []
    page.close()
