"""A real schema registry on loopback, Apicurio, with Confluent's API: for first steps and for tests.

with EmbeddedRegistry(Path("data")) as registry:
    connect_to(registry.url)

The registry keeps its schemas in memory, so they are gone when it ends. Its process ends with the process that started
it.
"""

from __future__ import annotations

import http.client
import logging
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, Self

from fencepost.embedded.errors import DataDirError, RegistryStartError
from fencepost.embedded.jars import REGISTRY, JarSet, cache_folder, class_path
from fencepost.embedded.java import find_java
from fencepost.embedded.ports import HOST, free_ports, require_free
from fencepost.embedded.process import EmbeddedServer, ServerProcess, launch, terminate

API: Final = "/apis/ccompat/v7"
"""The path at which Apicurio offers Confluent's API."""

# A start takes 16 s on an idle machine with two cores.
START_TIMEOUT_SECONDS: Final = 180.0
STOP_TIMEOUT_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.1

logger = logging.getLogger(__name__)


class EmbeddedRegistry(ServerProcess, EmbeddedServer):
    """A schema registry whose log is in `folder`. `port` None uses a free port. `jars` are the jars of its version."""

    def __init__(self, folder: Path, *, port: int | None = None, jars: JarSet = REGISTRY) -> None:
        self._jars = jars
        self._folder = folder.absolute()
        self._port = port

    @property
    def url(self) -> str:
        """The value of schema.registry.url."""
        return f"http://{HOST}:{self._port}{API}"

    @property
    def log_file(self) -> Path:
        """The file with all output of the registry."""
        return self._folder / "registry.log"

    def start(self) -> Self:
        """Start the registry and wait until it answers.

        Raises JavaNotFoundError, JarsUnavailableError, PortTakenError, DataDirError or RegistryStartError.
        """
        java = find_java()
        class_path(java, self._jars)
        if self._port is None:
            (self._port,) = free_ports(1)
        require_free(self._port)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataDirError(
                f"cannot write to {self._folder}: {error.strerror}. Choose another --data-dir"
            ) from error
        (program,) = (cache_folder() / self._jars.folder).glob("*-runner.jar")
        self._process = launch(
            [
                str(java.executable),
                "-Xmx256m",
                *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                f"-Dquarkus.http.host={HOST}",
                f"-Dquarkus.http.port={self._port}",
                *("-jar", str(program)),
            ],
            self.log_file,
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            terminate(self._process, STOP_TIMEOUT_SECONDS)

    def _wait_until_ready(self) -> None:
        started = time.monotonic()
        while not self._answers():
            if not self.running:
                raise RegistryStartError(f"the schema registry ended while it started: see {self.log_file}")
            if time.monotonic() - started > START_TIMEOUT_SECONDS:
                raise RegistryStartError(
                    f"the schema registry does not answer after {START_TIMEOUT_SECONDS:.0f} s: see {self.log_file}"
                )
            time.sleep(_POLL_SECONDS)
        logger.debug("The schema registry answers after %.1f s", time.monotonic() - started)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=5)
        with closing(connection), suppress(OSError, http.client.HTTPException):
            connection.request("GET", f"{API}/subjects")
            return connection.getresponse().status == http.client.OK
        return False
