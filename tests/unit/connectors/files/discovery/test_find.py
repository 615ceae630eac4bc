from __future__ import annotations

import contextlib
import glob
import json
import os
import threading
from pathlib import Path

import pytest

from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.api.errors import ConfigError
from fencepost.api.own_files import OwnFiles
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.content.identity import inode_at
from fencepost.connectors.files.discovery.find import Discovery, reads_directory
from fencepost.connectors.files.discovery.watch import FileWatch
from tests.unit.connectors.support import ConnectorContext, errors_in

WAIT_SECONDS = 60


def touch(path: Path, changed: float = 1_000) -> str:
    path.touch()
    os.utime(path, (changed, changed))
    return str(path)


def test_files_of_a_pattern_come_by_name_or_by_the_time_of_their_last_change(tmp_path: Path) -> None:
    late, early = touch(tmp_path / "a ü.csv", 200), touch(tmp_path / "b.csv", 100)
    (tmp_path / "folder.csv").mkdir()
    pattern = (str(tmp_path / "*.csv"),)
    assert Discovery(pattern, ANYWHERE).find() == [late, early]
    assert Discovery(pattern, ANYWHERE, by_time=True).find() == [early, late]


def test_only_regular_files_fit_a_pattern(tmp_path: Path) -> None:
    file = touch(tmp_path / "a.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    (tmp_path / "nowhere.csv").symlink_to("nothing")
    (tmp_path / "link.csv").symlink_to(file)
    assert Discovery((str(tmp_path / "*.csv"),), ANYWHERE).find() == [file, str(tmp_path / "link.csv")]


def test_a_file_of_the_worker_that_fits_a_pattern_is_refused(tmp_path: Path) -> None:
    for name in "abc":
        touch(tmp_path / f"{name}.csv")
    protected = OwnFiles.of([str(tmp_path / "b.csv")])
    with pytest.raises(ConfigError, match=r"/b\.csv may not be read: it is one of the worker's own"):
        Discovery((str(tmp_path / "*.csv"),), AllowedPaths(own=protected)).find()


@pytest.mark.parametrize("pattern", ["*", "*.csv", "?.csv", "[ab].csv", ".*", "*/a.csv", "*/*", "x*/", "a.csv*/*"])
def test_a_pattern_fits_the_regular_files_that_glob_finds(tmp_path: Path, pattern: str) -> None:
    for folder in (tmp_path, tmp_path / "x", tmp_path / ".y"):
        folder.mkdir(exist_ok=True)
        for name in ("a.csv", "b.csv", ".c.csv", "d"):
            touch(folder / name)
    (tmp_path / "link").symlink_to("x")
    found = glob.glob(f"{tmp_path}/{pattern}")  # noqa: PTH207 - what it is compared with
    expected = sorted(path for path in found if Path(path).is_file())
    assert Discovery((f"{tmp_path}/{pattern}",), ANYWHERE).find() == expected
    with contextlib.chdir(tmp_path):
        assert [f"{tmp_path}/{path}" for path in Discovery((pattern,), ANYWHERE).find()] == expected


def test_a_path_of_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="which is not a regular file, but a pipe, a socket or a device"):
        Discovery((str(tmp_path / "pipe"),), ANYWHERE).find()


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv")).touch()
    with pytest.raises(ConfigError, match=r"The name of the file .*/\\xff\.csv is not UTF-8: rename the file"):
        Discovery((str(tmp_path / "*.csv"),), ANYWHERE).find()


@pytest.mark.parametrize(
    ("pattern", "directory", "expected"),
    [
        ("/in/*.csv", "/in", True),
        ("/in/[ab].csv", "/in/.", True),
        ("/in/a.csv", "/in", True),
        ("/in/*.csv", "/in/done", False),
        ("/in/*/*.csv", "/in/done", True),
        ("/in/*/*.csv", "/in/.done", False),
        ("/in/**", "/in/done/old", True),
        ("/in/**/*.csv", "/in", True),
        ("/in/**/*.csv", "/in/done", True),
        ("/in/**/*.csv", "/in/.done", False),
        ("/in/**/*.csv", "/in/../done", False),
    ],
)
def test_a_pattern_reads_only_the_directories_that_it_can_match(
    pattern: str, directory: str, *, expected: bool
) -> None:
    assert reads_directory(pattern, directory) is expected


