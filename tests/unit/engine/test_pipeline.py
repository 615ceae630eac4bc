"""What the transforms of a pipeline do to topics."""

from __future__ import annotations

import pytest

from fencepost.config.connector_config import PluginSpec, TransformSpec
from fencepost.config.plugin_sources import ANY_MODULE
from fencepost.engine.plugin_builder import PluginBuilder
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
def test_transforms_are_known_to_keep_topics_or_not(name: str, properties: dict[str, str], *, keeps: bool):
    """Only topics that records keep can be created before records come."""
    step = PluginBuilder(ANY_MODULE).step(TransformSpec("a", PluginSpec(name, properties)))
    assert pipeline(transforms=[step]).keeps_topics == keeps
    assert pipeline().keeps_topics
