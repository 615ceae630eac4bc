"""The options of the JVMs of Java connectors."""

from __future__ import annotations

import subprocess

import pytest

from fencepost.config.java_settings import JavaSettings
from fencepost.embedded.java import find_java

FIRST = ("-Xms384m", "-XX:NewSize=80m")
MOST = ("-Xms768m", "-XX:NewSize=256m")
SERIAL = "-XX:+UseSerialGC"


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
