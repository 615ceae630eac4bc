"""Reads a streaming query and its newest batch from its checkpoint.

    CHECKPOINT/metadata       {"id": the query's id}
    CHECKPOINT/offsets/BATCH  a version, a line of JSON with "batchTimestampMs", and the sources' offsets

Spark writes the offsets of a batch before it runs the batch. Only checkpoints in files are read: in a store where a
rename replaces an existing file, the newest batch could be another instance's.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any, Final

from fencepost.api.errors import ConfigError
from fencepost.spark.config.progress import Progress
from fencepost.spark.format.task_settings import continuous_trigger

_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):")
_FILE: Final = re.compile(r"^file:(//(localhost)?(?=/))?")
_VERSION: Final = re.compile(r"^v\d+$")
_REMEDY: Final = (
    "Put the checkpoint in a folder of the driver's machine, or use df.writeStream.foreachBatch(exactly_once(...)) of "
    "fencepost.spark, which asks Spark itself"
)


def planned_batch(location: str) -> Progress:
    """Return the query's id, and the number of the newest batch with the time at which it was planned.

    Raises ConfigError if the checkpoint cannot be read.
    """
    offsets = _folder(location) / "offsets"
    try:
        batches = [int(entry.name) for entry in offsets.iterdir() if entry.name.isdecimal()]
        newest = max(batches, default=None)
        if newest is None:
            # Spark plans a micro-batch before it requests its writer.
            raise continuous_trigger()
        return Progress(query_id(location), newest, _planned_ms((offsets / str(newest)).read_text()))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _unreadable(location, str(error)) from error


def query_id(location: str) -> str:
    """Return the id of the query. Raises ConfigError if the checkpoint cannot be read."""
    try:
        found = json.loads((_folder(location) / "metadata").read_text())["id"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _unreadable(location, str(error)) from error
    return str(found)


def _planned_ms(entry: str) -> int:
    """Return the time in an entry of the offset log.

    Raises ValueError, TypeError or KeyError for an unexpected entry.
    """
    version, _, rest = entry.partition("\n")
    if not _VERSION.match(version.strip()):
        raise ValueError(f"the offsets begin with {version[:20]!r} and not with a version")
    metadata: Any = json.loads(rest.partition("\n")[0])
    return int(metadata["batchTimestampMs"])


def _folder(location: str) -> Path:
    """Return the folder of a location: a path, or a URI `file:`, which is not percent-encoded in Hadoop's notation.

    Hadoop removes `..` and the name before it from the text, even if that name is a link, or does not exist.
    """
    scheme = _SCHEME.match(location)
    if scheme is not None and scheme[1] != "file":
        raise _unreadable(location, "it is not a folder of the machine")
    return Path(posixpath.normpath(_FILE.sub("", location)))


def _unreadable(location: str, reason: str) -> ConfigError:
    return ConfigError(
        f'A stream by format("fencepost") reads from its checkpoint when a batch was planned, and {location} cannot be '
        f"read: {reason}. {_REMEDY}",
        name="checkpointLocation",
    )
