"""Applies a connector's `errors.*` properties to the stages that process its records (KIP-298). Pure.

A batch is transformed and converted as a whole. Only if that fails, its halves are processed separately, recursively,
down to single rows. A batch that passes costs one attempt; a single bad row among n costs about 1.5 log2(n) more
attempts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final, Generic, TypeVar

import numpy as np
import pyarrow as pa

from fencepost.api.errors import RetriableError
from fencepost.api.own_pipeline import OwnPipeline
from fencepost.api.record import RefusedRow, SourceRecord
from fencepost.config.error_handling import ErrorHandling, Tolerance
from fencepost.engine.dead_letters import DeadLetter
from fencepost.engine.error_counts import ErrorCounts
from fencepost.engine.errors import (
    AllRowsRefusedError,
    RecordRefusedError,
    RecordWaitsError,
    is_of_records,
)
from fencepost.engine.job_failure import message_of
from fencepost.engine.kept_inputs import KeptInputs
from fencepost.engine.refused_records import RefusedRecord, Stage, Tally
from fencepost.engine.retries import Retries

T = TypeVar("T")

LISTED: Final = 1_000
"""The maximum number of refused records that are logged individually, for a batch or an executor's part of a batch."""


@dataclass(frozen=True, slots=True)
class StageRows:
    """`count` rows that a stage processes. `topic` is None if each row names its own topic.

    `row` returns the position of a row's record in a polled batch, None if there is no such record. `contents` returns
    the rows from `start` up to `stop`. `origin` searches for the origin of a row that has no such record, and returns a
    sentence about it. `place` returns the property that an error's text points to.
    """

    stage: Stage
    plugin: str
    topic: str | None
    count: int
    row: Callable[[int], int | None] = lambda _: None
    contents: Callable[[int, int], Sequence[object]] = lambda start, stop: [None] * (stop - start)
    origin: Callable[[int], str] = lambda _: ""
    place: Callable[[str], str] = lambda _: ""