def test_a_pattern_reads_a_directory_through_links(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("in")
    assert reads_directory(f"{tmp_path}/link/*", str(tmp_path / "in"))
    assert reads_directory(f"{tmp_path}/in/*", str(tmp_path / "link"))


def test_a_name_with_the_characters_of_a_pattern_is_a_name_if_there_is_such_a_file(tmp_path: Path) -> None:
    file = touch(tmp_path / "data[1].csv")
    touch(tmp_path / "data1.csv")
    assert Discovery((file,), ANYWHERE).find() == [file]


def test_links_that_lead_back_are_followed_once(tmp_path: Path) -> None:
    for folder in ("a", "b/c"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.csv").touch()
    for number in range(3):
        (tmp_path / "a" / f"back{number}").symlink_to(tmp_path)
        (tmp_path / "b" / f"loop{number}").symlink_to(tmp_path / "b")
    (tmp_path / "link").symlink_to(tmp_path / "b" / "c")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.csv").touch()

    found = {str(Path(file).relative_to(tmp_path)) for file in Discovery([f"{tmp_path}/**/x.csv"], ANYWHERE).find()}

    assert found == {"a/x.csv", "b/c/x.csv", "link/x.csv"}
    assert {str(Path(file).relative_to(tmp_path)) for file in Discovery([f"{tmp_path}/**"], ANYWHERE).find()} == found


def test_a_relative_pattern_finds_files_at_any_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for file in ("x.csv", "a/x.csv", "a/b/x.csv", "a/b/y.txt"):
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)

    assert Discovery(["**/x.csv"], ANYWHERE).find() == ["a/b/x.csv", "a/x.csv", "x.csv"]
    assert Discovery(["*/**/b/**"], ANYWHERE).find() == ["a/b/x.csv", "a/b/y.txt"]


def test_a_file_of_a_pattern_is_found_once_it_has_settled(tmp_path: Path) -> None:
    old, young = touch(tmp_path / "old", 100), touch(tmp_path / "young", 109)
    now = 110.0
    discovery = Discovery((str(tmp_path / "*"),), ANYWHERE, settle_s=5, clock=lambda: now)
    assert discovery.find() == [old]
    assert list(discovery.scan({young: inode_at(young)})) == [young, old]
    now = 115.0
    assert discovery.find() == [old, young]


def test_a_watch_reports_new_files_and_keeps_the_order_of_known_ones(tmp_path: Path) -> None:
    known, gone = touch(tmp_path / "b"), touch(tmp_path / "c")
    told = threading.Event()
    watch = FileWatch(
        Discovery((str(tmp_path / "*"), gone), ANYWHERE), interval_s=0.01, on_change=told.set, on_error=pytest.fail
    )
    watch.start()
    assert watch.files == (known, gone)
    Path(gone).unlink()
    new = touch(tmp_path / "a")
    assert told.wait(WAIT_SECONDS)
    watch.stop()
    assert watch.files == (known, new)
    # A forgotten path does not count as missing.
    assert watch._look() == ([], [])


def test_a_link_whose_target_is_gone_is_as_a_file_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    target, link = tmp_path / "target", tmp_path / "in" / "b"
    target.touch()
    link.symlink_to(target)
    asked = FileWatch(
        Discovery((str(tmp_path / "in" / "*"), str(link)), ANYWHERE),
        interval_s=3600,
        on_change=pytest.fail,
        on_error=pytest.fail,
    )
    asked.start()
    asked.stop()
    assert asked.files == (str(link),)
    target.unlink()
    assert asked._look() == ([], [])
    new = touch(tmp_path / "in" / "c")
    assert asked._look() == ([new], [])
    assert asked.files == (new,)
    target.touch()
    assert asked._look() == ([str(link)], [])


def test_a_watch_ends_with_an_error_if_a_file_appears_that_may_not_be_read(tmp_path: Path) -> None:
    allowed, secret = tmp_path / "allowed", tmp_path / "secret"
    allowed.mkdir()
    touch(secret)
    errors: list[Exception] = []
    told = threading.Event()

    def on_error(error: Exception) -> None:
        errors.append(error)
        told.set()

    discovery = Discovery((str(allowed / "*"),), AllowedPaths.of([str(allowed)]))
    watch = FileWatch(discovery, interval_s=0.01, on_change=pytest.fail, on_error=on_error)
    watch.start()
    (allowed / "link").symlink_to(secret)
    assert told.wait(WAIT_SECONDS)
    watch.stop()
    assert "The property files is refused" in str(errors[0])
    assert watch.files == ()


class Reconfigured(ConnectorContext):
    """Records that a reconfiguration of the tasks was requested."""

    def __init__(self, configs: dict[str, str]) -> None:
        super().__init__(configs)
        self.asked = threading.Event()

    def request_task_reconfiguration(self) -> None:
        self.asked.set()


def test_one_task_waits_while_no_file_fits_a_pattern(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = {
        "files": str(tmp_path / "*.txt"), "topic": "rows", "format": "text", "files.poll.interval.ms": "10",
    }  # fmt: skip
    connector = FileSourceConnector()
    assert not errors_in(connector, config)
    connector.context = context = Reconfigured(config)
    connector.start(config)
    try:
        assert "No file fits" in caplog.text
        assert [json.loads(task["task.files"]) for task in connector.task_configs(4)] == [[]]
        files = [touch(tmp_path / "1.txt")]
        assert context.asked.wait(WAIT_SECONDS)
        assert [json.loads(task["task.files"]) for task in connector.task_configs(4)] == [files]
    finally:
        connector.stop()


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("sftp://host/in/a.csv", "Mount the store as a directory"),
        ("webhdfs://host:9870/in/a.csv", "Write hdfs://host:8020/in/a.csv, with the host and port of the name node"),
        ("hdfs:/in/a.csv", "Write hdfs:///in/a.csv, with"),
        ("wasbs://c@a.blob.core.windows.net/in/*.csv", "Write abfss://c@a.dfs.core.windows.net/in/*.csv"),
    ],
)
def test_a_url_is_refused_with_advice(url: str, advice: str) -> None:
    [error] = errors_in(FileSourceConnector(), {"files": url, "format": "text", "topic": "t"})["files"]
    assert f"names {url}, but FileSource reads files by their path in the file system, or as s3://bucket/key" in error
    assert advice in error


