from __future__ import annotations

import platform
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from fencepost.cli import main
from fencepost.cli.common.exit_codes import ExitCode
from fencepost.cli.demo import java
from fencepost.cli.demo.workers import DemoWorker


class _StubbornWorker(DemoWorker):
    """A worker that ignores SIGTERM; stores the exit status of its process."""

    @contextmanager
    def running(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        del options
        command = ["sh", "-c", f"trap '' TERM; touch {self.log}; while :; do sleep 0.1; done"]
        with subprocess.Popen(command) as worker:
            try:
                yield worker
            finally:
                worker.kill()
        self.log.with_name("status").write_text(str(worker.returncode))


def test_without_a_network_the_demo_names_what_it_needs_before_it_starts_anything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    # MariaDB's programs exist only for some platforms, so they come last.
    monkeypatch.setattr(java, "require_machine", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1")

    assert main.run(["demo-java"]) == 1

    out, err = capfd.readouterr()
    assert "Fetching Debezium's connector for MariaDB from Maven Central, once (about 31 MB)" in caplog.text
    assert "the jars of Debezium's connector for MariaDB cannot be fetched from Maven Central" in err
    assert "https_proxy" in err
    assert "Starting" not in out


def test_a_machine_without_mariadb_is_named_before_anything_is_fetched(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")

    assert main.run(["demo-java"]) == ExitCode.WRONG_USAGE

    assert "the embedded MariaDB is for Linux on x86-64" in capfd.readouterr().err
    assert "Fetching" not in caplog.text


def test_a_worker_that_is_slow_to_stop_is_killed_once_its_work_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(java, "_STOP_SECONDS", 0.1)
    worker, deadline = _StubbornWorker(tmp_path, tmp_path, tmp_path / "log"), time.monotonic() + 60

    java._run_until(Console(), worker, lambda: worker.log.exists() or time.monotonic() > deadline, str)

    assert worker.log.exists()
    assert (tmp_path / "status").read_text() == str(-signal.SIGKILL)
