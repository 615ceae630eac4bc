"""The last commit of a sink, and the decision about the next batch. Pure: no I/O.

The progress of a sink is a record in a compacted topic, part of the same transaction as the batch:

    {"sink": name}              -> {"query": id, "batch": id, "batch_timestamp_ms": time, "topic_id": id}
    {"sink": name, "run": run}  -> {"topic_id": id}

Spark repeats only its last batch, with the same data: the checkpoint's offset log defines the data of a batch. The
log's entry has a timestamp, which distinguishes a repeated batch from another batch with the same number that was
planned with a copied or restored checkpoint. Batch ids start at 0 in each checkpoint, so the checkpoint's query id is
part of the progress.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum, auto
from typing import Final, Self

from fencepost.api.errors import FencepostError
from fencepost.spark.errors import CheckpointMismatchError, TopicRecreatedError

_REMEDY: Final = (
    "To write this checkpoint's batches from here on all the same, give the sink another name (name=...) and set "
    "first.batch={batch}; to write the source from its start, give it another name and the query a new checkpoint"
)


OF_RUN: Final = "/run="
"""Separates sink and run in a transactional id. Names of sinks do not contain it, so two sinks never share an id."""

_ID: Final = "fencepost-sink-"


@dataclass(frozen=True, slots=True)
class SinkKey:
    """The owner of a progress record: a sink with its batches, or one run of a sink."""

    sink: str
    run: str | None = None

    @property
    def encoded(self) -> bytes:
        """Return the key of the record."""
        content = {"sink": self.sink} if self.run is None else {"sink": self.sink, "run": self.run}
        return json.dumps(content, separators=(",", ":")).encode()

    @property
    def transactional_id(self) -> str:
        """The transactional id that writes the record."""
        return f"{_ID}{self.sink}" if self.run is None else f"{_ID}{self.sink}{OF_RUN}{self.run}"

    def __str__(self) -> str:
        return f"sink {self.sink}" if self.run is None else f"run {self.run} of sink {self.sink}"


@dataclass(frozen=True, slots=True)
class Progress:
    """The last committed batch. For a run, all fields except `topic_id` are None.

    `topic_id` is None if the sink has no single topic, or if the brokers have no topic ids.
    """

    query: str | None = None
    batch: int | None = None
    batch_timestamp_ms: int | None = None
    topic_id: str | None = None

    @property
    def encoded(self) -> bytes:
        """Return the value of the record."""
        return json.dumps({name: value for name, value in asdict(self).items() if value is not None}).encode()

    @classmethod
    def read(cls, value: bytes) -> Self:
        """Read the value of a record. Members that later versions have added are ignored."""
        found = json.loads(value)
        return cls(*(found.get(name) for name in cls.__slots__))


class NextStep(Enum):
    """Whether a batch must be written."""

    WRITE = auto()
    SKIP = auto()
    """The batch is already in Kafka, and Spark repeats it."""


def next_step(sink: str, last: Progress | None, batch: Progress, *, first_batch: int) -> NextStep:
    """Return whether to write or to skip a batch, given the last committed batch.

    Without any progress, batches before `first_batch` are skipped.

    Raises CheckpointMismatchError if the batch could be lost or duplicated.
    """
    query, number = batch.query, batch.batch or 0
    if last is None:
        if number > first_batch:
            raise _no_progress(sink, number, first_batch)
        return NextStep.SKIP if number < first_batch else NextStep.WRITE
    if last.query != query:
        raise CheckpointMismatchError(
            f"Sink {sink} holds the batches of another checkpoint, up to batch {last.batch} of query {last.query}, and "
            f"not those of query {query}: put the checkpoint back if it was deleted or replaced. Two queries need two "
            f"names. {_REMEDY.format(batch=number)}"
        )
    committed = last.batch or 0
    if number < committed:
        raise CheckpointMismatchError(
            f"Batch {number} of sink {sink} comes after batch {committed}, which is in Kafka: the checkpoint is an older "
            f"state of itself, or a copy. Put its newest state back. {_REMEDY.format(batch=number)}"
        )
    if number > committed:
        return NextStep.WRITE
    if None not in (last.batch_timestamp_ms, batch.batch_timestamp_ms) and (
        last.batch_timestamp_ms != batch.batch_timestamp_ms
    ):
        raise CheckpointMismatchError(
            f"Batch {number} of sink {sink} is in Kafka, but with other rows: this one was planned at another time, so "
            f"the checkpoint is an older state of itself, or a copy. Put its newest state back. "
            f"{_REMEDY.format(batch=number)}"
        )
    return NextStep.SKIP


def _no_progress(sink: str, batch: int, first_batch: int) -> FencepostError:
    found = "is unknown" if first_batch == 0 else f"is unknown and first.batch is {first_batch}"
    return CheckpointMismatchError(
        f"The query runs batch {batch}, but what sink {sink} has committed {found}. If this sink never wrote with this "
        f"checkpoint, set first.batch={batch}. Else the topic of sink.storage.topic was deleted, or is on another "
        f"cluster: if batch {batch} is not in Kafka set first.batch={batch}, if it is set first.batch={batch + 1}"
    )


def check_topic(key: SinkKey, topic: str, last: Progress | None, topic_id: str | None) -> None:
    """Raise TopicRecreatedError if the topic's id has changed since the last committed batch. Unknown ids are None."""
    if last is None or topic_id is None or last.topic_id in (None, topic_id):
        return
    where = "it" if key.run is None else "the run"
    raise TopicRecreatedError(
        f"Topic {topic} was deleted and created again, or the {key} wrote to another topic before: what it has committed "
        f"is not in this one. To write {where} from the start, give the sink another name (name=...), and a streaming query "
        "a new checkpoint. To go on with new rows only, give the sink another name and set first.batch to the id of the "
        "query's next batch"
    )