@pytest.mark.parametrize("url", ["file:///data/in%20coming/*.csv", "file:/data/in%20coming/*.csv"])
def test_a_url_of_a_file_is_refused_with_its_path(url: str) -> None:
    [error] = errors_in(FileSourceConnector(), {"files": url, "format": "text", "topic": "t"})["files"]
    assert error.endswith("Write the path alone: /data/in coming/*.csv")


@pytest.mark.parametrize(
    "other",
    ["{0}/in/./*.csv", "{0}//in/*.csv", "{0}/out/../in/*.csv", "in/*.csv", "./in/a.csv", "{0}/link/../in/a.csv"],
)
def test_a_file_is_found_once_however_it_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text("1\n", "utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    first, second = f"{tmp_path}/in/*.csv", other.format(tmp_path)
    assert Discovery((first, second), ANYWHERE).find() == [str(tmp_path / "in" / "a.csv")]
    alone = Discovery((second,), ANYWHERE).scan()
    assert Discovery((first, second), ANYWHERE).scan(alone) == alone, "a known name stays"


def test_files_of_a_linked_directory_are_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1\n", "utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    found = Discovery((f"{tmp_path}/in/./a.csv", f"{tmp_path}/link/*.csv"), ANYWHERE).find()
    assert found == [f"{tmp_path}/in/./a.csv", f"{tmp_path}/link/a.csv"]


def test_a_dot_dot_behind_a_link_leads_to_another_file(tmp_path: Path) -> None:
    for name in ("in", "other/in", "other/sub"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("in", "other/in"):
        (tmp_path / name / "a.csv").write_text("1\n", "utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "other" / "sub")
    patterns = (f"{tmp_path}/in/*.csv", f"{tmp_path}/link/../in/*.csv")
    assert len(Discovery(patterns, ANYWHERE).find()) == 2
