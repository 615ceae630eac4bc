from __future__ import annotations

import gzip
from pathlib import Path

import psutil
import pytest

from fencepost import DataError, SourceBatch
from tests.unit.connectors.files.test_bad_rows import read_tolerant
from tests.unit.connectors.files.test_file_source import config, errors_of, rows_of, tasks
from tests.unit.connectors.support import CommittedOffsets, read, read_to_end

TEXT = 'id,stad\n1,\'s-Gravenhage é\n2,"Köln, ß"\n'
ROWS = [{"id": 1, "stad": "'s-Gravenhage é"}, {"id": 2, "stad": "Köln, ß"}]
SCHEMA = {"format": "csv", "header": "true", "schema": "id INT, stad STRING"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "UTF8", "cp1252", "utf-8-sig"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_files_are_read_in_their_encoding(path: Path, encoding: str, compress: type[bytes]) -> None:
    assert rows_of(path, compress(TEXT.encode(encoding)), **SCHEMA, encoding=encoding) == ROWS


def test_positions_count_the_content_in_utf_8_and_can_be_resumed_from(path: Path) -> None:
    lines = [f"{number} é" for number in range(100)]
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-16"))
    offsets, found = CommittedOffsets(), []
    properties = config(path, format="text", encoding="utf-16", batch_bytes="100")
    while len(found) < len(lines):
        [task] = tasks(properties, offsets=offsets)
        batch = task.poll()
        assert isinstance(batch, SourceBatch)
        offsets.commit(batch)
        found += read(batch)
    assert found == lines
    assert offsets.positions[str(path)] == sum(len(f"{line}\n".encode()) for line in lines)


def test_a_file_of_another_encoding_may_grow_within_a_character(path: Path) -> None:
    data = "1 é\n2 ö\n".encode("utf-16-le")
    path.write_bytes(data[:11])
    [task] = tasks(config(path, format="text", encoding="utf-16-le"))
    assert read(task.poll()) == ["1 é"]
    with path.open("ab") as file:
        file.write(data[11:-2])
    assert task.poll() is None
    assert not task.at_end()
    assert read(task.poll()) == ["2 ö"]
    assert task.at_end()


def test_files_that_were_read_to_their_ends_are_not_held_open(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.txt" for number in range(9)]
    for path in paths:
        path.write_bytes("é\n".encode("latin-1"))
    before = psutil.Process().num_fds()
    [task] = tasks(config(tmp_path / "*.txt", format="text", encoding="latin-1"))
    assert read(task.poll()) == ["é"] * 9
    assert task.poll() is None
    assert psutil.Process().num_fds() == before
    with paths[4].open("ab") as file:
        file.write("ö\n".encode("latin-1"))
    assert read(task.poll()) == ["ö"]


def test_a_file_that_ends_within_a_character_is_not_at_its_end(path: Path) -> None:
    path.write_bytes("1\n".encode("utf-16-le") + b"x")
    [task] = tasks(config(path, format="text", encoding="utf-16-le"))
    assert read(task.poll()) == ["1"]
    assert not task.at_end()
    with pytest.raises(DataError, match="ends within a character of the encoding utf-16-le"):
        task.poll()


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_bytes_that_are_not_in_the_encoding_are_reported(path: Path, compress: type[bytes]) -> None:
    path.write_bytes(compress("1\n2".encode("utf-16-le") + b"\x00"))
    [task] = tasks(config(path, format="text", encoding="utf-16-le"))
    with pytest.raises(DataError, match="ends within a character of the encoding utf-16-le"):
        read_to_end(task)
    path.write_bytes(compress(b"\x00\xdc\n\x00"))
    [task] = tasks(config(path, format="text", encoding="utf-16-le"))
    with pytest.raises(DataError, match="is not in the encoding utf-16-le"):
        read_to_end(task)


def test_bad_rows_of_another_encoding_are_given_in_utf_8(path: Path) -> None:
    path.write_bytes("1,a\nß,b\n".encode("latin-1"))
    rows, refused = read_tolerant(path, format="csv", schema="id INT, stad STRING", encoding="latin-1")
    assert rows == [{"id": 1, "stad": "a"}]
    assert [(row.raw, row.place["line"]) for row in refused] == [("ß,b".encode(), "2")]


@pytest.mark.parametrize("encoding", ["klingon", "base64", "hex"])
def test_an_encoding_must_be_one_of_texts(encoding: str) -> None:
    errors = errors_of(format="text", encoding=encoding)
    assert list(errors) == ["encoding"]
    assert "must be an encoding such as utf-8" in errors["encoding"]
