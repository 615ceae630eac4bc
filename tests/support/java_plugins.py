"""Java connectors for tests: Kafka's own, Debezium's, and one of ours that misbehaves."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from fencepost.cli.demo.java import DEBEZIUM_MYSQL as DEBEZIUM_MYSQL_JARS
from fencepost.embedded.jars import KAFKA_VERSION, JarSet, cache_folder, class_path
from fencepost.embedded.java import find_java
from fencepost.java.host_jar import COMPILER, CONNECT

FILE_STREAM: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
HOSTILE: Final = "hostile.HostileConnector"
MIRROR: Final = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
DEBEZIUM_POSTGRES: Final = "io.debezium.connector.postgresql.PostgresConnector"
DEBEZIUM_MYSQL: Final = "io.debezium.connector.mysql.MySqlConnector"
_SERVICE: Final = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"
_FILE: Final = JarSet(
    f"connect-file-{KAFKA_VERSION}",
    "Kafka's connector for files",
    (),
    alone=(("org.apache.kafka", "connect-file", KAFKA_VERSION),),
)
_MIRROR: Final = JarSet(
    f"connect-mirror-{KAFKA_VERSION}",
    "Kafka's connector for topics",
    (("org.apache.kafka", "connect-mirror", KAFKA_VERSION),),
)
_DEBEZIUM_POSTGRES: Final = JarSet(
    "debezium-postgres-3.7.0",
    "Debezium's connector for PostgreSQL",
    (("io.debezium", "debezium-connector-postgres", "3.7.0.Final"),),
)
_JARS: Final = {
    "file": _FILE,
    "mirror": _MIRROR,
    "debezium-postgres": _DEBEZIUM_POSTGRES,
    "debezium-mysql": DEBEZIUM_MYSQL_JARS,
}
_SOURCES: Final = Path(__file__).parent / "java" / "hostile"


def plugin_path(folder: Path, *names: str) -> Path:
    """Make a directory for plugin.path, with a folder for each plugin: `hostile` and those of `_JARS`."""
    for name in names or ("file", "hostile"):
        plugin = folder / "plugins" / name
        plugin.mkdir(parents=True)
        for jar in [_hostile_jar()] if name == "hostile" else class_path(find_java(), _JARS[name]):
            (plugin / jar.name).symlink_to(jar)
    return folder / "plugins"


def _hostile_jar() -> Path:
    """The jar, compiled once for each version of its sources."""
    sources = sorted(_SOURCES.glob("*.java"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    jar = cache_folder() / f"hostile-{digest}.jar"
    if not jar.exists():
        java = find_java()
        compiler, connect = (":".join(map(str, class_path(java, jars))) for jars in (COMPILER, CONNECT))
        with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
            classes, made = Path(scratch) / "classes", Path(scratch) / "made.jar"
            command = [str(java.executable), "-cp", compiler, "org.eclipse.jdt.internal.compiler.batch.Main", "-nowarn"]
            command += ["--release", "17", "-cp", connect, "-d", str(classes), *map(str, sources)]
            subprocess.run(command, check=True)
            with zipfile.ZipFile(made, "w") as archive:
                archive.writestr(_SERVICE, f"{HOSTILE}\n")
                for path in classes.rglob("*.class"):
                    archive.write(path, path.relative_to(classes))
            made.rename(jar)
    return jar
