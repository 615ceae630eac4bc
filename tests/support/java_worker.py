"""A worker of Apache Kafka Connect in Java, from the jars that Maven Central has; they are kept with the broker's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from fencepost.embedded.jars import LOGGING_BACKEND, JarSet, class_path
from fencepost.embedded.java import find_java
from fencepost.embedded.ports import free_ports
from fencepost.embedded.properties import LOGGING
from tests.support.processes import Process
from tests.support.workers import Group, Worker

_VERSION = "4.1.1"
_CONNECT = JarSet(
    folder=f"connect-{_VERSION}",
    title=f"Kafka Connect {_VERSION}",
    artifacts=(
        ("org.apache.kafka", "connect-runtime", _VERSION),
        ("org.apache.kafka", "connect-file", _VERSION),
        LOGGING_BACKEND,
    ),
)


@contextlib.contextmanager
def java_worker(group: Group) -> Iterator[Worker]:
    """A Java worker of a group that has just been started. Raises JarsUnavailableError if its jars cannot be had."""
    java = find_java()
    jars = os.pathsep.join(str(jar) for jar in class_path(java, _CONNECT))
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
    logging = group.folder / "java-log4j2.properties"
    logging.write_text(LOGGING)
    command = [
        str(java.executable),
        *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        f"-Dlog4j2.configurationFile={logging}",
        *("-cp", jars, "org.apache.kafka.connect.cli.ConnectDistributed", str(file)),
    ]
    with Process(command, group.folder / f"java-{port}.log") as process:
        yield Worker(process, port)
