"""The options of the JVMs of Java connectors."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fencepost import ConfigError
from fencepost.config.java_settings import Isolation, JavaSettings
from fencepost.config.worker_config import WorkerConfig
from fencepost.embedded.java import find_java

FIRST = ("-Xms384m", "-XX:NewSize=80m")
MOST = ("-Xms768m", "-XX:NewSize=256m")
SERIAL = "-XX:+UseSerialGC"
WORKER = {
    "bootstrap.servers": "127.0.0.1:1",
    **{f"{part}.converter": "org.apache.kafka.connect.json.JsonConverter" for part in ("key", "value")},
}


def of_worker(**properties: str) -> JavaSettings:
    given = {f"fencepost.java.{name}": value for name, value in properties.items()}
    return WorkerConfig.from_properties(WORKER | given, where="worker.properties").plugin_sources.java


def test_a_worker_that_says_nothing_has_the_documented_settings():
    assert of_worker() == JavaSettings("512m", (), Isolation.CONNECTOR, None, 5.0)


def test_a_workers_properties_are_the_settings_of_its_jvms(tmp_path: Path):
    options = "-Xss512k '-Djavax.net.ssl.trustStore=/the keys/trust'"
    settings = of_worker(heap=" 96m ", options=options, isolation="worker", directory=str(tmp_path))
    assert settings == JavaSettings(
        "96m", ("-Xss512k", "-Djavax.net.ssl.trustStore=/the keys/trust"), Isolation.WORKER, str(tmp_path), 5.0
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("heap", " "), ("heap", "512mb"), ("options", "'open"), ("isolation", "task"), ("directory", "/no/such/folder")],
)
def test_a_wrong_setting_is_refused_with_its_property(name: str, value: str):
    with pytest.raises(ConfigError) as refused:
        of_worker(**{name: value})
    assert refused.value.name == f"fencepost.java.{name}"


@pytest.mark.parametrize(
    ("heap", "first"),
    [
        *((heap, FIRST) for heap in ("512m", "512M", "524288k", "536870912", "515m")),
        ("900m", ("-Xms672m", "-XX:NewSize=212m")),
        *((heap, MOST) for heap in ("1g", "2T")),
    ],
)
def test_a_heap_begins_with_a_part_of_itself_for_new_objects(heap: str, first: tuple[str, ...]):
    assert JavaSettings(heap=heap).memory_options == (f"-Xmx{heap}", *first, SERIAL)


@pytest.mark.parametrize("heap", ["511m", "64m", "100", "much"])
def test_a_small_heap_begins_as_java_has_it(heap: str):
    assert JavaSettings(heap=heap).memory_options == (f"-Xmx{heap}", SERIAL)


@pytest.mark.parametrize(
    "option",
    [
        *("-Xms1g", "-Xmx96m", "-Xmn8m", "-XX:MaxNewSize=16m", "-XX:InitialHeapSize=32m"),
        *("-XX:NewRatio=4", "-XX:InitialRAMPercentage=1"),
    ],
)
def test_the_owners_sizes_of_the_heap_count(option: str):
    assert JavaSettings(options=("-Da=b", option)).memory_options == ("-Xmx512m", SERIAL)


@pytest.mark.parametrize("option", ["-XX:+UseG1GC", "-XX:+UseParallelGC", SERIAL])
@pytest.mark.parametrize("more", [(), ("-Xms64m", "-XX:NewSize=16m"), ("-Xmx64m",)])
def test_java_starts_with_the_owners_collector_and_sizes(option: str, more: tuple[str, ...]):
    settings = JavaSettings(options=(option, *more))
    options = (*settings.memory_options, *settings.options, "-XX:+PrintCommandLineFlags")
    command = [str(find_java().executable), *options, "-version"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert [flag for flag in shown if flag.startswith("-XX:+Use") and flag.endswith("GC")] == [option]


def test_an_option_that_only_looks_like_a_collector_chooses_none():
    assert SERIAL in JavaSettings(options=("-XX:+UseStringDeduplication", "-XX:-UseG1GC")).memory_options
