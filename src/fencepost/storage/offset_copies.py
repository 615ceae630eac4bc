"""Copies what connectors commit to offsets topics of their own to the worker's offsets topic as well (KIP-618).

    task commits ──> put ──> waiting ──thread──> sending ──> written
                                ^                   │
                                └──── back-off ─────┘ failed, and nothing newer waits

The worker's principal writes them, outside of transactions. Nobody waits for them and nobody fails with them: what
cannot be written is tried again for as long as the worker lives, of each source partition only the newest offset. A
connector that gives its topic up finds its offsets here; until then its own topic has the last word.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from fencepost.api.errors import describe_error
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.kafka.client_config import ProducerConfig
from fencepost.kafka.deadline import Backoff
from fencepost.kafka.errors import RecordTooLargeError
from fencepost.kafka.plain_producer import PlainProducer
from fencepost.kafka.records import Row
from fencepost.storage.errors import OffsetsNotCopiedError
from fencepost.storage.offset_table import OffsetTable
from fencepost.storage.offsets import encode_value, identity_of

_LOG: Final = logging.getLogger(__name__)

_FIRST_PAUSE_MS: Final = 200
_LONGEST_PAUSE_MS: Final = 30_000
_CLOSING_SECONDS: Final = 5.0
# Tasks commit many times a second, and of those commits one copy is enough.
_LINGER_SECONDS: Final = 0.1
_MOST_NAMED: Final = 5

Offsets = Iterable[tuple[SourcePartition, SourceOffset | None]]


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """An offset to copy, None to remove it. Two of the same content are two."""

    connector: str
    partition: SourcePartition
    offset: SourceOffset | None

    @property
    def subject(self) -> tuple[str, str]:
        """Whose offset it is: the connector and the source partition."""
        return self.connector, identity_of(self.partition)


class PendingCopies:
    """The copies that are not written yet, the newest of each source partition; no I/O. One thread at a time."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], Copy] = {}
        self._sending: dict[tuple[str, str], Copy] = {}

    @property
    def waiting(self) -> bool:
        """Whether there is something to send."""
        return bool(self._waiting)

    def put(self, copies: Iterable[Copy]) -> None:
        """Take in copies; they replace older ones of the same source partitions."""
        self._waiting |= {copy.subject: copy for copy in copies}

    def take(self) -> list[Copy]:
        """Take out all that wait, to send them."""
        self._sending, self._waiting = self._waiting, {}
        return list(self._sending.values())

    def sent(self, failed: Iterable[Copy] = ()) -> None:
        """Take note that what was taken is written, but for some that wait again unless there are newer ones."""
        again = {copy.subject: copy for copy in failed if self._sending.get(copy.subject) is copy}
        self._waiting = again | self._waiting
        self._sending = {}

    def withdraw(self, copies: Iterable[Copy]) -> None:
        """Forget copies; those on their way are not sent again if they fail."""
        for copy in copies:
            for pending in (self._waiting, self._sending):
                if pending.get(copy.subject) is copy:
                    del pending[copy.subject]

    def left(self, copies: Iterable[Copy] | None = None) -> list[Copy]:
        """Return those of some copies (None: of all) that are neither written nor replaced by newer ones."""
        left = list((self._sending | self._waiting).values())
        if copies is None:
            return left
        wanted = set(copies)
        return [copy for copy in left if copy in wanted]


