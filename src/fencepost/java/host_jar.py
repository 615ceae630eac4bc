"""The class path of the host in the JVM: its own classes, and Connect's classes that a plugin expects from its worker.

A wheel has the host's classes in a jar, which the wheel's build makes. In a clone, the classes are compiled from their
sources, once for each user and version of the sources. Eclipse's compiler is used, which is a jar, because most
machines have Java without a compiler.

`python -m fencepost.java.host_jar FILE` makes the jar.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from fencepost.embedded.jars import KAFKA_VERSION, LOGGING_BACKEND, JarSet, cache_folder, class_path
from fencepost.embedded.java import Java, find_java
from fencepost.embedded.process import jvm_environment
from fencepost.java.errors import JvmEndedError

JAR: Final = Path(__file__).with_name("host.jar")
"""The host's classes, in a wheel."""
SOURCES: Final = Path(__file__).parent / "host"
CONNECT: Final = JarSet(
    folder=f"connect-classes-{KAFKA_VERSION}",
    title=f"Kafka Connect's API {KAFKA_VERSION}",
    artifacts=(
        ("org.apache.kafka", "connect-json", KAFKA_VERSION),
        ("org.apache.kafka", "connect-transforms", KAFKA_VERSION),
        LOGGING_BACKEND,
    ),
    # These jars contain Connect's converters for numbers and bytes, and the classes of a worker that MirrorMaker uses.
    # These classes do not need the jars' dependencies.
    alone=(
        ("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
        ("org.apache.maven", "maven-artifact", "3.9.6"),
    ),
    megabytes=26,
)
COMPILER: Final = JarSet(
    folder="ecj-3.37.0",
    title="Eclipse's compiler for Java",
    artifacts=(("org.eclipse.jdt", "ecj", "3.37.0"),),
    megabytes=3,
)
# The option --release cannot be used, because only a JDK has the data for it.
_VERSION: Final = "-17"
_LOG: Final = logging.getLogger(__name__)
_OLDEST: Final = (1980, 1, 1, 0, 0, 0)


def host_class_path(java: Java) -> list[Path]:
    """Return the class path. Missing parts are fetched and compiled once, which takes some seconds.

    Raises JarsUnavailableError, and JvmEndedError if the compiler fails.
    """
    connect = class_path(java, CONNECT)
    return [JAR if JAR.is_file() else _compiled(java), *connect]


def make_jar(target: Path) -> None:
    """Compile the host into a jar, whose bytes depend only on the sources. Raises the errors of `host_class_path`."""
    java = find_java()
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as jar:
        classes = Path(scratch) / "classes"
        _compile(java, class_path(java, COMPILER), class_path(java, CONNECT), _sources(), classes)
        for path in sorted(path for path in classes.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(classes).as_posix(), _OLDEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            jar.writestr(entry, path.read_bytes())


def _sources() -> list[Path]:
    return sorted(path for path in SOURCES.iterdir() if path.suffix in (".java", ".properties"))


def _compiled(java: Java) -> Path:
    digest = hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in _sources())).hexdigest()[:12]
    jar = cache_folder() / f"java-host-{digest}.jar"
    if jar.is_file():
        return jar
    class_path(java, COMPILER)
    with jar.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.is_file():
            _LOG.info("Compiling the host of Java connectors, once; this takes some seconds")
            with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
                new = Path(scratch) / jar.name
                make_jar(new)
                # The jar appears only when it is complete.
                new.rename(jar)
    return jar


def _compile(java: Java, compiler: list[Path], connect: list[Path], sources: list[Path], target: Path) -> None:
    command: list[str | Path] = [
        java.executable,
        *("-cp", _joined(compiler), "org.eclipse.jdt.internal.compiler.batch.Main"),
        *("-nowarn", "-proc:none", _VERSION, "-encoding", "UTF-8"),
        *("-cp", _joined(connect), "-d", target),
        *(path for path in sources if path.suffix == ".java"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=jvm_environment())
    if done.returncode != 0:
        raise JvmEndedError(f"The host of Java connectors could not be compiled: {done.stdout}{done.stderr}")
    for path in sources:
        if path.suffix == ".properties":
            shutil.copy(path, target)


def _joined(jars: list[Path]) -> str:
    return ":".join(map(str, jars))


if __name__ == "__main__":
    make_jar(Path(sys.argv[1]))
