"""Copies offsets that connectors commit to separate offsets topics to the worker's offsets topic (KIP-618).

    task commits ──> put ──> waiting ──thread──> sending ──> written ──> checked
                                ^                   │                      │
                                ├──── back-off ─────┘ failed, and nothing newer waits
                                └──────────────────────────────────────────┘ a newer record lies before it

The worker's principal writes the copies, outside of transactions. Tasks keep running meanwhile. Failed copies are
retried until the task stops, but only with the newest offset of each source partition. Then they are dropped.

A late copy must not come after a newer commit in the topic, because compaction would keep the copy. So the worker's
topic is read to its end before each write, and a copy is dropped if the topic has a newer commit. But another worker
may write between this read and the write. So the topic is read again after each write; if a copy came too late, the
newer record is written once more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fencepost.api.errors import describe_error
from fencepost.kafka.deadline import Backoff
from fencepost.kafka.errors import AuthorizationError, RecordTooLargeError
from fencepost.kafka.producer.simple import PlainProducer
from fencepost.kafka.records.columns import OutgoingRecord
from fencepost.storage.errors import OffsetsNotCopiedError
from fencepost.storage.offsets.codec import OffsetMark, Origin, decode_value, encode_value, identity_of
from fencepost.storage.offsets.overlay import CommittedOffset
from fencepost.storage.offsets.topic import OffsetStore

_LOG: Final = logging.getLogger(__name__)

_FIRST_PAUSE_MS: Final = 200
_LONGEST_PAUSE_MS: Final = 30_000
_CLOSING_SECONDS: Final = 5.0
# A pause between copies. Tasks commit many times a second, and only the last commit must be copied.
_LINGER_SECONDS: Final = 0.1
_READING_MS: Final = 30_000
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """An offset to copy, and the topic to which it was committed. Copies are compared by identity.

    `writer` identifies the task. When that task stops, it waits for the copy.
    """

    connector: str
    committed: CommittedOffset
    origin: Origin
    writer: object = None

    @property
    def subject(self) -> tuple[str, str]:
        """The connector and the source partition of the offset."""
        return self.connector, identity_of(self.committed.partition)


class PendingCopies:
    """The pending copies: only the newest copy of each source partition. No I/O. Not thread-safe."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], Copy] = {}
        self._sending: dict[tuple[str, str], Copy] = {}

    @property
    def waiting(self) -> bool:
        """Whether copies wait to be sent."""
        return bool(self._waiting)

    @property
    def sending(self) -> bool:
        """Whether copies are being sent."""
        return bool(self._sending)

    def put(self, copies: Iterable[Copy]) -> None:
        """Add copies. They replace older copies of the same source partitions."""
        for copy in copies:
            waiting = self._waiting.get(copy.subject)
            if waiting is None or waiting.committed.time <= copy.committed.time:
                self._waiting[copy.subject] = copy

    def take(self) -> list[Copy]:
        """Remove and return all waiting copies, to send them."""
        self._sending, self._waiting = self._waiting, {}
        return list(self._sending.values())

    def sent(self, failed: Iterable[Copy] = ()) -> None:
        """Record that the taken copies were sent.

        The `failed` copies wait again, unless newer copies exist. The others are written.
        """
        again = {copy.subject: copy for copy in failed if self._sending.get(copy.subject) is copy}
        self._waiting = again | self._waiting
        self._sending = {}

    def withdraw(self, copies: Iterable[Copy]) -> None:
        """Drop copies. Copies that are being sent are not sent again if they fail."""
        for copy in copies:
            for pending in (self._waiting, self._sending):
                if pending.get(copy.subject) is copy:
                    del pending[copy.subject]

    def left(self, copies: Iterable[Copy] | None = None) -> list[Copy]:
        """Return the given copies (None: all) that are neither written nor replaced by newer ones."""
        left = list((self._sending | self._waiting).values())
        if copies is None:
            return left
        wanted = set(copies)
        return [copy for copy in left if copy in wanted]


