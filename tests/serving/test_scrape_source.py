"""Scrapes from files and from servers that answer, refuse, hide behind a proxy, or are not there."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.errors import ScrapeError
from pytest_specdec.serving.scrape_source import read_metrics_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class _Metrics(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"\xff" if self.path == "/binary" else f"path {self.path}\n".encode()
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the overridden parameter
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Metrics) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{http.server_address[1]}"
        http.shutdown()
        thread.join()


@pytest.mark.parametrize(("given", "asked"), [("", "/metrics"), ("/", "/metrics"), ("/vllm/metrics", "/vllm/metrics")])
def test_address_without_a_path_means_its_metrics(server: str, given: str, asked: str) -> None:
    assert read_metrics_text(server + given) == f"path {asked}\n"


def test_loopback_is_reached_past_a_proxy(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert read_metrics_text(server) == "path /metrics\n"


@pytest.mark.parametrize("path", ["/missing", "/binary"])
def test_answer_without_metrics_names_the_address(server: str, path: str) -> None:
    with pytest.raises(ScrapeError, match=f"{server}{path}: did not answer with metrics"):
        read_metrics_text(server + path)


def test_server_that_is_not_there_is_named() -> None:
    with pytest.raises(ScrapeError, match=r"http://127\.0\.0\.1:9: did not answer"):
        read_metrics_text("http://127.0.0.1:9")


@pytest.mark.parametrize("address", ["http://", "http://[::1", "http://127.0.0.1:notaport", "http://127.0.0.1:1/a b"])
def test_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ScrapeError):
        read_metrics_text(address)


def test_file_is_read_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "scrape.txt").write_bytes(b"\xef\xbb\xbfvllm:a 1\n")
    assert read_metrics_text(str(tmp_path / "scrape.txt")) == "vllm:a 1\n"


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScrapeError, match=r"nothing\.txt: cannot be read: No such file"):
        read_metrics_text(str(tmp_path / "nothing.txt"))


def test_compressed_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "scrape.gz").write_bytes(b"\x1f\x8b\x08\x00\xff")
    with pytest.raises(ScrapeError, match="is not UTF-8 text"):
        read_metrics_text(str(tmp_path / "scrape.gz"))
