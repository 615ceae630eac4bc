"""Checks whether a transform returns the same records, however the rows are split, and in whichever process it runs."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fencepost.api.errors import describe_error
from fencepost.api.plugin import Transformation
from fencepost.api.record import SourceRecord
from fencepost.api.traces import plugin_location
from fencepost.testing.conformance.violation import NotApplicableError, Violation
from fencepost.testing.transform_run import run_transform

_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class TransformSubject:
    """A transform, the rows for trying it, and its properties below `transforms.<alias>.`."""

    transform: type[Transformation]
    rows: Sequence[Any]
    config: Mapping[str, str] = field(default_factory=dict)

    def run(self, start: int, stop: int) -> list[SourceRecord]:
        """Return the records that the transform makes of some rows. Raises Violation for the transform's errors."""
        records = [SourceRecord({}, {"row": number}, "topic", row) for number, row in enumerate(self.rows)]
        try:
            return run_transform(self.transform, records[start:stop], self.config)
        except Exception as error:
            where = "the rows" if stop - start == len(self.rows) else f"rows {start + 1} to {stop}"
            raise Violation(
                f"The transform of {where} raised an error: {describe_error(error)}", plugin_location(error)
            ) from error

    def whole(self) -> list[SourceRecord]:
        """Return the records that the transform makes of all rows."""
        return self.run(0, len(self.rows))


def transforms_the_rows(subject: TransformSubject) -> None:
    """The transform accepts the rows."""
    subject.whole()


def gives_the_same_again(subject: TransformSubject) -> None:
    """The same rows give the same records again: a batch may be processed again after a failure."""
    _require_same(subject.whole(), subject.whole(), "transformed again")


def gives_the_same_in_parts(subject: TransformSubject) -> None:
    """Parts of the rows, of any size, give the same records: the transform keeps no state, and uses no other rows."""
    if len(subject.rows) < 2:
        raise NotApplicableError("there is one row alone")
    whole = subject.whole()
    for size in sorted({1, (len(subject.rows) + 1) // 2}):
        starts = range(0, len(subject.rows), size)
        parts = [record for start in starts for record in subject.run(start, min(start + size, len(subject.rows)))]
        _require_same(whole, parts, f"transformed in parts of {size}")


def can_be_pickled(subject: TransformSubject) -> None:
    """The transform can be sent to the processes of Spark's executors."""
    plugin = subject.transform()
    plugin.configure(dict(subject.config))
    sent = getattr(plugin, "rows", None) if hasattr(subject.transform, "function") else None
    if sent is None:
        raise NotApplicableError("Spark plans it in the worker, and sends no Python code")
    try:
        pickle.loads(pickle.dumps(sent()))  # noqa: S301 - our own bytes
    except Exception as error:
        raise Violation(f"The transform cannot be pickled: {describe_error(error)}") from error


RULES: Final[Sequence[Callable[[TransformSubject], None]]] = (
    transforms_the_rows, gives_the_same_again, gives_the_same_in_parts, can_be_pickled,
)  # fmt: skip


def _require_same(expected: Sequence[SourceRecord], found: Sequence[SourceRecord], how: str) -> None:
    for position in range(max(len(expected), len(found))):
        first = _shown(expected, position)
        second = _shown(found, position)
        if first != second:
            raise Violation(
                f"The rows, {how}, give {second[:_SHOWN]} as record {position + 1} instead of {first[:_SHOWN]}"
            )


def _shown(records: Sequence[SourceRecord], position: int) -> str:
    return repr(records[position]) if position < len(records) else "nothing"
