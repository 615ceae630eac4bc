"""A Kafka Connect worker in Java, with jars from Maven Central; they are cached with the broker's."""

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
    """A version of Kafka Connect, and its logging library with the configuration property."""

    version: str
    backend: tuple[tuple[str, str, str], ...]
    logging: str
    logging_property: str

    @property
    def jars(self) -> JarSet:
        """The worker's jars, and its file connectors' jars."""
        parts = (("org.apache.kafka", artifact, self.version) for artifact in ("connect-runtime", "connect-file"))
        return JarSet(f"connect-{self.version}", f"Kafka Connect {self.version}", (*parts, *self.backend))


CURRENT = Release("4.1.1", (LOGGING_BACKEND,), LOGGING, "log4j2.configurationFile")

# This release brings its logging library with it.
BEFORE_KIP_618 = Release(
    "3.2.3",
    (),
    "log4j.rootLogger=INFO, stdout\n"
    "log4j.appender.stdout=org.apache.log4j.ConsoleAppender\n"
    "log4j.appender.stdout.layout=org.apache.log4j.SimpleLayout\n",
    "log4j.configuration",
)
"""The last version without exactly-once delivery and without connectors' own offsets topics."""


@contextlib.contextmanager
def java_worker(group: Group, release: Release = CURRENT) -> Iterator[Worker]:
    """Start a Java worker of a group. Raises JarsUnavailableError if its jars cannot be downloaded."""
    java = find_java()
    jars = os.pathsep.join(str(jar) for jar in class_path(java, release.jars))
    (port,) = free_ports(1)
    settings = {
        **group.settings,
        "listeners": f"http://127.0.0.1:{port}",
        # Plugins are found by the jars' service files, which is faster than a scan of all classes.
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
