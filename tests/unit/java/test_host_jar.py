"""The host's classes are compiled from their sources where there is a Java without a compiler."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.embedded.java import find_java
from fencepost.java import host_jar
from fencepost.java.errors import JvmEndedError
from fencepost.java.host_jar import SOURCES, host_class_path, make_jar
from tests.support.java_runtime import java_runtime


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    home = java_runtime(tmp_path / "jre")
    monkeypatch.setenv("JAVA_HOME", str(home))
    find_java.cache_clear()
    yield home
    find_java.cache_clear()


def test_a_java_without_a_compiler_makes_the_jar_that_any_java_makes(tmp_path: Path, runtime: Path):
    assert find_java().home == runtime
    made = tmp_path / "made.jar"
    make_jar(made)
    kept, *connect = host_class_path(find_java())
    assert made.read_bytes() == kept.read_bytes()
    with zipfile.ZipFile(made) as jar:
        names = set(jar.namelist())
        # The class file format of Java 17, which any later Java reads.
        assert {int.from_bytes(jar.read(name)[6:8]) for name in names if name.endswith(".class")} == {61}
    assert {f"fencepost/host/{path.stem}.class" for path in SOURCES.glob("*.java")} <= names
    # It runs there as well: without its argument, it ends at its first line.
    command = [str(find_java().executable), "-cp", ":".join(map(str, (made, *connect))), "fencepost.host.Host"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "ArrayIndexOutOfBoundsException" in done.stderr
    assert "at fencepost.host.Host.main" in done.stderr


def test_sources_that_do_not_compile_are_an_error_with_the_compilers_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "Host.java").write_text("package fencepost.host; class Host { int broken = missing; }")
    monkeypatch.setattr(host_jar, "SOURCES", tmp_path)
    with pytest.raises(JvmEndedError, match="missing cannot be resolved"):
        make_jar(tmp_path / "made.jar")
