"""Messages from Spark's executors to the worker: reports and failures of writers, as JSON of a closed set of classes.

Executors send text, and text may quote data from any source. So reading is safe for any text: it creates only the
classes below, with strings and numbers as attributes, and imports or unpickles nothing.

    Report           {"acks": [[topic, partition, base sequence, count, base offset, size, timestamp], ...],
                      "tally": ..., "partitions": {topic: number},
                      "letters": [[value, key, [[name, text], ...]], ...]}    value and key in base64, or null; the
                                                                              whole list is compressed, in base64
    Tally            {"counts": [...], "listed": [{"stage": ..., "cause": ..., ...}, ...], "causes": [...]}
    FencepostError   {"class": "DataError", "message": ..., "attributes": {...}}

A failure whose class is not listed is sent as its nearest listed base class.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any, Final

from fencepost.api import errors as api
from fencepost.api.errors import FencepostError
from fencepost.api.secrets import SECRETS
from fencepost.engine import errors as spark
from fencepost.engine.dead_letters import DeadLetter
from fencepost.engine.error_counts import ErrorCounts
from fencepost.engine.errors import RecordRefusedError, SparkJobError
from fencepost.engine.refused_records import RefusedRecord, Stage, Tally
from fencepost.kafka import errors as kafka
from fencepost.kafka.producer.partition_queue import Ack

ATTRIBUTES: Final[Mapping[type[FencepostError], tuple[str, ...]]] = {
    FencepostError: (),
    api.ConfigError: ("name",),
    api.DataError: ("name",),
    api.RetriableError: (),
    api.IllegalStateError: (),
    api.PluginError: (),
    kafka.KafkaError: (),
    kafka.BrokerUnavailableError: ("address",),
    kafka.NoDescriptorError: ("address",),
    kafka.ConcurrentTransactionsError: ("transactional_id", "request", "waited_ms", "state"),
    kafka.AuthenticationError: (),
    kafka.AuthorizationError: ("resource", "operation"),
    kafka.UnsupportedBrokerError: (),
    kafka.TopicNotFoundError: ("topic",),
    kafka.PartitionGoneError: ("topic", "partition"),
    kafka.TopicCreationError: ("topic", "reason"),
    kafka.DisklessTopicError: ("topic",),
    kafka.RecordTooLargeError: ("topic", "size", "limit", "setting"),
    kafka.InvalidTimestampError: ("topic",),
    kafka.InvalidProducerEpochError: ("transactional_id", "code_name"),
    kafka.ProducerFencedError: ("transactional_id",),
    kafka.TransactionExpiredError: ("transactional_id", "open_ms", "timeout_ms"),
    kafka.TransactionAbortableError: (),
    kafka.TransactionalIdExpiredError: ("transactional_id",),
    kafka.LostEpochError: ("transactional_id",),
    kafka.DeliveryTimeoutError: ("topic", "partition", "waited_ms", "last_problem"),
    kafka.UnknownOutcomeError: ("transactional_id", "last_problem"),
    kafka.GroupProtocolError: ("what", "problem"),
    kafka.BrokerRefusedError: ("request", "code", "name"),
    spark.SparkJobError: (),
    spark.SparkStartError: (),
    spark.WriteRetriedError: (),
    spark.UnexplainedJobError: (),
    spark.BatchCancelledError: (),
    spark.SparkDataError: ("name",),
    spark.RecordRefusedError: ("name", "tally", "record"),
    spark.RecordWaitsError: ("name", "tally", "record"),
    spark.ConverterContractError: (),
    spark.RetriableJobError: (),
    spark.PreparationWaitsError: (),
}
"""The classes of failures that can be sent, with the names of their attributes.

