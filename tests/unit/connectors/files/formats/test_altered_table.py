"""Positions that a user sets are compared with the Parquet, ORC or Avro file."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost import DataError
from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.connectors.files.content.identity import FileIdentity
from fencepost.connectors.files.formats.tables.table import TableFormat
from fencepost.connectors.files.formats.tables.table_reader import open_table
from tests.support.table_files import WRITE
from tests.unit.connectors.files import altering
from tests.unit.connectors.files.test_file_source import config

ROWS = [{"n": number, "t": f"text {number}"} for number in range(7)]
formats = pytest.mark.parametrize("form", WRITE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.x"


def first_group(path: Path, form: str) -> int:
    with open_table(str(path), TableFormat(form), ANYWHERE) as table:
        return table.first_key


@formats
def test_a_position_that_a_file_of_groups_does_not_have_is_refused(path: Path, form: str) -> None:
    path.write_bytes(WRITE[form](ROWS))
    given, first = config(path, format=form), first_group(path, form)
    with open_table(str(path), TableFormat(form), ANYWHERE) as table:
        [group] = table.groups(first)
    for group_key, row in ((first, 0), (first, 7), (group.next, 0)):
        assert altering.alter(given, {str(path): {"group": group_key, "row": row}})
    for group_key, row, why in (
        (first, 8, rf"The group {first} of the file {path} has 7 rows, .*row 8"),
        (group.next, 1, rf"The file {path} ends before the group {group.next}"),
        (group.next + 1, 0, rf"The file {path} has no group {group.next + 1}: .*from (byte )?{first} "),
    ):
        with pytest.raises(DataError, match=why):
            altering.alter(given, {str(path): {"group": group_key, "row": row}})


@formats
def test_the_content_of_another_file_in_an_offset_is_refused(path: Path, form: str) -> None:
    path.write_bytes(WRITE[form](ROWS))
    given, first = config(path, format=form), first_group(path, form)
    with open_table(str(path), TableFormat(form), ANYWHERE) as table:
        assert altering.alter(given, {str(path): {"group": first, "row": 1, "file": table.identity}})
    with pytest.raises(DataError, match=rf"The field file in the offset of the file {path} .*leave it out.*null"):
        altering.alter(given, {str(path): {"group": first, "row": 1, "file": "another"}})


@formats
def test_a_position_is_not_compared_with_a_file_that_cannot_tell(path: Path, form: str) -> None:
    given, offsets = config(path, format=form), {str(path): {"group": 77, "row": 8, "file": "another"}}
    assert altering.alter(config(path.with_name("*"), format=form), offsets), "no file yet"
    path.write_bytes(WRITE[form](ROWS)[:20])
    assert altering.alter(given, offsets), "still being copied"
    path.write_bytes(WRITE[form](ROWS))
    assert altering.alter(given, offsets, allowed=AllowedPaths.of([str(path.with_name("elsewhere"))]))
    another = {**offsets[str(path)], "identity": FileIdentity(1, 1, 7, "", "").in_json()}
    assert altering.alter(config(path.with_name("none"), format=form), {str(path): another}), "renamed"
