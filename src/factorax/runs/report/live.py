"""The live view of a report: served on this machine only, and rebuilt when the folders change."""

import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..._checks import checked, listed, path_of
from ..folder import METRICS, SCORE
from ..provenance import WARNINGS
from .collection import Played, collect
from .page import page, script_data, sections

_WATCHED = ("config.json", METRICS, SCORE, WARNINGS, "summary.json", "data.csv")
_SECONDS_BETWEEN_EPISODES = 120.0
"""Pause in seconds before policies run again for a newer checkpoint: training needs the processors too."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page's own policy is in the page
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class LiveReport:
    """Serves a report on the loopback interface, at a random port and under a secret path.

    It answers only GET and HEAD requests for the page and its updates, and serves no files.

    - `what`, `play`, `trusted`: as in `report`.

    >>> from factorax.runs.report import LiveReport
    >>> with LiveReport(["runs/traffic-3x3-factored-incident-0"], play=False) as live:  # doctest: +SKIP
    ...     print(live.address)
    http://127.0.0.1:41873/sGXW0Y0cYhA/
    """

    def __init__(self, what: Iterable[Any], *, play: bool = True, trusted: str | None = None):
        self.what = [path_of("what", each, "folders of runs") for each in listed("what", what, "folders of runs")]
        self.play, self.trusted = checked("play", play, bool), trusted
        self._token = secrets.token_urlsafe(8)
        self._lock = threading.Lock()
        self._played, self._checkpoints, self._last_played = Played(), "", -_SECONDS_BETWEEN_EPISODES
        self._version, self._report = "", self._collected("")
        self._stopped = threading.Event()
        handler = type("Handler", (_Handler,), {"live": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._threads: list[threading.Thread] = []

    @property
    def port(self) -> int:
        """The port of the server."""
        return self._server.server_address[1]

    @property
    def path(self) -> str:
        """The path of the page."""
        return f"/{self._token}/"

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.port}{self.path}"

    def __enter__(self) -> "LiveReport":
        targets = [self._server.serve_forever, *([self._play_again] if self.play else [])]
        self._threads = [threading.Thread(target=target, daemon=True) for target in targets]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def wait(self) -> None:
        """Wait until interrupted."""
        while not self._stopped.wait(3600):
            pass

    def current(self) -> tuple[str, dict[str, Any]]:
        """Return the version of the folders and its report, rebuilt if the folders have changed."""
        with self._lock:
            version = self._look()
            if version != self._version:
                with suppress(ValueError, OSError):  # the files are being written; the next request comes soon
                    self._report = self._collected(version)
            return self._version, self._report

    def _collected(self, version: str) -> dict[str, Any]:
        report = collect(self.what, trusted=self.trusted, play=False, played=self._played)
        self._version = version
        return report

    def _look(self) -> str:
        """Return a text that changes whenever the reported files change."""
        return _digest(_files(self.what)) + f"-{self._played.number}"

    def _play_again(self) -> None:
        """Run policies whenever there are new checkpoints, with a pause in between."""
        while not self._stopped.is_set():
            checkpoints = _digest(path for path in _files(self.what) if path.suffix == ".safetensors")
            waited = time.monotonic() - self._last_played >= _SECONDS_BETWEEN_EPISODES
            if checkpoints != self._checkpoints and waited:
                self._checkpoints, self._last_played = checkpoints, time.monotonic()
                played = Played(number=self._played.number + 1)
                try:
                    collect(self.what, trusted=self.trusted, play=True, played=played)
                except (ValueError, OSError):
                    continue  # a run without a checkpoint yet
                self._played = played
            self._stopped.wait(1.0)


class _Handler(BaseHTTPRequestHandler):
    """Answers requests for the page and its updates."""

    live: LiveReport
    server_version, sys_version = "factorax", ""

    def do_GET(self) -> None:
        """Respond with the page, with updates since a version, or with 404."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Respond as to GET, without the content."""
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        port = self.live.port
        if self.headers.get("Host") not in (f"127.0.0.1:{port}", f"localhost:{port}"):
            # DNS rebinding: a foreign page may map its own host name to this machine and then read our responses.
            self._send(HTTPStatus.FORBIDDEN, "text/plain", b"the report is for this machine alone", body)
            return
        url = urlsplit(self.path)
        if url.path == self.live.path:
            report = self.live.current()[1]
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", page(report, live=True).encode(), body)
        elif url.path == f"{self.live.path}update":
            version, report = self.live.current()
            if parse_qs(url.query).get("since") == [version]:
                self._send(HTTPStatus.NO_CONTENT, "application/json", b"", body)
                return
            data = json.loads(script_data(report, live=True))
            news = {"version": version, "sections": str(sections(report, live=True)), "data": data}
            self._send(HTTPStatus.OK, "application/json", json.dumps(news, allow_nan=False).encode(), body)
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"nothing here", body)

    def _send(self, status: HTTPStatus, kind: str, content: bytes, body: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if body and content:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: a line every two seconds would hide important messages."""


def _files(what: Iterable[Path]) -> list[Path]:
    """Return the existing files that a report reads."""
    files: list[Path] = []
    for path in what:
        folders = [path, *(each.parent for depth in ("*", "*/*") for each in path.glob(f"{depth}/config.json"))]
        for folder in folders:
            files += [folder / name for name in _WATCHED]
            files += [folder / "checkpoints" / f"{name}.safetensors" for name in ("last", "previous")]
        files += [path] if path.is_file() else []
    return sorted({file for file in files if file.is_file()})


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue
        digest.update(f"{file}:{status.st_mtime_ns}:{status.st_size};".encode(errors="replace"))
    return digest.hexdigest()[:16]
