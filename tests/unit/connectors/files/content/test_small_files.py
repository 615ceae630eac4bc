"""Small files are opened once, and again only if they were written to since they were read."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from io import FileIO
from pathlib import Path

import pytest

from fencepost import DataError, SourceBatch
from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.content import growing
from fencepost.connectors.files.content.growing import GrowingFile, plan_lines
from fencepost.connectors.files.content.held import HeldRange
from fencepost.connectors.files.content.ranges import FileRange
from fencepost.connectors.files.formats import line_reader
from fencepost.connectors.files.formats.line_reader import LineReader
from fencepost.connectors.files.task import FileSourceTask
from tests.unit.connectors.files.discovery.test_ended import Committed
from tests.unit.connectors.files.renaming import Reader
from tests.unit.connectors.files.test_file_source import config
from tests.unit.connectors.support import read, start, start_connector

pytestmark = pytest.mark.usefixtures("short_waits")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The number of times that each file was opened."""
    found: Counter[str] = Counter()
    open_ = AllowedPaths.open

    def counted(self: AllowedPaths, path: str) -> object:
        found[path] += 1
        return open_(self, path)

    monkeypatch.setattr(AllowedPaths, "open", counted)
    return found


@pytest.mark.parametrize("restricted", [False, True])
def test_a_small_file_is_opened_once_and_not_after_a_restart(
    tmp_path: Path, opened: Counter[str], *, restricted: bool
) -> None:
    """Opening the file costs more than reading its records."""
    for number in range(20):
        (tmp_path / str(number)).write_text(f"{number}\n")
    allowed, offsets = AllowedPaths.of([str(tmp_path)]) if restricted else ANYWHERE, Committed()
    connector = FileSourceConnector()
    start_connector(connector, config(tmp_path / "*", format="text"), allowed)
    [given] = connector.task_configs(1)
    task = start(FileSourceTask(), given, offsets, allowed)  # type: ignore[arg-type]

    assert task.lag() == 50
    batch = task.poll()
    assert isinstance(batch, SourceBatch)
    assert sorted(map(int, read(batch))) == list(range(20))
    assert opened == {str(path): 1 for path in tmp_path.iterdir()}

    offsets.commit(task, batch)
    opened.clear()
    task = start(FileSourceTask(), given, offsets, allowed)  # type: ignore[arg-type]
    assert task.poll() is None
    assert not opened
    assert task.lag() == 0
    with (tmp_path / "7").open("a") as file:
        file.write("more\n")
    grown = task.poll()
    assert isinstance(grown, SourceBatch)
    assert read(grown) == ["more"]
    assert task.at_end()


