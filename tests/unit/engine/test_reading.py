"""Mistakes of a SourceBatch's reader are reported in its author's terms, in the worker and on executors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from fencepost.api.errors import DataError, PluginError, RetriableError
from fencepost.config.error_handling import ErrorHandling
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.write_stage import SplitRows, reader_types

_ROWS = pa.RecordBatch.from_pydict({"value": ["a"]})


class _Reader:
    """Yields the given items; an item that is an error is raised."""

    schema: Any = "value STRING"

    def __init__(self, *items: Any) -> None:
        self._items = items

    def read(self, split: Any) -> Iterator[Any]:
        del split
        for item in self._items:
            if isinstance(item, BaseException):
                raise item
            yield item


def _read(*items: Any) -> list[pa.RecordBatch]:
    return list(SplitRows(_Reader(*items), [0]).read([0], ErrorHandler(ErrorHandling())))


def _executed(*items: Any) -> list[pa.RecordBatch]:
    given = pa.RecordBatch.from_pydict({"id": [0]})
    return list(SplitRows(_Reader(*items), [0]).batches(iter([given]), ErrorHandler(ErrorHandling())))


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
@pytest.mark.parametrize("run", [_read, _executed])
def test_an_exit_while_a_reader_reads_is_a_failure(run: Any, error: BaseException):
    with pytest.raises(PluginError, match=rf"read\(\) of _Reader raised {type(error).__name__}"):
        run(_ROWS, error)


def test_a_failure_of_a_reader_on_an_executor_names_its_line():
    with pytest.raises(DataError, match=r"read\(\) of _Reader failed: KeyError: 'id' \(.*test_reading\.py:\d+\)"):
        _executed(KeyError("id"))
    with pytest.raises(KeyError):
        _read(KeyError("id"))
    for error in (RetriableError("away"), DataError("bad row")):
        with pytest.raises(type(error)):
            _executed(error)


def test_a_reader_that_yields_no_batches_is_reported_with_the_expected_type():
    with pytest.raises(
        PluginError, match="returned an iterator with a dict: it must return an iterator of RecordBatch"
    ):
        _read({"value": "a"})
    assert _read(_ROWS, _ROWS) == [_ROWS, _ROWS]


@pytest.mark.parametrize("ahead", [True, False])
def test_only_a_read_ahead_is_on_another_thread(ahead: bool):
    seen: list[threading.Thread] = []

    class Reader(_Reader):
        def read(self, split: Any) -> Iterator[Any]:
            seen.append(threading.current_thread())
            yield from super().read(split)

    rows = SplitRows(Reader(_ROWS, _ROWS), [0]).read([0], ErrorHandler(ErrorHandling()), ahead=ahead)
    assert list(rows) == [_ROWS, _ROWS]
    assert (seen == [threading.current_thread()]) is not ahead


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        ("value DECIMAL(4,1)", pa.array([Decimal("1.25")])),
        ("value INT", pa.array([3.7])),
        ("value INT", pa.array([1 << 40])),
        ("value BINARY", pa.array(["a"])),
        ("value STRING NOT NULL", pa.array([None], pa.string())),
    ],
)
def test_values_that_do_not_fit_the_schema_of_their_reader_are_refused(schema: str, given: pa.Array):
    reader = _Reader(pa.RecordBatch.from_pydict({"value": given}))
    reader.schema = schema
    with pytest.raises(DataError, match="schema"):
        list(SplitRows(reader, [0]).read([0], ErrorHandler(ErrorHandling())))


def test_rows_of_the_declared_types_are_not_copied():
    (found,) = _read(_ROWS)
    assert [one.address for one in found["value"].buffers()[1:]] == [
        one.address for one in _ROWS["value"].buffers()[1:]
    ]


def test_a_reader_without_a_schema_is_reported():
    reader = _Reader()
    reader.schema = {"value": "STRING"}
    with pytest.raises(PluginError, match="The schema of _Reader is a dict: it must be a str, such as 'value STRING'"):
        reader_types(reader)
