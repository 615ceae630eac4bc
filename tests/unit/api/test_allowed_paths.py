"""Files are opened where that is allowed, whatever links there are and however they change."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost import ConfigError
from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder `open`, which is allowed, beside a folder `shut` with a secret."""
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


@pytest.mark.parametrize("swapped", ["open/below/file", "open/below"])
def test_a_link_that_is_put_in_between_check_and_open_leads_nowhere(
    folder: Path, allowed: AllowedPaths, swapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        allowed.open(str(folder / "open" / "below" / "file"))
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


def test_no_descriptor_is_left_open(folder: Path, allowed: AllowedPaths) -> None:
    (folder / "open" / "below" / "link").symlink_to("missing")
    before = len(list(Path("/dev/fd").iterdir()))
    for name in ("file", "missing", "link", "file/file"):
        try:
            allowed.open(str(folder / "open" / "below" / name)).close()
        except OSError:
            continue
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_a_relative_path_begins_at_the_working_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "open")
    allowed = AllowedPaths.of(["."])
    monkeypatch.chdir(folder)
    assert read(allowed, "open/below/file") == b"open"
    with pytest.raises(ConfigError):
        allowed.check("shut/below/file")


def test_it_is_pickled_to_executors_unchanged(allowed: AllowedPaths) -> None:
    assert pickle.loads(pickle.dumps(allowed)) == allowed  # noqa: S301 - our own
