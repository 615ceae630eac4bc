"""One node of the embedded broker: a JVM, its folder and its ports.

folder/            server.properties, log4j2.properties, broker.log
folder/data/       Kafka's log directory; it is formatted once, and then kept

A node's process can be stopped, killed and restarted. The node keeps its ports and its data.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fencepost.embedded.errors import BrokerStartError, DataDirError
from fencepost.embedded.jars import BROKER, cache_folder, class_path
from fencepost.embedded.java import Java
from fencepost.embedded.ports import is_listening, require_free
from fencepost.embedded.process import ServerProcess, jvm_environment, launch, terminate
from fencepost.embedded.properties import CONTROLLER, INTERNAL, LOGGING, NodePlace, render

# A start takes one to four seconds; a busy machine needs more.
START_TIMEOUT_SECONDS: Final = 120.0
# A clean shutdown takes about a second. The last nodes of a cluster find no other node to take over their partitions:
# they are killed after this time.
STOP_TIMEOUT_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.02
_LAST_BYTES: Final = 64 * 1024

logger = logging.getLogger(__name__)


class Node(ServerProcess):
    """One broker process. It can be stopped, killed and restarted; the ports and the data stay the same."""

    def __init__(self, java: Java, place: NodePlace, properties: dict[str, str], *, heap_mb: int) -> None:
        self.place = place
        self._java = java
        self._properties = properties
        self._heap_mb = heap_mb
        self._log_start = 0

    @property
    def node_id(self) -> int:
        """The node's id, from 1."""
        return self.place.node_id

    @property
    def pid(self) -> int:
        """The process id. Raises BrokerStartError if the node was never started."""
        if self._process is None:
            raise BrokerStartError(f"broker node {self.node_id} was not started")
        return self._process.pid

    @property
    def log_file(self) -> Path:
        """The file with all output of the broker. Each start appends to it."""
        return self.place.folder / "broker.log"

    def prepare(self, cluster_id: str, format_arguments: Sequence[str]) -> None:
        """Write the settings; format the data folder unless it is formatted already. Raises DataDirError."""
        (self.place.folder / "server.properties").write_text(render(self._properties))
        (self.place.folder / "log4j2.properties").write_text(LOGGING)
        if formatted_cluster_id(self.place.folder) is not None:
            return
        tool = ["kafka.tools.StorageTool", "format", "--cluster-id", cluster_id, "--config", "server.properties"]
        result = subprocess.run(
            [*self._jvm(), *tool, *format_arguments],
            cwd=self.place.folder,
            capture_output=True,
            text=True,
            check=False,
            env=jvm_environment(),
        )
        if result.returncode != 0:
            cause = (result.stderr or result.stdout).strip().splitlines()
            raise DataDirError(
                f"cannot format the broker's data folder {self.place.folder}: {cause[0] if cause else 'no reason given'}"
            )

    def start(self, *, wait: bool = True) -> None:
        """Start the process and wait until its listeners accept connections (see `wait_until_ready`)."""
        if self.running:
            return
        for port in self.place.ports.values():
            require_free(port)
        self._log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._started = time.monotonic()
        self._process = launch(
            [*self._jvm(), "kafka.Kafka", str(self.place.folder / "server.properties")], self.log_file
        )
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until every listener for clients accepts connections. Raises BrokerStartError."""
        deadline = self._started + START_TIMEOUT_SECONDS
        ports = [port for name, port in self.place.ports.items() if name not in (CONTROLLER, INTERNAL)]
        while not all(is_listening(port) for port in ports):
            if not self.running:
                raise BrokerStartError(f"broker node {self.node_id} ended while it started: {self._last_error()}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerStartError(
                    f"broker node {self.node_id} does not listen after {START_TIMEOUT_SECONDS:.0f} s: {self._last_error()}"
                )
            time.sleep(_POLL_SECONDS)
        logger.debug("Broker node %d listens after %.2f s", self.node_id, time.monotonic() - self._started)

    def stop(self) -> None:
        """Shut down cleanly."""
        self.request_stop()
        self.wait_stopped()

    def request_stop(self) -> None:
        """Ask the process to stop."""
        if self.running:
            os.kill(self.pid, signal.SIGTERM)

    def wait_stopped(self) -> None:
        """Wait for the process to end; kill it if it does not."""
        if self._process is not None and terminate(self._process, STOP_TIMEOUT_SECONDS):
            self._keep_class_data()

    def restart(self) -> None:
        """Shut down cleanly and start again, on the same ports and data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Suspend the process (SIGSTOP): its connections stay, and it answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a suspended process."""
        os.kill(self.pid, signal.SIGCONT)

    def _jvm(self) -> list[str]:
        jars = os.pathsep.join(str(jar) for jar in class_path(self._java, BROKER))
        return [
            str(self._java.executable),
            f"-Xmx{self._heap_mb}m",
            # For a broker that runs for seconds or hours, these options start faster and use less memory than the
            # defaults.
            *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            self._class_data_option(),
            f"-Dlog4j2.configurationFile={(self.place.folder / 'log4j2.properties').absolute().as_uri()}",
            *("-cp", jars),
        ]

    def _class_data_option(self) -> str:
        """Return the option to read the class data archive, which halves the start time, or to write one at exit."""
        archive = self._class_data_archive()
        if archive.exists():
            return f"-XX:SharedArchiveFile={archive}"
        return f"-XX:ArchiveClassesAtExit={self._new_class_data()}"

    def _class_data_archive(self) -> Path:
        """Return the file of the archive.

        An archive only works for the JVM that wrote it, so its name contains the JVM's build.
        """
        digest = hashlib.sha256(self._java.build.encode()).hexdigest()[:12]
        return cache_folder() / f"{BROKER.folder}-java-{self._java.version}-{digest}.jsa"

    def _new_class_data(self) -> Path:
        return self.place.folder / "classes.jsa"

    def _keep_class_data(self) -> None:
        new = self._new_class_data()
        if new.exists():
            # Another process may read the folder at the same time, so the complete archive is moved there atomically.
            archive = self._class_data_archive()
            staged = archive.with_suffix(f".{os.getpid()}-{self.node_id}")
            staged.write_bytes(new.read_bytes())
            staged.replace(archive)
            new.unlink()

    def reason_of_end(self) -> str:
        """Return why a process has ended, judging by its log."""
        with contextlib.suppress(OSError), self.log_file.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LAST_BYTES))
            if os.strerror(errno.ENOSPC) in log.read().decode(errors="replace"):
                return f"the disk of {self.place.folder} is full. Free some space, and start the broker again"
        return f"see {self.log_file}"

    def _last_error(self) -> str:
        """Return the first exception in the log of this start, else the first error, else the last line."""
        with contextlib.suppress(OSError), self.log_file.open("rb") as log:
            log.seek(self._log_start)
            lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
            exceptions = [line for line in lines if "Exception: " in line]
            errors = [line for line in lines if " ERROR " in line or line.startswith("Error")]
            line = [*exceptions, *errors, *lines[-1:], "it wrote nothing"][0]
            return f"{line.strip()} (more in {self.log_file})"
        return f"its log {self.log_file} cannot be read"


def formatted_cluster_id(folder: Path) -> str | None:
    """Return the cluster id of the node in `folder`; None if the folder is not formatted yet."""
    try:
        lines = (folder / "data" / "meta.properties").read_text().splitlines()
    except FileNotFoundError:
        return None
    return next((line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id=")), None)
