from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost import ConfigError
from fencepost.config.plugin_scan import scan
from fencepost.config.plugin_sources import ANY_MODULE, PluginSources
from fencepost.config.plugins import PluginKind, find_plugin, plugin_entry_points, use_plugin_path
from fencepost.converters import JsonConverter, SimpleHeaderConverter

pytestmark = pytest.mark.unit

_CONVERTER = "from fencepost.converters import StringConverter\n\nclass {name}(StringConverter):\n    pass\n"


@pytest.fixture
def plugin_directory(tmp_path: Path) -> Iterator[Path]:
    """A directory on the plugin path for one test."""
    before = list(sys.path)
    assert use_plugin_path(f" {tmp_path} ,") == [tmp_path.resolve()]
    yield tmp_path
    sys.path[:] = before


def unique(stem: str) -> str:
    return f"{stem}_{uuid.uuid4().hex}"


def find(name: str, kind: PluginKind = PluginKind.CONVERTER, sources: PluginSources = ANY_MODULE) -> type:
    return find_plugin(kind, name, property_name="value.converter", sources=sources)


@pytest.mark.parametrize(
    "name",
    [
        "JsonConverter",
        " JsonConverter ",
        "org.apache.kafka.connect.json.JsonConverter",
        "fencepost.converters.JsonConverter",
        "fencepost.converters.json_converter.JsonConverter",
    ],
)
def test_a_built_in_answers_to_its_alias_its_java_name_and_its_python_path(name: str):
    assert find(name) is JsonConverter


def test_every_registered_converter_can_be_loaded():
    entries = plugin_entry_points(PluginKind.CONVERTER)
    assert {entry.name for entry in entries} >= {"StringConverter", "org.apache.kafka.connect.storage.StringConverter"}
    for entry in entries:
        header_only = entry.name.endswith("SimpleHeaderConverter")
        kind = PluginKind.HEADER_CONVERTER if header_only else PluginKind.CONVERTER
        # If several Java classes have one name, ours have a prefix each.
        assert find(entry.name, kind).__name__.endswith(entry.name.rpartition(".")[2])


def test_a_header_converter_is_registered_with_the_converters_but_is_none():
    name = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    assert find(name, PluginKind.HEADER_CONVERTER) is SimpleHeaderConverter
    with pytest.raises(ConfigError, match=r"value\.converter, is not a converter: .*api\.plugin\.Converter"):
        find(name)


@pytest.mark.parametrize("name", ["Nonsense", "nowhere.to.be.Found", "", "fencepost."])
def test_an_unknown_name_is_answered_with_the_known_ones_and_advice(name: str):
    with pytest.raises(ConfigError, match=r"JsonConverter, .*pip install.*plugin\.path") as caught:
        find(name)
    assert caught.value.name == "value.converter"


def test_a_module_without_the_class_is_distinguished_from_a_missing_module():
    with pytest.raises(ConfigError, match=r"module fencepost\.converters has no JsonConvertor"):
        find("fencepost.converters.JsonConvertor")


def test_a_plugin_directory_is_put_on_the_import_path(plugin_directory: Path):
    module = unique("mine")
    (plugin_directory / f"{module}.py").write_text(_CONVERTER.format(name="Mine"))
    assert find(f"{module}.Mine").__module__ == module


def test_a_package_in_a_plugin_directory_registers_its_alias(plugin_directory: Path):
    module, alias = unique("registered"), unique("Alias")
    (plugin_directory / f"{module}.py").write_text(_CONVERTER.format(name="Registered"))
    info = plugin_directory / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[fencepost.converters]\n{alias} = {module}:Registered\ncom.acme.{alias}$Value = {module}:Registered\n"
    )
    assert find(alias) is find(f"com.acme.{alias}$Value")
    assert find(alias).__module__ == module


