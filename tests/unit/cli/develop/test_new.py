"""`fencepost new connector`. tests/broker/cli/test_new_connector.py runs the generated tests."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from fencepost.api.errors import ConfigError
from fencepost.cli.develop.new import KINDS, write_connector
from fencepost.cli.main import cli
from fencepost.config.properties import load_connector_config, load_properties
from fencepost.config.worker_config import WorkerConfig


@pytest.mark.parametrize("kind", KINDS)
def test_a_package_has_an_entry_point_tests_and_ci(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "my-source"
    write_connector(folder, "my-source", kind)

    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["fencepost.connectors"] == {"MySource": "my_source.connector:MySourceConnector"}
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        ".github/workflows/test.yml",
        ".gitignore",
        "README.md",
        "connector.properties",
        "pyproject.toml",
        "src/my_source/__init__.py",
        "src/my_source/connector.py",
        "src/my_source/transforms.py",
        "tests/test_connector.py",
        "tests/test_transforms.py",
        "worker.properties",
    ]


@pytest.mark.parametrize("command", [["new", "connector", "my-source"], ["init", "worker.properties"]])
def test_files_that_cannot_be_written_to_their_end_are_removed_again(tmp_path: Path, command: list[str]) -> None:
    # Without bytecode, because a truncated .pyc file would break every later import.
    limited = (
        "import resource, runpy, sys; sys.dont_write_bytecode = True; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); runpy.run_module('fencepost')"
    )
    run = [sys.executable, "-c", limited, *command]
    # `make coverage` would write its data file in that process.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    told = subprocess.run(run, check=False, cwd=tmp_path, capture_output=True, text=True, env=environment)

    assert told.stderr == f"fencepost: Cannot write {command[-1]}: {os.strerror(errno.EFBIG)}\n"
    assert told.returncode == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_no_placeholder_is_left(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "my-source"
    write_connector(folder, "my-source", kind)

    for path in folder.rglob("*"):
        if path.is_file():
            assert not re.search(r"@[A-Z]+@", path.read_text()), path
    for module in folder.rglob("*.py"):
        compile(module.read_text(), module, "exec")


def test_the_connector_file_names_the_class(tmp_path: Path) -> None:
    write_connector(tmp_path / "x1", "x1", "poll")

    config = load_connector_config(tmp_path / "x1" / "connector.properties")
    assert config["connector.class"] == "x1.connector.X1Connector"


def test_the_readme_needs_no_file_that_is_not_written(tmp_path: Path) -> None:
    folder = tmp_path / "my-source"
    write_connector(folder, "my-source", "poll")

    (command,) = re.findall("^fencepost standalone (.*?) *#", (folder / "README.md").read_text(), re.MULTILINE)
    files = [folder / name for name in command.split()]
    assert all(file.is_file() for file in files), files
    worker = WorkerConfig.from_properties(load_properties(files[0]), where="worker.properties")
    assert worker.properties["group.id"] == "my-source"
    assert "fencepost init" not in (folder / "README.md").read_text()


@pytest.mark.parametrize("name", ["My-Source", "1st", "a--b", "a.b", "-a", "json", "class", "fencepost"])
def test_a_name_that_cannot_be_a_package_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="name"):
        write_connector(tmp_path / "x", name, "poll")

    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["pyspark", "psycopg-binary", "pluggy"])
def test_a_name_of_an_installed_package_is_refused_with_advice(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"a package that is installed here.* choose another, as {name}-source"):
        write_connector(tmp_path / name, name, "poll")

    assert not (tmp_path / name).exists()


def test_an_existing_directory_is_kept(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="already exists"):
        write_connector(tmp_path, "my-source", "poll")


def test_the_command_says_how_to_run_the_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["new", "connector", "my-source"])

    assert result.exit_code == 0, result.output
    assert "in the environment where fencepost is installed: cd my-source && pip install -e '.[test]'" in result.output
    # In another environment, pip would take any package that has the name.
    readme = (tmp_path / "my-source" / "README.md").read_text()
    before, _ = readme.split("pip install -e '.[test]'")
    assert "In the environment where fencepost is installed" in before
    assert (tmp_path / "my-source" / "pyproject.toml").exists()