The attribute `tally` is a Tally. Each other attribute is a string, an integer or None.
"""

LETTERS: Final = 10_000
"""The maximum number of dead letters in one report text."""

LETTER_BYTES: Final = 8 * 1024 * 1024
"""The maximum size in bytes of the dead letters in one report text. A single dead letter may be larger."""

_CLASSES: Final = {kind.__name__: kind for kind in ATTRIBUTES}


@dataclass(frozen=True, slots=True)
class Report:
    """The acknowledgements for a part of a batch, and the errors and dead letters of the part's skipped records.

    A stage that only converts records has no acknowledgements. `partitions` has the numbers of partitions that the
    stage requested, by topic.
    """

    acks: Sequence[Ack] = ()
    tally: Tally = field(default_factory=Tally)
    partitions: Mapping[str, int] = field(default_factory=dict)
    letters: Sequence[DeadLetter] = ()

    def pieces(self) -> list[Report]:
        """Return this report as several, each with at most LETTERS and LETTER_BYTES of dead letters.

        The reason is that a text in Spark has a maximum size.
        """
        runs: list[list[DeadLetter]] = [[]]
        size = 0
        for letter in self.letters:
            if runs[-1] and (len(runs[-1]) == LETTERS or size + letter.size > LETTER_BYTES):
                runs.append([])
                size = 0
            runs[-1].append(letter)
            size += letter.size
        return [replace(self, letters=tuple(runs[0])), *(Report(letters=tuple(run)) for run in runs[1:])]


def report_text(report: Report | FencepostError) -> str:
    """The text form of a report or failure."""
    if isinstance(report, FencepostError):
        return _text(_failure_to_json(report))
    acks = [astuple(ack) for ack in report.acks]
    content = {"acks": acks, "tally": _tally_to_json(report.tally), "partitions": dict(report.partitions)}
    return _text(content | {"letters": _packed([letter.to_json() for letter in report.letters])})


def read_reports(texts: Iterable[str]) -> list[Report]:
    """The reports from the parts of a batch.

    If a part failed, raises the first failure. Raises SparkJobError for an invalid report.
    """
    return [_read_report(text) for text in texts]


def new_mark() -> str:
    """Return a random text, which data cannot contain.

    In Spark's messages, it precedes the failures of a job's stages.
    """
    return secrets.token_hex(16)


class CarriedFailureError(Exception):
    """Carries a FencepostError out of a stage that cannot return the error in its rows. `carried_failure` extracts it.

    Only the text of a Python exception reaches the driver. So the text has the job's `mark`, and after it the error.
    """

    def __init__(self, failure: FencepostError, mark: str) -> None:
        content = base64.b64encode(_text(_failure_to_json(failure)).encode()).decode()
        super().__init__(f"{failure} fencepost-failure:{mark}:{content}:")


def carried_failure(error: BaseException, mark: str) -> FencepostError | None:
    """Return the failure that an executor sent within a Spark error, None if nothing follows `mark`."""
    match = re.search(rf"fencepost-failure:{mark}:([A-Za-z0-9+/=]+):", str(error))
    if match is None:
        return None
    with _readable():
        return _failure_from_json(json.loads(base64.b64decode(match[1])))


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"))


def _packed(letters: Sequence[Any]) -> str:
    """Compress dead letters.

    Letters are similar to each other, and the driver gets the letters of a whole batch at once.
    """
    return base64.b64encode(zlib.compress(json.dumps(letters, separators=(",", ":")).encode(), 1)).decode()


def _unpacked(text: str) -> Any:
    try:
        return json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
    except zlib.error as error:
        raise ValueError(str(error)) from error


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SparkJobError(
            f"An executor of Spark sent something that is not a report of a writer ({type(error).__name__}: {error}): check that "
            "the executors have the same version of fencepost as this process"
        ) from error


def _read_report(text: str) -> Report:
    with _readable():
        found = json.loads(text)
        report = _failure_from_json(found) if "class" in found else _report_from_json(found)
    if isinstance(report, FencepostError):
        raise report
    return report


def _report_from_json(found: Mapping[str, Any]) -> Report:
    acks = [_ack_from_json(*row) for row in found["acks"]]
    partitions = {topic: _typed(count, int) for topic, count in found["partitions"].items()}
    letters = tuple(DeadLetter.from_json(letter) for letter in _unpacked(_typed(found["letters"], str)))
    return Report(acks, _tally_from_json(found["tally"]), partitions, letters)


def _ack_from_json(topic: Any, *numbers: Any) -> Ack:
    return Ack(_typed(topic, str), *(_typed(number, int) for number in numbers))


def _tally_to_json(tally: Tally) -> dict[str, Any]:
    listed = [asdict(refused) for refused in tally.listed]
    return {"counts": astuple(tally.counts), "listed": listed, "causes": tally.causes}


def _tally_from_json(found: Mapping[str, Any]) -> Tally:
    counts = ErrorCounts(*(_typed(count, int) for count in found["counts"]))
    causes = tuple(_typed(cause, str) for cause in found["causes"])
    return Tally(counts, tuple(_refused_from_json(**refused) for refused in found["listed"]), causes)


def _refused_from_json(*, stage: Any, row: Any, **texts: Any) -> RefusedRecord:
    found = {name: _typed(text, str, type(None)) for name, text in texts.items()}
    return RefusedRecord(Stage(stage), row=_typed(row, int, type(None)), **found)


def _failure_to_json(failure: FencepostError) -> dict[str, Any]:
    kind = next(kind for kind in type(failure).__mro__ if kind in ATTRIBUTES)
    attributes = {name: getattr(failure, name) for name in ATTRIBUTES[kind]}
    if isinstance(failure, RecordRefusedError):
        attributes["tally"] = _tally_to_json(failure.tally)
    return {"class": kind.__name__, "message": str(failure), "attributes": attributes}


def _failure_from_json(found: Mapping[str, Any]) -> FencepostError:
    kind = _CLASSES[found["class"]]
    # The message is not passed: the __init__ of each class creates it again from the attributes.
    failure = kind.__new__(kind, _typed(found["message"], str))
    for name in ATTRIBUTES[kind]:
        value = found["attributes"][name]
        setattr(failure, name, _tally_from_json(value) if name == "tally" else _typed(value, str, int, type(None)))
    return failure


def _typed(value: Any, *kinds: type) -> Any:
    if not isinstance(value, kinds):
        raise TypeError(f"{SECRETS.excerpt(repr(value), 50)} is of type {type(value).__name__}")
    return value
