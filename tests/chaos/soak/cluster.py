"""The soak's broker and workers, each worker with its own links to the broker, and the faults that they can have."""

from __future__ import annotations

import contextlib
import http.client
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.java import find_java
from fencepost.embedded.ports import free_ports
from fencepost.embedded.properties import CLIENT, BrokerListener
from tests.conftest import FAST_EXPIRY
from tests.hostile.workers import CONNECTORS
from tests.support.fault_proxy import FaultProxy, Link
from tests.support.java_plugins import plugin_path
from tests.support.movable_clock import MovableClock
from tests.support.processes import wait_for
from tests.support.workers import Group, Worker

_HEAP_MB = 160
_SLOW_SECONDS = 0.3
_ASK_SECONDS = 120.0
# By default a killed broker is fenced only after 9 s.
_BROKER = {**FAST_EXPIRY, "broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}

# A worker logs this when it gets an assignment.
_JOINED = "INFO    Generation "

RUNS = "is RUNNING"
"""A worker logs this of its own task."""

Undo = Callable[[], object]


class Slot:
    """One worker of the group: its current process, its port, its links to the brokers and its clock."""

    def __init__(self, group: Group, number: int, proxies: list[FaultProxy], clock: MovableClock) -> None:
        self.number = number
        self.protocol = "sessioned"
        self._group = group
        self._proxies = proxies
        self._clock = clock
        self._port = free_ports(1)[0]
        self._stack = contextlib.ExitStack()
        self._worker: Worker | None = None
        self._log_start = 0

    @property
    def worker(self) -> Worker:
        """The worker process that was started last."""
        assert self._worker is not None
        return self._worker

    def start(self) -> None:
        """Start a new process for this worker."""
        self._stack.close()
        self._log_start = 0 if self._worker is None else self.log_size
        self._clock.begin()
        self._worker = self._stack.enter_context(
            self._group.starting(
                self._port,
                # A process gets its clock settings when it starts.
                forked=False,
                environment={**self._clock.environment, "JAVA_HOME": str(find_java().home)},
                bootstrap_servers=",".join(proxy.address for proxy in self._proxies),
                connect_protocol=self.protocol,
            )
        )

    @property
    def output(self) -> str:
        """The output of the latest process."""
        return self.logged(self._log_start)

    @property
    def log_size(self) -> int:
        """The number of bytes that all processes of this worker have logged."""
        return self.worker.process.log_file.stat().st_size

    def logged(self, start: int) -> str:
        """The output of all processes of this worker from a byte position on."""
        with self.worker.process.log_file.open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")

    def told(self, task: str, start: int = 0) -> str:
        """The last state of its own task that the latest process has logged, from a byte position on."""
        told = re.findall(rf" Task {re.escape(task)} (is \w+|was|failed)", self.logged(max(start, self._log_start)))
        return str(told[-1]) if told else ""

    def errors(self) -> list[str]:
        """All errors that processes of this worker have logged."""
        return [line for line in self.worker.process.output.splitlines() if " ERROR " in line]

    def revive(self) -> str:
        """Start a worker in place of one that ended by itself, like a service manager.

        Returns an error text; it is empty if the worker only failed to reach the brokers and never joined its group.
        """
        if self.worker.process.running:
            return ""
        code, output = self.worker.process.wait(), self.output
        self.start()
        return f"worker {self.number} ended with {code}:\n{output[-4000:]}" if _JOINED in output or code != 1 else ""

    def wait_until_healthy(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Wait until the worker is in its group; call `meanwhile` repeatedly."""

        def healthy() -> bool:
            meanwhile()
            wrong = self.revive()
            assert not wrong, wrong
            return self.worker.healthy()

        wait_for(healthy, what=f"worker {self.number} is in its group")

    def kill(self) -> Undo:
        """Kill the process; to undo it, start another one."""
        self.worker.process.kill()
        return self.start

    def freeze(self) -> Undo:
        """Suspend the process (SIGSTOP); undone by SIGCONT."""
        self.worker.process.signal(signal.SIGSTOP)
        return lambda: self.worker.process.signal(signal.SIGCONT)

    def move_clock(self, seconds: int) -> Undo:
        """Set the worker's clock ahead of the brokers' clock, or behind it; undone by setting it back."""
        self._clock.move(seconds)
        return lambda: self._clock.move(0)

    def roll(self, protocol: str, meanwhile: Callable[[], None]) -> None:
        """Stop the worker gracefully, start it with another protocol, and wait until it is in the group."""

        def stopped() -> bool:
            meanwhile()
            return not self.worker.process.running

        self.wait_until_healthy(meanwhile)
        self.worker.process.signal(signal.SIGTERM)
        wait_for(stopped, what=f"worker {self.number} stops at SIGTERM")
        code = self.worker.process.wait()
        assert code == 0, f"worker {self.number} ended with {code} at SIGTERM:\n{self.output[-4000:]}"
        self.protocol = protocol
        self.start()
        self.wait_until_healthy(meanwhile)

    def cut(self, how: str) -> Undo:
        """Disturb the links, see CUTS; undone by healing them."""
        for proxy in self._proxies:
            match how:
                case "drop":
                    proxy.to_broker = proxy.to_client = Link.DROP
                case "deaf":
                    proxy.to_client = Link.DROP
                case "mute":
                    proxy.to_broker = Link.DROP
                case "hold":
                    proxy.to_broker = proxy.to_client = Link.HOLD
                case "refuse":
                    proxy.refuse()
                case "reset":
                    proxy.reset()
                case "slow":
                    proxy.delay_seconds = _SLOW_SECONDS
        # Held bytes arrive late. Where bytes were dropped, the connections are unusable and are reset.
        return lambda: self._heal(reset=how in ("drop", "deaf", "mute"))

    def _heal(self, *, reset: bool) -> None:
        for proxy in self._proxies:
            proxy.heal()
            if reset:
                proxy.reset()

    def close(self) -> None:
        """End the process."""
        self._stack.close()


class Cluster:
    """A cluster of some brokers and a group of workers."""

    def __init__(self, broker: EmbeddedBroker, group: Group, slots: list[Slot]) -> None:
        self.broker = broker
        self.group = group
        self.slots = slots

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' own addresses, without the faulty links."""
        return self.broker.bootstrap_servers

    @property
    def offsets_topic(self) -> str:
        """The topic of the group's source offsets."""
        return self.group.settings["offset.storage.topic"]

    def kill_node(self, node: int) -> Undo:
        """Kill a broker; undone by starting it again."""
        self.broker.nodes[node].kill()
        return self.broker.nodes[node].start

    def kill_nodes(self) -> Undo:
        """Kill all brokers at once; undone by starting them again."""
        self.broker.kill()
        return self.broker.start

    def freeze_node(self, node: int) -> Undo:
        """Suspend a broker (SIGSTOP); undone by SIGCONT."""
        self.broker.nodes[node].pause()
        return self.broker.nodes[node].resume

    def restart_node(self, node: int) -> None:
        """Stop a broker gracefully and start it again."""
        self.broker.nodes[node].restart()


def ask(cluster: Cluster, path: str) -> Any:
    """Send a GET to the workers in turn; return the first answer, None if no worker answers."""
    for slot in cluster.slots:
        with contextlib.suppress(OSError, http.client.HTTPException):
            answer = slot.worker.get(path)
            if answer is not None:
                return answer
    return None


def ask_until_done(
    cluster: Cluster, method: str, path: str, body: Any = None, *, timeout: float = _ASK_SECONDS
) -> None:
    """Send a request to the workers in turn until one of them has done it."""

    def done() -> bool:
        for slot in cluster.slots:
            try:
                if slot.worker.request(method, path, body).status < 300:
                    return True
            except (OSError, http.client.HTTPException):
                continue
        return False

    wait_for(done, timeout, what=f"{method} {path} is carried out")


@contextlib.contextmanager
def running_cluster(folder: Path, *, workers: int, brokers: int, session_s: float) -> Iterator[Cluster]:
    """Start a broker and the workers of a group, and wait until they have joined it."""
    with contextlib.ExitStack() as stack:
        proxies = [[FaultProxy().start() for _ in range(brokers)] for _ in range(workers)]
        for proxy in (proxy for row in proxies for proxy in row):
            stack.callback(proxy.stop)
        links = [
            BrokerListener(f"W{number}", advertised_ports=[p.port for p in row]) for number, row in enumerate(proxies)
        ]
        broker = EmbeddedBroker(
            folder / "broker",
            nodes=brokers,
            listeners=(BrokerListener(CLIENT), *links),
            properties=_BROKER,
            heap_mb=_HEAP_MB,
        )
        broker.start()
        stack.callback(broker.kill)
        for number, row in enumerate(proxies):
            for proxy, node in zip(row, broker.nodes, strict=True):
                proxy.upstream = node.place.ports[f"W{number}"]
        group = Group(
            folder,
            broker.bootstrap_servers,
            session_timeout_ms=str(int(session_s * 1000)),
            scheduled_rebalance_max_delay_ms="1000",
            # A short timeout: a request that is not answered is sent again sooner.
            request_timeout_ms="5000",
            socket_connection_setup_timeout_ms="1500",
            plugin_path=f"{CONNECTORS},{plugin_path(folder, 'file')}",
        )
        slots = [Slot(group, n, row, MovableClock(folder / f"clock-{n}")) for n, row in enumerate(proxies)]
        for slot in slots:
            slot.start()
            stack.callback(slot.close)
        for slot in slots:
            slot.wait_until_healthy()
        yield Cluster(broker, group, slots)
