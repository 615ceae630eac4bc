"""Two offsets of one file in one request are refused, because only one of them can count."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fencepost import DataError
from fencepost.api.allowed_paths import AllowedPaths
from fencepost.connectors.files.content.identity import FileIdentity
from fencepost.connectors.files.discovery.rivals import check_rivals
from tests.unit.connectors.files import altering
from tests.unit.connectors.files.discovery.test_spellings import Spell, folder, spellings
from tests.unit.connectors.files.renaming import Reader, rotate, text
from tests.unit.connectors.files.test_file_source import config

__all__ = ["folder"]


def alter(
    files: object, offsets: Mapping[str, dict[str, Any] | None], stored: Mapping[str, dict[str, Any]] | None = None
) -> bool:
    return altering.alter(config(files, format="text"), offsets, stored)


@spellings
def test_two_spellings_of_one_path_are_refused(spell: Spell, folder: Path) -> None:
    (folder / "a").write_text(text(1, 2))
    offsets = {str(folder / "a"): {"position": 0}, spell(folder / "a"): {"position": 7}}
    with pytest.raises(
        DataError, match=r"a and .*a are spellings of one path, which can have one offset: give .* null"
    ):
        alter(folder / "*", offsets)
    assert alter(folder / "*", {**offsets, str(folder / "a"): None})


def test_a_link_and_its_target_are_refused_unless_both_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1, 2))
    (tmp_path / "link").symlink_to(tmp_path / "a")
    offsets = {str(tmp_path / "a"): {"position": 0}, str(tmp_path / "link"): {"position": 7}}
    with pytest.raises(DataError, match="lead to one file, and the connector does not read both"):
        alter(tmp_path / "a", offsets)
    assert alter(tmp_path / "*", offsets)


def test_a_linked_directory_is_refused_unless_both_are_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text(text(1, 2))
    (tmp_path / "link").symlink_to(tmp_path / "in")
    offsets = {f"{tmp_path}/{name}/a": {"position": 7} for name in ("in", "link")}
    with pytest.raises(DataError, match="lead to one file"):
        alter(tmp_path / "in" / "*", offsets)
    assert alter(f"{tmp_path}/in/*,{tmp_path}/link/*", offsets)


def test_hard_links_have_an_offset_each(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1, 2))
    os.link(tmp_path / "a", tmp_path / "b")
    assert alter(tmp_path / "*", {f"{tmp_path}/{name}": {"position": 7} for name in "ab"})


def test_the_former_and_the_present_name_of_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1, 2))
    reader = Reader(tmp_path / "*")
    reader.read_all()
    (tmp_path / "a").rename(tmp_path / "b")
    committed = reader.offsets.of_files[str(tmp_path / "a")]
    for offset in ({"position": 0}, {"position": 7}, committed):
        with pytest.raises(DataError, match=r"/a and .*/b are the former and the present name of one file"):
            alter(tmp_path / "*", {str(tmp_path / "a"): committed, str(tmp_path / "b"): offset})
    assert alter(tmp_path / "*", {str(tmp_path / "a"): committed})
    assert alter(tmp_path / "*", {str(tmp_path / "a"): None, str(tmp_path / "b"): {"position": 7}})


def test_offsets_as_they_are_shown_can_be_set_after_two_rotations(tmp_path: Path) -> None:
    """Each name has a file then whose offset is that of another name."""
    (tmp_path / "log").write_text(text(1, 2))
    reader = Reader(tmp_path / "log*")
    reader.read_all()
    rotate(tmp_path, text(3, 4))
    reader.look()
    reader.read_all()
    rotate(tmp_path, text(5, 6))
    assert len(reader.offsets.of_files) == 2
    assert alter(tmp_path / "log*", reader.offsets.of_files)


def test_objects_and_invalid_paths_are_compared_as_they_are_written(tmp_path: Path) -> None:
    names = ["s3://bucket/a", "s3://bucket/b/../a", f"{tmp_path}/\0", f"{tmp_path}/\0/../\0"]
    assert alter(tmp_path / "*", {name: {"position": 0} for name in names})


@spellings
def test_another_spelling_of_a_stored_offset_is_refused(spell: Spell, folder: Path) -> None:
    """Of the offsets under both spellings the later position would count, whichever the user has set."""
    path, other = str(folder / "a"), spell(folder / "a")
    (folder / "a").write_text(text(1, 2))
    stored = {path: {"position": 7}, str(folder / "b"): {"position": 0}}
    with pytest.raises(
        DataError, match=f"{re.escape(other)} is another spelling of {re.escape(path)}, .*: give the offset of {path}"
    ):
        alter(folder / "*", {other: {"position": 0}}, stored)
    assert alter(folder / "*", {path: {"position": 0}}, stored)
    assert alter(folder / "*", {other: {"position": 0}, path: None}, stored)
    assert alter(folder / "*", {other: None}, stored)


def test_the_present_name_of_a_file_with_a_stored_offset_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1, 2))
    reader = Reader(tmp_path / "*")
    reader.read_all()
    (tmp_path / "a").rename(tmp_path / "b")
    stored = {**reader.offsets.of_files, str(tmp_path / "c"): {"position": 7}}
    with pytest.raises(DataError, match=r"/a and .*/b are the former and the present name of one file"):
        alter(tmp_path / "*", {str(tmp_path / "b"): {"position": 0}}, stored)
    assert alter(tmp_path / "*", {str(tmp_path / "a"): None, str(tmp_path / "b"): {"position": 0}}, stored)


def test_offsets_as_they_are_stored_can_be_set_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text(1, 2))
    reader = Reader(tmp_path / "log*")
    reader.read_all()
    rotate(tmp_path, text(3, 4))
    reader.look()
    reader.read_all()
    rotate(tmp_path, text(5, 6))
    stored = reader.offsets.of_files
    assert len(stored) == 2
    for path, offset in stored.items():
        assert alter(tmp_path / "log*", {path: offset}, stored)


def test_stored_offsets_that_are_wrong_do_not_keep_others_from_being_set(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1, 2))
    stored = {
        str(tmp_path / "b"): {"position": 7, "identity": "wrong"}, f"{tmp_path}/\0": {"position": 7}, "": {"x": 1},
    }  # fmt: skip
    assert alter(tmp_path / "*", {str(tmp_path / "a"): {"position": 7}}, stored)


def test_no_stored_offset_of_another_file_is_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "0"
    path.write_text("a\n")
    identity = FileIdentity(10**18, 1, 2, "a", "a", 1).in_json()
    stored = [({"filename": str(tmp_path / str(n))}, {"position": 2, "identity": identity}) for n in range(1, 1000)]
    asked: list[str] = []
    realpath, stat = os.path.realpath, os.stat
    monkeypatch.setattr(os.path, "realpath", lambda path, **more: asked.append(str(path)) or realpath(path, **more))
    monkeypatch.setattr(os, "stat", lambda path, **more: asked.append(str(path)) or stat(path, **more))
    check_rivals([({"filename": str(path)}, {"position": 2})], stored, AllowedPaths.of([str(tmp_path)]), list)
    assert not [each for each in asked if each in {partition["filename"] for partition, _ in stored}]


@pytest.mark.parametrize("offset", [{"position": 0}, {"position": len(text(3))}, None])
@pytest.mark.parametrize("comes_again", [True, False])
def test_the_only_offset_of_a_rotated_file_is_not_replaced(
    tmp_path: Path, offset: dict[str, Any] | None, comes_again: bool
) -> None:
    for name in ("app.log", "kept"):
        (tmp_path / name).write_text(text(1, 2))
    reader = Reader(tmp_path / "*")
    reader.read_all()
    stored = {path: dict(found) for path, found in reader.offsets.of_files.items()}
    path, present = str(tmp_path / "app.log"), str(tmp_path / "app.log.1")
    Path(path).rename(present)
    if comes_again:
        Path(path).write_text(text(3, 4))
    with pytest.raises(
        DataError, match=r"belongs to the file that is now .*app\.log\.1, .*Give an offset for"
    ) as refused:
        alter(tmp_path / "*", {path: offset}, stored)
    advised = json.loads(str(refused.value).split("same request: ")[1].split(" to have it read on")[0])
    assert advised == stored[path]
    for other in (advised, None):
        assert alter(tmp_path / "*", {path: offset, present: other}, stored)
    assert alter(tmp_path / "*", dict.fromkeys(stored), stored), "a reset reads all files again"
