"""The message about a plugin that is not found: similar names, and the remedy in Java and in Python."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost import ConfigError
from fencepost.config.java_plugins import SINK_CONNECTOR, SOURCE_CONNECTOR, TRANSFORMATION, JavaPlugin
from fencepost.config.plugin_sources import ANY_MODULE, PluginSources
from fencepost.config.plugins import PluginKind, find_plugin, use_plugin_path
from tests.unit.config.test_java_plugins import class_file, jar

MYSQL = "io.debezium.connector.mysql.MySqlConnector"
JARS = "Put a folder with the jars of the connector into a directory of plugin.path and restart the worker"
POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
PYTHON = "pip install"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A directory of plugin.path."""
    before = list(sys.path)
    use_plugin_path(str(tmp_path))
    yield tmp_path
    sys.path[:] = before
    use_plugin_path("")


def refused(name: str, kind: PluginKind = PluginKind.CONNECTOR, sources: PluginSources = ANY_MODULE) -> str:
    with pytest.raises(ConfigError) as caught:
        find_plugin(kind, name, property_name="p", sources=sources)
    assert caught.value.name == "p"
    return str(caught.value)


@pytest.mark.parametrize("sources", [ANY_MODULE, PluginSources()], ids=["any module", "only declared modules"])
@pytest.mark.parametrize("name", [MYSQL, "com.acme.connect.Source", "de.acme.Outer$Source", f"java:{MYSQL}"])
def test_a_java_connector_that_is_not_there_is_answered_with_where_jars_go(name: str, sources: PluginSources):
    said = refused(name, sources=sources)
    assert JARS in said
    assert PYTHON not in said
    assert "did you mean" not in said


@pytest.mark.parametrize("name", ["weather.Rows", "Nonsense"])
def test_a_connector_that_may_be_in_python_or_in_java_has_both_advices(name: str):
    said = refused(name)
    assert PYTHON in said
    assert f"For one in Java: p{JARS[1:]}" in said


@pytest.mark.parametrize("name", ["com.acme.Smt", "com.acme.Smt$Value"])
def test_a_java_transform_for_a_connector_in_python_is_not_told_to_bring_jars(name: str):
    said = refused(name, PluginKind.TRANSFORMATION)
    assert "Only Java connectors run with a transform in Java" in said
    assert "jars" not in said


def test_a_transform_for_a_java_connector_may_be_in_a_jar(folder: Path):
    connector = JavaPlugin(MYSQL, folder / "a", ())
    jar(folder / "b" / "b.jar", **{f"META-INF/services/{TRANSFORMATION}": "com.acme.Shorten"})
    sources = PluginSources((folder,), connector=connector)
    said = refused("com.acme.Shortn", PluginKind.TRANSFORMATION, sources)
    assert "did you mean com.acme.Shorten?" in said
    assert "Put a folder with the jars of the transform" in said


def test_a_config_provider_has_no_advice_about_jars():
    # Other tests have a folder acme on the import path, which Python takes for a package.
    for name in ("com.acme.Vault", "missing_package.Vault"):
        said = refused(name, PluginKind.CONFIG_PROVIDER)
        assert "jars" not in said
        assert ("does not run a config provider in Java" in said) == (name == "com.acme.Vault")
        assert (PYTHON in said) == (name == "missing_package.Vault")


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        (PluginKind.CONNECTOR, "FileSourc", "FileSource"),
        (PluginKind.CONNECTOR, POSTGRES.replace("nn", "n"), POSTGRES),
        (PluginKind.CONVERTER, "org.apache.kafka.connect.json.JsonConvertr", "org.apache.kafka.connect.json.JsonConverter"),
        (PluginKind.TRANSFORMATION, "InsertField", "InsertField$Key or InsertField$Value"),
        (PluginKind.PREDICATE, "TopicNameMatch", "TopicNameMatches"),
        (PluginKind.CONVERTER, "fencepost.converters.JsonConvertor", "fencepost.converters.JsonConverter"),
    ],
)  # fmt: skip
def test_the_name_that_may_be_meant_is_named(kind: PluginKind, name: str, meant: str):
    assert f": did you mean {meant}? " in refused(name, kind)


def test_a_name_in_a_module_of_plugin_path_is_named(folder: Path):
    (folder / "weather_of_messages.py").write_text(
        "from fencepost import SourceConnector\nclass rows(SourceConnector): ...\nclass other: ...\n"
    )
    sources = PluginSources((folder,))
    meant = "did you mean weather_of_messages.rows?"
    assert meant in refused("weather_of_messages.row", sources=sources)
    assert meant in refused("wether_of_messages.rows", sources=sources)
    assert "no othr, which the property p names as a connector. Check" in refused(
        "weather_of_messages.othr", sources=sources
    )


def test_a_java_connector_of_plugin_path_is_named(folder: Path):
    jar(folder / "a" / "a.jar", **{f"META-INF/services/{SOURCE_CONNECTOR}": MYSQL})
    for prefix in ("", "java:"):
        said = refused(f"{prefix}{MYSQL.replace('MySql', 'MySq')}", sources=PluginSources((folder,)))
        assert f"asks for: did you mean {MYSQL}?" in said


def test_a_converter_of_a_java_connector_is_named(folder: Path):
    sources = replace(PluginSources((folder,)), connector=JavaPlugin(MYSQL, folder / "a", ()))
    said = refused("org.apache.kafka.connect.storage.StringConvertr", PluginKind.CONVERTER, sources)
    assert "has: did you mean org.apache.kafka.connect.storage.StringConverter? Put a folder with the jars" in said


@pytest.mark.parametrize("name", ["com.acme.S3SinkConnector", "io.acme.S3SinkConnector", "S3Sink", "java:S3Sink"])
def test_a_sink_connector_is_known_by_its_name(name: str):
    for sources in (ANY_MODULE, PluginSources()):
        said = refused(name, sources=sources)
        assert "is a sink connector, and fencepost runs source connectors only: let it stay in Kafka Connect" in said


def test_a_sink_connector_is_known_by_its_jar(folder: Path):
    jar(folder / "a" / "a.jar", **{f"META-INF/services/{SINK_CONNECTOR}": "com.acme.Bucket\ncom.acme.LakeConnector"})
    jar(folder / "b" / "b.jar", **{"com/acme/Pond.class": class_file("com.acme.Pond", SINK_CONNECTOR)})
    for name in ("com.acme.Bucket", "Lake", "com.acme.Pond", "java:Pond"):
        assert "is a sink connector" in refused(name, sources=PluginSources((folder,)))


def test_a_java_name_that_means_a_connector_in_python_is_logged_once(folder: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "fencepost.config.plugins")
    for sources in (PluginSources(), PluginSources((folder,)), PluginSources((folder,))):
        for name in (POSTGRES, "PostgresSource"):
            find_plugin(PluginKind.CONNECTOR, name, property_name="p", sources=sources)
    (said,) = caplog.messages
    assert said.startswith(f"The connector {POSTGRES} is the one in Python here, fencepost.connectors.postgres.")
