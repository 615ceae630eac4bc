"""The pipeline of a Java connector in the form for its JVM: the plugins, under their plain names, and their properties."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

import pytest

from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.java_plugins import CONVERTER, HEADER_CONVERTER, PREDICATE, SOURCE_CONNECTOR, TRANSFORMATION
from fencepost.config.plugin_sources import PluginSources
from fencepost.java.pipeline import java_pipeline

SERVICES: Final = {
    SOURCE_CONNECTOR: "acme.Source",
    TRANSFORMATION: "acme.Smt",
    PREDICATE: "acme.Is",
    CONVERTER: "acme.Text",
    HEADER_CONVERTER: "acme.Header",
}
"""The classes of the only jar."""


@pytest.fixture
def plugins(tmp_path: Path) -> PluginSources:
    (tmp_path / "acme").mkdir()
    with zipfile.ZipFile(tmp_path / "acme" / "a.jar", "w") as archive:
        for base, name in SERVICES.items():
            archive.writestr(f"META-INF/services/{base}", name)
    return PluginSources((tmp_path,))


@pytest.mark.parametrize("prefix", ["java:acme.", "acme.", " acme.", "java:", ""])
def test_plugins_in_java_get_the_plain_names_of_their_classes(plugins: PluginSources, prefix: str):
    config = {
        "name": "c",
        "connector.class": f"{prefix}Source",
        "transforms": "t",
        "transforms.t.type": f"{prefix}Smt",
        "transforms.t.predicate": "p",
        "transforms.t.url": "java:comp/env",
        "predicates": "p",
        "predicates.p.type": f"{prefix}Is",
        "key.converter": f"{prefix}Text",
        "value.converter": f"{prefix}Text",
        "header.converter": f"{prefix}Header",
    }
    found = java_pipeline(ConnectorConfig.from_properties(config), {}, plugins)
    (step,) = found["transforms"]
    assert (step["class"], step["predicate"]["class"]) == ("acme.Smt", "acme.Is")
    assert step["properties"] == {"type": "acme.Smt", "url": "java:comp/env"}
    assert step["predicate"]["properties"] == {"type": "acme.Is"}
    converters = {role: part["class"] for role, part in found["converters"].items()}
    assert converters == {
        "key.converter": "acme.Text", "value.converter": "acme.Text", "header.converter": "acme.Header"
    }  # fmt: skip
    assert found["converters"]["value.converter"]["properties"] == {"converter.type": "value"}
