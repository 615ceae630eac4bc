"""The file connectors read only files that the worker allows: in `start`, in `poll`, and on Spark's executors."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from fencepost import ConfigError, DataError, SourceBatch
from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.source import SourceConnector, SourceTask
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.content import growing
from fencepost.connectors.files.stream_source import FileStreamSourceConnector
from tests.unit.connectors.support import errors_in, read, start, start_connector

FORMATS = {
    "stream": {},
    "text": {"format": "text"},
    "csv": {"format": "csv", "header": "true"},
    "csv without a header": {"format": "csv", "schema": "a STRING"},
    "jsonl": {"format": "jsonl", "schema": "a STRING"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "open").mkdir()
    (tmp_path / "shut").mkdir()
    for name in ("open", "shut"):
        (tmp_path / name / "file").write_text('{"a": "1"}\n{"a": "2"}\n')
    return tmp_path


@pytest.fixture
def allowed(folder: Path) -> AllowedPaths:
    return AllowedPaths.of([str(folder / "open")])


def started(kind: str, path: Path, allowed: AllowedPaths) -> SourceTask:
    """A task that the connector configured and the test started."""
    connector, name = _connector(kind)
    config = {"topic": "t", name: str(path), **FORMATS[kind]}
    start_connector(connector, config, allowed)
    return start(connector.task_class()(), connector.task_configs(1)[0], None, allowed)


def _connector(kind: str) -> tuple[SourceConnector, str]:
    """A connector, and the property that names its files."""
    return (FileStreamSourceConnector(), "file") if kind == "stream" else (FileSourceConnector(), "files")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_that_is_allowed_is_read(folder: Path, allowed: AllowedPaths, kind: str) -> None:
    task = started(kind, folder / "open" / "file", allowed)
    batch = task.poll()
    assert isinstance(batch, SourceBatch)
    reader = batch.reader
    assert reader is not None
    assert sum(part.num_rows for split in batch.splits for part in reader.read(split)) == (1 if kind == "csv" else 2)
    assert task.lag() == 0


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("path", ["shut/file", "open/link", "open/../shut/file"])
def test_a_connector_that_names_another_file_fails_and_says_why(
    folder: Path, allowed: AllowedPaths, kind: str, path: str
) -> None:
    (folder / "open" / "link").symlink_to(folder / "shut" / "file")
    with pytest.raises(ConfigError, match=r"fencepost\.files\.allowed\.paths") as raised:
        started(kind, folder / path, allowed)
    assert raised.value.name == ("file" if kind == "stream" else "files")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("path", ["shut/file", "open/link", "open/../shut/file"])
def test_the_property_that_names_another_file_is_refused_when_it_is_checked(
    folder: Path, allowed: AllowedPaths, kind: str, path: str
) -> None:
    (folder / "open" / "link").symlink_to(folder / "shut" / "file")
    connector, name = _connector(kind)
    config = {"topic": "t", name: str(folder / path), **FORMATS[kind]}
    ((blamed, (error,)),) = errors_in(connector, config, allowed).items()
    assert blamed == name
    assert "may not be read" in error
    assert "fencepost.files.allowed.paths" in error
    assert errors_in(connector, config | {name: str(folder / "open" / "file")}, allowed) == {}


def test_files_that_are_not_there_are_an_error_of_their_property(folder: Path) -> None:
    missing = {"topic": "t", "files": str(folder / "missing"), "format": "text"}
    assert "but the file does not exist" in errors_in(FileSourceConnector(), missing)["files"][0]


@pytest.mark.parametrize("pattern", ["shut/*", "sh*/file", "*", "open/*/../../shut/file", "missing/*"])
def test_a_pattern_reveals_nothing_about_other_directories(folder: Path, allowed: AllowedPaths, pattern: str) -> None:
    (folder / "open" / "below").mkdir()
    with pytest.raises(ConfigError) as raised:
        started("text", folder / pattern, allowed)
    assert "no such file" not in str(raised.value)


def test_a_pattern_that_finds_a_link_to_elsewhere_is_refused(folder: Path, allowed: AllowedPaths) -> None:
    (folder / "open" / "link").symlink_to(folder / "shut" / "file")
    with pytest.raises(ConfigError, match="open/link may not be read"):
        started("text", folder / "open" / "*", allowed)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_that_becomes_a_link_to_elsewhere_is_not_read(folder: Path, allowed: AllowedPaths, kind: str) -> None:
    path = folder / "open" / "file"
    task = started(kind, path, allowed)
    path.unlink()
    path.symlink_to(folder / "shut" / "file")
    for ask in (task.poll, task.lag):
        with pytest.raises(DataError, match=r"fencepost\.files\.allowed\.paths"):
            ask()


@pytest.mark.parametrize("kind", FORMATS)
def test_an_executor_does_not_follow_a_link_to_elsewhere(
    folder: Path, allowed: AllowedPaths, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "SMALL_BYTES", 0)
    path = folder / "open" / "file"
    batch = started(kind, path, allowed).poll()
    assert isinstance(batch, SourceBatch)
    reader, splits = pickle.loads(pickle.dumps((batch.reader, batch.splits)))  # noqa: S301 - our own
    path.unlink()
    path.symlink_to(folder / "shut" / "file")
    with pytest.raises(DataError, match=r"fencepost\.files\.allowed\.paths"):
        [list(reader.read(split)) for split in splits]


def test_a_link_that_moves_on_within_the_allowed_paths_is_followed(folder: Path, allowed: AllowedPaths) -> None:
    link = folder / "open" / "current"
    link.symlink_to("file")
    task = started("stream", link, allowed)
    assert read(task.poll()) == ['{"a": "1"}', '{"a": "2"}']
    (folder / "open" / "longer").write_text('{"a": "1"}\n{"a": "2"}\nthree\n')
    link.unlink()
    link.symlink_to("longer")
    assert read(task.poll()) == ["three"]
