"""Positions that a user sets are compared with the file."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fencepost import DataError
from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.config.connector_instance import ConnectorInstance
from fencepost.config.validation_context import ValidationContext
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.content.identity import FileIdentity
from fencepost.connectors.files.discovery.ended import Mark
from tests.unit.connectors.files import altering
from tests.unit.connectors.support import WholeOffsets

TEXT = "one\ntwo\r\nthree\rlast"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "rows"
    path.write_text(TEXT)
    return path


def alter(path: Path | str, offset: dict[str, Any], allowed: AllowedPaths = ANYWHERE, **properties: str) -> bool:
    config = {"name": "c", "files": str(path), "topic": "rows", "format": "text", **properties}
    return altering.alter(config, {str(path): offset}, allowed=allowed)


@pytest.mark.parametrize("position", [0, len("one\n"), TEXT.index("three"), TEXT.index("last")])
def test_a_position_at_which_a_row_begins_is_taken(path: Path, position: int) -> None:
    assert alter(path, {"position": position})


# The last row has no line end, so it may grow.
@pytest.mark.parametrize("position", [1, len("one"), len(TEXT) - 1, len(TEXT)])
def test_a_position_within_a_row_is_refused(path: Path, position: int) -> None:
    with pytest.raises(DataError, match=f"The position {position} is within a row of the file {path}"):
        alter(path, {"position": position})


def test_the_end_of_a_file_is_taken_after_a_line_end(path: Path) -> None:
    path.write_text("one\ntwo\n")
    assert alter(path, {"position": len("one\ntwo\n")})


def test_a_position_beyond_the_end_is_refused(path: Path) -> None:
    with pytest.raises(DataError, match=f"is beyond the end of the file {path}, which has {len(TEXT)} bytes"):
        alter(path, {"position": len(TEXT) + 1})


def test_positions_in_files_that_cannot_be_compared_are_taken(path: Path, tmp_path: Path) -> None:
    assert alter(tmp_path / "of another machine", {"position": 99})
    assert alter(path, {"position": 99}, encoding="utf-16")
    path.write_bytes(gzip.compress(TEXT.encode() * 99))
    assert alter(path, {"position": 4 + len(TEXT)})


def test_a_file_that_may_not_be_read_tells_nothing_about_itself(path: Path, tmp_path: Path) -> None:
    for position in (1, 99):
        assert alter(path, {"position": position}, AllowedPaths.of([str(tmp_path / "elsewhere")]))


def test_a_position_within_a_row_is_refused_also_with_the_identity(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        identity = FileIdentity.of(file, len(TEXT), plain=True).in_json()
    with pytest.raises(DataError, match="within a row"):
        alter(path, {"position": 1, "identity": identity})


def test_the_offset_that_was_committed_is_taken_after_the_last_row_has_grown(path: Path) -> None:
    """With --once, the end of the file is the end of its last row."""
    with path.open("rb", buffering=0) as file:
        identity = FileIdentity.of(file, len(TEXT), plain=True).in_json()
    path.write_text(f"{TEXT}\nmore\n")
    assert alter(path, {"position": len(TEXT), "identity": identity})
    with pytest.raises(DataError, match="within a row"):
        alter(path, {"position": len(TEXT)})


def test_a_pipe_and_an_invalid_path_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    taken: list[bool] = []
    # An open of a pipe without a writer would never return.
    thread = threading.Thread(target=lambda: taken.append(alter(tmp_path / "pipe", {"position": 1})), daemon=True)
    thread.start()
    thread.join(10)
    assert taken == [True]
    assert alter(tmp_path / "\0", {"position": 1})


@pytest.mark.parametrize(
    ("form", "name", "offset", "field"),
    [
        ("text", "none", {"position": 4, "postion": 4}, "postion"),
        ("text", "none", {"position": 4, "row": 1}, "row"),
        ("text", "none", {"position": 4, "object": "4 x"}, "object"),
        ("csv", "none", {"position": 4, "end": 4}, "end"),
        ("text", "none", {"position": 4, "schema": "n INT"}, "schema"),
        ("parquet", "none", {"group": 0, "row": 1, "position": 4}, "position"),
        ("parquet", "none", {"group": 0, "row": 1, "schema": "n INT"}, "schema"),
        ("jsonl", "s3://bucket/none", {"position": 4, "identity": None}, "identity"),
        ("orc", "s3://bucket/none", {"group": 0, "ended": None}, "ended"),
    ],
)
def test_a_field_that_offsets_of_such_a_file_do_not_have_is_refused(
    form: str, name: str, offset: dict[str, Any], field: str
) -> None:
    kind = f"{'objects' if '://' in name else 'files'} with format={form}"
    with pytest.raises(
        DataError, match=rf"has the field '{field}', .*correct it, or leave it out\. Offsets of {kind} have the fields "
    ):
        alter(name, offset, format=form, **_columns(form))


def _columns(form: str) -> dict[str, str]:
    return {"schema": "infer"} if form in {"csv", "jsonl"} else {}


@pytest.mark.parametrize(
    ("form", "name", "offset"),
    [
        ("text", "none", {"position": 4, "restart": None, "identity": None, "ended": None}),
        ("csv", "none", {"position": 4, "schema": "n INT"}),
        ("parquet", "none", {"group": 0, "row": 1, "file": "x", "identity": None, "ended": None}),
        ("jsonl", "s3://bucket/none", {"position": 4, "restart": None, "object": "4 x", "end": 4, "schema": "n INT"}),
        ("orc", "s3://bucket/none", {"group": 0, "row": 1, "file": "x"}),
    ],
)
def test_the_fields_that_tasks_commit_are_taken(form: str, name: str, offset: dict[str, Any]) -> None:
    assert alter(name, offset, format=form, **_columns(form))


@pytest.mark.parametrize("form", ["text", "parquet"])
def test_a_directory_is_refused_unless_it_may_not_be_read(form: str, tmp_path: Path) -> None:
    offset = {"group": 0} if form == "parquet" else {"position": 0}
    with pytest.raises(DataError, match=f"{tmp_path} is a directory: give the path of a file"):
        alter(tmp_path, offset, format=form)
    assert alter(tmp_path, offset, AllowedPaths.of([str(tmp_path / "elsewhere")]), format=form)


@pytest.mark.parametrize("filename", [1, None, True, "", ["a"]])
def test_a_filename_that_is_no_path_is_refused(filename: Any, path: Path) -> None:
    config = {"name": "c", "files": str(path), "topic": "rows", "format": "text"}
    with pytest.raises(DataError, match=r"The filename of the source partition .* is no path: give a text"):
        altering.connector(config).alter_offsets(config, [({"filename": filename}, {"position": 0})])


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("n", "expected a type"),
        ("n NUMBER", "NUMBER"),
        ("infer", "infer"),
        ("m INT", "'?n'?"),
        (7, "no text"),
        ({"n": "INT"}, "no text"),
    ],
)
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_schema_that_no_task_could_use_is_refused(form: str, columns: Any, reason: str, path: Path) -> None:
    given = {"schema": "infer", "key.columns": "n", "format": form}
    with pytest.raises(DataError, match=rf"The field schema in the offset of the file {path} .*{reason}.*leave it out"):
        alter(path, {"position": 4, "schema": columns}, **given)
    assert alter(path, {"position": 4, "schema": "n INT"}, **given)


def test_a_schema_is_compared_with_no_columns_while_it_is_not_in_use(path: Path) -> None:
    given = {"schema": "m INT", "key.columns": "m", "format": "csv"}
    assert alter(path, {"position": 4, "schema": "n INT"}, **given)
    with pytest.raises(DataError, match="The field schema"):
        alter(path, {"position": 4, "schema": "n"}, **given)


@pytest.mark.parametrize(
    ("form", "end", "earlier"),
    [
        ("text", {"position": 9}, {"position": 2}),
        ("parquet", {"group": 1}, {"group": 0, "row": 1}),
    ],
)
def test_an_end_mark_with_another_position_than_the_stored_one_is_refused(
    tmp_path: Path, form: str, end: dict[str, Any], earlier: dict[str, Any]
) -> None:
    """In compressed files and tables, the end is known only by the stored offset."""
    path = tmp_path / "rows"
    path.write_bytes(gzip.compress(b"1\n" * 9))
    mark = Mark.of(str(path), ANYWHERE)
    assert mark is not None
    config = {"name": "c", "files": str(path), "topic": "rows", "format": form, "files.after.end": "delete"}
    stored = {**end, "ended": mark.in_json()}
    with pytest.raises(DataError, match=r"another position than the stored offset .* leave out the field ended"):
        altering.alter(config, {str(path): {**earlier, "ended": mark.in_json()}}, {str(path): stored})
    assert altering.alter(config, {str(path): stored}, {str(path): stored})
    assert altering.alter(config, {str(path): {**earlier}}, {str(path): stored})


class _Malformed(WholeOffsets):
    """Stored offsets, one of which cannot be read."""

    def offsets(self, partitions: Iterable[Mapping[str, Any]]) -> list[Any]:
        found = super().offsets(partitions)
        if "oops" in found:
            raise DataError("b'oops' is not a source offset")
        return found

    def items(self) -> list[tuple[dict[str, str], Any]]:
        if "oops" in self.committed.values():
            raise DataError("b'oops' is not a source offset")
        return super().items()


@pytest.mark.parametrize(
    "given",
    [
        {"rows": None},
        {"rows": None, "other": None},
        {"rows": {"position": 4}},
        {"other": {"position": 4}, "rows": None},
    ],
    ids=str,
)
def test_a_malformed_stored_offset_can_be_removed_and_replaced(path: Path, given: dict[str, Any]) -> None:
    other = path.with_name("other")
    other.write_text(TEXT)
    config = {"name": "c", "files": f"{path},{other}", "topic": "rows", "format": "text"}
    stored = _Malformed({str(path): "oops", str(other): {"position": 0}})
    connector = ConnectorInstance(FileSourceConnector(), "c")
    connector.set_context(ValidationContext(config, ANYWHERE, stored))  # type: ignore[arg-type]
    pairs = [({"filename": str(path.with_name(name))}, offset) for name, offset in given.items()]
    assert connector.alter_offsets(config, pairs)
