"""All places name one version, and the changelog has it."""

from __future__ import annotations

import importlib
import io
import re
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from fencepost import __version__

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_package_takes_its_version_from_the_code():
    assert "version" not in PROJECT
    assert version("fencepost") == __version__


def test_the_deployment_names_this_version():
    kustomization = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "kustomization.yaml").read_text())
    page = (ROOT / "docs" / "deploying.md").read_text()
    assert [image["newTag"] for image in kustomization["images"]] == [__version__]
    assert set(re.findall(r"fencepost:(\d+\.\d+\.\d+)", page)) == {__version__}


def test_the_changelog_begins_with_unreleased_and_has_this_version():
    versions = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[:2] == ["Unreleased", __version__]


def test_each_supported_version_of_python_is_a_classifier():
    listed = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert listed[0] == PROJECT["requires-python"].removeprefix(">=")
    first, last = re.search(r"\| Python \| (\S+) to (\S+) ", (ROOT / "docs" / "releasing.md").read_text()).groups()  # type: ignore[union-attr]
    assert (listed[0], listed[-1]) == (first, last)


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The check before an upload, for a changelog in which this version has its date."""
    monkeypatch.syspath_prepend(str(ROOT / "deploy"))
    check = importlib.import_module("check_dist")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "CHANGELOG.md").write_text(f"## Unreleased\n\n## {__version__} - 2026-01-02\n")
    (tmp_path / "root" / "src").symlink_to(ROOT / "src")
    monkeypatch.setattr(check, "ROOT", tmp_path / "root")
    return check


def _build(
    folder: Path,
    check: Any,
    *,
    without: str = "",
    jar: str = "fencepost/host/Host.class",
    named: str = __version__,
    jar_bytes: int = 0,
) -> None:
    """Write files as `make dist` does, except for one of them. The jar has about `jar_bytes` bytes."""
    folder.mkdir()
    (folder / f"fencepost-{named}.tar.gz").touch()
    classes = io.BytesIO()
    with zipfile.ZipFile(classes, "w") as archive:
        archive.writestr(jar, bytes(jar_bytes))
    with zipfile.ZipFile(folder / f"fencepost-{named}-py3-none-any.whl", "w") as archive:
        for name in check._sources() - {without}:
            archive.writestr(name, b"")
        if without != check.JAR:
            archive.writestr(check.JAR, classes.getvalue())
        archive.writestr(f"fencepost-{named}.dist-info/METADATA", f"Name: fencepost\nVersion: {named}\n")


def test_a_whole_wheel_may_be_uploaded(check: Any, tmp_path: Path):
    _build(tmp_path / "dist", check)
    assert check.complaints(tmp_path / "dist") == []


@pytest.mark.parametrize(
    ("without", "jar", "told"),
    [
        ("fencepost/java/host.jar", "fencepost/host/Host.class", "lacks fencepost/java/host.jar"),
        ("", "Other.class", "has a fencepost/java/host.jar without fencepost/host/Host.class"),
        ("fencepost/py.typed", "fencepost/host/Host.class", "lacks fencepost/py.typed"),
        ("fencepost/rest/ui/index.html", "fencepost/host/Host.class", "lacks fencepost/rest/ui/index.html"),
    ],
)
def test_a_wheel_that_lacks_something_is_not_uploaded(check: Any, tmp_path: Path, without: str, jar: str, told: str):
    _build(tmp_path / "dist", check, without=without, jar=jar)
    [complaint] = check.complaints(tmp_path / "dist")
    assert complaint.startswith(f"fencepost-{__version__}-py3-none-any.whl {told}")


def test_a_wheel_whose_classes_of_java_connectors_are_large_is_not_uploaded(check: Any, tmp_path: Path):
    _build(tmp_path / "small", check, jar_bytes=99_000)
    assert check.complaints(tmp_path / "small") == []
    _build(tmp_path / "large", check, jar_bytes=100_000)
    [complaint] = check.complaints(tmp_path / "large")
    assert re.search(r"has a fencepost/java/host\.jar of 100,\d{3} bytes, more than 100,000", complaint)


def test_files_of_another_version_are_not_uploaded(check: Any, tmp_path: Path):
    _build(tmp_path / "dist", check, named="0.0.9")
    complaints = check.complaints(tmp_path / "dist")
    assert len(complaints) == 4
    assert f"fencepost-{__version__}.tar.gz is missing" in complaints
    assert f"fencepost-0.0.9.tar.gz is not of version {__version__}: remove it" in complaints


def test_a_version_without_a_date_in_the_changelog_is_not_uploaded(check: Any, tmp_path: Path):
    _build(tmp_path / "dist", check)
    (check.ROOT / "CHANGELOG.md").write_text(f"## {__version__}\n")
    assert check.complaints(tmp_path / "dist") == [f"CHANGELOG.md has no section of {__version__} with its date"]
