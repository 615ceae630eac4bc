"""The wheel in an environment with only the wheel's dependencies, at a path with spaces and letters beyond ASCII."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from fencepost import __version__
from fencepost.embedded.jars import cache_folder, class_path
from fencepost.embedded.java import find_java
from fencepost.java.host_jar import CONNECT
from tests.support.checker import read_topic, values
from tests.support.java_plugins import FILE_STREAM, plugin_path
from tests.support.java_runtime import java_runtime
from tests.support.processes import Process, wait_for
from tests.support.topics import unique

ROOT = Path(__file__).parents[3]
STRING = "org.apache.kafka.connect.storage.StringConverter"
PATIENCE = 500.0
"""Seconds. A JVM takes seconds to start, but minutes on a busy machine."""
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment in `venv`, in which the wheel and its dependencies are installed."""
    place = tmp_path_factory.mktemp("wheel") / "mein Gerät, ça va"
    venv.create(place / "venv", with_pip=False, symlinks=True)
    # As in pip's build isolation, the build requirements are in PYTHONPATH and not installed in the environment.
    venv.create(place / "builder", with_pip=False, symlinks=True)
    builder = str(place / "builder" / "bin" / "python")
    build = [builder, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(place), str(ROOT)]
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    subprocess.run(build, check=True, capture_output=True, env=environment)
    (wheel,) = place.glob("*.whl")
    python = str(place / "venv" / "bin" / "python")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*install, "--quiet", "--disable-pip-version-check"], check=True, capture_output=True)
    (packages,) = (place / "venv" / "lib").glob("python*/site-packages")
    for entry in {entry for needed in dependencies(packages) for entry in entries(needed)}:
        (packages / entry.name).symlink_to(entry)
    return place


def dependencies(packages: Path) -> list[Distribution]:
    """The distributions in this environment that the wheel needs without any extra."""
    (installed,) = Distribution.discover(name="fencepost", path=[str(packages)])
    found: dict[str, Distribution] = {}
    waiting = [(installed, "")]
    while waiting:
        needing, extra = waiting.pop()
        for requirement in map(Requirement, needing.requires or ()):
            wanted = requirement.marker is None or requirement.marker.evaluate({"extra": extra})
            if wanted and requirement.name not in found:
                found[requirement.name] = distribution(requirement.name)
                waiting += [(found[requirement.name], each) for each in (requirement.extras or {""})]
    return list(found.values())


def entries(needed: Distribution) -> Iterator[Path]:
    """The files and folders that a distribution has in `site-packages`."""
    for file in needed.files or ():
        top = file.parts[0]
        if top not in ("..", "__pycache__"):
            yield Path(str(needed.locate_file(top)))


