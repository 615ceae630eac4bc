from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.cli import main


def test_without_a_network_the_demo_names_what_it_needs_before_it_starts_anything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1")

    assert main.run(["demo-java"]) == 1

    out, err = capfd.readouterr()
    assert "Fetching Debezium's connector for MariaDB from Maven Central, once (about 31 MB)" in caplog.text
    assert "the jars of Debezium's connector for MariaDB cannot be fetched from Maven Central" in err
    assert "https_proxy" in err
    assert "Starting" not in out
