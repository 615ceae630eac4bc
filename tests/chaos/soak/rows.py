"""Whether a topic says of a table exactly what happened to it: rows whose versions are counted by those who write them.

Each row has an `id`, a `version` that grows by one with each change, and in `batch` the number of the database
transaction that wrote this version. Rows are never deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

_SHOWN = 5

Row = Mapping[str, Any]


class Promise(Enum):
    """What a source promises of the versions of a row."""

    EACH = "each version, in order"
    LATEST = "later and later ones, and the last in the end"


@dataclass(frozen=True)
class Seen:
    """A row in a topic, and the transaction of Kafka that it is of. With `snapshot` it was read in the table."""

    transaction: Hashable
    row: Row
    snapshot: bool = False


def cleaned(row: Row) -> dict[str, Any]:
    """A row as it is compared: columns that came later are null in it, or not there; numbers may come as texts."""
    return {name: value for name, value in row.items() if value is not None} | {"batch": int(row["batch"])}


def row_faults(name: str, seen: Iterable[Seen], table: Iterable[Row], promise: Promise, *, snapshots: int) -> list[str]:
    """Return what is wrong with the rows of a topic, each id's in the order of the topic.

    The rows of a snapshot are of one transaction of Kafka; there were at most `snapshots` of them.
    """
    last: dict[int, Row] = {}
    batches: dict[int, Hashable] = {}
    found: defaultdict[str, list[str]] = defaultdict(list)
    read = set()
    for one in seen:
        row = cleaned(one.row)
        former = last.get(row["id"])
        wrong = _out_of_place(former, row, promise, snapshot=one.snapshot)
        if wrong:
            found[wrong].append(f"{former} before {row}")
        if one.snapshot:
            read.add(one.transaction)
        elif batches.setdefault(row["batch"], one.transaction) != one.transaction:
            found["torn apart"].append(f"database transaction {row['batch']}")
        last[row["id"]] = row
    expected = {row["id"]: cleaned(row) for row in table}
    found["lost"] += [str(row) for number, row in expected.items() if number not in last]
    found["never committed"] += [str(row) for number, row in last.items() if number not in expected]
    found["not as in the table in the end"] += [
        f"{last[number]} for {row}" for number, row in expected.items() if number in last and last[number] != row
    ]
    if len(read) > snapshots:
        found["snapshots in too many transactions"].append(str(len(read)))
    return [f"{name}: {len(rows)} {wrong}, first {rows[:_SHOWN]}" for wrong, rows in found.items() if rows]


def _out_of_place(former: Row | None, row: Row, promise: Promise, *, snapshot: bool) -> str:
    """What is wrong with a version that follows another; nothing if it is right."""
    version, before = row["version"], 0 if former is None else former["version"]
    if version < before or (version == before and not snapshot):
        return "doubled or out of order"
    each = promise is Promise.EACH and not snapshot
    return "with versions missing before" if each and version > before + 1 else ""
