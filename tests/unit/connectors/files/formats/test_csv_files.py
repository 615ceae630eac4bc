"""CSV files in FileSource: types, headers, quotes, and rows that do not fit."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost import DataError, SourceBatch
from fencepost.config.properties import parse_properties
from tests.unit.connectors.files.test_file_source import config, errors_of, rows_of, tasks
from tests.unit.connectors.support import CommittedOffsets, read


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_csv_rows_are_typed_by_the_schema(path: Path) -> None:
    schema = (
        "n INT, name STRING, at TIMESTAMP, day DATE, price DECIMAL(6,2), good BOOLEAN, x DOUBLE, local TIMESTAMP_NTZ"
    )
    [row, empty] = rows_of(
        path,
        '7,"a ""b"", c",2013-01-01T10:00:00+02:00,2013-02-03,12.5,true,1e3,2013-01-01 10:00:00\n,"",,,,,,\n',
        format="csv",
        schema=schema,
    )
    assert row == {
        "n": 7, "name": 'a "b", c', "at": datetime(2013, 1, 1, 8, tzinfo=UTC), "day": date(2013, 2, 3),
        "price": Decimal("12.50"), "good": True, "x": 1000.0, "local": datetime(2013, 1, 1, 10),  # noqa: DTZ001 - local
    }  # fmt: skip
    assert empty == dict.fromkeys(row) | {"name": ""}


def test_timestamps_without_a_zone_are_utc_and_may_be_mixed_with_zoned_ones(path: Path) -> None:
    text = "2013-01-01 10:00:00\n2013-01-01T10:00:00-01:00\n2013-01-02\n"
    found = rows_of(path, text, format="csv", schema="at TIMESTAMP")
    assert [row["at"] for row in found] == [
        datetime(2013, 1, 1, 10, tzinfo=UTC), datetime(2013, 1, 1, 11, tzinfo=UTC), datetime(2013, 1, 2, tzinfo=UTC),
    ]  # fmt: skip


def test_a_header_names_the_columns_in_the_files_own_order(path: Path) -> None:
    assert rows_of(path, "b,a\n1,x\nNA,\n", format="csv", header="true", schema="a STRING, b INT", null_value="NA") == [
        {"a": "x", "b": 1},
        {"a": "", "b": None},
    ]


def test_several_fields_may_mean_null(path: Path) -> None:
    text = 'NA\n"NA"\nNULL\n""\nx\n'
    found = rows_of(path, text, format="csv", schema="a STRING", null_value="NA,NULL")
    assert [row["a"] for row in found] == [None, "NA", None, "", "x"]
    found = rows_of(path, "1,\nNA,2\n", format="csv", schema="a INT, b STRING", null_value=",NA")
    assert found == [{"a": 1, "b": None}, {"a": None, "b": "2"}]


def test_extra_columns_and_other_cases_of_names_are_accepted_if_asked_for(path: Path) -> None:
    text = "NAME,more,Id,a\nx,?,1,z\n"
    schema = {"format": "csv", "header": "true", "schema": "id INT, name STRING"}
    found = rows_of(path, text, **schema, header_extra_columns="ignore", header_case_sensitive="false")
    assert found == [{"id": 1, "name": "x"}]
    with pytest.raises(DataError, match="the file's more, a missing in the schema"):
        rows_of(path, text, **schema, header_case_sensitive="false")
    with pytest.raises(DataError, match="the schema's id, name missing in the file"):
        rows_of(path, text, **schema, header_extra_columns="ignore")
    with pytest.raises(DataError, match="id twice in the file"):
        rows_of(path, "id,ID,name\n1,2,x\n", **schema, header_case_sensitive="false")


def test_an_extra_column_with_the_name_of_a_column_in_another_case_is_left_out(path: Path) -> None:
    schema = {"format": "csv", "header": "true", "schema": "id INT"}
    assert rows_of(path, "ID,id\n1,2\n", **schema, header_extra_columns="ignore") == [{"id": 2}]


def test_a_header_alone_makes_columns_of_texts(path: Path) -> None:
    found = rows_of(path, "\ufeffa\tb c\n1\t2\n", format="csv", header="true", delimiter="\\t")
    assert found == [{"a": "1", "b c": "2"}]


def test_a_file_of_a_header_alone_has_no_rows(path: Path) -> None:
    assert rows_of(path, "a,b\n", format="csv", header="true") == []


def test_a_header_is_left_out_once_and_known_again_after_a_restart(path: Path) -> None:
    path.write_text("b,a\n1,2\n3,4\n5,6\n")
    properties = config(path, format="csv", header="true", schema="a INT, b INT", batch_bytes="9")
    offsets, found = CommittedOffsets(), []
    for _ in range(2):
        [task] = tasks(properties, offsets=offsets)
        batch = task.poll()
        assert isinstance(batch, SourceBatch)
        offsets.commit(batch)
        found += read(batch)
    assert found == [{"a": 2, "b": 1}, {"a": 4, "b": 3}, {"a": 6, "b": 5}]


FIELDS = st.text(st.sampled_from('a,"\n\ré '), max_size=6)


@settings(max_examples=60)
@given(rows=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=12), batch_bytes=st.integers(60, 200))
def test_quoted_fields_hold_line_ends_delimiters_and_quotes_wherever_a_batch_ends(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], batch_bytes: int
) -> None:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows(rows)
    found = rows_of(
        tmp_path_factory.mktemp("csv") / "data", out.getvalue(), format="csv", schema="a STRING, b STRING",
        batch_bytes=str(batch_bytes),
    )  # fmt: skip
    assert found == [{"a": a, "b": b} for a, b in rows]


CHARACTERS = st.text(st.sampled_from("a,|'\"\\\n\ré "), max_size=6)


@settings(max_examples=80)
@given(
    rows=st.lists(st.tuples(CHARACTERS, CHARACTERS), min_size=1, max_size=12), batch_bytes=st.integers(60, 200),
    quote=st.sampled_from(['"', "'", ""]), escape=st.sampled_from(["\\", "|"]),
)  # fmt: skip
def test_escaped_characters_are_part_of_a_field_wherever_a_batch_ends(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], batch_bytes: int, quote: str, escape: str
) -> None:  # fmt: skip
    out = io.StringIO()
    # With QUOTE_NONE the escape character escapes everything; with QUOTE_ALL it escapes quotes only.
    quoting = csv.QUOTE_ALL if quote and batch_bytes % 2 else csv.QUOTE_NONE
    csv.writer(out, quotechar=quote or None, escapechar=escape, doublequote=False, quoting=quoting).writerows(rows)
    found = rows_of(
        tmp_path_factory.mktemp("csv") / "data", out.getvalue(), format="csv", schema="a STRING, b STRING", quote=quote,
        escape=escape, null_value="NA", batch_bytes=str(batch_bytes),
    )  # fmt: skip
    assert found == [{"a": a, "b": b} for a, b in rows]


def test_quotes_and_escapes_apply_in_headers_and_messages(path: Path) -> None:
    properties = {"format": "csv", "header": "true", "quote": "'", "escape": "\\"}
    assert rows_of(path, "'a, b',c\\,d\n'it''s',\\'x\n", **properties) == [{"a, b": "it's", "c,d": "'x"}]
    with pytest.raises(DataError, match=r"column n \(number 2\): \"it's\" is not of type INT"):
        rows_of(path, "'a, b',n\n1,'it\\'s'\n", **properties, schema="`a, b` INT, n INT")


def test_without_a_quote_a_quote_is_a_character_of_the_field(path: Path) -> None:
    found = rows_of(path, 'a"\n"b\n', format="csv", schema="a STRING", quote="")
    assert found == [{"a": 'a"'}, {"a": '"b'}]


def test_compressed_files_use_the_quotes_of_the_properties(path: Path) -> None:
    found = rows_of(path, gzip.compress(b"'a\nb'\n\"c\n"), format="csv", schema="a STRING", quote="'")
    assert found == [{"a": "a\nb"}, {"a": '"c'}]


def test_a_quote_character_escapes_itself_by_doubling(path: Path) -> None:
    assert rows_of(path, '"a""b"\n', format="csv", schema="a STRING", escape='"') == [{"a": 'a"b'}]


@pytest.mark.parametrize(
    ("properties", "text", "message"),
    [
        ({"schema": "a INT, b STRING"}, '1,"x\ny"\n2,y\n\nzwei,z\n3,a\n', r"line 5.*column a \(number 1\): 'zwei' is not of type INT"),
        ({"schema": "a INT, b STRING"}, "1,x\n2\n", r"line 2.*it has 1 column, where 2 are expected \(a, b\)"),
        ({"schema": "a INT, b STRING"}, "1,x\n2,y,z\n", "line 2.*it has 3 columns, where 2 are expected"),
        ({"schema": "a INT NOT NULL, b STRING"}, "1,x\n,y\n", "line 2.*column a.*'' is not of type INT NOT NULL"),
        ({"schema": "b STRING, a TINYINT", "header": "true"}, "a,b\n1,x\n300,y\n", "line 3.*column a.*'300'"),
        ({"schema": "a TIMESTAMP, b STRING"}, "2013-01-01,x\nsoon,y\n", "line 2.*column a.*'soon' is not of type TIMESTAMP"),
        ({"schema": "a STRING, b STRING"}, b"1,x\n2,\xff\n", "line 2.*column b"),
    ],
)  # fmt: skip
def test_a_csv_row_that_does_not_fit_is_named_with_file_line_and_column(
    path: Path, properties: dict[str, str], text: str | bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        rows_of(path, text, format="csv", **properties)
    assert str(path) in str(caught.value)
    assert "nothing of this batch was written" in str(caught.value)


def test_the_row_that_does_not_fit_is_found_in_a_large_file(path: Path) -> None:
    lines = [f"{number},x" for number in range(300_000)]
    lines[234_567] = "none,x"
    with pytest.raises(DataError, match=r"line 234568.*column a.*'none'"):
        rows_of(path, "\n".join(lines), format="csv", schema="a INT, b STRING")


@pytest.mark.parametrize(
    ("header", "message"),
    [("a,c", "the schema's b missing in the file; the file's c missing in the schema"), ("a,a", "a name twice")],
)
def test_a_header_that_does_not_fit_is_an_error(path: Path, header: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        rows_of(path, f"{header}\n1,2\n", format="csv", header="true", schema="a INT, b INT")


def test_a_quote_that_is_never_closed_is_an_error(path: Path) -> None:
    text = "0,y\n" + '1,"x\n' + "2,y\n" * 100
    message = "100 bytes (of its content )?from byte 4 on. The quote that opens on line 2 is not closed there"
    for content in (text.encode(), gzip.compress(text.encode())):
        with pytest.raises(DataError, match=message):
            rows_of(path, content, format="csv", schema="a INT, b STRING", batch_bytes="100")


def lone_quotes(rows: int) -> tuple[bytes, list[dict[str, str]]]:
    """Rows with line ends in quotes; some rows have a quote in an unquoted field."""
    lone = {rows // 3, rows // 2}
    texts = [f'{n},5" pipe' if n in lone else f'"{n}","a\nb, ""{n}"" c\n"' for n in range(rows)]
    values = ['5" pipe' if n in lone else f'a\nb, "{n}" c\n' for n in range(rows)]
    return "\n".join(texts).encode(), [{"a": str(n), "b": value} for n, value in enumerate(values)]


@pytest.mark.parametrize("batch_bytes", ["200000", "134217728"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_lone_quote_in_a_field_without_quotes_is_a_character(
    path: Path, compress: Callable[[bytes], bytes], batch_bytes: str
) -> None:
    text, rows = lone_quotes(60_000)
    found = rows_of(path, compress(text), format="csv", schema="a STRING, b STRING", batch_bytes=batch_bytes)
    assert found == rows


def test_a_lone_quote_costs_no_row_after_it(path: Path) -> None:
    text = b"".join(b'10,5" pipe\n' if number == 10 else b"%d,x\n" % number for number in range(1000))
    assert len(rows_of(path, text, format="csv", schema="a INT, b STRING")) == 1000


def test_a_byte_order_mark_is_left_out_before_a_quote_and_kept_elsewhere(path: Path) -> None:
    text = '\ufeff"a,\nb",1\n\ufeff"c,2\n'
    for batch_bytes in ("12", "1000"):
        found = rows_of(path, text, format="csv", schema="a STRING, b STRING", batch_bytes=batch_bytes)
        assert found == [{"a": "a,\nb", "b": "1"}, {"a": '\ufeff"c', "b": "2"}]


def test_a_row_that_begins_with_a_byte_order_mark_is_parsed_up_to_its_end(path: Path) -> None:
    properties = {"format": "csv", "quote": "'", "escape": "|", "schema": "a STRING, b STRING, c STRING, d STRING"}
    for batch_bytes in ("16", "1000"):
        found = rows_of(path, "a,b,c,d\n\ufeff,'a',|\n','\r\n'", batch_bytes=batch_bytes, **properties)
        assert [list(row.values()) for row in found] == [["a", "b", "c", "d"], ["\ufeff", "a", "\n'", "\r\n"]]


@pytest.mark.parametrize("text", ["\ufeff", "\ufeff\n\n", "\ufeff\r\n"])
def test_a_byte_order_mark_is_not_a_row(path: Path, text: str) -> None:
    assert rows_of(path, text, format="csv", schema="a STRING") == []


def test_an_escape_character_after_a_closing_quote_takes_the_next_one(path: Path) -> None:
    found = rows_of(path, '"a"\\,"b\nc\n', format="csv", schema="a STRING", escape="\\")
    assert found == [{"a": 'a,"b'}, {"a": "c"}]


def test_a_field_of_a_bad_row_may_have_any_size(path: Path) -> None:
    text = f"1,{'x' * 200_000}\ny,z\n"
    with pytest.raises(DataError, match=r"line 1.*column b .*'xxx.* is not of type INT"):
        rows_of(path, text, format="csv", schema="a INT, b INT")


def test_a_header_whose_quote_is_not_closed_says_so(path: Path) -> None:
    with pytest.raises(
        DataError, match=r"header of the file .* cannot be read: the quote that opens on line 1 .* lines 1 to 2"
    ):
        rows_of(path, 'a,"b\n1,2\n', format="csv", header="true")


def test_a_zero_byte_is_refused_as_delimiter() -> None:
    assert "must be one ASCII character" in errors_of(format="csv", schema="a STRING", delimiter="\0")["delimiter"]


@pytest.mark.parametrize(("separator", "value"), [(";", ";"), ("\t", r"\t"), ("|", "|")])
@pytest.mark.parametrize("schema", [{"schema": "id INT, name STRING"}, {}])
def test_a_header_with_another_delimiter_names_the_property(
    path: Path, separator: str, value: str, schema: dict[str, str]
) -> None:
    with pytest.raises(DataError) as caught:
        rows_of(path, f"id{separator}name\n1{separator}x\n", format="csv", header="true", **schema)

    assert f"separates its columns, set the property delimiter={value}" in str(caught.value)


@pytest.mark.parametrize(("blank", "name"), [("\t", r"\t"), (" ", r"\u0020")])
def test_a_blank_is_a_delimiter_however_a_file_or_json_has_it(path: Path, blank: str, name: str) -> None:
    [from_properties] = parse_properties(f"delimiter={name}", where="c.properties").values()
    assert from_properties == json.loads(f'"{name}"') == blank
    for value in (blank, name):
        text = f"a{blank}b\n1{blank}\n"
        assert rows_of(path, text, format="csv", header="true", delimiter=value) == [{"a": "1", "b": None}]


def test_a_row_with_another_delimiter_names_the_property(path: Path) -> None:
    with pytest.raises(
        DataError, match=r"1 column, .*\(id, name\). If ; separates its columns, set the property delimiter=;"
    ):
        rows_of(path, "1;x\n", format="csv", schema="id INT, name STRING")


def test_a_column_may_have_a_semicolon_in_its_name_if_the_schema_says_so(path: Path) -> None:
    assert rows_of(path, "a;b\nx\n", format="csv", header="true", schema="`a;b` STRING") == [{"a;b": "x"}]


def test_a_return_within_quotes_at_the_end_of_a_file_ends_no_row(path: Path) -> None:
    path.write_bytes(b'1\n"a\r')
    [task] = tasks(config(path, format="csv", schema="value STRING"))
    assert [row["value"] for row in read(task.poll())] == ["1"]
    assert task.poll() is None
    with path.open("ab") as file:
        file.write(b'\nb"\n')
    assert [row["value"] for row in read(task.poll())] == ["a\r\nb"]
