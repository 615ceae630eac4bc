"""A real Kafka broker with one or more nodes on loopback, in KRaft mode, for first steps and for tests.

with EmbeddedBroker(Path("data")) as broker:
    connect_to(broker.bootstrap_servers)

The processes end with the process that started them, even if that process is killed.
"""

from __future__ import annotations

import base64
import fcntl
import logging
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Self

from fencepost.embedded.errors import DataDirError
from fencepost.embedded.java import find_java
from fencepost.embedded.node import Node, formatted_cluster_id
from fencepost.embedded.ports import HOST, free_ports, require_free
from fencepost.embedded.process import EmbeddedServer
from fencepost.embedded.properties import CLIENT, CONTROLLER, INTERNAL, BrokerListener, NodePlace, server_properties

logger = logging.getLogger(__name__)


class EmbeddedBroker(EmbeddedServer):
    """A Kafka cluster of `nodes` brokers. Its state is in `data_dir`, and survives restarts.

    `port` is the first node's, and the other nodes use the ports after it; None uses free ports. `listeners` replaces
    the single plaintext listener for clients; the first listener has the port. `properties` are further settings of the
    server. `format_arguments` are passed to `kafka-storage format` (`--feature transaction.version=1`, `--add-scram
    ...`) when the data folder is created.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int | None = None,
        nodes: int = 1,
        listeners: Sequence[BrokerListener] = (BrokerListener(CLIENT),),
        properties: Mapping[str, str] | None = None,
        format_arguments: Sequence[str] = (),
        heap_mb: int = 256,
    ) -> None:
        self._data_dir = data_dir.absolute()
        self._port = port
        self._node_count = nodes
        self._listeners = tuple(listeners)
        self._extra = dict(properties or {})
        self._format_arguments = tuple(format_arguments)
        self._heap_mb = heap_mb
        self._lock: IO[str] | None = None
        self.nodes: tuple[Node, ...] = ()

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every node, for clients of the first listener."""
        return self.servers(self._listeners[0].name)

    def servers(self, listener: str) -> str:
        """`host:port` of every node for clients of a listener, without any proxy."""
        return ",".join(f"{HOST}:{node.place.ports[listener]}" for node in self.nodes)

    def start(self) -> Self:
        """Start all nodes and wait until they accept connections.

        Raises JavaNotFoundError, JarsUnavailableError, PortTakenError, DataDirError or BrokerStartError. After an error
        no process is left running.
        """
        try:
            if not self.nodes:
                self.nodes = self._make_nodes()
            self._lock_data_dir()
            for node in self.nodes:
                node.start(wait=False)
            for node in self.nodes:
                node.wait_until_ready()
        except BaseException:
            self.kill()
            raise
        logger.debug("Kafka broker on %s, data in %s", self.bootstrap_servers, self._data_dir)
        return self

    def stop(self) -> None:
        """Shut all nodes down cleanly."""
        for node in self.nodes:
            node.request_stop()
        for node in self.nodes:
            node.wait_stopped()
        self._unlock_data_dir()

    def kill(self) -> None:
        """End all nodes immediately, as `kill -9` does."""
        for node in self.nodes:
            node.kill()
        self._unlock_data_dir()

    def _make_nodes(self) -> tuple[Node, ...]:
        java = find_java()
        self._make_folders()
        self._lock_data_dir()
        self._check_layout()
        places = self._places()
        nodes = tuple(
            Node(java, place, server_properties(place, places, self._listeners, self._extra), heap_mb=self._heap_mb)
            for place in places
        )
        cluster_id = self._cluster_id()
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(lambda node: node.prepare(cluster_id, self._format_arguments), nodes))
        return nodes

    def _places(self) -> list[NodePlace]:
        names = [*(listener.name for listener in self._listeners), INTERNAL, CONTROLLER]
        wanted = [] if self._port is None else [self._port + index for index in range(self._node_count)]
        for port in wanted:
            require_free(port)
        free = free_ports(len(names) * self._node_count, besides=wanted)
        places = []
        for index in range(self._node_count):
            ports = {name: free.pop() for name in names}
            if wanted:
                ports[names[0]] = wanted[index]
            places.append(NodePlace(index + 1, self._folder(index + 1), ports))
        return places

    def _make_folders(self) -> None:
        try:
            for node_id in range(1, self._node_count + 1):
                self._folder(node_id).mkdir(parents=True, exist_ok=True)
                # The folder may exist without being writable.
                (self._folder(node_id) / "server.properties").touch()
        except OSError as error:
            raise DataDirError(
                f"cannot write to the broker's data folder {self._data_dir}: {error.strerror}. "
                "Make it writable, or choose another with --data-dir"
            ) from error

    def _lock_data_dir(self) -> None:
        """Lock the data folder: two brokers on the same data would fail at a later moment."""
        if self._lock is not None:
            return
        lock = (self._data_dir / "lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise DataDirError(
                f"{self._data_dir} is in use by another broker: stop that one, or choose another --data-dir"
            ) from error
        self._lock = lock

    def _unlock_data_dir(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _check_layout(self) -> None:
        made_for = sum(formatted_cluster_id(folder) is not None for folder in self._data_dir.glob("node-*"))
        if made_for not in (0, self._node_count):
            raise DataDirError(
                f"{self._data_dir} holds a broker of {made_for} node(s), not {self._node_count}: "
                f"start it with --nodes {made_for}, or choose another --data-dir"
            )

    def _folder(self, node_id: int) -> Path:
        return self._data_dir / f"node-{node_id}"

    def _cluster_id(self) -> str:
        kept = formatted_cluster_id(self._folder(1))
        return kept if kept is not None else _new_cluster_id()


def _new_cluster_id() -> str:
    """Return a random id in Kafka's form: 22 characters of base64. A leading '-' would be parsed as an option."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
