"""The plugins that a worker lists."""

from __future__ import annotations

import logging
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fencepost import __version__
from fencepost.config.java_plugins import JavaPlugin
from fencepost.config.plugin_sources import PluginSources
from fencepost.config.plugins import PluginKind
from fencepost.herder.entities import PluginInfo
from fencepost.herder.errors import BadRequestError, NotFoundError
from fencepost.herder.requests import plugin_catalogue
from fencepost.herder.requests.plugin_catalogue import PluginCatalogue
from tests.support.topics import unique

CATALOGUE = PluginCatalogue()
JAVA = "org.apache.kafka.connect."


def test_a_plugin_is_listed_once_under_the_java_class_that_it_replaces():
    infos = CATALOGUE.infos()
    assert PluginInfo(f"{JAVA}file.FileStreamSourceConnector", "source", __version__) in infos
    assert PluginInfo(f"{JAVA}transforms.Cast$Value", "transformation", __version__) in infos
    assert len(infos) == len(set(infos))


def test_a_plugin_without_a_java_class_is_listed_under_its_path():
    names = {info.plugin_class for info in CATALOGUE.infos()}
    assert "fencepost.connectors.files.connector.FileSourceConnector" in names


def test_a_class_that_is_both_kinds_of_converter_is_listed_as_both():
    types = {info.type for info in CATALOGUE.infos() if info.plugin_class == f"{JAVA}json.JsonConverter"}
    assert types == {"converter", "header_converter"}
    simple = [info.type for info in CATALOGUE.infos() if info.plugin_class.endswith("SimpleHeaderConverter")]
    assert simple == ["header_converter"]


def test_classes_are_recommended_where_one_is_named():
    named = ["key.converter", "header.converter", "transforms.a.b.type", "predicates.p.type"]
    found = CATALOGUE.recommended([*named, "topic", "connector.class", "transforms.a.predicate"], None)
    assert list(found) == named
    converters, headers, transforms, predicates = found.values()
    assert "io.confluent.connect.avro.AvroConverter" in converters
    assert set(headers) - set(converters) == {f"{JAVA}storage.SimpleHeaderConverter"}
    assert f"{JAVA}transforms.Cast$Value" in transforms
    assert f"{JAVA}transforms.predicates.TopicNameMatches" in predicates


def test_classes_of_plain_modules_are_recommended_without_their_import(tmp_path: Path):
    (tmp_path / "hanging.py").write_text(
        "from fencepost import Converter, Transformation\n"
        "class Own(Converter): ...\nclass Mine(Transformation): ...\nraise AssertionError\n"
    )
    catalogue = PluginCatalogue(PluginSources((tmp_path,)))
    found = catalogue.recommended(["key.converter", "value.converter", "transforms.a.type", "topic"], None)
    assert {name: [one for one in classes if one.startswith("hanging")] for name, classes in found.items()} == {
        "key.converter": ["hanging.Own"],
        "value.converter": ["hanging.Own"],
        "transforms.a.type": ["hanging.Mine"],
    }


def test_a_java_connector_is_recommended_what_its_jvm_has():
    java = JavaPlugin("a.Connector", Path("a"), ())
    names = ["key.converter", "header.converter", "transforms.a.type", "predicates.p.type"]
    found = CATALOGUE.recommended(names, java)
    assert list(found) == names
    for classes in found.values():
        assert classes == sorted(classes)
        assert {one.startswith(JAVA) for one in classes} == {True}


@pytest.mark.parametrize(
    "name",
    [
        "FileStreamSource",
        f"{JAVA}file.FileStreamSourceConnector",
        "fencepost.connectors.files.stream_source.FileStreamSourceConnector",
    ],
)
def test_a_connector_shows_its_own_and_the_common_properties(name: str):
    keys = {key.name: key for key in CATALOGUE.config(name)}
    assert list(keys)[:2] == ["file", "topic"]
    assert keys["tasks.max"].default_value == "1"
    assert keys["connector.plugin.version"].default_value == __version__


@pytest.mark.parametrize(
    ("former", "listed"),
    [
        ("file_source.FileSourceConnector", "fencepost.connectors.files.connector.FileSourceConnector"),
        ("file_stream.FileStreamSourceConnector", f"{JAVA}file.FileStreamSourceConnector"),
        ("postgres.connector.PostgresSourceConnector", "io.debezium.connector.postgresql.PostgresConnector"),
    ],
)
def test_old_paths_of_connectors_are_understood_but_not_listed(former: str, listed: str):
    assert CATALOGUE.config(f"fencepost.connectors.{former}") == CATALOGUE.config(listed)
    names = {info.plugin_class for info in CATALOGUE.infos()}
    assert listed in names
    assert f"fencepost.connectors.{former}" not in names