class OffsetCopies:
    """Writes copies of offsets to `store`, on a thread that starts with the first copy. Thread-safe.

    The `producer` is closed together with this object.
    """

    def __init__(self, store: OffsetStore, producer: PlainProducer) -> None:
        self._store = store
        self._topic = store.topic
        self._producer = producer
        self._changed = threading.Condition()
        self._pending = PendingCopies()
        self._closing = False
        self._hurried = False
        self._failure: Exception | None = None
        self._failures = 0
        # The copies of the last round. They are checked when the topic is read again.
        self._unchecked: dict[tuple[str, str], Copy] = {}
        self._thread: threading.Thread | None = None

    def put(self, copies: Sequence[Copy]) -> None:
        """Queue offsets for copying. Never waits, and never raises for committed offsets."""
        with self._changed:
            self._pending.put(copies)
            if self._thread is None and copies:
                self._thread = threading.Thread(target=self._send_all, name="offset-copying", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def write(self, connector: str, copies: Sequence[Copy], timeout_s: float) -> None:
        """Copy offsets of a connector, and wait until that is done.

        Raises OffsetsNotCopiedError if the copies are not written in time. Then the copies are not retried, but a write
        in progress may still succeed.
        """
        self.put(copies)
        if self._wait(copies, timeout_s):
            return
        with self._changed:
            self._pending.withdraw(copies)
            failure = self._failure
        raise OffsetsNotCopiedError(self._topic, connector, timeout_s, failure) from failure

    def flush(self, writer: object, timeout_s: float) -> None:
        """Copy all offsets that a writer has committed.

        Waits until the copies are written, or their next attempt has failed, or `timeout_s` has passed. Then copies
        that are not written are dropped and logged.
        """
        with self._changed:
            copies = [copy for copy in self._pending.left() if copy.writer is writer]
            last = self._failures + (2 if self._pending.sending else 1)
        if not copies or self._wait(copies, timeout_s, until=lambda: self._failures >= last):
            return
        with self._changed:
            left, failure = self._pending.left(copies), self._failure
            self._pending.withdraw(left)
        if left:
            _LOG.warning(
                "%d offsets of %s were not copied to the worker's offsets topic %s: %s. Its own offsets topic %s has "
                "them. Keep it until a task of the connector has run again", len(left), _connectors(left), self._topic,
                "its brokers are slow" if failure is None else describe_error(failure), left[0].origin.topic,
            )  # fmt: skip

    def pending(self) -> int:
        """Return the number of source partitions whose newest offset has not been copied yet."""
        with self._changed:
            return len(self._pending.left())

    def close(self) -> None:
        """Write pending copies, for some seconds at most, and then close the connections."""
        self._wait(None, _CLOSING_SECONDS)
        with self._changed:
            self._closing = True
            left = self._pending.left()
            self._changed.notify_all()
        self._producer.close()
        if self._thread is not None:
            # The thread may be reading: this ends the read.
            self._store.close()
            self._thread.join()
        if left:
            _LOG.warning(
                "%d offsets of %s were not copied to the worker's offsets topic %s. Their own offsets topics have "
                "them, and their tasks copy them when they start next. Do not remove any of these topics before that",
                len(left), _connectors(left), self._topic,
            )  # fmt: skip

    def _wait(
        self, copies: Collection[Copy] | None, timeout_s: float, until: Callable[[], bool] = lambda: False
    ) -> bool:
        """Wait until the given copies (None: all copies) are written.

        Return False if `until` returns True first, or after the time-out.
        """
        with self._changed:
            self._hurried = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: until() or not self._pending.left(copies), timeout_s)
            return not self._pending.left(copies)

    # -- on the thread ---------------------------------------------------------------------------------------------

    def _send_all(self) -> None:
        backoff = Backoff(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS)
        while (copies := self._next()) is not None:
            failed, failure = self._send_checked(copies)
            with self._changed:
                self._failures += failure is not None
                self._log_change(copies, failure)
                self._failure = failure
                self._pending.sent(failed)
                self._changed.notify_all()
                if failure is None:
                    backoff.reset()
                pause_s = _LINGER_SECONDS if failure is None else backoff.next_s()
                self._changed.wait_for(lambda: self._closing or self._hurried, pause_s)

    def _next(self) -> list[Copy] | None:
        """Wait for copies, and take all of them. Return None when this object is being closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending.waiting or self._unchecked or self._closing)
            self._hurried = False
            return None if self._closing else self._pending.take()

    def _send_checked(self, copies: list[Copy]) -> tuple[list[Copy], Exception | None]:
        """Send copies for which the topic has no newer commit.

        Write newer records again if a late copy came after them.

        Returns the same as `_send`.
        """
        try:
            self._store.refresh(_READING_MS)
            mended = [mended for copy in self._unchecked.values() if (mended := self._mended(copy)) is not None]
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not end the thread: trying again may help
            return copies, error
        sent = mended + [copy for copy in copies if not self._is_outdated(copy)]
        failed, failure = self._send(sent)
        # The failed copies are in a set, because there may be many copies, and each of them is searched for.
        lost = set(failed)
        written = {copy.subject: copy for copy in sent if copy not in lost}
        self._unchecked = written if failure is None else self._unchecked | written
        return [copy for copy in failed if copy not in mended], failure

    def _is_outdated(self, copy: Copy) -> bool:
        stored = self._store.table.stored(copy.connector, copy.committed.partition)
        return stored is not None and stored.mark.time > copy.committed.time

    def _mended(self, copy: Copy) -> Copy | None:
        """Return a newer record that precedes `copy` in the topic, as a new copy; None if there is no such record."""
        stored = self._store.table.stored(copy.connector, copy.committed.partition)
        if stored is None or not stored.is_buried:
            return None
        offset = CommittedOffset(stored.partition, decode_value(stored.value), stored.mark.time)
        return Copy(copy.connector, offset, stored.mark.origin or Origin(self._topic))

    def _send(self, copies: list[Copy]) -> tuple[list[Copy], Exception | None]:
        """Send copies. Return the copies that were not written, and the reason (None if all were written)."""
        if not copies:
            return [], None
        try:
            self._producer.write(self._topic, [record for copy in copies for record in self._records(copy)])
        except RecordTooLargeError as error:
            if len(copies) == 1:
                return copies, error
            # One of the records is too large. The other copies are sent without it.
            tried = [self._send([copy]) for copy in copies]
            return [copy for failed, _ in tried for copy in failed], next((why for _, why in tried if why), None)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not end the thread: trying again may help
            return copies, error
        return [], None

    def _records(self, copy: Copy) -> list[OutgoingRecord]:
        committed, headers = copy.committed, OffsetMark(copy.committed.time, copy.origin).headers()
        value = encode_value(copy.connector, committed.offset)
        records = self._store.table.records(copy.connector, committed.partition, value)
        return [record._replace(headers=headers) for record in records]

    def _log_change(self, copies: list[Copy], failure: Exception | None) -> None:
        """Log when copying begins to fail, when it fails because another right is missing, and when it works again."""
        if failure is not None:
            if not copies or self._closing or _is_logged_already(failure, self._failure):
                return
            _LOG.warning(
                "The offsets of %s cannot be copied to the worker's offsets topic %s, retrying until it "
                "succeeds; their own offsets topics have them, and their tasks keep running: %s",
                _connectors(copies), self._topic, describe_error(failure),
            )  # fmt: skip
        elif self._failure is not None:
            _LOG.info("Offsets are copied to the worker's offsets topic %s again", self._topic)


def _is_logged_already(failure: Exception, before: Exception | None) -> bool:
    """Whether an earlier log line covers this failure: copying failed before, and no other right is missing now."""
    return before is not None and (not isinstance(failure, AuthorizationError) or str(failure) == str(before))


def _connectors(copies: Iterable[Copy]) -> str:
    names = sorted({copy.connector for copy in copies})
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"connector(s) {', '.join(names[:_MOST_NAMED])}{more}"
