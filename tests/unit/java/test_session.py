"""Requests of Java code to the worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencepost.java.session import read_offsets


class Reader:
    """Has an offset for the source partition null."""

    def offset(self, partition: Any) -> dict[str, Any] | None:
        return {"n": 1} if partition is None else None

    def offsets(self, partitions: Iterable[Any]) -> list[dict[str, Any] | None]:
        return [self.offset(partition) for partition in partitions]

    def items(self) -> list[Any]:
        raise AssertionError("Java code cannot ask for all offsets")


def test_the_offset_of_the_source_partition_null_is_read():
    assert read_offsets(Reader(), [None, '{"counter":"c"}']) == ['{"n": 1}', None]
