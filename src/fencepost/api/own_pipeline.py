"""The result of a connector's own pipeline, which processes records before they become columns of a SourceBatch.

Java connectors have such a pipeline, in their JVM. The worker handles a record that this pipeline refused in the
same way as records that the worker's own pipeline refuses: it fails the task, or skips the record, counts and logs it,
and writes its dead letter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RefusedByPipeline:
    """A record that a stage of the pipeline refused, as the task polled it.

    `stage` is Connect's name of the stage, such as TRANSFORMATION, and `plugin` is the class that refused the record.
    `error` says what was wrong. `exception`, `message` and `trace` belong to the exception in the plugin. `key` and
    `value` are for a dead letter, and `content` is for the log, if these are requested.
    """

    stage: str
    plugin: str
    topic: str | None
    error: Exception
    exception: str
    message: str
    trace: str
    source_partition: Mapping[str, Any]
    source_offset: Mapping[str, Any]
    key: bytes | None = field(default=None, repr=False)
    value: bytes | None = field(default=None, repr=False)
    content: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class OwnPipeline:
    """The counts of a pipeline: `polled` records, including dropped and refused ones, and `retries` of stages."""

    polled: int
    retries: int = 0
    refused: Sequence[RefusedByPipeline] = ()
