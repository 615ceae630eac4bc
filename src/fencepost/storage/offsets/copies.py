"""Copies what connectors commit to offsets topics of their own to the worker's offsets topic as well (KIP-618).

    task commits ──> put ──> waiting ──thread──> sending ──> written ──> checked
                                ^                   │                      │
                                ├──── back-off ─────┘ failed, and nothing newer waits
                                └──────────────────────────────────────────┘ a newer record lies before it

The worker's principal writes them, outside of transactions. Tasks run on meanwhile: what cannot be written is tried
again, of each source partition only the newest offset, until the task stops. Then it is withdrawn.

A late copy must not take the place of a newer commit: compaction would keep the copy. So the worker's topic is read to
its end before each write, and a copy is dropped if something newer stands there. Between the two another worker may
still write. So the topic is read again after each write, and the newer record is written once more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fencepost.api.errors import describe_error
from fencepost.kafka.deadline import Backoff
from fencepost.kafka.errors import RecordTooLargeError
from fencepost.kafka.producer.simple import PlainProducer
from fencepost.kafka.records.columns import OutgoingRecord
from fencepost.storage.errors import OffsetsNotCopiedError
from fencepost.storage.offsets.codec import decode_value, encode_value, identity_of
from fencepost.storage.offsets.marks import OffsetMark, Origin
from fencepost.storage.offsets.overlay import CommittedOffset
from fencepost.storage.offsets.topic import OffsetStore

_LOG: Final = logging.getLogger(__name__)

_FIRST_PAUSE_MS: Final = 200
_LONGEST_PAUSE_MS: Final = 30_000
_CLOSING_SECONDS: Final = 5.0
# Tasks commit many times a second, and of those commits one copy is enough.
_LINGER_SECONDS: Final = 0.1
_READING_MS: Final = 30_000
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """An offset to copy, from the topic that it was committed to. Two of the same content are two.

    `writer` is whose stop waits for it, by identity.
    """

    connector: str
    committed: CommittedOffset
    origin: Origin
    writer: object = None

    @property
    def subject(self) -> tuple[str, str]:
        """Whose offset it is: the connector and the source partition."""
        return self.connector, identity_of(self.committed.partition)


class PendingCopies:
    """The copies that are not written yet, the newest of each source partition; no I/O. One thread at a time."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], Copy] = {}
        self._sending: dict[tuple[str, str], Copy] = {}

    @property
    def waiting(self) -> bool:
        """Whether there is something to send."""
        return bool(self._waiting)

    @property
    def sending(self) -> bool:
        """Whether something is on its way."""
        return bool(self._sending)

    def put(self, copies: Iterable[Copy]) -> None:
        """Take in copies; they replace older ones of the same source partitions."""
        for copy in copies:
            waiting = self._waiting.get(copy.subject)
            if waiting is None or waiting.committed.time <= copy.committed.time:
                self._waiting[copy.subject] = copy

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
    """Writes copies of offsets to `store`, on a thread that begins with the first one. Threads may share it.

    The `producer` is closed with it.
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
        # What the last round wrote, until the topic was read again.
        self._unchecked: dict[tuple[str, str], Copy] = {}
        self._thread: threading.Thread | None = None

    def put(self, copies: Sequence[Copy]) -> None:
        """Have offsets copied. Never waits, and never raises for offsets that were committed."""
        with self._changed:
            self._pending.put(copies)
            if self._thread is None and copies:
                self._thread = threading.Thread(target=self._send_all, name="offset-copying", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def write(self, connector: str, copies: Sequence[Copy], timeout_s: float) -> None:
        """Copy offsets of a connector, and wait until that is done.

        Raises OffsetsNotCopiedError if it is not in time. It is not tried again then, but a write that is under way
        may still succeed.
        """
        self.put(copies)
        if self._wait(copies, timeout_s):
            return
        with self._changed:
            self._pending.withdraw(copies)
            failure = self._failure
        raise OffsetsNotCopiedError(self._topic, connector, timeout_s, failure) from failure

    def flush(self, writer: object, timeout_s: float) -> None:
        """Have all that a writer has committed copied; what cannot be is withdrawn, and told in the log.

        Waits until the copies are written, for so long at most, and until the next try of them has failed.
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
            # It may be reading.
            self._store.close()
            self._thread.join()
        if left:
            _LOG.warning(
                "%d offsets of %s were not copied to the worker's offsets topic %s. Their own offsets topics have "
                "them, and their tasks make up for it when they start next. Give up none of these topics before that",
                len(left), _connectors(left), self._topic,
            )  # fmt: skip

    def _wait(
        self, copies: Collection[Copy] | None, timeout_s: float, until: Callable[[], bool] = lambda: False
    ) -> bool:
        """Wait until copies (all if None) are written. False if they are not when `until` says so, or in the end."""
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
                self._tell(copies, failure)
                self._failure = failure
                self._pending.sent(failed)
                self._changed.notify_all()
                if failure is None:
                    backoff.reset()
                pause_s = _LINGER_SECONDS if failure is None else backoff.next_s()
                self._changed.wait_for(lambda: self._closing or self._hurried, pause_s)

    def _next(self) -> list[Copy] | None:
        """Take all that waits, once there is something to do; None when it is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending.waiting or self._unchecked or self._closing)
            self._hurried = False
            return None if self._closing else self._pending.take()

    def _send_checked(self, copies: list[Copy]) -> tuple[list[Copy], Exception | None]:
        """As `_send`, but for what something newer stands of in the topic; that is put right if it is buried."""
        try:
            self._store.refresh(_READING_MS)
            mended = [mended for copy in self._unchecked.values() if (mended := self._mended(copy)) is not None]
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not end the thread: trying again may help
            return copies, error
        sent = mended + [copy for copy in copies if not self._is_outdated(copy)]
        failed, failure = self._send(sent)
        written = {copy.subject: copy for copy in sent if copy not in failed}
        self._unchecked = written if failure is None else self._unchecked | written
        return [copy for copy in failed if copy not in mended], failure

    def _is_outdated(self, copy: Copy) -> bool:
        stored = self._store.table.stored(copy.connector, copy.committed.partition)
        return stored is not None and stored.mark.time > copy.committed.time

    def _mended(self, copy: Copy) -> Copy | None:
        """Return what was written before `copy` and is newer, None if there is nothing of the kind."""
        stored = self._store.table.stored(copy.connector, copy.committed.partition)
        if stored is None or not stored.is_buried:
            return None
        offset = CommittedOffset(stored.partition, decode_value(stored.value), stored.mark.time)
        return Copy(copy.connector, offset, stored.mark.origin or Origin(self._topic))

    def _send(self, copies: list[Copy]) -> tuple[list[Copy], Exception | None]:
        """Return the copies that were not written, and why."""
        if not copies:
            return [], None
        try:
            self._producer.write(self._topic, [record for copy in copies for record in self._records(copy)])
        except RecordTooLargeError as error:
            if len(copies) == 1:
                return copies, error
            # The others must not wait for the one that does not fit.
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

    def _tell(self, copies: list[Copy], failure: Exception | None) -> None:
        """Say when it begins to fail, and when it works again."""
        if failure is not None and self._failure is None and copies and not self._closing:
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
