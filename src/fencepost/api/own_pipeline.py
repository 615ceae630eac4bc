"""The result of a connector's own pipeline for its records, before they became the columns of a SourceBatch.

Java connectors have one, in their JVM. The worker handles what it refused as it handles its own refusals: it fails the
task, or skips the record, counts and logs it, and writes its dead letter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RefusedByPipeline:
    """A record, as it was polled, that a stage refused.

    `stage` has Connect's name, such as TRANSFORMATION, and `plugin` is the class that refused. `error` says what was wrong;
    `exception`, `message` and `trace` are of the exception in the plugin. `key` and `value` are for a dead letter, and
    `content` is for the log, if they are wanted.
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
    """The number of `polled` records, with dropped and refused ones, and how often a stage was tried again."""

    polled: int
    retries: int = 0
    refused: Sequence[RefusedByPipeline] = ()