@pytest.mark.parametrize(
    "line", ["import a_library_that_is_not_there", "raise RuntimeError('a_library_that_is_not_there')"]
)
def test_a_plugin_that_fails_to_import_is_reported_with_its_error(plugin_directory: Path, line: str):
    module = unique("broken")
    (plugin_directory / f"{module}.py").write_text(f"{line}\n")
    with pytest.raises(ConfigError, match=r"failed to import.*a_library_that_is_not_there"):
        find(f"{module}.Broken")


@pytest.mark.parametrize(
    "line",
    [
        "import sys; sys.exit(3)",
        "raise KeyboardInterrupt",
        "raise StopIteration",
        "def __getattr__(name): raise SystemExit(3)",
        "class MuteError(Exception):\n    def __str__(self): raise SystemExit\nraise MuteError",
    ],
)
@pytest.mark.usefixtures("signals_handled")
def test_a_plugin_that_ends_the_process_when_it_is_imported_fails_to_import(plugin_directory: Path, line: str):
    module = unique("exiting")
    (plugin_directory / f"{module}.py").write_text(f"{line}\n")
    with pytest.raises(
        ConfigError, match=r"Exiting, given by the property value.converter, failed to import: .* raised"
    ):
        find(f"{module}.Exiting")


def test_a_plugin_that_fails_to_import_is_reported_with_its_line(plugin_directory: Path):
    module = unique("broken")
    (plugin_directory / f"{module}.py").write_text("x = 1\n1 / 0\n")
    with pytest.raises(ConfigError, match=rf"ZeroDivisionError: division by zero \(.*{module}\.py:2\)\. Fix it"):
        find(f"{module}.Broken")


def test_a_plugin_path_that_does_not_exist_is_left_out_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    missing, there = tmp_path / "missing", tmp_path / "there"
    there.mkdir()
    for _ in range(2):
        assert use_plugin_path(f"{missing},{there}") == [there]

    (warning,) = caplog.messages
    assert f"plugin.path names {missing}, which is not a directory" in warning
    assert scan([missing, there]) == []


def test_looking_one_plugin_up_imports_no_other():
    script = (
        "import sys, fencepost; loaded = set(sys.modules);"
        "from fencepost.config.plugins import *; from fencepost.config.plugin_sources import ANY_MODULE;"
        "find_plugin(PluginKind.HEADER_CONVERTER, 'SimpleHeaderConverter', property_name='p', sources=ANY_MODULE);"
        "plugin_entry_points(PluginKind.CONNECTOR); plugin_entry_points(PluginKind.TRANSFORMATION);"
        "plugins = ('fencepost.connectors.', 'fencepost.transforms.');"
        "print([name for name in sys.modules if name.startswith(plugins) and name not in loaded])"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"


def test_the_error_for_an_unknown_name_lists_classes_of_plugin_path(plugin_directory: Path):
    module = unique("shown")
    (plugin_directory / f"{module}.py").write_text(
        "from fencepost import Converter, SourceConnector, SourceTask\n"
        "class Shown(SourceConnector): ...\n"
        "class ShownTask(SourceTask): ...\n"
        "class ShownConverter(Converter): ...\n"
    )
    sources = PluginSources(directories=(plugin_directory,))
    with pytest.raises(ConfigError) as caught:
        find_plugin(PluginKind.CONNECTOR, "Showm", property_name="connector.class", sources=sources)
    assert f", {module}.Shown. Install" in str(caught.value)
    assert "ShownTask" not in str(caught.value)
    assert "ShownConverter" not in str(caught.value)


def test_a_folder_that_may_not_be_read_hides_no_class_of_plugin_path(plugin_directory: Path):
    """As root, the test may read all folders."""
    module = unique("beside")
    (plugin_directory / f"{module}.py").write_text("from fencepost import Converter\nclass Beside(Converter): ...\n")
    for number, mode in enumerate((0o000, 0o100)):
        folder = plugin_directory / unique(f"closed{number}")
        folder.mkdir()
        (folder / "__init__.py").touch()
        folder.chmod(mode)
    assert f"{module}.Beside" in scan([plugin_directory])
