"""A worker of Apache Kafka Connect in Java, from the jars that Maven Central has; they are kept with the broker's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from fencepost.embedded.jars import LOGGING_BACKEND, JarSet, class_path
from fencepost.embedded.java import find_java
from fencepost.embedded.ports import free_ports
from fencepost.embedded.properties import LOGGING
from tests.support.processes import Process
from tests.support.workers import Group, Worker


@dataclass(frozen=True)
class Release:
    """A version of Kafka Connect, what its log goes through, and where that is configured."""

    version: str
    backend: tuple[tuple[str, str, str], ...]
    logging: str
    logging_property: str

    @property
    def jars(self) -> JarSet:
        """Its jars, and those of its connector for files."""
        parts = (("org.apache.kafka", artifact, self.version) for artifact in ("connect-runtime", "connect-file"))
        return JarSet(f"connect-{self.version}", f"Kafka Connect {self.version}", (*parts, *self.backend))


CURRENT = Release("4.1.1", (LOGGING_BACKEND,), LOGGING, "log4j2.configurationFile")

# Brings its logging with it.
BEFORE_KIP_618 = Release(
    "3.2.3",
    (),
    "log4j.rootLogger=INFO, stdout\n"
    "log4j.appender.stdout=org.apache.log4j.ConsoleAppender\n"
    "log4j.appender.stdout.layout=org.apache.log4j.SimpleLayout\n",
    "log4j.configuration",
)
"""The last version that knows nothing of exactly-once delivery, nor of offsets topics of connectors."""


@contextlib.contextmanager
def java_worker(group: Group, release: Release = CURRENT) -> Iterator[Worker]:
    """A Java worker of a group that has just been started. Raises JarsUnavailableError if its jars cannot be had."""
    java = find_java()
    jars = os.pathsep.join(str(jar) for jar in class_path(java, release.jars))
    (port,) = free_ports(1)
    settings = {
        **group.settings,
        "listeners": f"http://127.0.0.1:{port}",
        # Found by what the jars declare, which is faster than to look into all classes.
        "plugin.discovery": "service_load",
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
    }
    file = group.folder / f"java-{port}.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    logging = group.folder / "java-logging.properties"
    logging.write_text(release.logging)
    command = [
        str(java.executable),
        *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        f"-D{release.logging_property}={logging.as_uri()}",
        *("-cp", jars, "org.apache.kafka.connect.cli.ConnectDistributed", str(file)),
    ]
    with Process(command, group.folder / f"java-{port}.log") as process:
        yield Worker(process, port)