class OffsetCopies:
    """Writes copies of offsets, on a thread that begins with the first one. Threads may share it."""

    def __init__(self, topic: str, table: OffsetTable, config: ProducerConfig) -> None:
        """`table` is that of the worker's offsets topic: its keys are used for the partitions that it knows."""
        self._topic = topic
        self._table = table
        self._producer = PlainProducer(config)
        self._changed = threading.Condition()
        self._pending = PendingCopies()
        self._closing = False
        self._hurried = False
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None

    def put(self, connector: str, offsets: Offsets) -> None:
        """Have offsets of a connector copied. Never waits, and never raises for offsets that were committed."""
        self._put(connector, offsets)

    def write(self, connector: str, offsets: Offsets, timeout_s: float) -> None:
        """Copy offsets of a connector, and wait until that is done.

        Raises OffsetsNotCopiedError if it is not in time. It is not tried again then, but a write that is under way
        may still succeed.
        """
        copies = self._put(connector, offsets)
        if self._wait(copies, timeout_s):
            return
        with self._changed:
            self._pending.withdraw(copies)
            failure = self._failure
        raise OffsetsNotCopiedError(self._topic, connector, timeout_s, failure) from failure

    def pending(self) -> int:
        """Return of how many source partitions the newest offset is not written yet."""
        with self._changed:
            return len(self._pending.left())

    def close(self) -> None:
        """Write what is pending, for some seconds at most, then let go of the connections."""
        self._wait(None, _CLOSING_SECONDS)
        with self._changed:
            self._closing = True
            left = self._pending.left()
            self._changed.notify_all()
        self._producer.close()
        if self._thread is not None:
            self._thread.join()
        if left:
            _LOG.warning(
                "%d offsets of %s were not copied to the worker's offsets topic %s. Their own offsets topics have "
                "them, and their tasks make up for it when they start next. Give up none of these topics before that",
                len(left), _connectors(left), self._topic,
            )  # fmt: skip

    def _put(self, connector: str, offsets: Offsets) -> list[Copy]:
        copies = [Copy(connector, partition, offset) for partition, offset in offsets]
        with self._changed:
            self._pending.put(copies)
            if self._thread is None and copies:
                self._thread = threading.Thread(target=self._send_all, name="offset-copying", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return copies

    def _wait(self, copies: Collection[Copy] | None, timeout_s: float) -> bool:
        with self._changed:
            self._hurried = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._pending.left(copies), timeout_s)

    # -- on the thread ---------------------------------------------------------------------------------------------

    def _send_all(self) -> None:
        backoff = Backoff(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS)
        while copies := self._next():
            failed, failure = self._send(copies)
            with self._changed:
                self._tell(copies, failure)
                self._failure = failure
                self._pending.sent(failed)
                self._changed.notify_all()
                if failure is None:
                    backoff.reset()
                pause_s = _LINGER_SECONDS if failure is None else backoff.next_s()
                self._changed.wait_for(lambda: self._closing or self._hurried, pause_s)

    def _next(self) -> list[Copy]:
        """Take all that waits, once there is something; nothing when it is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending.waiting or self._closing)
            self._hurried = False
            return [] if self._closing else self._pending.take()

    def _send(self, copies: list[Copy]) -> tuple[list[Copy], Exception | None]:
        """Return the copies that were not written, and why."""
        try:
            self._producer.write(self._topic, [self._row(copy) for copy in copies])
        except RecordTooLargeError as error:
            if len(copies) == 1:
                return copies, error
            # The others must not wait for the one that does not fit.
            tried = [self._send([copy]) for copy in copies]
            return [copy for failed, _ in tried for copy in failed], next((why for _, why in tried if why), None)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not end the thread: trying again may help
            return copies, error
        return [], None

    def _row(self, copy: Copy) -> Row:
        return self._table.key(copy.connector, copy.partition), encode_value(copy.connector, copy.offset)

    def _tell(self, copies: list[Copy], failure: Exception | None) -> None:
        """Say when it begins to fail, and when it works again."""
        if failure is not None and self._failure is None and not self._closing:
            _LOG.warning(
                "The offsets of %s cannot be copied to the worker's offsets topic %s, which is tried again until it "
                "succeeds; their own offsets topics have them, and their tasks run on: %s",
                _connectors(copies), self._topic, describe_error(failure),
            )  # fmt: skip
        elif failure is None and self._failure is not None:
            _LOG.info("Offsets are copied to the worker's offsets topic %s again", self._topic)


def _connectors(copies: Iterable[Copy]) -> str:
    names = sorted({copy.connector for copy in copies})
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"connector(s) {', '.join(names[:_MOST_NAMED])}{more}"