@pytest.mark.parametrize("content", ["two\n", "two\nthree\n"])
def test_a_file_that_is_overwritten_before_a_restart_is_an_error(tmp_path: Path, content: str) -> None:
    """The file is overwritten in place, with the same size and the same modification time."""
    path = tmp_path / "a"
    path.write_text("one\n")
    reader = Reader(tmp_path / "*")
    reader.read_all()
    status = path.stat()
    path.write_text(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    reader.restart()
    with pytest.raises(
        DataError, match="was replaced by another one: its offset belongs to the former file, up to byte 4"
    ):
        reader.read_all()


def test_a_file_that_was_only_touched_is_read_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one\n")
    reader = Reader(tmp_path / "*")
    reader.read_all()
    path.chmod(0o600)
    path.touch()
    reader.restart()
    reader.read_all()
    with path.open("a") as file:
        file.write("two\n")
    assert reader.read_all() == ["one", "two"]


def test_an_offset_that_was_set_back_is_read_from_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    reader = Reader(tmp_path / "*")
    reader.read_all()
    [offset] = reader.offsets.of_files.values()
    offset["position"] = 4
    reader.restart()
    assert reader.read_all() == ["one", "two", "two"]


def _compressed(first: int) -> bytes:
    return gzip.compress(f"{'x' * (first - 1)}\nleft\n".encode(), mtime=0)


def test_a_compressed_file_is_read_on_from_a_position_that_is_its_size(tmp_path: Path) -> None:
    """The position in the content is by chance equal to the compressed file's size, and more content is left."""
    [size] = [first for first in range(20, 60) if len(_compressed(first)) == first]
    (tmp_path / "a").write_bytes(_compressed(size))
    reader = Reader(tmp_path / "*", batch_bytes=str(size))
    reader.poll()
    assert reader.rows == ["x" * (size - 1)]
    assert [offset["position"] for offset in reader.offsets.of_files.values()] == [(tmp_path / "a").stat().st_size]
    reader.restart()
    assert reader.read_all()[1:] == ["left"]


def test_an_incomplete_record_is_left_until_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one\ntw")
    reader = Reader(tmp_path / "*")
    reader.read_all()
    reader.restart()
    assert reader.read_all() == ["one"]
    with path.open("a") as file:
        file.write("o\n")
    assert reader.read_all() == ["one", "two"]


def _rows(splits: list[FileRange]) -> list[str]:
    return [row for split in splits for part in LineReader().read(split) for row in part["value"].to_pylist()]


@pytest.fixture
def grown(tmp_path: Path) -> GrowingFile:
    """A file that was opened with half a line, and whose line is complete since then."""
    path = tmp_path / "a"
    path.write_text("one, tw")
    file = GrowingFile(str(path), 0, plan_lines, 1_000, ANYWHERE)
    with ANYWHERE.open(str(path)) as content:
        file.was_opened(content)
    path.write_text("one, two\n")
    return file


def test_a_file_is_read_as_it_was_when_it_was_opened_first(grown: GrowingFile) -> None:
    assert _rows(grown.advance()) == []
    assert _rows(grown.advance()) == ["one, two"]


def test_a_file_that_grew_until_it_was_complete_is_opened_again(grown: GrowingFile) -> None:
    assert _rows(grown.advance(whole=True)) == ["one, two"]


def test_a_file_that_has_to_wait_for_its_turn_is_opened_again(grown: GrowingFile) -> None:
    assert not grown.fits(6)
    assert grown.fits(9)
    assert _rows(grown.advance()) == ["one, two"]


def test_a_file_that_is_no_longer_small_is_not_read_as_it_was(grown: GrowingFile) -> None:
    path = Path(grown.path)
    path.write_text("one\n" * growing.SMALL_BYTES)
    with ANYWHERE.open(grown.path) as content:
        grown.was_opened(content)
    assert _rows(grown.advance())[:1] == ["one"]


def test_a_file_that_comes_just_after_it_was_missed_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log does not exist for a moment while it is rotated."""
    path, open_ = tmp_path / "log", AllowedPaths.open
    path.touch()
    reader = Reader(path)
    path.unlink()

    def missed(self: AllowedPaths, name: str) -> FileIO:
        try:
            return open_(self, name)
        except FileNotFoundError:
            path.write_text("one\n")
            raise

    monkeypatch.setattr(AllowedPaths, "open", missed)
    assert reader.read_all() == ["one"]


CONTENTS = (
    b"\n",
    b"a",
    b"a\n",
    b"a\r\nb\rc\n\n",
    b"\r\r\n\n\r",
    b"\xc3\xa9\n\xff\xfe\n",
    "a\u2028b\x0bc\x85d\n".encode(),
    b"\0\n",
)


@pytest.mark.parametrize("content", CONTENTS)
def test_few_lines_in_memory_are_those_of_a_file(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    held = HeldRange("a", 0, len(content), content)

    def rows(split: FileRange) -> list[str]:
        return [row for part in LineReader().read(split) for row in part["value"].to_pylist()]

    few = rows(held)
    monkeypatch.setattr(line_reader, "FEW_BYTES", 0)
    assert few == rows(held)
