"""The effect of a pipeline's transforms on topics."""

from __future__ import annotations

import pytest

from fencepost import ConfigError
from fencepost.config.connector_config import PluginSpec, TransformSpec
from fencepost.config.plugin_sources import ANY_MODULE
from fencepost.engine.plugin_builder import PluginBuilder
from fencepost.transforms.chain import Step
from fencepost.transforms.predicates import RecordIsTombstone
from tests.support.engine import pipeline


@pytest.mark.parametrize(
    ("name", "properties", "keeps"),
    [
        ("HoistField$Value", {"field": "f"}, True),
        ("ExtractNewRecordState", {}, True),
        ("ExtractNewRecordState", {"route.by.field": "name"}, False),
        ("RegexRouter", {"regex": "a", "replacement": "b"}, False),
    ],
)
def test_a_pipeline_knows_whether_its_transforms_keep_topics(name: str, properties: dict[str, str], *, keeps: bool):
    """Topics can be created in advance only if transforms do not change them."""
    step = PluginBuilder(ANY_MODULE).step(TransformSpec("a", PluginSpec(name, properties)))
    assert pipeline(transforms=[step]).keeps_topics == keeps
    assert pipeline().keeps_topics


class OfValues(RecordIsTombstone):
    """A predicate that may need a record's values, as any of a user."""


def test_a_pipeline_of_bytes_names_the_property_of_the_plugin_that_it_refuses() -> None:
    build = PluginBuilder(ANY_MODULE).step
    routed = build(TransformSpec("a", PluginSpec("RegexRouter", {"regex": "a", "replacement": "b"})))
    hoisted = build(TransformSpec("b", PluginSpec("HoistField$Value", {"field": "f"})))
    for refused, name in (
        (hoisted, "transforms.b.type"),
        (Step(routed.transform, OfValues(), alias="c"), "transforms.c.predicate"),
        (Step(hoisted.transform), "transforms"),
    ):
        with pytest.raises(ConfigError, match="which have no fields any more") as error:
            pipeline(transforms=[routed, refused]).of_bytes()
        assert error.value.name == name
