"""Files are opened only where that is allowed, whatever links exist and however they change."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost import ConfigError
from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths, PathsOfWorker
from fencepost.api.own_files import OwnFiles


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder `open`, which is allowed, next to a folder `shut` with a secret."""
    (tmp_path / "open" / "below").mkdir(parents=True)
    (tmp_path / "open" / "below" / "file").write_text("open")
    (tmp_path / "shut" / "below").mkdir(parents=True)
    (tmp_path / "shut" / "below" / "file").write_text("secret")
    return tmp_path


@pytest.fixture
def allowed(folder: Path) -> AllowedPaths:
    return AllowedPaths.of([str(folder / "open")])


def read(allowed: AllowedPaths, path: Path | str) -> bytes:
    with allowed.open(str(path)) as file:
        return file.read()


def test_files_below_an_allowed_directory_are_opened(folder: Path, allowed: AllowedPaths) -> None:
    assert read(allowed, folder / "open" / "below" / "file") == b"open"
    assert read(allowed, folder / "shut" / ".." / "open" / "below" / "file") == b"open"


def test_a_single_file_can_be_allowed(folder: Path) -> None:
    allowed = AllowedPaths.of([str(folder / "shut" / "below" / "file")])
    assert read(allowed, folder / "shut" / "below" / "file") == b"secret"
    with pytest.raises(ConfigError):
        allowed.check(str(folder / "shut" / "below"))


def test_links_that_stay_within_the_allowed_paths_are_followed(folder: Path, allowed: AllowedPaths) -> None:
    (folder / "open" / "link").symlink_to("below")
    (folder / "way-in").symlink_to(folder / "open")
    assert read(allowed, folder / "open" / "link" / "file") == b"open"
    assert read(allowed, folder / "way-in" / "below" / "file") == b"open"
    assert read(AllowedPaths.of([str(folder / "way-in")]), folder / "open" / "below" / "file") == b"open"


@pytest.mark.parametrize(
    "path", ["shut/below/file", "open/../shut/below/file", "open/link", "open/folder/file", "opened", "/etc/passwd"]
)
def test_paths_that_lead_elsewhere_are_refused_with_the_property(
    folder: Path, allowed: AllowedPaths, path: str
) -> None:
    (folder / "open" / "link").symlink_to(folder / "shut" / "below" / "file")
    (folder / "open" / "folder").symlink_to("../shut/below")
    (folder / "opened").write_text("secret")
    for ask in (allowed.check, allowed.open):
        with pytest.raises(ConfigError, match=r"fencepost\.files\.allowed\.paths allows .*/open\)"):
            ask(str(folder / path))


def test_no_paths_allow_nothing_and_none_allows_everything(folder: Path) -> None:
    with pytest.raises(ConfigError, match="nothing"):
        AllowedPaths.of([""]).check(str(folder / "open"))
    assert read(ANYWHERE, folder / "shut" / "below" / "file") == b"secret"


@pytest.mark.parametrize("way", ["open/below", "open/link"])
@pytest.mark.parametrize("swapped", ["open/below/file", "open/below"])
def test_a_link_that_is_put_in_between_check_and_open_leads_nowhere(
    folder: Path, allowed: AllowedPaths, swapped: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "open" / "link").symlink_to("below")
    place, outside = folder / swapped, folder / swapped.replace("open", "shut")
    opened: list[object] = []

    def swapping(open_: Callable[..., int]) -> Callable[..., int]:
        def swap_and_open(path: str, *arguments: object, **options: object) -> int:
            if not opened:
                place.rename(f"{place}.old")
                place.symlink_to(outside)
            opened.append(path)
            return open_(path, *arguments, **options)

        return swap_and_open

    monkeypatch.setattr(os, "open", swapping(os.open))
    with pytest.raises((OSError, ConfigError), match=r"symbolic links|Not a directory|may not be read"):
        allowed.open(str(folder / way / "file"))
    assert opened


def test_missing_files_directories_and_pipes_are_distinguished(folder: Path, allowed: AllowedPaths) -> None:
    with pytest.raises(FileNotFoundError):
        allowed.open(str(folder / "open" / "missing"))
    with pytest.raises(IsADirectoryError):
        allowed.open(str(folder / "open" / "below"))
    os.mkfifo(folder / "open" / "pipe")
    allowed.open(str(folder / "open" / "pipe")).close()


