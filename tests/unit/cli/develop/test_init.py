"""The file that `fencepost init` writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.cli import main
from fencepost.config.group_config import GroupConfig
from fencepost.config.properties import load_properties
from fencepost.config.rest_config import RestConfig
from fencepost.config.worker_config import ExactlyOnceSourceSupport, WorkerConfig, WorkerMode


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "worker.properties"
    assert main.run(["init", str(path)]) == 0
    return path


def _load(file: Path) -> WorkerConfig:
    properties = load_properties(file)
    GroupConfig.from_properties(properties, where=str(file))
    RestConfig.from_properties(properties, where=str(file))
    return WorkerConfig.from_properties(properties, where=str(file), mode=WorkerMode.DISTRIBUTED)


def test_the_file_configures_a_group_worker_that_delivers_exactly_once(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = _load(file)

    assert config.exactly_once_source_support is ExactlyOnceSourceSupport.ENABLED
    assert config.offset_storage.name == "connect-offsets"
    assert config.allowed_paths == AllowedPaths.of([str(Path.cwd())])
    assert not caplog.records


def test_commented_lines_are_valid_if_enabled(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    commented = file.read_text()
    uncommented = re.sub(r"(?m)^#(?=[a-z])", "", commented)
    assert uncommented != commented
    file.write_text(uncommented)

    assert _load(file).offset_storage.replication_factor == 3
    assert not caplog.records


def test_the_name_is_worker_properties_unless_another_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main.run(["init"]) == 0
    assert "fencepost worker worker.properties" in capsys.readouterr().out
    assert (tmp_path / "worker.properties").is_file()


def test_an_existing_file_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.properties"
    file.write_text("mine")

    assert main.run(["init", str(file)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert file.read_text() == "mine"


def test_a_missing_folder_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["init", str(tmp_path / "no" / "worker.properties")]) == 2
    assert "Cannot write" in capsys.readouterr().err
