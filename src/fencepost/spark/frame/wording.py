"""Changes the texts of the engine's and Kafka clients' errors for Spark users, who have rows and options.

The original texts are for operators, who have connectors, tasks and `producer.override.*`. The details of an error are
its attributes, so a sink can make another text from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.api.errors import FencepostError
from fencepost.engine.errors import RecordRefusedError, RecordWaitsError
from fencepost.kafka.errors import (
    DeliveryTimeoutError,
    PartitionGoneError,
    ProducerFencedError,
    RecordTooLargeError,
    TopicNotFoundError,
    TransactionExpiredError,
    UnknownOutcomeError,
)
from fencepost.spark.config.progress import SinkKey
from fencepost.spark.errors import BatchExpiredError, CommitUnknownError, SinkFencedError, TopicRecreatedError

_OVERRIDE: Final = "producer.override."


def in_spark_terms(error: FencepostError, *, sink: str, batch: str, may_skip: bool = True) -> FencepostError:
    """Return the error in a sink user's terms: with another text, as one of the sink's own errors, or unchanged.

    `sink` and `batch` are the names in messages, such as "sink orders" and "batch 3 of sink orders". `may_skip` says
    whether errors.tolerance is an option.
    """
    if type(error) is RecordRefusedError and not may_skip:
        return _with_text(
            error,
            f"{error.record} Nothing of its batch is in Kafka: correct the row, or the options for converters; "
            "write_kafka and exactly_once of fencepost.spark can skip such rows",
        )
    if isinstance(error, ProducerFencedError):
        return SinkFencedError(
            f"The {sink} was taken over by another query of that name, or by a newer instance of this one: "
            f"nothing of this instance's last batch is in Kafka. Stop one of the two, or give them different names"
        )
    if isinstance(error, TransactionExpiredError):
        return BatchExpiredError(
            f"The transaction of {batch} was open for {error.open_ms} ms, and "
            f"transaction.timeout.ms={error.timeout_ms} is the limit: its rows are aborted. Raise "
            "transaction.timeout.ms (up to transaction.max.timeout.ms of the brokers), or make batches smaller, for "
            "example by maxOffsetsPerTrigger or maxFilesPerTrigger of the source"
        )
    if isinstance(error, UnknownOutcomeError):
        return CommitUnknownError(
            f"It is not known whether the {sink} was committed: {error.last_problem}. Look whether its rows are in "
            "the topic. With a run (run=...) it could just be written again"
        )
    if isinstance(error, PartitionGoneError):
        return recreated(error.topic, sink)
    text = next((text for kind, text in _TEXTS.items() if isinstance(error, kind)), None)
    return error if text is None else _with_text(error, text(error))


def recreated(topic: str, sink: str) -> TopicRecreatedError:
    """Return the error of a write whose topic was deleted and created again in the middle."""
    return TopicRecreatedError(
        f"Topic {topic} was deleted and created again while the {sink} wrote to it: nothing of this write is in Kafka, and "
        "what was in the topic before is gone. Write the DataFrame again; start a query again, which goes on or says how to"
    )


def in_kafka(run: SinkKey) -> str:
    """Return the warning for a DataFrame whose run is already committed."""
    return (
        f"The {run} is in Kafka, so this DataFrame is not written, whatever rows it has. If some of them are not in Kafka, "
        "write them as another run"
    )


def capitalized(name: str) -> str:
    """Return the name of a sink or batch in the form for the start of a message."""
    return name[:1].upper() + name[1:]


def _with_text(error: FencepostError, text: str) -> FencepostError:
    """Return the same error with all its attributes but another text: handlers check the class."""
    other = type(error).__new__(type(error), text)
    other.__dict__.update(error.__dict__)
    return other


def _waiting(error: RecordWaitsError) -> str:
    return (
        f"{error.record} Nothing of its batch is in Kafka, and it may pass: errors.retry.timeout says for how long the row "
        "is tried again before the query fails"
    )


def _refused(error: RecordRefusedError) -> str:
    return (
        f"{error.record} Nothing of its batch is in Kafka: correct the row, or the sink's options for converters and "
        "transforms; with errors.tolerance=all such rows are skipped"
    )


def _too_large(error: RecordTooLargeError) -> str:
    setting = error.setting.removeprefix(_OVERRIDE)
    limit = "" if error.limit is None else f"the {error.limit} bytes that "
    return (
        f"A row for topic {error.topic} takes {error.size} bytes, more than {limit}{setting} allows: raise {setting}, or "
        "make the rows smaller"
    )


def _undelivered(error: DeliveryTimeoutError) -> str:
    return (
        f"Rows for {error.topic}-{error.partition} were not acknowledged for {error.waited_ms} ms "
        f"(delivery.timeout.ms); the last problem was: {error.last_problem}. Check the brokers' health, or raise "
        "delivery.timeout.ms"
    )


def _no_topic(error: TopicNotFoundError) -> str:
    return f"Topic {error.topic} does not exist and the broker does not create it by itself: create it, or correct its name"


_TEXTS: Final[Mapping[type[FencepostError], Callable[[Any], str]]] = {
    RecordWaitsError: _waiting,
    RecordRefusedError: _refused,
    RecordTooLargeError: _too_large,
    DeliveryTimeoutError: _undelivered,
    TopicNotFoundError: _no_topic,
}
"""For each class of errors, the function that makes the text. The first match is used."""