def test_directories_that_cannot_be_listed_are_passed_through(folder: Path, allowed: AllowedPaths) -> None:
    (folder / "open" / "below").chmod(0o311)
    assert read(allowed, folder / "open" / "below" / "file") == b"open"


def _open_paths() -> Iterator[str]:
    """The paths of the process's open descriptors; other threads may close theirs meanwhile."""
    for descriptor in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):
            yield str(descriptor.readlink())


def test_no_descriptor_is_left_open(folder: Path, allowed: AllowedPaths) -> None:
    (folder / "open" / "below" / "link").symlink_to("missing")
    for name in ("file", "missing", "link", "file/file"):
        try:
            allowed.open(str(folder / "open" / "below" / name)).close()
        except OSError:
            continue
    assert [path for path in _open_paths() if path.startswith(str(folder))] == []


def test_a_relative_path_begins_at_the_working_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "open")
    allowed = AllowedPaths.of(["."])
    monkeypatch.chdir(folder)
    assert read(allowed, "open/below/file") == b"open"
    with pytest.raises(ConfigError):
        allowed.check("shut/below/file")


def test_allowed_paths_are_unchanged_by_pickling(allowed: AllowedPaths) -> None:
    assert pickle.loads(pickle.dumps(allowed)) == allowed  # noqa: S301 - our own


@pytest.fixture
def own(folder: Path) -> AllowedPaths:
    """Everything in the folder is allowed, except one file, which is the worker's own."""
    return replace(AllowedPaths.of([str(folder)]), own=OwnFiles.of([str(folder / "shut" / "below" / "file")]))


def _symbolic(file: Path) -> Path:
    link = file.parent.parent / "link"
    link.symlink_to(file)
    return link


def _hard(file: Path) -> Path:
    link = file.parent.parent / "link"
    link.hardlink_to(file)
    return link


def _in_another_directory(file: Path) -> Path:
    link = file.parent.parent.parent / "directory"
    link.symlink_to(file.parent)
    return link / file.name


def _of_the_process(file: Path) -> Path:
    file.parent.parent.joinpath("cwd").symlink_to(f"/proc/self/cwd/{os.path.relpath(file)}")
    return file.parent.parent / "cwd"


@pytest.mark.parametrize("anywhere", [False, True])
@pytest.mark.parametrize("name", [Path, _symbolic, _hard, _in_another_directory, _of_the_process])
def test_the_workers_own_file_is_refused_by_any_name(
    folder: Path, own: AllowedPaths, name: Callable[[Path], Path], *, anywhere: bool
) -> None:
    path = name(folder / "shut" / "below" / "file")
    allowed = AllowedPaths(own=own.own) if anywhere else own
    for ask in (allowed.check, allowed.open):
        with pytest.raises(ConfigError, match="one of the worker's own"):
            ask(str(path))
    assert read(allowed, folder / "open" / "below" / "file") == b"open"


def test_an_own_file_is_refused_through_an_open_descriptor(folder: Path, own: AllowedPaths) -> None:
    with (folder / "shut" / "below" / "file").open() as file:
        for allowed in (own, AllowedPaths(own=own.own)):
            with pytest.raises(ConfigError, match="one of the worker's own"):
                allowed.open(f"/proc/self/fd/{file.fileno()}")


def test_a_secret_that_was_rotated_is_refused_under_all_its_names(folder: Path) -> None:
    """As in a Kubernetes volume, the file is a link into a directory that is replaced as a whole."""
    mount = folder / "mount"
    for version in ("1", "2"):
        (mount / version).mkdir(parents=True)
        (mount / version / "users").write_text(version)
    (mount / "..data").symlink_to("1")
    (mount / "users").symlink_to("..data/users")
    allowed = replace(AllowedPaths.of([str(folder)]), own=OwnFiles.of([str(mount / "users")]))

    (mount / "next").symlink_to("2")
    (mount / "next").rename(mount / "..data")

    for path in ("users", "..data/users", "2/users"):
        with pytest.raises(ConfigError, match="one of the worker's own"):
            allowed.open(str(mount / path))


