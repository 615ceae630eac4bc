"""Unexpected files: archives, other encodings, duplicate names, numbers that do not fit."""

from __future__ import annotations

import errno
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from fencepost import DataError, RetriableError
from fencepost.connectors.files.content.identity import FileTrack
from fencepost.connectors.files.content.ranges import unreadable
from fencepost.connectors.files.task import FileSourceTask
from fencepost.connectors.files.tracked import TrackedFile
from tests.unit.connectors.files.test_bad_rows import read_tolerant
from tests.unit.connectors.files.test_file_source import config, errors_of, rows_of, tasks
from tests.unit.connectors.support import WholeOffsets, read, read_to_end, start


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.csv"


def _zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("rows.csv", "1\n2\n")
    return buffer.getvalue()


def _tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("rows.csv")
        member.size = 4
        archive.addfile(member, io.BytesIO(b"1\n2\n"))
    return buffer.getvalue()


@pytest.mark.parametrize("wrap", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("data", "called"),
    [
        (_zip(), "a zip archive"),
        (_tar(), "a tar archive"),
        (b"\x1f\x9d\x90", "compress"),
        (b"LZIP\x01\x0c", "lzip"),
        (b"\x89LZO\x00\r\n\x1a\n", "lzop"),
        (lzma.compress(b"1\n2\n", lzma.FORMAT_ALONE), "old format of lzma"),
        (zlib.compress(b"1\n2\n"), "zlib"),
    ],
)
def test_archives_are_refused_by_name_with_advice(path: Path, data: bytes, called: str, wrap: type[bytes]) -> None:
    with pytest.raises(DataError, match=f"{called}.*Unpack"):
        rows_of(path, wrap(data), format="text")


def test_a_file_that_was_compressed_twice_is_refused_with_advice(path: Path) -> None:
    with pytest.raises(DataError, match=r"compressed twice, as gzip in gzip.*Decompress it once"):
        rows_of(path, gzip.compress(gzip.compress(b"1\n2\n")), format="text")


@pytest.mark.parametrize("wrap", [bytes, gzip.compress])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("form", ["text", "csv", "jsonl"])
def test_a_file_in_utf_16_without_the_property_names_it(
    path: Path, wrap: type[bytes], encoding: str, form: str
) -> None:
    schema = {} if form == "text" else {"schema": "n INT"}
    with pytest.raises(DataError, match=f"byte order mark of {encoding}.*set the property encoding={encoding}"):
        rows_of(path, wrap("1\n2\n".encode(encoding)), format=form, **schema)
    assert rows_of(path, wrap("1\n".encode(encoding)), format="text", encoding=encoding) == ["1"]


def test_schema_inference_names_the_encoding_in_its_error(path: Path) -> None:
    path.write_bytes("n\n1\n".encode("utf-16"))
    with pytest.raises(DataError, match="encoding=utf-16"):
        tasks(config(path, format="csv", header="true", schema="infer"))


@pytest.mark.parametrize("schema", ["id INT, id STRING", "s STRUCT<a INT, `a`: INT>"])
def test_a_schema_with_a_column_twice_is_refused_by_its_name(schema: str) -> None:
    found = errors_of(format="jsonl", schema=schema)
    assert "twice" in found["schema"]


def test_a_parquet_column_without_a_name_is_refused(path: Path) -> None:
    parquet.write_table(pa.table({"id": [1], "": [2]}), path)
    [task] = tasks(config(path, format="parquet"))
    with pytest.raises(DataError, match=r"column number 2 of the file .* has no name"):
        read_to_end(task)


@pytest.mark.parametrize(("kind", "large"), [("FLOAT", "1e39"), ("FLOAT", "-1e39"), ("DOUBLE", "1e400")])
def test_a_number_that_is_too_large_for_its_type_is_a_bad_row(path: Path, kind: str, large: str) -> None:
    path.write_text(f"1.5\n{large}\nInfinity\n-inf\n")
    rows, refused = read_tolerant(path, format="csv", schema=f"x {kind}")
    assert [row["x"] for row in rows] == [1.5, float("inf"), float("-inf")]
    assert [(row.raw, row.reason) for row in refused] == [
        (large.encode(), f"column x (number 1): '{large}' is not of type {kind}")
    ]


@pytest.mark.parametrize("schema", ["x FLOAT", "x STRUCT<y: ARRAY<FLOAT>>"])
def test_a_json_number_that_is_too_large_for_its_type_is_a_bad_row(path: Path, schema: str) -> None:
    values = [1.5, 1e39, 3.0]
    path.write_text(
        "".join(json.dumps({"x": value if schema == "x FLOAT" else {"y": [value]}}) + "\n" for value in values)
    )
    rows, refused = read_tolerant(path, format="jsonl", schema=schema)
    assert len(rows) == 2
    assert [row.place["line"] for row in refused] == ["2"]


@pytest.mark.parametrize(
    "text", ["31/02/2013 10:00 +0100", "30/02/2013 23:30 -01:00", "29/02/2013 00:30 +0200", "31/04/2013 00:00 Z"]
)
def test_an_impossible_day_with_a_time_zone_is_a_bad_row(path: Path, text: str) -> None:
    path.write_text(f"{text}\n28/02/2013 23:30 -0100\n01/03/2013 00:30 +0200\n")
    rows, refused = read_tolerant(
        path, format="csv", schema="at STRING", timestamp_column="at", timestamp_format="%d/%m/%Y %H:%M %z"
    )
    assert [row["at"] for row in rows] == ["28/02/2013 23:30 -0100", "01/03/2013 00:30 +0200"]
    assert [row.raw.decode() for row in refused] == [text]


