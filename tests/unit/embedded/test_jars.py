from __future__ import annotations

import fcntl
import threading
from pathlib import Path

import pytest

from fencepost.embedded.errors import JarsUnavailableError
from fencepost.embedded.jars import BROKER, cache_folder, class_path
from fencepost.embedded.java import find_java


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