def test_a_file_that_is_replaced_while_it_is_opened_is_refused(
    folder: Path, own: AllowedPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = folder / "shut" / "below" / "file"
    other_name = folder / "open" / "hard"
    other_name.hardlink_to(secret)
    fstat = os.fstat

    def rotating(descriptor: int) -> os.stat_result:
        if secret.stat().st_ino == other_name.stat().st_ino:
            (folder / "new").write_text("new secret")
            (folder / "new").rename(secret)
        return fstat(descriptor)

    monkeypatch.setattr(os, "fstat", rotating)
    with pytest.raises(ConfigError, match="one of the worker's own"):
        own.open(str(other_name))


def test_all_files_of_an_own_directory_are_refused(folder: Path) -> None:
    allowed = replace(AllowedPaths.of([str(folder)]), own=OwnFiles.of([str(folder / "shut")]))
    (folder / "shut" / "key").write_text("secret")
    (folder / "open" / "hard").hardlink_to(folder / "shut" / "key")
    for path in ("shut/key", "shut/below/file", "open/hard"):
        with pytest.raises(ConfigError, match="one of the worker's own"):
            allowed.open(str(folder / path))


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/self/maps", "/proc/self/root/proc/self/environ"])
def test_the_environment_of_the_worker_is_not_read(own: AllowedPaths, path: str) -> None:
    for allowed in (replace(own, paths=("/",)), replace(own, paths=None)):
        for ask in (allowed.check, allowed.open):
            with pytest.raises(ConfigError, match="describes processes"):
                ask(path)


def test_executors_refuse_the_workers_own_files(folder: Path, own: AllowedPaths) -> None:
    there = pickle.loads(pickle.dumps(own))  # noqa: S301 - our own
    with pytest.raises(ConfigError, match="one of the worker's own"):
        there.open(str(folder / "shut" / "below" / "file"))


def test_the_allowed_files_without_paths_are_named(folder: Path) -> None:
    allowed = AllowedPaths((), nothing="nothing, because of a reason")
    with pytest.raises(ConfigError, match=r"fencepost.files.allowed.paths allows \(nothing, because of a reason\)"):
        allowed.check(str(folder))


@pytest.mark.parametrize(
    ("path", "directory", "paths", "refused"),
    [
        ("/data/a", "/", ("/data",), False),
        ("/data/a", "/", None, False),
        ("/data/../etc/a", "/", ("/data",), True),
        ("/database", "/", ("/data",), True),
        ("/data/a", "/", (), True),
        ("a", "/elsewhere", None, True),
    ],
)
def test_a_path_must_be_allowed_by_the_other_workers(
    path: str, directory: str, paths: tuple[str, ...] | None, *, refused: bool
) -> None:
    allowed = AllowedPaths(others=(PathsOfWorker("http://other:8083", directory, paths),))
    with pytest.raises(ConfigError, match="the worker http://other:8083") if refused else nullcontext():
        allowed.check(path)


def test_objects_below_an_allowed_url_are_allowed():
    allowed = AllowedPaths.of(["/data", "s3://bucket/in/"])
    for url in ("s3://bucket/in/*.csv", "s3://bucket/in/a/b.csv"):
        allowed.check_url(url)
    for url in ("s3://bucket/inner/*", "s3://bucket/*", "s3://bucket/in/../x", "gs://bucket/in/*", "hdfs:///data/x"):
        with pytest.raises(ConfigError, match="is not in what the property"):
            allowed.check_url(url)


def test_the_files_of_the_default_name_node_are_not_those_of_all_name_nodes():
    allowed = AllowedPaths.of(["hdfs:///"])
    allowed.check_url("hdfs:///data/x")
    with pytest.raises(ConfigError, match="is not in what the property"):
        allowed.check_url("hdfs://other:8020/data/x")
    with pytest.raises(ConfigError, match="add hdfs:/// to the property"):
        AllowedPaths.of(["/data"]).check_url("hdfs:///data/x")
    for everywhere in ("hdfs://", "s3://"):
        AllowedPaths.of([everywhere]).check_url(f"{everywhere}any/data/x")


def test_an_allowed_url_allows_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:" / "bucket").mkdir(parents=True)
    (tmp_path / "s3:" / "bucket" / "file").write_text("1")
    with pytest.raises(ConfigError, match="may not be read"):
        AllowedPaths.of(["s3://bucket"]).check("s3://bucket/file")


@pytest.mark.parametrize(("of_other", "is_allowed"), [(None, True), (("s3://bucket",), True), (("/data",), False)])
def test_all_workers_of_a_group_must_allow_an_object(of_other: tuple[str, ...] | None, is_allowed: bool):
    allowed = replace(AllowedPaths.of(["s3://bucket"]), others=(PathsOfWorker("http://other/", "/", of_other),))
    with nullcontext() if is_allowed else pytest.raises(ConfigError, match="the worker http://other/, which may run"):
        allowed.check_url("s3://bucket/in/*.csv")
