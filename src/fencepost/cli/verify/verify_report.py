"""The report of `fencepost verify`, and its output."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import click

from fencepost.api.texts import printable, shortened
from fencepost.cli.common.tables import print_json, print_table
from fencepost.cli.verify.number_check import NumberFindings, OffsetMismatch, PartitionFindings
from fencepost.cli.verify.row_check import Row, RowFindings

_SHOWN_ROWS: Final = 20
_SHOWN_CELLS: Final = 12
_LONGEST_CELL: Final = 60


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The findings for a topic. Checks that were not requested are None.

    `aborted` counts the records of aborted transactions, which only read_uncommitted readers see. `undecided` counts
    the records after the start of the first open transaction, which no read_committed reader sees yet.
    `open_transactions` are the transactional ids whose transaction in the topic was open from the beginning to the end
    of the check; None if the brokers do not report them.
    """

    topic: str
    records: int
    aborted: int
    undecided: int
    open_transactions: tuple[str, ...] | None
    dead_letters: int | None
    expected_records: int | None
    numbers: NumberFindings | None
    rows: RowFindings | None
    offset_mismatches: tuple[OffsetMismatch, ...] | None

    @property
    def sound(self) -> bool:
        """Whether the findings are consistent with exactly-once delivery."""
        return (
            (self.numbers is None or self.numbers.sound)
            and (self.rows is None or self.rows.sound)
            and not self.offset_mismatches
            and self.expected_records in (None, self.records + (self.dead_letters or 0))
        )


def print_report(report: VerifyReport, *, as_json: bool) -> None:
    """Print a report: as JSON with all source partitions, or as tables with the incorrect ones only."""
    if as_json:
        print_json({**asdict(report), "sound": report.sound})
        return
    print_table(("found in " + report.topic, ""), ((name, _shown(value)) for name, value in _summary(report)))
    if report.numbers is not None:
        _print_partitions([found for found in report.numbers.partitions if not found.sound])
    if report.offset_mismatches:
        _print_mismatches(report.offset_mismatches)
    if report.rows is not None and report.rows.unlike is not None:
        record, row = report.rows.unlike
        click.echo(
            "No record is equal to a row of the source at all. Either the topic belongs to another source, or the two are "
            f"written in different ways.\n  the first record: {_row(record)}\n  the first row:    {_row(row)}"
        )
    click.echo("Sound." if report.sound else "NOT sound.")


def _summary(report: VerifyReport) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = [("records at read_committed", report.records)]
    if report.dead_letters is not None:
        rows.append(("dead letters", report.dead_letters))
    if report.expected_records is not None:
        rows.append(("records expected", report.expected_records))
    if report.numbers is not None:
        numbers = report.numbers
        rows += [
            ("source partitions", len(numbers.partitions)),
            ("lost", numbers.lost),
            ("duplicates", numbers.duplicates),
            ("out of order", numbers.out_of_order),
            ("without a number", numbers.skipped),
        ]
        if numbers.first_skipped is not None:
            rows.append(("the first without a number", numbers.first_skipped))
    if report.rows is not None:
        rows += [("rows of the source", report.rows.expected), ("lost", report.rows.lost)]
        rows.append(("duplicates, or not of the source", report.rows.duplicates))
        if report.rows.unfinished:
            rows.append(("last row without a line end, not sent yet", 1))
    if report.offset_mismatches is not None:
        rows.append(("offsets that are not the last record's", len(report.offset_mismatches)))
    rows += [("records of aborted transactions", report.aborted), ("behind open transactions", report.undecided)]
    unknown = "unknown to the brokers"
    rows.append(
        ("open transactions", unknown if report.open_transactions is None else ", ".join(report.open_transactions))
    )
    return rows


def _print_partitions(unsound: list[PartitionFindings]) -> None:
    if not unsound:
        return
    columns = ("source partition", "records", "first", "last", "lost", "duplicates", "out of order", "missing")
    rows = [
        (
            found.source_partition,
            *map(_shown, (found.records, found.first, found.last, found.lost, found.duplicates, found.out_of_order)),
            ", ".join(str(start) if start == end else f"{start} to {end}" for start, end in found.missing),
        )
        for found in unsound[:_SHOWN_ROWS]
    ]
    print_table(columns, rows)
    _say_more(len(unsound))


def _print_mismatches(mismatches: tuple[OffsetMismatch, ...]) -> None:
    rows = [
        (found.source_partition, _shown(found.visible), _shown(found.committed)) for found in mismatches[:_SHOWN_ROWS]
    ]
    print_table(("source partition", "last visible", "committed offset"), rows)
    _say_more(len(mismatches))


def _say_more(count: int) -> None:
    if count > _SHOWN_ROWS:
        click.echo(f"... and {count - _SHOWN_ROWS} more: -o json has all")


def _row(row: Row) -> str:
    cells = ["null" if cell is None else printable(shortened(cell, _LONGEST_CELL)) for cell in row[:_SHOWN_CELLS]]
    return " | ".join(cells) + (" | ..." if len(row) > _SHOWN_CELLS else "")


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
