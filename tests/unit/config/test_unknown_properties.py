"""Properties that are reported as unknown, and suggestions for them."""

from __future__ import annotations

from fencepost.config.unknown_properties import unknown_properties

KNOWN = {"name", "tasks.max", "value.converter", "file"}


def test_a_misspelt_name_is_reported_with_the_nearest_one():
    assert unknown_properties(["name", "task.max", "value.convertor", "zzz"], KNOWN) == {
        "task.max": "tasks.max",
        "value.convertor": "value.converter",
        "zzz": None,
    }


def test_names_with_open_prefixes_are_not_reported():
    names = ["task.max", "zzz", "spark.anything"]
    assert unknown_properties(names, KNOWN, open_prefixes=["spark."], only_alike=True) == {"task.max": "tasks.max"}


def test_a_name_with_a_known_prefix_gets_no_suggestion():
    assert unknown_properties(["value.converter.own", "task.max.x"], KNOWN) == {
        "value.converter.own": None,
        "task.max.x": "tasks.max",
    }
