"""The options of the JVMs of Java connectors."""

from __future__ import annotations

import pytest

from fencepost.config.java_settings import JavaSettings

FIRST = ("-Xms384m", "-XX:NewSize=128m")


@pytest.mark.parametrize("heap", ["512m", "512M", "1g", "524288k", "536870912", "2T"])
def test_a_heap_begins_with_room_for_new_objects(heap: str):
    assert JavaSettings(heap=heap).heap_options == (f"-Xmx{heap}", *FIRST)


@pytest.mark.parametrize("heap", ["511m", "64m", "100", "much"])
def test_a_small_heap_begins_as_java_has_it(heap: str):
    assert JavaSettings(heap=heap).heap_options == (f"-Xmx{heap}",)


@pytest.mark.parametrize("option", ["-Xms1g", "-Xmx96m", "-Xmn8m", "-XX:MaxNewSize=16m", "-XX:InitialHeapSize=32m"])
def test_the_owners_sizes_of_the_heap_count(option: str):
    assert JavaSettings(options=("-Da=b", option)).heap_options == ("-Xmx512m",)
