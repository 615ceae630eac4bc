"""Records for the runtime's tests."""

from __future__ import annotations

from fencepost import SourceRecord


def source_record(number: int, *, topic: str = "t", partition: int | None = None) -> SourceRecord:
    return SourceRecord({"p": 0}, {"n": number}, topic, value=str(number), partition=partition)


def source_records(count: int) -> list[SourceRecord]:
    return [source_record(number) for number in range(count)]
