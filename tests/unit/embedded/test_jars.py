from __future__ import annotations

import base64
import fcntl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from fencepost.embedded.errors import JarsUnavailableError
from fencepost.embedded.jars import BROKER, cache_folder, class_path, fetched_kilobytes
from fencepost.embedded.java import Java, find_java


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty cache, and a proxy that nobody answers at."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1")


def test_without_network_and_cache_the_error_gives_advice() -> None:
    with pytest.raises(
        JarsUnavailableError, match=r"cannot be fetched from Maven Central: .*Connection refused.*proxy"
    ):
        class_path(find_java(), BROKER)

    assert [path.name for path in cache_folder().iterdir()] == [f"{BROKER.folder}.lock"]


def test_what_is_being_fetched_is_counted_in_thousands_of_bytes() -> None:
    assert fetched_kilobytes() == 0
    for folder in ("one", "other"):
        jars = cache_folder() / folder / "ivy-cache" / "jars"
        jars.mkdir(parents=True)
        (jars / "a.jar.part").write_bytes(b"x" * 20_500)

    assert fetched_kilobytes() == 41.0


class Proxy(BaseHTTPRequestHandler):
    """Asks for a name and a password, and then goes no further."""

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
    """In the locale C a JVM does not find a cache folder whose name has letters beyond ASCII."""
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
