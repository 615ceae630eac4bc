"""What `errors.*` makes of rows that a converter refuses: the first fails the batch, or each is skipped and counted."""

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
from fencepost.api.errors import PluginError, RetriableError
from fencepost.api.plugin import Converter, HeaderConverter
from fencepost.api.record import SourceRecord
from fencepost.config.error_handling import ErrorHandling, Tolerance
from fencepost.engine.conversion import Converted, column_types, convert
from fencepost.engine.engine import tell
from fencepost.engine.error_counts import ErrorCounts
from fencepost.engine.error_handler import LISTED, ErrorHandler
from fencepost.engine.errors import RecordRefusedError, RecordWaitsError
from fencepost.engine.grouping import group_records
from fencepost.engine.refused_records import Stage
from fencepost.engine.reports import read_reports, report_text
from tests.support.engine import SKIP, pipeline

LOGGED = replace(SKIP, log_enable=True)


class Picky(Converter, HeaderConverter):
    """Refuses texts with an x, and raises RetriableError for its first `outages` calls."""

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
    """Return the failure as it arrives from an executor."""
    with pytest.raises(RecordRefusedError) as caught:
        read_reports([report_text(failure)])
    return caught.value


def steps(converter: Picky | None = None):
    picky = converter or Picky()
    return replace(pipeline("t"), key_converter=picky, value_converter=picky, header_converter=picky)


def converted(
    rows: Sequence[tuple[str, str, str]], errors: ErrorHandler, picky: Picky | None = None
) -> list[Converted]:
    """Rows of header, key and value."""
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
    tell(errors.tally, "Task c-0")
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