def test_a_converter_shows_its_role_and_its_own_properties():
    keys = {
        key.name: (key.type, key.default_value, key.group) for key in CATALOGUE.config("JsonConverter", __version__)
    }
    assert keys["converter.type"] == ("STRING", None, None)
    assert keys["schemas.enable"] == ("BOOLEAN", "true", "Schemas")


def test_a_range_that_has_the_installed_version_finds_the_plugin():
    assert CATALOGUE.config("JsonConverter", "[0.0.1,9.9)") == CATALOGUE.config("JsonConverter")
    with pytest.raises(BadRequestError, match="version"):
        CATALOGUE.config("JsonConverter", "[0.0.1")


def test_every_built_in_plugin_defines_its_properties():
    # KIP-1273: properties of any plugin may be requested. These plugins have no properties of their own.
    without = {"Filter", "MakeTombstone", "RecordIsTombstone"}
    for plugin in CATALOGUE.plugins:
        if not plugin.plugin_class.__module__.startswith("fencepost."):
            continue
        keys = CATALOGUE.config(plugin.name)
        assert keys or plugin.plugin_class.__name__ in without, plugin.name
        assert all(key.documentation for key in keys), plugin.name


def test_unknown_plugins_and_versions_are_distinguished():
    with pytest.raises(NotFoundError):
        CATALOGUE.config("Nope")
    with pytest.raises(BadRequestError):
        CATALOGUE.config("JsonConverter", "9.9.9")


def test_a_plugin_that_cannot_be_imported_is_in_the_log_and_breaks_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    registered = plugin_catalogue.plugin_entry_points

    def with_a_broken_one(kind: PluginKind) -> list[EntryPoint]:
        return [EntryPoint("Broken", "no.such.module:Broken", kind.group), *registered(kind)]

    monkeypatch.setattr(plugin_catalogue, "plugin_entry_points", with_a_broken_one)
    with caplog.at_level(logging.ERROR):
        assert PluginCatalogue().infos() == CATALOGUE.infos()
    assert "Broken" in caplog.text
    assert "no.such" in caplog.text or "No module" in caplog.text


def test_plugins_that_configurations_name_by_path_are_listed():
    path, broken = "tests.support.bare_source.BareConnector", "tests.support.no_such_module.Connector"
    configs: list[dict[str, str | None]] = [
        {"connector.class": path, "transforms.a.type": "fencepost.transforms.filter.Filter"},
        {"connector.class": broken, "value.converter": None},
        {"connector.class": "FileStreamSource", "predicates.type": path},
    ]
    catalogue = PluginCatalogue(configs=lambda: configs)
    assert set(catalogue.infos()) - set(CATALOGUE.infos()) == {PluginInfo(path, "source", "undefined")}
    assert "tasks.max" in {key.name for key in catalogue.config(path)}


def test_plugins_in_plain_modules_of_plugin_path_are_listed_before_their_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    own = unique("plain").replace("-", "_")
    connector = "class {}({}):\n    def task_class(self):\n        raise NotImplementedError\n"
    (tmp_path / own).mkdir()
    (tmp_path / own / "__init__.py").write_text(
        "from fencepost import SourceConnector as Base\n" + connector.format("A", "Base")
    )
    (tmp_path / own / "sub.py").write_text("import fencepost\nfrom . import A\n" + connector.format("B", "A"))
    (tmp_path / f"{own}_broken.py").write_text(
        "import fencepost\nclass C(fencepost.SourceConnector):\n    pass\nraise SystemExit(3)\n"
    )
    (tmp_path / f"{own}_syntax.py").write_text("class (\n")
    (tmp_path / f"{own}_other.py").write_text("raise AssertionError('imported')\nclass D(dict):\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    catalogue = PluginCatalogue(PluginSources(directories=(tmp_path.resolve(),)))
    for _ in range(2):
        listed = set(catalogue.infos()) - set(CATALOGUE.infos())
        assert listed == {PluginInfo(f"{own}.{name}", "source", "undefined") for name in ("A", "sub.B")}
    assert "tasks.max" in {key.name for key in catalogue.config(f"{own}.sub.B")}
    assert caplog.text.count(f"The module {own}_broken of plugin.path cannot be used") == 1
    assert caplog.text.count(f"{own}_syntax.py cannot be scanned") == 1
    assert f"{own}_other" not in sys.modules


def test_a_link_in_plugin_path_that_leads_nowhere_breaks_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    package = tmp_path / unique("linked").replace("-", "_")
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "gone.py").symlink_to(tmp_path / "nowhere.py")
    catalogue = PluginCatalogue(PluginSources(directories=(tmp_path.resolve(),)))
    for _ in range(2):
        assert catalogue.infos() == CATALOGUE.infos()
        assert catalogue.recommended(["key.converter"], None) == CATALOGUE.recommended(["key.converter"], None)
    assert caplog.text.count("gone.py cannot be scanned") == 1
