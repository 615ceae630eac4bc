"""What somebody sees while a command fetches jars, from a repository on loopback."""

from __future__ import annotations

import logging
import re
import threading
from pathlib import Path

import pytest

from fencepost.cli.common import count_progress
from fencepost.cli.run.broker_jars import fetch_jars
from fencepost.embedded import jars
from fencepost.embedded.jars import cache_folder
from tests.support.jar_repository import THING, jar_repository
from tests.support.processes import wait_for


def test_a_program_is_fetched_once_with_its_size_and_rate_in_the_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(count_progress, "COUNT_LINE_SECONDS", 0.05)
    with jar_repository() as repository:
        monkeypatch.setattr(jars, "MAVEN_CENTRAL", repository.url)
        fetching = threading.Thread(target=fetch_jars, args=[THING])
        fetching.start()
        half = r"Fetching the thing 1.0: [23]\d\d kB \([23]\d%\) so far, [\d,.]+ kB/s"
        wait_for(lambda: re.search(half, caplog.text), what="the log has the size of the first half")
        repository.rest.set()
        fetching.join(120)
    assert "Fetching the thing 1.0 from Maven Central, once (about 1 MB)" in caplog.text
    assert re.search(r"Fetched the thing 1.0 \(0.6 MB\) in \d+ s", caplog.text)
    assert [path.name for path in (cache_folder() / THING.folder).iterdir()] == ["thing-1.0.jar"]

    caplog.clear()
    # The repository is gone.
    fetch_jars(THING)
    assert caplog.text == ""
