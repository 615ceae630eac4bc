from __future__ import annotations

import base64
import fcntl
import logging
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from fencepost.embedded import jars
from fencepost.embedded.errors import JarsUnavailableError
from fencepost.embedded.jars import BROKER, cache_folder, class_path, fetched_kilobytes
from fencepost.embedded.java import Java, find_java
from tests.support.jar_repository import THING, jar_repository
from tests.support.processes import wait_for


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty cache, and a proxy address at which nothing listens."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1")


def test_without_network_and_cache_the_error_gives_advice() -> None:
    with pytest.raises(
        JarsUnavailableError, match=r"cannot be fetched from Maven Central: .*Connection refused.*proxy"
    ):
        class_path(find_java(), BROKER)

    assert [path.name for path in cache_folder().iterdir()] == [f"{BROKER.folder}.lock"]


def test_downloads_are_reported_in_kilobytes() -> None:
    assert fetched_kilobytes() == 0
    for folder in ("one", "other"):
        downloads = cache_folder() / folder / "ivy-cache" / "jars"
        downloads.mkdir(parents=True)
        (downloads / "a.jar.part").write_bytes(b"x" * 20_500)

    assert fetched_kilobytes() == 41.0


def test_a_worker_logs_what_it_fetches_with_size_and_progress(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker's first Java connector waits for this."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(jars, "LOG_SECONDS", 0.05)
    found: list[Path] = []
    with jar_repository() as repository:
        monkeypatch.setattr(jars, "MAVEN_CENTRAL", repository.url)
        fetching = threading.Thread(target=lambda: found.extend(class_path(find_java(), THING)))
        fetching.start()
        half = r"Fetching the thing 1.0: [23]\d\d kB \([23]\d%\) so far, [\d,.]+ kB/s"
        wait_for(lambda: re.search(half, caplog.text), what="the log has the size of the first half")
        repository.rest.set()
        fetching.join(120)
    assert [path.name for path in found] == ["thing-1.0.jar"]
    assert "Fetching the thing 1.0 from Maven Central, once (about 1 MB)" in caplog.text
    assert re.search(r"Fetched the thing 1.0 \(0.6 MB\) in \d+ s", caplog.text)


class Proxy(BaseHTTPRequestHandler):
    """Answers every request with 407: it wants a name and a password."""

    asked: ClassVar[list[tuple[str, str | None]]] = []

    def do_CONNECT(self) -> None:
        given = self.headers.get("Proxy-Authorization")
        self.asked.append((self.path, given))
        self.send_response(407 if given is None else 503)
        if given is None:
            self.send_header("Proxy-Authenticate", 'Basic realm="here"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_the_proxy_of_https_proxy_is_asked_with_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_TOOL_OPTIONS")
    Proxy.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("https_proxy", f"http://me:s%22e%5Cc%20ret@127.0.0.1:{server.server_port}")
        with pytest.raises(JarsUnavailableError, match=r"cannot be fetched.*https_proxy"):
            class_path(find_java(), BROKER)
        server.shutdown()

    assert {host for host, _ in Proxy.asked} == {"repo1.maven.org:443"}
    credentials = base64.b64encode(b'me:s"e\\c ret').decode()
    assert f"Basic {credentials}" in {given for _, given in Proxy.asked}


@pytest.mark.parametrize("sign", ["No space left on device", "Disk quota exceeded"])
def test_a_full_disk_is_called_full(tmp_path: Path, sign: str) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'java.io.IOException: {sign}' >&2\nexit 1\n")
    program.chmod(0o755)

    with pytest.raises(JarsUnavailableError, match=rf"disk is full.*{sign}.*XDG_CACHE_HOME"):
        class_path(Java(tmp_path, 17, bundled=False), BROKER)
    assert [path.name for path in cache_folder().iterdir()] == [f"{BROKER.folder}.lock"]


def test_a_jvm_that_fetches_finds_folders_with_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the locale C, a JVM does not find a cache folder whose name has non-ASCII letters."""
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("HOME", str(tmp_path))
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$LC_ALL" > {tmp_path}/locale\nexit 1\n')
    program.chmod(0o755)
    with pytest.raises(JarsUnavailableError):
        class_path(Java(tmp_path, 17, bundled=False), BROKER)
    assert (tmp_path / "locale").read_text() == "C.UTF-8\n"


def test_a_cache_folder_that_cannot_be_made_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    with pytest.raises(JarsUnavailableError, match=r"file/fencepost.*Not a directory.*XDG_CACHE_HOME"):
        class_path(find_java(), BROKER)


def test_a_process_waits_for_another_that_fetches_and_takes_its_jars() -> None:
    found: list[Path] = []
    cache_folder().mkdir()
    folder = cache_folder() / BROKER.folder
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=lambda: found.extend(class_path(find_java(), BROKER)))
        second.start()
        (folder.parent / "fetched").mkdir()
        (folder.parent / "fetched" / "kafka.jar").touch()
        (folder.parent / "fetched").rename(folder)
        assert not found
    second.join(120)

    assert found == [folder / "kafka.jar"]
