"""Java connectors for tests: Kafka's own for files, and one of ours that misbehaves."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fencepost.embedded.jars import KAFKA_VERSION, JarSet, cache_folder, class_path
from fencepost.embedded.java import find_java
from fencepost.java.host_jar import COMPILER, CONNECT

FILE_STREAM: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
HOSTILE: Final = "hostile.HostileConnector"
_SERVICE: Final = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"
_FILE: Final = JarSet(
    f"connect-file-{KAFKA_VERSION}",
    "Kafka's connector for files",
    (),
    alone=(("org.apache.kafka", "connect-file", KAFKA_VERSION),),
)
_SOURCES: Final = Path(__file__).parent / "java" / "hostile"


def plugin_path(folder: Path) -> Path:
    """Make a directory for plugin.path, with both connectors in folders of their own."""
    for name, jars in (("file", class_path(find_java(), _FILE)), ("hostile", [_hostile_jar()])):
        plugin = folder / "plugins" / name
        plugin.mkdir(parents=True)
        for jar in jars:
            shutil.copy(jar, plugin)
    return folder / "plugins"


def _hostile_jar() -> Path:
    """The jar, compiled once for each version of its sources."""
    sources = sorted(_SOURCES.glob("*.java"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    jar = cache_folder() / f"hostile-{digest}.jar"
    if not jar.exists():
        with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
            classes, made = Path(scratch) / "classes", Path(scratch) / "made.jar"
            compile_java(sources, CONNECT, classes)
            with zipfile.ZipFile(made, "w") as archive:
                archive.writestr(_SERVICE, f"{HOSTILE}\n")
                for path in classes.rglob("*.class"):
                    archive.write(path, path.relative_to(classes))
            made.rename(jar)
    return jar


def compile_java(sources: Sequence[Path], needs: JarSet, classes: Path) -> None:
    """Compile sources that need some jars into a folder."""
    java = find_java()
    compiler, others = (":".join(map(str, class_path(java, jars))) for jars in (COMPILER, needs))
    command = [str(java.executable), "-cp", compiler, "org.eclipse.jdt.internal.compiler.batch.Main", "-nowarn"]
    command += ["--release", "17", "-cp", others, "-d", str(classes), *map(str, sources)]
    subprocess.run(command, check=True)
