"""Java plugins for tests: connectors of Kafka and Debezium, a misbehaving one of ours; transforms and converters."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from fencepost.cli.demo.java import DEBEZIUM_MARIADB as DEBEZIUM_MARIADB_JARS
from fencepost.config.java_plugins import CONVERTER, HEADER_CONVERTER, PREDICATE, SOURCE_CONNECTOR, TRANSFORMATION
from fencepost.embedded.jars import KAFKA_VERSION, REGISTRY_VERSION, JarSet, cache_folder, class_path
from fencepost.embedded.java import find_java
from fencepost.java.host_jar import COMPILER, CONNECT

FILE_STREAM: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
HOSTILE: Final = "hostile.HostileConnector"
NOTED: Final = "hostile.NotedConnector"
WILD: Final = "hostile.WildConnector"
MIRROR: Final = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
DEBEZIUM_POSTGRES: Final = "io.debezium.connector.postgresql.PostgresConnector"
DEBEZIUM_MONGODB: Final = "io.debezium.connector.mongodb.MongoDbConnector"
DEBEZIUM_MARIADB: Final = "io.debezium.connector.mariadb.MariaDbConnector"
DEBEZIUM_MYSQL: Final = "io.debezium.connector.mysql.MySqlConnector"
ODD: Final = "transforms.Odd"
STUCK: Final = "transforms.Stuck"
STUCK_TEST: Final = "transforms.StuckTest"
STUCK_HEADERS: Final = "transforms.StuckHeaders"
HALTING_LONGS: Final = "transforms.Longs"
VERSIONED: Final = "versioned.VersionedConnector"
APICURIO_AVRO: Final = "io.apicurio.registry.utils.converter.AvroConverter"
_FILE: Final = JarSet(
    f"connect-file-{KAFKA_VERSION}",
    "Kafka's connector for files",
    (),
    alone=(("org.apache.kafka", "connect-file", KAFKA_VERSION),),
)
_AVRO: Final = JarSet(
    f"converter-apicurio-{REGISTRY_VERSION}",
    "Apicurio's converter for Avro",
    (("io.apicurio", "apicurio-registry-utils-converter", REGISTRY_VERSION),),
)
_DEBEZIUM_POSTGRES: Final = JarSet(
    "debezium-postgres-3.7.0",
    "Debezium's connector for PostgreSQL",
    (("io.debezium", "debezium-connector-postgres", "3.7.0.Final"),),
)
_DEBEZIUM_MYSQL: Final = JarSet(
    # Maven Central has no later version.
    "debezium-mysql-3.6.1",
    "Debezium's connector for MySQL",
    (("io.debezium", "debezium-connector-mysql", "3.6.1.Final"),),
)
_DEBEZIUM_MONGODB: Final = JarSet(
    "debezium-mongodb-3.6.1",
    "Debezium's connector for MongoDB",
    (("io.debezium", "debezium-connector-mongodb", "3.6.1.Final"),),
)
_MIRROR: Final = JarSet(
    f"connect-mirror-{KAFKA_VERSION}",
    "Kafka's connector for topics",
    (("org.apache.kafka", "connect-mirror", KAFKA_VERSION),),
)
_FETCHED: Final = {
    "file": _FILE,
    "mirror": _MIRROR,
    "debezium-postgres": _DEBEZIUM_POSTGRES,
    "debezium-mariadb": DEBEZIUM_MARIADB_JARS,
    "debezium-mysql": _DEBEZIUM_MYSQL,
    "debezium-mongodb": _DEBEZIUM_MONGODB,
}
_OWN: Final = {
    "hostile": {SOURCE_CONNECTOR: f"{HOSTILE}\n{NOTED}\n{WILD}"},
    "transforms": {
        TRANSFORMATION: ODD,
        PREDICATE: STUCK_TEST,
        CONVERTER: f"{STUCK}\n{HALTING_LONGS}",
        HEADER_CONVERTER: STUCK_HEADERS,
    },
}
_VERSIONED: Final = {
    SOURCE_CONNECTOR: VERSIONED,
    TRANSFORMATION: "versioned.Stamp",
    PREDICATE: "versioned.Last",
    CONVERTER: "versioned.StampConverter",
}
_SOURCES: Final = Path(__file__).parent / "java"


def plugin_path(folder: Path, *names: str) -> Path:
    """Make a directory for plugin.path, with each plugin in its own folder: by default `file` and our own plugins."""
    for name in names or ("file", *_OWN):
        jars = [_own_jar(name, _OWN[name])] if name in _OWN else class_path(find_java(), _FETCHED[name])
        _install(folder / "plugins" / name, jars)
    return folder / "plugins"


def install_avro(plugins: Path) -> None:
    """Install Apicurio's converter in a directory of plugin.path. Its jars have no service file."""
    _install(plugins / "avro", class_path(find_java(), _AVRO))


def install_versions(plugins: Path, *versions: str) -> None:
    """Install a plugin in a directory of plugin.path, each version in its own folder."""
    jar = _own_jar("versioned", _VERSIONED)
    for version in versions:
        folder = plugins / f"versioned-{version}"
        folder.mkdir()
        shutil.copy(jar, folder / "versioned.jar")
        with zipfile.ZipFile(folder / "versioned.jar", "a") as archive:
            archive.writestr("version", version)


def _install(plugin: Path, jars: Iterable[Path]) -> None:
    plugin.mkdir(parents=True)
    for jar in jars:
        (plugin / jar.name).symlink_to(jar)


def _own_jar(name: str, services: Mapping[str, str]) -> Path:
    """The jar of a folder of Java sources with its service files, compiled once for each version of the sources."""
    sources = sorted((_SOURCES / name).glob("*.java"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    jar = cache_folder() / f"{name}-{digest}.jar"
    if not jar.exists():
        with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
            classes, made = Path(scratch) / "classes", Path(scratch) / "made.jar"
            compile_java(sources, CONNECT, classes)
            with zipfile.ZipFile(made, "w") as archive:
                for base, listed in services.items():
                    archive.writestr(f"META-INF/services/{base}", f"{listed}\n")
                for path in classes.rglob("*.class"):
                    archive.write(path, path.relative_to(classes))
            made.rename(jar)
    return jar


def compile_java(sources: Sequence[Path], needs: JarSet, classes: Path) -> None:
    """Compile Java sources, with these jars on the class path, into a folder."""
    java = find_java()
    compiler, others = (":".join(map(str, class_path(java, jars))) for jars in (COMPILER, needs))
    command = [str(java.executable), "-cp", compiler, "org.eclipse.jdt.internal.compiler.batch.Main", "-nowarn"]
    command += ["--release", "17", "-cp", others, "-d", str(classes), *map(str, sources)]
    subprocess.run(command, check=True)
