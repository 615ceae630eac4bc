"""The identity in an offset that a user sets leads a task to a file, or the offset is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fencepost import DataError
from fencepost.api.allowed_paths import AllowedPaths
from fencepost.connectors.files.content.identity import FileIdentity
from tests.unit.connectors.files import altering
from tests.unit.connectors.files.discovery.test_ended import polled, properties, tasks
from tests.unit.connectors.files.renaming import Offsets, Reader, forms, lines, rotate, text
from tests.unit.connectors.files.test_file_source import config

pytestmark = pytest.mark.usefixtures("short_waits")

_OTHER = r"The identity in the offset of the file {path} belongs to another file"


def alter(files: object, offsets: Mapping[str, Any], stored: Mapping[str, Any] | None = None, **more: str) -> bool:
    return altering.alter(config(files, **{"format": "text", **more}), offsets, stored)


def committed(path: Path, **more: str) -> dict[str, Any]:
    """The offset of a file that was read to its end."""
    reader = Reader(path, **more)
    reader.read_all()
    return dict(reader.offsets.of_files[str(path)])


def rows_after(files: object, offsets: Mapping[str, Any], **more: str) -> list[Any]:
    """The rows that a connector with these offsets reads."""
    reader = Reader(files, **more)
    reader.offsets.of_files.update(offsets)
    reader.restart()
    return reader.read_all()


@forms
def test_the_identity_of_a_file_that_the_connector_does_not_find_is_refused(write: Any, tmp_path: Path) -> None:
    more = write(tmp_path / "other")
    offset = committed(tmp_path / "other", **more)
    (tmp_path / "a").write_bytes((tmp_path / "other").read_bytes()[::-1])
    (tmp_path / "other").unlink()
    with pytest.raises(DataError, match=_OTHER.format(path=tmp_path / "a") + ".*null.*eave the field identity out"):
        alter(tmp_path / "a", {str(tmp_path / "a"): offset}, **more)


def test_the_identity_of_a_file_with_its_own_offset_is_refused(tmp_path: Path) -> None:
    for name, content in (("a", text(1, 2)), ("b", text(3, 4))):
        (tmp_path / name).write_text(content)
    stored = {str(tmp_path / name): committed(tmp_path / name) for name in ("a", "b")}
    offsets = {str(tmp_path / "a"): stored[str(tmp_path / "b")]}
    with pytest.raises(DataError, match=r"/a and .*/b are the former and the present name .* leave its identity out"):
        alter(tmp_path / "*", offsets, stored)
    assert alter(tmp_path / "*", {**offsets, str(tmp_path / "b"): None}, stored)


@forms
def test_a_copy_of_the_file_of_an_identity_is_read_on(write: Any, tmp_path: Path) -> None:
    """Its inode and times are other ones, as after a move to another machine."""
    more = write(tmp_path / "a")
    offset = committed(tmp_path / "a", **more)
    shutil.copyfile(tmp_path / "a", tmp_path / "copy")
    (tmp_path / "copy").replace(tmp_path / "a")
    assert alter(tmp_path / "a", {str(tmp_path / "a"): offset}, **more)
    assert rows_after(tmp_path / "a", {str(tmp_path / "a"): offset}, **more) == []


def test_a_file_that_has_grown_has_its_former_identity(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1))
    offset = committed(tmp_path / "a")
    (tmp_path / "a").write_text(text(1, 2))
    assert alter(tmp_path / "a", {str(tmp_path / "a"): offset})


@pytest.mark.parametrize("settle_ms", ["0", "3600000"])
def test_a_rotated_file_takes_the_offset_and_a_warning_names_both(
    settle_ms: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "log").write_text(text(1, 2))
    offsets = {str(tmp_path / "log"): committed(tmp_path / "log")}
    rotate(tmp_path, text(3))
    assert alter(tmp_path / "log*", offsets, files_settle_ms=settle_ms)
    [warning] = [record.getMessage() for record in caplog.records]
    assert f"{tmp_path / 'log'} has the identity of {tmp_path / 'log.1'}" in warning
    assert f"{tmp_path / 'log'} is read from its start" in warning
    assert rows_after(tmp_path / "log*", offsets) == lines(3)


def test_a_rotated_file_that_the_pattern_leaves_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text(1, 2))
    offset = committed(tmp_path / "log")
    rotate(tmp_path, text(3))
    with pytest.raises(DataError, match=_OTHER.format(path=tmp_path / "log")) as refused:
        alter(tmp_path / "log", {str(tmp_path / "log"): offset})
    # The rest of the former file would be lost, and the new file would be read from the middle.
    assert "eave the field identity out" not in str(refused.value)
    assert f"{tmp_path / 'log.1'}, which the property files does not name: add this path" in str(refused.value)
    assert "give null as the offset to have the file at the path read from its start" in str(refused.value)
    assert alter(f"{tmp_path / 'log'},{tmp_path / 'log.1'}", {str(tmp_path / "log"): offset})
    assert alter(tmp_path / "log", {str(tmp_path / "log"): None})


def test_a_rotated_file_that_may_not_be_read_is_not_named(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text(1, 2))
    offset = committed(tmp_path / "log")
    rotate(tmp_path, text(3))
    given, allowed = config(tmp_path / "log", format="text"), AllowedPaths.of([str(tmp_path / "log")])
    with pytest.raises(DataError, match=_OTHER.format(path=tmp_path / "log")) as refused:
        altering.alter(given, {str(tmp_path / "log"): offset}, allowed=allowed)
    assert "log.1" not in str(refused.value)


def test_a_rotated_file_that_no_pattern_names_is_warned_of_with_its_new_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "log").write_text(text(1, 2))
    offset = committed(tmp_path / "log")
    (tmp_path / "log").rename(tmp_path / "log.1")
    assert alter(tmp_path / "log*[!1]", {str(tmp_path / "log"): offset})
    [warning] = [record.getMessage() for record in caplog.records]
    assert f"There is no file {tmp_path / 'log'}, whose file is {tmp_path / 'log.1'} now" in warning


def test_the_identity_of_a_replaced_file_that_is_not_read_any_more_is_taken(tmp_path: Path) -> None:
    """All offsets that GET shows can be set, though some are of an earlier `files`."""
    (tmp_path / "a").write_text(text(1, 2))
    offset = committed(tmp_path / "a")
    (tmp_path / "a").write_text(text(3))
    assert alter(tmp_path / "b*", {str(tmp_path / "a"): offset})


def test_files_that_are_not_there_yet_are_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a").write_text(text(1, 2))
    offset = committed(tmp_path / "a")
    (tmp_path / "a").unlink()
    offsets = {str(tmp_path / name): offset for name in ("a", "b", "c")} | {str(tmp_path / "d"): {"position": 7}}
    assert alter(tmp_path / "*", {str(tmp_path / "d"): {"position": 7}})
    assert not caplog.records
    assert alter(tmp_path / "*", offsets)
    [warning] = [record.getMessage() for record in caplog.records]
    assert f"no file {tmp_path / 'a'}, and 2 more" in warning
    assert "fails" in warning


def test_an_identity_at_the_start_of_a_file_counts_too(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1))
    offset = {**committed(tmp_path / "a"), "position": 0}
    (tmp_path / "a").write_text(text(2))
    with pytest.raises(DataError, match="belongs to another file"):
        alter(tmp_path / "a", {str(tmp_path / "a"): offset})


def test_an_identity_beyond_any_file_is_refused_without_reading_so_far(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1))
    identity = FileIdentity(1, 1, 1 << 70, "", "").in_json()
    with pytest.raises(DataError, match="belongs to another file"):
        alter(tmp_path / "a", {str(tmp_path / "a"): {"position": 1, "identity": identity}})


def test_an_identity_is_not_compared_with_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1))
    offset = {"position": 7, "identity": FileIdentity(1, 1, 7, "", "").in_json()}
    given, elsewhere = config(tmp_path / "a", format="text"), AllowedPaths.of([str(tmp_path / "elsewhere")])
    assert altering.alter(given, {str(tmp_path / "a"): offset}, allowed=elsewhere)


def test_the_files_may_be_missing_that_would_tell_whose_an_identity_is(tmp_path: Path) -> None:
    """The connector fails until the file of each path is there, so the offset does no harm."""
    (tmp_path / "a").write_text(text(1))
    offset = {"position": 7, "identity": FileIdentity(1, 1, 7, "", "").in_json()}
    assert alter(f"{tmp_path / 'a'},{tmp_path / 'b'}", {str(tmp_path / "a"): offset})


def _ended(path: Path) -> dict[str, Any]:
    """The offset of a file that was read to its end, and was to be deleted."""
    offsets = Offsets()
    [task] = tasks(properties(path), offsets=offsets)  # type: ignore[arg-type]
    while "ended" not in offsets.of_files.get(str(path), ()):
        offsets.commit(None, polled(task))
    return dict(offsets.of_files[str(path)])


def test_an_end_mark_of_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(text(1, 2))
    offset = _ended(path)
    assert altering.alter(properties(path), {str(path): offset})
    without_identity = {"position": offset["position"], "ended": offset["ended"]}
    shutil.copyfile(path, tmp_path / "copy")
    (tmp_path / "copy").replace(path)
    assert altering.alter(properties(path), {str(path): offset}), "a copy"
    with pytest.raises(DataError, match="marks another file as read"):
        altering.alter(properties(path), {str(path): without_identity})
    assert altering.alter(properties(path), {str(path): {name: offset[name] for name in ("position", "identity")}})
    path.write_text(text(2, 1))
    for given in (offset, without_identity):
        with pytest.raises(DataError, match=f"the file {path} marks another file as read .*eave ended out.*null"):
            altering.alter(properties(path), {str(path): given})


def test_an_end_mark_is_taken_for_a_file_that_is_gone_or_was_renamed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a"
    path.write_text(text(1, 2))
    offset = _ended(path)
    path.rename(tmp_path / "b")
    given = properties(tmp_path / "*")
    assert altering.alter(given, {str(path): offset})
    assert not caplog.records
    path.write_text(text(3))
    assert altering.alter(given, {str(path): offset})
    assert f"{path} is read from its start" in caplog.text


def test_an_end_mark_of_a_file_that_has_grown_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(text(1, 2))
    offset = _ended(path)
    with path.open("a") as file:
        file.write(text(3))
    assert json.loads(offset["ended"])["size"] == len(text(1, 2))
    with pytest.raises(DataError, match=f"The file {path} has grown after it was read to its end"):
        altering.alter(properties(path), {str(path): offset})
