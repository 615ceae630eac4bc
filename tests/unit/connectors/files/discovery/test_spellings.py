"""Paths with a new spelling: files are read on, and no row is read twice."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost import DataError
from fencepost.connectors.files.discovery.spellings import other_spellings, respelled, with_present_names
from tests.unit.connectors.files.renaming import Reader, forms, lines, text
from tests.unit.connectors.files.test_file_source import config

pytestmark = pytest.mark.usefixtures("short_waits")

Spell = Callable[[Path], str]


def relative(path: Path) -> str:
    return os.path.relpath(path)


def dotted(path: Path) -> str:
    return f"./{os.path.relpath(path)}"


def doubled(path: Path) -> str:
    return str(path).replace("/in/", "//in/")


def up_and_down(path: Path) -> str:
    return str(path).replace("/in/", "/in/../in/")


spellings = pytest.mark.parametrize("spell", [relative, dotted, doubled, up_and_down])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def respell(reader: Reader, files: str, most: int = 1) -> None:
    reader.properties |= config(files, format="text") | {"format": reader.properties["format"]}
    reader.restart(most)


@spellings
@forms
def test_a_file_under_another_spelling_is_not_read_again(write: Any, spell: Spell, folder: Path) -> None:
    properties = write(folder / "a")
    reader = Reader(spell(folder / "*"), **properties)
    assert len(reader.read_all()) == 2
    respell(reader, str(folder / "*"))
    assert len(reader.read_all()) == 2
    assert list(reader.offsets.of_files) == [str(folder / "a")]
    respell(reader, spell(folder / "*"))
    assert len(reader.read_all()) == 2


@spellings
def test_reading_continues_where_it_was_under_another_spelling(spell: Spell, folder: Path) -> None:
    (folder / "a").write_text(text(1))
    reader = Reader(spell(folder / "a"))
    reader.read_all()
    with (folder / "a").open("a") as file:
        file.write(text(2))
    (folder / "b").write_text(text(3))
    respell(reader, f"{folder / 'a'},{folder / 'b'}")
    assert reader.read_all() == lines(1, 2, 3)


def test_many_tasks_find_their_files_under_another_spelling(folder: Path) -> None:
    for number in range(40):
        (folder / f"f{number}").write_text(text(number))
    reader = Reader(dotted(folder / "*"))
    reader.restart(3)
    reader.read_all()
    for most in (4, 1):
        respell(reader, str(folder / "*"), most)
        reader.read_all()
        respell(reader, relative(folder / "*"), most)
        assert sorted(reader.read_all()) == sorted(lines(*range(40)))


def test_a_task_that_is_killed_while_names_change_repeats_nothing(folder: Path) -> None:
    (folder / "a").write_text(text(1, 2))
    reader = Reader(dotted(folder / "*"))
    reader.read_all()
    respell(reader, str(folder / "*"))
    # The rows were polled, but the worker was killed before the commit.
    assert reader.poll(commits=False)
    respell(reader, str(folder / "*"))
    assert reader.poll()
    # The worker was killed right after the commit.
    respell(reader, str(folder / "*"))
    assert reader.read_all() == lines(1, 2)
    assert list(reader.offsets.of_files) == [str(folder / "a")]


def test_the_furthest_offset_counts_of_a_file_that_was_read_under_two_spellings(folder: Path) -> None:
    (folder / "a").write_text(text(1, 2))
    reader = Reader(str(folder / "*"))
    reader.read_all()
    offset = reader.offsets.of_files[str(folder / "a")]
    # An older version committed this spelling.
    reader.offsets.of_files["./in/a"] = offset
    with (folder / "a").open("a") as file:
        file.write(text(3))
    reader.restart()
    assert reader.read_all() == lines(1, 2, 3)
    assert list(reader.offsets.of_files) == [str(folder / "a")]


def test_a_file_that_is_renamed_and_spelled_anew_is_not_read_again(folder: Path) -> None:
    (folder / "a").write_text(text(1))
    reader = Reader(dotted(folder / "*"))
    reader.read_all()
    (folder / "a").rename(folder / "b")
    (folder / "a").write_text(text(2))
    respell(reader, str(folder / "*"), 2)
    assert reader.read_all() == lines(1, 2)
    assert sorted(reader.offsets.of_files) == [str(folder / "a"), str(folder / "b")]


def test_hard_links_and_links_keep_their_own_offsets_under_another_spelling(folder: Path) -> None:
    (folder / "a").write_text(text(1))
    reader = Reader(dotted(folder / "*"))
    reader.read_all()
    os.link(folder / "a", folder / "b")
    (folder / "c").symlink_to(folder / "a")
    respell(reader, str(folder / "*"))
    assert reader.read_all() == lines(1, 1, 1)
    respell(reader, dotted(folder / "*"))
    assert reader.read_all() == lines(1, 1, 1)


def test_a_file_that_was_replaced_meanwhile_is_an_error_in_any_spelling(folder: Path) -> None:
    (folder / "a").write_text(text(1, 2))
    reader = Reader(dotted(folder / "a"))
    reader.read_all()
    (folder / "a").write_text(text(7, 8, 9))
    respell(reader, str(folder / "a"))
    with pytest.raises(DataError, match="was replaced by another one"):
        reader.read_all()


def test_a_configuration_names_directories_and_not_files() -> None:
    files = [f"/in/{number}" for number in range(10_000)]
    assert respelled(files, [f"/./in/{number}" for number in range(10_000)]) == {"/in": ["/./in"]}
    assert respelled(files, files) == {}
    assert respelled(["s3://bucket/a"], ["s3://bucket/../bucket/a"]) == {}


def test_old_names_of_present_files_are_found_in_any_spelling() -> None:
    spellings = {"/in": ["in"]}
    assert other_spellings("/in/a", spellings) == ["in/a"]
    assert with_present_names(["/in/a", "/in/b"], {"/in/b": ["in/a"]}, spellings) == {"/in/b": ["in/a", "/in/a"]}
