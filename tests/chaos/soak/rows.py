"""Whether a topic has exactly the changes of a table: each writer counts the versions of a row.

Each row has an `id`, a `version` that grows by one with each change, and in `batch` the id of the database transaction
that wrote this version. Rows are never deleted.
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
    """The versions of a row that a source guarantees to write."""

    EACH = "each version, in order"
    LATEST = "later and later ones, and the last in the end"


@dataclass(frozen=True)
class Seen:
    """A row in a topic, and its Kafka transaction. `snapshot` says whether it was read from the table."""

    transaction: Hashable
    row: Row
    snapshot: bool = False


def cleaned(row: Row) -> dict[str, Any]:
    """A row in comparable form: columns added later may be null or missing; numbers may be strings."""
    return {name: value for name, value in row.items() if value is not None} | {"batch": int(row["batch"])}


def row_faults(name: str, seen: Iterable[Seen], table: Iterable[Row], promise: Promise, *, snapshots: int) -> list[str]:
    """Return the errors in a topic's rows; each id's rows are in the topic's order.

    The rows of one snapshot are in one Kafka transaction; there were at most `snapshots` snapshots.
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
    """The error in a version that follows another one; empty if there is none."""
    version, before = row["version"], 0 if former is None else former["version"]
    if version < before or (version == before and not snapshot):
        return "doubled or out of order"
    each = promise is Promise.EACH and not snapshot
    return "with versions missing before" if each and version > before + 1 else ""
