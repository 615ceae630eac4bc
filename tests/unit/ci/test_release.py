"""One version in all places that name it, and a changelog that has it."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

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
