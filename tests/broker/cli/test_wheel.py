"""The wheel in an environment that has only what the wheel asks for, at a path with spaces and letters beyond ASCII."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.checker import read_topic, values
from tests.support.processes import Process
from tests.support.topics import unique

ROOT = Path(__file__).parents[3]
STRING = "org.apache.kafka.connect.storage.StringConverter"
PATIENCE = 500.0
"""Seconds. A JVM starts in some seconds, but in as many minutes on a machine that does other things as well."""
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment in `venv`, in which the wheel and its dependencies are installed."""
    place = tmp_path_factory.mktemp("wheel") / "mein Gerät, ça va"
    venv.create(place / "venv", with_pip=False, symlinks=True)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(place), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    python = str(place / "venv" / "bin" / "python")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*install, "--quiet", "--disable-pip-version-check"], check=True, capture_output=True)
    (packages,) = (place / "venv" / "lib").glob("python*/site-packages")
    for entry in {entry for needed in dependencies(packages) for entry in entries(needed)}:
        (packages / entry.name).symlink_to(entry)
    return place


def dependencies(packages: Path) -> list[Distribution]:
    """The distributions that the wheel needs without any extra, from this environment."""
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
    """What a distribution put into `site-packages`."""
    for file in needed.files or ():
        top = file.parts[0]
        if top not in ("..", "__pycache__"):
            yield Path(str(needed.locate_file(top)))


def environment() -> dict[str, str]:
    """An ASCII locale, and nothing of this environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LC_", "LANG"))}
    return {**kept, "LC_ALL": "C"}


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(place / "venv" / "bin" / "fencepost"), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=place, env=environment())


def test_each_command_is_there_or_says_what_to_install(place: Path) -> None:
    told = run(place, "-h")
    assert told.returncode == 0, told.stderr
    commands = re.findall(r"^  (\w+)  ", told.stdout, re.MULTILINE)
    assert {"broker", "standalone", "verify"} <= set(commands)

    for command in commands:
        shown = run(place, command, "-h")
        assert shown.returncode == 0 or re.fullmatch(
            r"fencepost: .*not installed: pip install '.*' \(the extra \w+ of fencepost\)\n", shown.stderr
        ), (command, shown.stderr)


def test_the_wheel_has_the_module_by_which_spark_finds_the_format(place: Path) -> None:
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
