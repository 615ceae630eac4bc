"""A TCP proxy in front of a broker that does to the traffic what networks do.

It runs in a thread of its own. What happens to the whole link is set by attributes and methods:

    proxy.to_broker = Link.HOLD        nothing reaches the broker, the connections stand (HOLD keeps, DROP loses bytes)
    proxy.to_client = Link.DROP        one way only: the broker hears us, we do not hear it
    proxy.delay_seconds = 0.2          each message takes longer
    proxy.refuse()                     connection refused
    proxy.reset()                      all connections end with RST
    proxy.heal()                       all is well again

It knows Kafka's framing, so a trap can wait for one request, or for the answer to one:

    trap = proxy.on_response(ApiKey.END_TXN, Act.RESET)     the broker commits, the client never learns it
    trap = proxy.on_request(ApiKey.END_TXN, Act.HOLD)       all is produced, the commit stands at the door
    trap.wait(); ...; trap.release()

It can also answer as brokers do that are not Apache's, or that have a fault (`faulty_broker`):

    proxy.change(ApiKey.INIT_PRODUCER_ID, lambda answer: ...)     each answer is decoded, changed, and encoded again

Use `framed=False` for TLS, which hides the frames (then there are no traps).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, Self

from kafka.protocol.api_header import ResponseClassRegistry

from fencepost.embedded.ports import HOST, free_ports

_WAIT_SECONDS = 120.0


class ApiKey(IntEnum):
    """The Kafka requests for which tests set traps."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26
    DESCRIBE_CONFIGS = 32
    DESCRIBE_TRANSACTIONS = 65


class Link(Enum):
    """The treatment of the bytes of one direction."""

    PASS = "pass"
    HOLD = "hold"
    DROP = "drop"


class Act(Enum):
    """The action of a trap. HOLD keeps the message, and all after it on the connection."""

    HOLD = "hold"
    DROP = "drop"
    RESET = "reset"


@dataclass(eq=False)
class Trap:
    """Waits for one message."""

    api_key: ApiKey
    act: Act
    skip: int
    wake: Callable[[], None]
    released: bool = False
    _sprung: threading.Event = field(default_factory=threading.Event)

    def wait(self, timeout: float = _WAIT_SECONDS) -> None:
        """Wait until the trap is sprung."""
        assert self._sprung.wait(timeout), f"no {self.api_key.name} came within {timeout} s"

    @property
    def sprung(self) -> bool:
        return self._sprung.is_set()

    def release(self) -> None:
        """Let a held message pass."""
        self.released = True
        self.wake()

    def spring(self) -> None:
        self._sprung.set()