def environment() -> dict[str, str]:
    """Environment variables with an ASCII locale, and without the variables of this process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LC_", "LANG"))}
    return {**kept, "LC_ALL": "C"}


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(place / "venv" / "bin" / "fencepost"), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=place, env=environment())


def test_each_command_works_or_names_the_missing_package(place: Path) -> None:
    told = run(place, "-h")
    assert told.returncode == 0, told.stderr
    commands = re.findall(r"^  (\w+)  ", told.stdout, re.MULTILINE)
    assert {"broker", "standalone", "verify"} <= set(commands)

    for command in commands:
        shown = run(place, command, "-h")
        assert shown.returncode == 0 or re.fullmatch(
            r"fencepost: .*not installed: pip install '.*' \(the extra \w+ of fencepost\)\n", shown.stderr
        ), (command, shown.stderr)


def test_the_wheel_has_the_module_that_spark_imports_for_the_format(place: Path) -> None:
    code = "import pyspark_fencepost; print(pyspark_fencepost.DefaultSource.name(), pyspark_fencepost.__file__)"
    command = [str(place / "venv" / "bin" / "python"), "-c", code]
    told = subprocess.run(command, check=True, capture_output=True, text=True, cwd=place, env=environment())
    name, file = told.stdout.strip().split(" ", 1)
    assert name == "fencepost"
    assert str(place) in file


def test_lines_are_sent_through_spark_from_odd_paths_in_an_ascii_locale(
    place: Path, bootstrap_servers: str, topic: str
) -> None:
    source, group = place / "Zeilen der Größe 1.txt", unique("group")
    source.write_text("eins\nzwei ü\n", encoding="utf-8")
    worker = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "offset.storage.topic": f"{group}-offsets",
        "offset.storage.partitions": "1",
        "config.storage.topic": f"{group}-configs",
        "plugin.path": "plug ïns",
        "key.converter": STRING,
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "listeners": "http://127.0.0.1:0",
    }
    connector = {
        "name": "odd",
        "connector.class": "Zählwerk.Lines",
        "file": source.name,
        "topic": topic,
        "transforms": "hoist",
        "transforms.hoist.type": "HoistField$Value",
        "transforms.hoist.field": "line",
    }
    (place / "plug ïns").mkdir()
    (place / "plug ïns" / "Zählwerk.py").write_text(
        "from fencepost.connectors.files.stream_source import FileStreamSourceConnector\n"
        "class Lines(FileStreamSourceConnector): ...\n",
        encoding="utf-8",
    )
    for name, settings in (
        ("der worker.properties", worker),
        ("die zeilen.json", {"name": "odd", "config": connector}),
    ):
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        escaped = text.encode("ascii", "backslashreplace").decode().replace("\\x", "\\u00")
        (place / name).write_text(json.dumps(settings) if name.endswith(".json") else escaped, encoding="utf-8")
    program = str(place / "venv" / "bin" / "fencepost")
    command = ["/usr/bin/env", f"--chdir={place}", "-u", "PYTHONPATH", program, "standalone", "--once"]
    process = Process(
        [*command, "der worker.properties", "die zeilen.json"], place / "log", environment={"LC_ALL": "C"}
    )
    with process:
        assert process.wait(PATIENCE) == 0, process.output

    found = [json.loads(value or b"") for value in values(read_topic(bootstrap_servers, topic))]
    assert found == [{"line": "eins"}, {"line": "zwei ü"}]


def test_the_wheel_has_the_classes_of_java_connectors_and_not_their_sources(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wheel,) = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("fencepost/java/")]
        with archive.open("fencepost/java/host.jar") as jar, zipfile.ZipFile(jar) as classes:
            assert {"fencepost/host/Host.class", "log4j2.properties"} <= set(classes.namelist())
    assert not [name for name in names if name.endswith(".java")]
    monkeypatch.syspath_prepend(str(ROOT / "deploy"))
    check_dist: Any = importlib.import_module("check_dist")
    assert check_dist._of_wheel(wheel, __version__) == []
    assert not (ROOT / "src" / "fencepost" / "java" / "host.jar").exists()


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    return java_runtime(tmp_path / "jre")


def test_a_java_connector_runs_from_the_wheel_where_nothing_can_be_compiled(
    place: Path, runtime: Path, tmp_path: Path, bootstrap_servers: str, topic: str
) -> None:
    # The worker finds no more than Connect's classes in its cache, and has no compiler.
    class_path(find_java(), CONNECT)
    cache = tmp_path / "cache" / "fencepost"
    cache.mkdir(parents=True)
    (cache / CONNECT.folder).symlink_to(cache_folder() / CONNECT.folder)
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    group = unique("group")
    worker = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "offset.storage.topic": f"{group}-offsets",
        "plugin.path": str(plugin_path(tmp_path, "file")),
        "key.converter": STRING,
        "value.converter": STRING,
        "listeners": "http://127.0.0.1:0",
    }
    connector = {"name": "lines", "connector.class": f"java:{FILE_STREAM}", "file": "in.txt", "topic": topic}
    for name, settings in (("worker", worker), ("connector", connector)):
        (tmp_path / f"{name}.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    program = str(place / "venv" / "bin" / "fencepost")
    command = ["/usr/bin/env", f"--chdir={tmp_path}", "-u", "PYTHONPATH", program, "standalone"]
    given = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "JAVA_HOME": str(runtime)}
    files = ["worker.properties", "connector.properties"]
    with Process([*command, *files], tmp_path / "log", environment=given):
        wait_for(lambda: len(read_topic(bootstrap_servers, topic)) == 2, what="both lines")
    assert values(read_topic(bootstrap_servers, topic)) == [b"one", b"two"]
    assert [path.name for path in cache.iterdir()] == [CONNECT.folder]
