"""JVMs of connectors start with a class data archive, which the JVM for validation writes when it ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fencepost.config.java_settings import JavaSettings
from fencepost.embedded.jars import cache_folder
from fencepost.embedded.java import find_java
from fencepost.java.class_archive import ClassArchive
from fencepost.java.host_jar import host_class_path
from fencepost.java.jvm import QUESTIONS, Jvm


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the archive, in a cache that has everything but archives."""
    host_class_path(find_java())
    cache = tmp_path / "fencepost"
    cache.mkdir()
    for path in cache_folder().iterdir():
        if path.suffix != ".jsa":
            (cache / path.name).symlink_to(path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    java = find_java()
    return ClassArchive(java, host_class_path(java)).file


def archive_in_writing(jvm: Jvm) -> Path:
    """The file that a JVM for validation is going to write."""
    command = Path(f"/proc/{jvm.pid}/cmdline").read_text().split("\0")
    (option,) = (option for option in command if option.startswith("-XX:ArchiveClassesAtExit="))
    return Path(option.partition("=")[2])


def is_used(archive: Path, name: str, options: tuple[str, ...] = ()) -> bool:
    """Start a JVM and end it. Returns whether it has mapped the archive into its memory."""
    jvm = Jvm(name, JavaSettings(options=options))
    try:
        return str(archive) in Path(f"/proc/{jvm.pid}/maps").read_text()
    finally:
        jvm.end()


def test_the_jvm_for_validation_writes_an_archive_for_later_jvms(archive: Path):
    assert not is_used(archive, "connector")
    assert not archive.exists()
    assert not is_used(archive, QUESTIONS)
    assert archive.stat().st_size > 1_000_000
    assert is_used(archive, "connector")
    assert is_used(archive, QUESTIONS)


def test_an_archive_that_java_refuses_is_replaced(archive: Path):
    archive.write_bytes(b"of another format")
    assert not is_used(archive, "connector")
    assert not archive.exists()
    assert not is_used(archive, QUESTIONS)
    assert is_used(archive, "connector")


def test_a_jvm_that_is_killed_leaves_no_archive(archive: Path):
    Jvm(QUESTIONS, JavaSettings()).kill("the test ends")
    assert not archive.exists()


def test_an_archive_whose_jvm_is_killed_as_it_writes_is_not_kept(archive: Path):
    jvm = Jvm(QUESTIONS, JavaSettings())
    new = archive_in_writing(jvm)
    # Linux's OOM killer ends a JVM in the same way.
    os.kill(jvm.pid, signal.SIGKILL)
    new.write_bytes(b"a part")
    jvm.end()
    assert not archive.exists()


@pytest.mark.parametrize("variable", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"])
def test_archive_options_in_the_environment_are_respected(
    archive: Path, variable: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(variable, "-Xshare:auto -Dother=1")
    assert not is_used(archive, QUESTIONS)
    assert not archive.exists()


def test_an_archive_that_cannot_be_kept_leaves_nothing_behind(
    archive: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    new = tmp_path / "new.jsa"
    new.write_bytes(b"classes")
    archive.mkdir()
    java = find_java()
    ClassArchive(java, host_class_path(java)).keep(new)
    assert "Cannot keep an archive of Java classes" in caplog.text
    assert not new.exists()
    assert [path.name for path in archive.parent.iterdir() if path.suffix == ".new"] == []


@pytest.mark.parametrize("content", [b"", b"garbage" * 10_000])
def test_a_jvm_starts_with_an_archive_that_is_damaged(archive: Path, content: bytes):
    archive.write_bytes(content)
    assert not is_used(archive, "connector")


@pytest.mark.parametrize("option", ["-Xshare:off", "-Xshare:auto"])
def test_the_owners_archive_options_are_respected(archive: Path, option: str):
    assert not is_used(archive, QUESTIONS, (option,))
    assert not archive.exists()