@dataclass(eq=False)
class _Connection:
    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter
    asked: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The api key and version of each unanswered request, by correlation id."""
    held: set[int] = field(default_factory=set)
    """The correlation ids of unanswered requests that a trap has held."""

    def reset(self) -> None:
        for writer in (self.client, self.broker):
            endpoint = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                # With SO_LINGER and a timeout of 0, close() sends RST in place of FIN.
                endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    def close(self) -> None:
        self.client.close()
        self.broker.close()


class FaultProxy:
    """A proxy on loopback for one port of a broker; `upstream` may be set after `start`."""

    def __init__(self, upstream: int | None = None, *, framed: bool = True) -> None:
        self.upstream = upstream
        self.port = free_ports(1)[0]
        self.delay_seconds = 0.0
        self.cut_after: int | None = None
        """After this many more bytes of answers the connection is closed, on a link without frames."""
        self.requests: Counter[int] = Counter()
        """The number of requests of each api key since `heal`."""
        self.responses: Counter[int] = Counter()
        """The number of answers to requests of each api key since `heal`."""
        self._framed = framed
        self._changes: dict[int, Callable[[Any], None]] = {}
        self._links = {True: Link.PASS, False: Link.PASS}
        self._traps: dict[bool, list[Trap]] = {True: [], False: []}
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Condition()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)

    @property
    def address(self) -> str:
        """`host:port` for clients."""
        return f"{HOST}:{self.port}"

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    @property
    def to_broker(self) -> Link:
        """The treatment of requests."""
        return self._links[True]

    @to_broker.setter
    def to_broker(self, link: Link) -> None:
        self._links[True] = link
        self._wake()

    @property
    def to_client(self) -> Link:
        """The treatment of answers."""
        return self._links[False]

    @to_client.setter
    def to_client(self, link: Link) -> None:
        self._links[False] = link
        self._wake()

    def start(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def stop(self) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def on_request(self, api_key: ApiKey, act: Act, *, skip: int = 0) -> Trap:
        """Do `act` to the next request of this kind, after `skip` ones have passed."""
        return self._add_trap(Trap(api_key, act, skip, self._wake), requests=True)

    def on_response(self, api_key: ApiKey, act: Act, *, skip: int = 0) -> Trap:
        """Do `act` to the next answer to a request of this kind, after `skip` ones have passed."""
        return self._add_trap(Trap(api_key, act, skip, self._wake), requests=False)

    def change(self, api_key: ApiKey, change: Callable[[Any], None]) -> None:
        """Change each answer of this kind, decoded into kafka-python's class, before a client gets it.

        All connections are closed, because clients keep what they learnt when they opened them.
        """
        assert self._framed, "answers are decoded from Kafka's frames, which TLS hides"
        self._changes[api_key] = change
        self.reset()

    def refuse(self) -> None:
        """Close all connections and accept no new ones."""
        self._run(self._stop_listening())
        self.reset()

    def reset(self) -> None:
        """Close all connections with RST; new ones are accepted."""
        self._run(self._reset_all())

    def heal(self) -> None:
        """Remove all faults, traps and changes; held messages pass."""
        for trap in self._traps[True] + self._traps[False]:
            trap.release()
        self._traps = {True: [], False: []}
        if self._changes:
            self._changes = {}
            self.reset()
        self.to_broker = self.to_client = Link.PASS
        self.delay_seconds = 0.0
        self.requests.clear()
        self.responses.clear()
        self._run(self._listen())

    def _add_trap(self, trap: Trap, *, requests: bool) -> Trap:
        assert self._framed, "traps need Kafka's frames, which TLS hides"
        self._traps[requests].append(trap)
        return trap

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_WAIT_SECONDS)

    def _wake(self) -> None:
        self._run(self._notify())

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(condition)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, HOST, self.port)

    async def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _reset_all(self) -> None:
        for connection in list(self._connections):
            connection.reset()

    async def _close(self) -> None:
        await self._stop_listening()
        await self._reset_all()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            broker_reader, broker_writer = await asyncio.open_connection(HOST, self.upstream)
        except OSError:
            writer.transport.abort()
            return
        connection = _Connection(client=writer, broker=broker_writer)
        self._connections.add(connection)
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(connection, reader, broker_writer, requests=True))
                pumps.create_task(self._pump(connection, broker_reader, writer, requests=False))
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._connections.discard(connection)
            connection.close()

    async def _pump(
        self, connection: _Connection, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, requests: bool
    ) -> None:
        """Pass messages on until one side closes, which also ends the other direction (IncompleteReadError)."""
        while True:
            try:
                message = await self._next_message(source)
            except asyncio.IncompleteReadError:
                # If the sender of a held message has gone, the broker gets the message all the same, and its answer is
                # read.
                await self._until(lambda: not connection.held or not requests)
                raise
            message = await self._passed(connection, message, requests=requests) if self._framed else message
            if not message:
                continue
            if self.delay_seconds:
                await asyncio.sleep(self.delay_seconds)
            await self._until(lambda: self._links[requests] is not Link.HOLD)
            if self._links[requests] is Link.DROP:
                continue
            if self.cut_after is not None and not requests:
                message, self.cut_after = message[: self.cut_after], self.cut_after - len(message)
            sink.write(message)
            await sink.drain()
            if self.cut_after is not None and self.cut_after <= 0:
                self.cut_after = None
                connection.close()
            if not requests:
                await self._notify()

    async def _next_message(self, source: asyncio.StreamReader) -> bytes:
        if self._framed:
            size = await source.readexactly(4)
            return size + await source.readexactly(int.from_bytes(size, "big"))
        chunk = await source.read(1 << 16)
        if not chunk:
            raise asyncio.IncompleteReadError(b"", None)
        return chunk

    async def _passed(self, connection: _Connection, message: bytes, *, requests: bool) -> bytes:
        """The message after traps and changes; empty if it is not passed on."""
        api_key, version = self._asked(connection, message, requests=requests)
        trap = self._springs(api_key, requests=requests)
        if trap is not None:
            if trap.act is Act.RESET:
                connection.reset()
            trap.spring()
            if trap.act is not Act.HOLD:
                return b""
            if requests:
                connection.held.add(struct.unpack_from(">hhi", message, 4)[2])
            await self._until(lambda: trap.released)
        if requests or api_key not in self._changes:
            return message
        return _changed(message, api_key, version, self._changes[api_key])

    def _asked(self, connection: _Connection, message: bytes, *, requests: bool) -> tuple[int | None, int]:
        """The api key and version of a request, or of the request that an answer belongs to."""
        if requests:
            api_key, version, correlation_id = struct.unpack_from(">hhi", message, 4)
            connection.asked[correlation_id] = (api_key, version)
            self.requests[api_key] += 1
            return api_key, version
        (correlation_id,) = struct.unpack_from(">i", message, 4)
        answered, version = connection.asked.pop(correlation_id, (None, 0))
        if answered is not None:
            self.responses[answered] += 1
        connection.held.discard(correlation_id)
        return answered, version

    def _springs(self, api_key: int | None, *, requests: bool) -> Trap | None:
        """The first trap that is due; each trap counts all messages of its kind, also those that spring others."""
        springs = None
        for trap in self._traps[requests]:
            if trap.sprung or trap.api_key != api_key:
                continue
            if trap.skip > 0:
                trap.skip -= 1
            elif springs is None:
                springs = trap
        return springs


def _changed(message: bytes, api_key: int, version: int, change: Callable[[Any], None]) -> bytes:
    response = ResponseClassRegistry._response_class_registry[api_key]
    answer = response.decode(message, version=version, header=True, framed=True)
    change(answer)
    return bytes(answer.encode(header=True, framed=True))