def test_a_zone_before_the_end_of_the_format_is_refused() -> None:
    found = errors_of(format="csv", schema="at STRING", timestamp_column="at", timestamp_format="%z %d/%m/%Y")
    assert "%z must be at its end" in found["timestamp.format"]


def test_a_link_to_nothing_is_refused_with_its_target(tmp_path: Path) -> None:
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "gone.csv")
    assert "is a link to" in errors_of(files=str(link), format="text")["files"]


@pytest.mark.parametrize("form", ["text", "parquet"])
def test_a_file_that_is_gone_before_it_was_read_fails_a_task_that_is_to_end(path: Path, form: str) -> None:
    properties = {**config(path, format=form), "task.files": json.dumps([str(path)])}
    task = start(FileSourceTask(), properties)
    assert task.poll() is None
    assert not task.at_end()
    with pytest.raises(DataError, match="does not exist"):
        task.poll()


def test_a_file_that_goes_away_while_it_is_opened_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("1\n")
    [task] = tasks(config(path.with_name("*.csv"), format="text"))
    system_open = os.open

    def too_late(opened: Any, *args: Any, **options: Any) -> int:
        path.unlink(missing_ok=True)
        return system_open(opened, *args, **options)

    monkeypatch.setattr(os, "open", too_late)
    assert task.poll() is None
    monkeypatch.undo()
    path.write_text("2\n")
    assert not task.at_end()


def stale_at(monkeypatch: pytest.MonkeyPatch, call: str, path: Path, times: int) -> list[str]:
    """Make a system call fail with ESTALE, as when a network file system's server has replaced the file.

    Returns the failures.
    """
    failures: list[str] = []
    system: Any = getattr(os, call)

    def failing(given: Any, *more: Any, **options: Any) -> Any:
        if given == str(path) and len(failures) < times:
            failures.append(call)
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), given)
        return system(given, *more, **options)

    monkeypatch.setattr(os, call, failing)
    return failures


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("call", ["open", "stat"])
@pytest.mark.parametrize("form", ["text", "large", "gzip", "parquet"])
@pytest.mark.parametrize("times", range(1, 6))
def test_a_file_that_is_stale_on_its_server_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, call: str, times: int
) -> None:
    stale, other = tmp_path / "a", tmp_path / "b"
    rows = 10_000 if form == "large" else 1
    for file in (stale, other):
        text = f"{file.name}\n".encode() * rows
        if form == "parquet":
            parquet.write_table(pa.table({"name": [file.name]}), file)
        else:
            file.write_bytes(gzip.compress(text) if form == "gzip" else text)
    [task] = tasks(config(tmp_path / "*", format="parquet" if form == "parquet" else "text"))
    failures = stale_at(monkeypatch, call, stale, times)
    batches = [batch for _ in range(10) if (batch := task.poll()) is not None]
    assert failures
    monkeypatch.undo()
    values = [value["name"] if form == "parquet" else value for batch in batches for value in read(batch)]
    assert sorted(values) == ["a"] * rows + ["b"] * rows


def test_a_stale_file_is_warned_about_once_and_a_task_that_is_to_end_waits_for_it(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text("1\n")
    [task] = tasks(config(path, format="text"))
    with monkeypatch.context() as patched:
        stale_at(patched, "open", path, times=1_000)
        assert task.poll() is None
        assert caplog.text.count("data.csv was removed or replaced on its file server") == 1
        assert not task.at_end()
        with pytest.raises(RetriableError, match=r"data\.csv was removed or replaced on its file server"):
            task.poll()
    assert read(task.poll()) == ["1"]
    assert task.at_end()


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize(("number", "message"), [(errno.ESTALE, None), (errno.EIO, "cannot be read")])
def test_no_offset_is_beyond_rows_that_their_file_passed_before_an_error(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, message: str | None
) -> None:
    path.write_text("1\n2")
    follow, grown = FileTrack.follow, list[int]()

    def grows(_: TrackedFile, room: int) -> bool:
        if not grown:
            grown.append(room)
            path.write_text("1\n2\n3\n")
        return True

    def failing(track: FileTrack, *given: Any, **named: Any) -> bool:
        if grown:
            raise unreadable(track.path, OSError(number, os.strerror(number)))
        return follow(track, *given, **named)

    offsets: Any = WholeOffsets()
    [task] = tasks(config(path, format="text"), offsets=offsets)
    with monkeypatch.context() as patched:
        patched.setattr(TrackedFile, "fits", grows)
        patched.setattr(FileTrack, "follow", failing)
        batch = task.poll()
        if message is not None:
            with pytest.raises(DataError, match=message):
                task.poll()
    assert read(batch) == ["1"]
    offsets.commit(batch)
    [task] = tasks(config(path, format="text"), offsets=offsets)
    assert read(task.poll()) == ["2", "3"]


_FIND = """
import sys
from fencepost.api.allowed_paths import ANYWHERE
from fencepost.connectors.files.discovery.find import Discovery
print(ascii(Discovery((sys.argv[1].encode("utf-8", "surrogateescape").decode() if sys.argv[2] == "text" else sys.argv[1],), ANYWHERE).find()))
"""


@pytest.mark.parametrize("pattern", ["données/*.csv", "*/*.csv"])
def test_a_locale_of_ascii_alone_is_named_with_advice(tmp_path: Path, pattern: str) -> None:
    folder = tmp_path / "données"
    folder.mkdir()
    (folder / "rows.csv").write_text("1\n")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", _FIND, os.fsencode(tmp_path / pattern), b"text"]
    found = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert b"set the environment variable PYTHONUTF8=1" in found.stderr
