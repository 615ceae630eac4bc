"""`errors.*` and rows that a converter refuses: the first fails the batch, or each is skipped and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import DataType

from fencepost.api.config_def import ConfigDef
from fencepost.api.ddl import parse_columns
from fencepost.api.errors import ConfigError, DataError, PluginError, RetriableError
from fencepost.api.own_pipeline import OwnPipeline, RefusedByPipeline
from fencepost.api.plugin import Converter, HeaderConverter
from fencepost.api.record import SourceRecord
from fencepost.config.error_handling import ErrorHandling, Tolerance
from fencepost.engine.column_types import column_types
from fencepost.engine.conversion import Converted, convert
from fencepost.engine.error_counts import ErrorCounts
from fencepost.engine.error_handler import LISTED, ErrorHandler, Passed, Refused, Sorted, StageRows, isolate
from fencepost.engine.errors import AllRowsRefusedError, BatchCancelledError, RecordRefusedError, RecordWaitsError
from fencepost.engine.grouping import group_records
from fencepost.engine.refused_records import Stage, log_refused
from fencepost.engine.reports import read_reports, report_text
from tests.support.engine import SKIP, pipeline

LOGGED = replace(SKIP, log_enable=True)


class Picky(Converter, HeaderConverter):
    """Refuses texts with an x, and raises RetriableError in its first `outages` calls."""

    def __init__(self, outages: int = 0) -> None:
        self.outages = outages

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, configs: object, *, is_key: bool = False) -> None:
        pass

    def from_connect_data(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:  # noqa: ARG002 - the API's
        if self.outages:
            self.outages -= 1
            raise RetriableError("the registry is away")
        if any("x" in (text or "") for text in values.to_pylist()):
            raise ValueError("an x")
        return values.cast(pa.binary())

    def from_connect_header(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:
        return self.from_connect_data(topic, schema, values)


def sent(failure: RecordRefusedError) -> RecordRefusedError:
    """Pickle the failure and return the copy, as from an executor."""
    with pytest.raises(RecordRefusedError) as caught:
        read_reports([report_text(failure)])
    return caught.value


def steps(converter: Picky | None = None):
    picky = converter or Picky()
    return replace(pipeline("t"), key_converter=picky, value_converter=picky, header_converter=picky)


def converted(
    rows: Sequence[tuple[str, str, str]], errors: ErrorHandler, picky: Picky | None = None
) -> list[Converted]:
    """Convert rows of header, key and value."""
    headers = pa.array(
        [[{"key": "h", "value": row[0]}] for row in rows],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])),
    )
    batch = pa.RecordBatch.from_pydict({"value": [r[2] for r in rows], "key": [r[1] for r in rows], "headers": headers})
    ddl = "value STRING, key STRING, headers ARRAY<STRUCT<key: STRING, value: STRING>>"
    return list(convert(batch, column_types(parse_columns(ddl), where="b"), steps(picky), errors))


texts = st.sampled_from(["a", "b", "x"])


@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=60))
def test_with_tolerance_exactly_the_convertible_rows_are_left_in_their_order(rows: list[tuple[str, str, str]]):
    errors = ErrorHandler(SKIP)
    good = [row for row in rows if "x" not in row]
    found: list[tuple[bytes, bytes, bytes]] = []
    for part in converted(rows, errors):
        assert part.records.key is not None
        assert part.records.headers is not None
        headers = [pairs[0]["value"] for pairs in part.records.headers.to_pylist()]
        found += zip(headers, part.records.key.to_pylist(), part.records.value.to_pylist(), strict=True)
    assert found == [tuple(text.encode() for text in row) for row in good]
    bad = len(rows) - len(good)
    assert errors.tally.counts == ErrorCounts(failures=bad, skipped=bad)


@pytest.mark.parametrize(
    ("row", "stage"),
    [
        (("x", "a", "a"), Stage.HEADER_CONVERTER),
        (("a", "x", "a"), Stage.KEY_CONVERTER),
        (("a", "a", "x"), Stage.VALUE_CONVERTER),
    ],
)
def test_without_tolerance_the_stage_and_the_plugin_are_named(row: tuple[str, str, str], stage: Stage):
    errors = ErrorHandler(ErrorHandling())
    with pytest.raises(RecordRefusedError, match=rf"topic t failed in the stage {stage} \(Picky\): ValueError: an x"):
        converted([("a", "a", "a"), row], errors)
    assert errors.tally.counts == ErrorCounts(failures=1, errors=1)


def test_the_error_keeps_its_counts_on_the_way_from_an_executor():
    errors = ErrorHandler(replace(ErrorHandling(), log_enable=True))
    with pytest.raises(RecordRefusedError) as caught:
        converted([("a", "a", "x")], errors)
    found = sent(caught.value)
    assert (str(found), found.tally) == (str(caught.value), errors.tally)
    assert found.tally.counts == ErrorCounts(failures=1, errors=1, errors_logged=1)


def test_the_log_shows_the_record_only_if_it_may():
    for include in (False, True):
        errors = ErrorHandler(replace(LOGGED, log_include_messages=include))
        converted([("a", "secret", "x")], errors)
        (listed,) = errors.tally.listed
        assert listed.cause.startswith(f"ValueError: an x ({__file__}:")
        assert ("secret" in (listed.content or "")) is include
        assert "secret" not in str(listed)


def test_the_log_counts_the_records_that_it_does_not_list(caplog: pytest.LogCaptureFixture):
    errors = ErrorHandler(LOGGED)
    assert converted([("a", "a", "x")] * (LISTED + 3), errors) == []
    log_refused(errors.tally, "Task c-0")
    assert len(caplog.records) == LISTED + 1
    assert caplog.records[-1].getMessage() == "Task c-0: 3 more records of the same batch were skipped"


def test_a_polled_record_is_reported_with_its_origin():
    records = [SourceRecord({"file": "f"}, {"line": row}, "t", "x" if row == 2 else "a") for row in range(4)]
    errors = ErrorHandler(LOGGED, records=records)
    (group,) = group_records(records, steps(), errors)
    (part,) = convert(group.columns, group.types, steps(), errors, group.topic)
    assert part.rows is not None
    assert part.rows.to_pylist() == [0, 1, 3]
    (listed,) = errors.tally.listed
    assert str(listed).endswith("with the source partition {'file': 'f'} and the source offset {'line': 2}.")


def test_retriable_errors_are_retried_until_they_pass():
    waited: list[float] = []
    errors = ErrorHandler(ErrorHandling(retry_timeout_ms=-1, retry_delay_max_ms=500), wait=waited.append)
    (part,) = converted([("a", "b", "c")], errors, Picky(outages=3))
    assert part.records.value.to_pylist() == [b"c"]
    assert waited == [0.3, 0.5, 0.5]
    assert errors.tally.counts == ErrorCounts(failures=3, retries=3)


@pytest.mark.parametrize("tolerance", list(Tolerance))
def test_a_retriable_error_beyond_the_timeout_is_final(tolerance: Tolerance):
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    handling = ErrorHandling(tolerance, retry_timeout_ms=1_000)
    errors = ErrorHandler(handling, wait=wait, clock=lambda: now[0])
    if tolerance is Tolerance.ALL:
        assert converted([("a", "b", "c")], errors, Picky(outages=4)) == []
        assert errors.tally.counts == ErrorCounts(failures=4, retries=3, skipped=1)
    else:
        with pytest.raises(RecordWaitsError, match="the registry is away"):
            converted([("a", "b", "c")], errors, Picky(outages=4))
    assert now == [1.0]


def test_retriable_errors_are_recognised_also_from_executors():
    for row, outages, kind in (("a", 1, RecordWaitsError), ("x", 0, RecordRefusedError)):
        with pytest.raises(RecordRefusedError) as caught:
            converted([(row, row, row)], ErrorHandler(ErrorHandling()), Picky(outages))
        found = sent(caught.value)
        assert (type(caught.value), type(found)) == (kind, kind)
        assert isinstance(found, RetriableError) is (kind is RecordWaitsError)
        assert found.tally.counts == ErrorCounts(failures=1, errors=1)


def test_a_converter_that_returns_too_few_values_fails_regardless_of_tolerance():
    class Short(Picky):
        def from_connect_data(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:  # noqa: ARG002 - the API's
            return values.cast(pa.binary()).slice(1)

    with pytest.raises(PluginError, match="Short returned 1 values for 2 rows: report this to its author"):
        converted([("a", "a", "a")] * 2, ErrorHandler(SKIP), Short())


@pytest.mark.usefixtures("signals_handled")
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration()], ids=repr)
def test_a_converter_that_exits_fails_regardless_of_tolerance(error: BaseException):
    class Leaving(Picky):
        def from_connect_data(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:  # noqa: ARG002 - the API's
            raise error

    with pytest.raises(PluginError, match=rf"from_connect_header\(\) of Leaving raised {type(error).__name__}"):
        converted([("a", "a", "a")] * 2, ErrorHandler(SKIP), Leaving())


def test_a_converter_that_returns_no_array_fails_regardless_of_tolerance():
    class Listing(Picky):
        def from_connect_data(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:  # noqa: ARG002 - the API's
            return values.to_pylist()

    with pytest.raises(PluginError, match="Listing returned a list for 2 rows: it must return an Array of pyarrow"):
        converted([("a", "a", "a")] * 2, ErrorHandler(SKIP), Listing())


class Rows:
    """Numbers, some of which are refused; counts the attempts."""

    def __init__(self, count: int, refused: set[int]) -> None:
        self.count = count
        self.refused = refused
        self.attempts = 0

    def attempt(self, start: int, stop: int) -> list[int]:
        self.attempts += 1
        if bad := self.refused.intersection(range(start, stop)):
            raise DataError(f"row {min(bad)} is refused")
        return list(range(start, stop))

    def outcomes(self) -> list[Passed[list[int]] | Refused]:
        return list(isolate(0, self.count, self.attempt))


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_each_row_is_accepted_or_refused_individually_and_in_order(given_rows: tuple[int, set[int]]):
    count, refused = given_rows
    outcomes = Rows(count, refused).outcomes()
    assert [outcome.start for outcome in outcomes[1:]] == [outcome.stop for outcome in outcomes[:-1]]
    assert [row for outcome in outcomes if isinstance(outcome, Passed) for row in outcome.result] == [
        row for row in range(count) if row not in refused
    ]
    blamed = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    assert [(b.start, b.stop, str(b.reason)) for b in blamed] == [
        (row, row + 1, f"row {row} is refused") for row in sorted(refused)
    ]


@given(st.integers(0, 1023))
def test_one_bad_row_in_a_thousand_costs_at_most_twenty_more_attempts(bad: int):
    clean, dirty = Rows(1024, set()), Rows(1024, {bad})
    clean.outcomes()
    dirty.outcomes()
    assert clean.attempts == 1
    assert dirty.attempts <= 21


def test_the_first_refused_row_is_known_before_the_rows_behind_it_are_tried():
    rows = Rows(1000, {3, 900})
    first = next(outcome for outcome in isolate(0, 1000, rows.attempt) if isinstance(outcome, Refused))
    assert first.start == 3
    assert rows.attempts < 15


def test_rows_refused_for_the_same_reason_are_not_tried_one_by_one():
    attempts = []

    def attempt(start: int, stop: int) -> None:
        attempts.append((start, stop))
        raise AllRowsRefusedError(DataError("no such field"))

    (refused,) = isolate(0, 1000, attempt)
    assert (refused.start, refused.stop, attempts) == (0, 1000, [(0, 1000)])


@pytest.mark.parametrize("error", [ConfigError("x"), BatchCancelledError("x"), MemoryError()])
def test_other_failures_are_not_attributed_to_records(error: Exception):
    def attempt(start: int, stop: int) -> None:  # noqa: ARG001 - what is called
        raise error

    with pytest.raises(type(error)):
        list(isolate(0, 10, attempt))


def refused_by_pipeline(error: Exception) -> OwnPipeline:
    one = RefusedByPipeline(
        "VALUE_CONVERTER",
        "acme.Avro",
        "t",
        error,
        "acme.Bad",
        "no schema",
        "at acme.Avro",
        {"p": 1},
        {"o": 2},
        b"k",
        b"v",
    )
    return OwnPipeline(5, 3, [one])


@pytest.mark.parametrize("kind", [DataError, RetriableError])
def test_a_record_refused_by_a_connectors_own_pipeline_fails_the_task(kind: type[Exception]):
    errors = ErrorHandler(ErrorHandling())
    with pytest.raises(
        RecordRefusedError, match=r"topic t failed in the stage VALUE_CONVERTER \(acme.Avro\)"
    ) as caught:
        errors.take_over(refused_by_pipeline(kind("bad")))
    assert isinstance(caught.value, RecordWaitsError) == (kind is RetriableError)
    assert caught.value.__notes__ == ["at acme.Avro"]
    assert caught.value.tally.counts == ErrorCounts(failures=4, errors=1, retries=3)


def test_a_record_refused_by_a_connectors_own_pipeline_is_a_dead_letter():
    errors = ErrorHandler(replace(LOGGED, dead_letter_topic="dead"))
    errors.take_over(refused_by_pipeline(DataError("bad")))
    assert errors.tally.counts == ErrorCounts(failures=4, skipped=1, retries=3, errors_logged=1)
    (letter,) = errors.letters
    assert (letter.key, letter.value) == (b"k", b"v")
    assert dict(letter.headers) == {
        "__connect.errors.topic": "t", "__connect.errors.stage": "VALUE_CONVERTER",
        "__connect.errors.class.name": "acme.Avro", "__connect.errors.exception.class.name": "acme.Bad",
        "__connect.errors.exception.message": "no schema", "__connect.errors.exception.stacktrace": "at acme.Avro",
        "__connect.errors.source.partition": '{"p":1}', "__connect.errors.source.offset": '{"o":2}',
    }  # fmt: skip


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_an_attempt_that_knows_its_refused_rows_needs_no_other(good: list[bool]):
    attempts: list[tuple[int, int]] = []

    def attempt(start: int, stop: int) -> Sorted[list[int]]:
        attempts.append((start, stop))
        refused = [(n - start, DataError(f"row {n}")) for n in range(start, stop) if not good[n]]
        return Sorted([n for n in range(start, stop) if good[n]], refused)

    errors = ErrorHandler(LOGGED)
    passed, kept = errors.apply(StageRows(Stage.TRANSFORMATION, "Sql", "t", len(good)), attempt)
    left = [n for n, one in enumerate(good) if one]
    assert attempts == [(0, len(good))]
    assert [n for part in passed for n in part.result] == left
    assert (list(range(len(good))) if kept is None else kept.tolist()) == left
    assert [refused.cause for refused in errors.tally.listed] == [f"row {n}" for n, one in enumerate(good) if not one]