class ErrorHandler:
    """Handles the errors of one batch, or of one executor's part of a batch. Only one thread may use it.

    `records` are the records of a polled batch; they are used to find the origin of a record. `wait` is called with a
    number of seconds, and may raise an error to end the wait.
    """

    def __init__(
        self,
        handling: ErrorHandling,
        *,
        records: Sequence[SourceRecord] = (),
        wait: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._handling = handling
        self._records = records
        self._wait = wait
        self._clock = clock
        self._tally = Tally()
        self._letters: list[DeadLetter] = []
        self._refused: set[int] = set()
        self._inputs = KeptInputs()

    @property
    def letters(self) -> tuple[DeadLetter, ...]:
        """The dead letters so far; empty if no topic for dead letters is configured."""
        return tuple(self._letters)

    @property
    def refused(self) -> AbstractSet[int]:
        """The numbers of skipped records: positions in a polled batch, or the rows' numbers before the transforms."""
        return self._refused

    @property
    def tolerates(self) -> bool:
        """Whether refused records are skipped."""
        return self._handling.tolerance is Tolerance.ALL

    @property
    def tally(self) -> Tally:
        """The errors so far."""
        return self._tally

    @property
    def stops_at_first(self) -> bool:
        """Whether the first refused record fails its batch, without a retry."""
        return self._handling.stops_at_first

    def merge(self, tally: Tally, letters: Sequence[DeadLetter] = ()) -> None:
        """Add the errors of another part of the batch."""
        self._tally = self._tally.plus(tally.counts, *tally.listed, causes=tally.causes)
        self._letters += letters

    def skip_rows(self, rows: Sequence[RefusedRow], reader: str, topic: str | None) -> None:
        """Skip items of a source that are not rows. A tolerant reader returns them as RefusedRow."""
        room = LISTED - len(self._tally.listed) if self._handling.log_enable else 0
        shown = self._handling.log_include_messages
        listed = [
            RefusedRecord(
                Stage.TASK_POLL,
                reader,
                topic,
                row.reason.removesuffix("."),
                _place(row),
                repr(row.raw) if shown else None,
            )
            for row in rows[:room]
        ]
        counts = ErrorCounts(failures=len(rows), skipped=len(rows), errors_logged=len(listed))
        self._tally = self._tally.plus(counts, *listed, causes=[row.reason.removesuffix(".") for row in rows])
        if self._handling.dead_letter_topic is not None:
            self._letters += [DeadLetter.of_row(row, reader, topic) for row in rows]

    @property
    def needs_inputs(self) -> bool:
        """Whether untransformed rows are needed: for dead letters, or for log messages that show rows."""
        shown = self._handling.log_enable and self._handling.log_include_messages
        return shown or self._handling.dead_letter_topic is not None

    def add_inputs(self, first: int, rows: pa.RecordBatch) -> None:
        """Keep untransformed rows. Their numbers start with `first`."""
        if self.needs_inputs:
            self._inputs.add(first, rows)

    def forget_inputs(self, before: int) -> None:
        """Forget the kept rows with numbers below `before`."""
        self._inputs.forget(before)

    @property
    def missing_inputs(self) -> AbstractSet[int]:
        """The numbers of the untransformed rows that are missing in dead letters and refused records from executors."""
        rows = [*(letter.row for letter in self._letters), *(refused.row for refused in self._tally.listed)]
        return {row for row in rows if row is not None}

    def complete(self, contents: Mapping[int, object]) -> None:
        """Add the missing untransformed rows to dead letters, and to refused records from executors.

        `contents` has the rows by number.
        """
        self._letters = [one if one.row is None else one.with_content(contents[one.row]) for one in self._letters]
        listed = (one if one.row is None else one.with_content(contents[one.row]) for one in self._tally.listed)
        self._tally = replace(self._tally, listed=tuple(listed))

    def take_over(self, pipeline: OwnPipeline) -> None:
        """Skip the records that the connector's own pipeline refused.

        If errors are not tolerated, raises RecordRefusedError for the first such record (RecordWaitsError if it is
        retriable).
        """
        self._tally = self._tally.plus(ErrorCounts(failures=pipeline.retries, retries=pipeline.retries))
        for refused in pipeline.refused:
            described = RefusedRecord(
                Stage(refused.stage),
                refused.plugin,
                refused.topic,
                f"{refused.exception}: {refused.message}".removesuffix("."),
                f" It has {_source(refused.source_partition, refused.source_offset)}",
                refused.content if self._handling.log_include_messages else None,
            )
            if not self.tolerates:
                failure = self._fatal(described, refused.error)
                failure.add_note(refused.trace)
                raise failure
            listed = (described,) if self._handling.log_enable and len(self._tally.listed) < LISTED else ()
            counts = ErrorCounts(failures=1, skipped=1, errors_logged=len(listed))
            self._tally = self._tally.plus(counts, *listed, causes=[described.cause])
            if self._handling.dead_letter_topic is not None:
                self._letters.append(DeadLetter.of_pipeline(refused))

    def apply(
        self, rows: StageRows, attempt: Callable[[int, int], T | Sorted[T]]
    ) -> tuple[list[Passed[T]], np.ndarray | None]:
        """Process rows in a stage: `attempt(start, stop)` processes a range of the rows, or raises an error.

        If errors are tolerated, and the attempt knows which rows it refuses, it may also return Sorted. Returns the
        results of the ranges that passed, in order, and the positions of their rows, None if all rows passed. If errors
        are not tolerated, raises RecordRefusedError for the first refused row (RecordWaitsError if it is retriable),
        and any error that was not caused by records.
        """
        if rows.count == 0:
            return [], None
        retries = Retries(self._handling.retry_timeout_ms, self._handling.retry_delay_max_ms, self._clock)
        passed: list[Passed[T]] = []
        for outcome in isolate(0, rows.count, lambda start, stop: self._tried(attempt, start, stop, retries)):
            if isinstance(outcome, Refused):
                self._refuse(rows, outcome)
            else:
                passed.append(outcome)
        if len(passed) == 1 and len(passed[0].positions) == rows.count:
            return passed, None
        kept = [part.positions for part in passed]
        return passed, np.concatenate(kept) if kept else np.empty(0, dtype=np.int64)

    def refuse_batch(self, rows: StageRows, reason: Exception) -> RecordRefusedError:
        """Return the error for a batch that a stage refused, if it is not known which row was the cause."""
        return self._fatal(self._described(rows, None, reason), reason)

    def _tried(
        self, attempt: Callable[[int, int], T | Sorted[T]], start: int, stop: int, retries: Retries
    ) -> T | Sorted[T]:
        while True:
            try:
                return attempt(start, stop)
            except RetriableError as error:
                if not is_of_records(error):
                    raise
                pause = retries.next_pause()
                if pause is None:
                    raise
                self._tally = self._tally.plus(ErrorCounts(failures=1, retries=1))
                self._wait(pause)

    def _refuse(self, rows: StageRows, refused: Refused) -> None:
        if self._handling.tolerance is Tolerance.NONE:
            described = self._described(rows, refused.start, refused.reason)
            described = replace(described, origin=described.origin or rows.origin(refused.start))
            raise self._fatal(described, refused.reason) from refused.reason
        found = self._first_refusals(rows, refused)
        room = LISTED - len(self._tally.listed) if self._handling.log_enable else 0
        listed = [self._described(rows, position, refused.reason) for position in islice(found, room)]
        if self._handling.dead_letter_topic is not None and found:
            self._keep_letters(rows, refused, found)
        counts = ErrorCounts(failures=len(found), skipped=len(found), errors_logged=len(listed))
        # Describing a cause takes time. So only two causes are kept, which is enough to see that there are several.
        unsure = found and (self._tally.only_cause is not None or not self._tally.causes)
        causes = [self._described(rows, None, refused.reason).cause] if unsure else []
        self._tally = self._tally.plus(counts, *listed, causes=causes)

    def _first_refusals(self, rows: StageRows, refused: Refused) -> dict[int, int | None]:
        """Return the refused rows to count, with the numbers of their records.

        Either all refused rows have the number of a record, or none of them has.

        If a record has several rows, only the first error counts, because the whole record is refused.
        """
        found = {}
        for position in range(refused.start, refused.stop):
            number = rows.row(position)
            if number not in self._refused:
                found[position] = number
            if number is not None:
                self._refused.add(number)
        return found

    def _keep_letters(self, rows: StageRows, refused: Refused, found: Mapping[int, int | None]) -> None:
        message = message_of(refused.reason)
        cause = (refused.reason, message + rows.place(message))
        letter = partial(DeadLetter.of_record, stage=rows.stage, plugin=rows.plugin, topic=rows.topic, cause=cause)
        if None in found.values():
            self._letters += [letter(content) for content in rows.contents(refused.start, refused.stop)]
            return
        for position, number in found.items():
            given = self._input(number)
            # An executor lacks the untransformed row. The worker adds it later, by its number.
            content = rows.contents(position, position + 1)[0] if given is None else given
            self._letters.append(replace(letter(content), row=number if given is None else None))

    def _fatal(self, refused: RefusedRecord, reason: Exception) -> RecordRefusedError:
        listed = (refused,) if self._handling.log_enable else ()
        self._tally = self._tally.plus(ErrorCounts(failures=1, errors=1, errors_logged=len(listed)), *listed)
        if isinstance(reason, RetriableError):
            return RecordWaitsError(
                f"{refused} Nothing of its batch is written, and it may pass: errors.retry.timeout says for how long it "
                "is tried again before the task fails, task.restart.policy whether that starts again by itself",
                tally=self._tally,
                record=str(refused),
            )
        return RecordRefusedError(
            f"{refused} Nothing of its batch is written: correct the record, or the connector's configuration; with "
            "errors.tolerance=all such records are skipped",
            tally=self._tally,
            record=str(refused),
        )

    def _described(self, rows: StageRows, position: int | None, reason: Exception) -> RefusedRecord:
        row = None if position is None else rows.row(position)
        cause = message_of(reason)
        described = RefusedRecord(rows.stage, rows.plugin, rows.topic, cause + rows.place(cause), self.origin(row))
        if not self._handling.log_include_messages or position is None:
            return described
        given = self._input(row)
        content = repr(rows.contents(position, position + 1)[0] if given is None else given)
        return replace(described, content=content, row=row if given is None else None)

    def _input(self, number: int | None) -> object:
        """Return the polled record, or the untransformed row, with this number; None if it is not available here."""
        if number is None:
            return None
        return self._records[number] if self._records else self._inputs.content(number)

    def origin(self, row: int | None) -> str:
        """Return a sentence about a record's origin, by its position in the polled batch; an empty text if unknown."""
        if row is None or not self._records:
            return ""
        record = self._records[row]
        return f" It is number {row} of its batch, with {_source(record.source_partition, record.source_offset)}"


def _source(partition: Mapping[str, object], offset: Mapping[str, object]) -> str:
    return f"the source partition {dict(partition)} and the source offset {dict(offset)}."


def _place(row: RefusedRow) -> str:
    return f" It is at {', '.join(f'{name} {text}' for name, text in row.place.items())}." if row.place else ""


@dataclass(frozen=True, slots=True)
class Passed(Generic[T]):
    """The rows from `start` up to `stop` passed, or, if `kept` is not None, the rows at these positions."""

    start: int
    stop: int
    result: T
    kept: np.ndarray | None = None

    @property
    def positions(self) -> np.ndarray:
        """The positions of the rows."""
        return np.arange(self.start, self.stop) if self.kept is None else self.kept


@dataclass(frozen=True, slots=True)
class Refused:
    """All rows from `start` up to `stop` are refused, for the same reason. Usually this is one row."""

    start: int
    stop: int
    reason: Exception


@dataclass(frozen=True, slots=True)
class Sorted(Generic[T]):
    """The outcome of an attempt that sorts its rows: the `result` of the rows that pass, and the refused rows.

    `refused` are the positions of the refused rows, counted from the first row of the attempt, each with its error, in
    order.
    """

    result: T
    refused: Sequence[tuple[int, Exception]]

    def outcomes(self, start: int, stop: int) -> Iterator[Passed[T] | Refused]:
        """Yield the outcomes of the rows from `start` up to `stop`: first the refused rows, then the others."""
        for position, reason in self.refused:
            yield Refused(start + position, start + position + 1, reason)
        kept = np.delete(np.arange(start, stop), [position for position, _ in self.refused])
        if len(kept):
            yield Passed(start, stop, self.result, kept)


def isolate(
    start: int, stop: int, attempt: Callable[[int, int], T | Sorted[T]], *, known: bool = False
) -> Iterator[Passed[T] | Refused]:
    """Yield the outcomes of the rows from `start` up to `stop`, lazily and part by part, in order.

    `attempt` processes a range of rows, raises an error, or returns Sorted. Errors that are not `is_of_records` are
    raised from here, too. A row is refused only if an attempt with this row alone failed, if an attempt refused all of
    its rows (AllRowsRefusedError), or if a Sorted lists the row. `known` says that some of the rows are known to be
    bad; then an attempt with several rows is skipped.
    """
    if not known or stop - start == 1:
        try:
            found = attempt(start, stop)
        except AllRowsRefusedError as error:
            yield Refused(start, stop, error.reason)
            return
        except Exception as error:
            if not is_of_records(error):
                raise
            if stop - start == 1:
                yield Refused(start, stop, error)
                return
        else:
            if isinstance(found, Sorted):
                yield from found.outcomes(start, stop)
            else:
                yield Passed(start, stop, found)
            return
    middle = (start + stop) // 2
    left_passed = False
    for outcome in isolate(start, middle, attempt):
        left_passed = isinstance(outcome, Passed) and len(outcome.positions) == middle - start
        yield outcome
    yield from isolate(middle, stop, attempt, known=left_passed)
