"""The modules that a worker imports for a name in a configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fencepost import ConfigError
from fencepost.config.config_transformer import TransformedConfig
from fencepost.config.plugin_sources import PluginSources
from fencepost.config.plugins import PluginKind, find_plugin, use_plugin_path
from fencepost.config.worker_config import WorkerConfig, WorkerMode
from fencepost.runtime.connector.validation import connector_class, validate
from tests.support.topics import unique

CONNECTOR = """
from fencepost import SourceConnector

class Mine(SourceConnector):
    def task_class(self):
        raise NotImplementedError
"""
GROUP = {
    "bootstrap.servers": "127.0.0.1:1",
    "group.id": "g",
    **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
    **{f"{kind}.converter": "org.apache.kafka.connect.json.JsonConverter" for kind in ("key", "value")},
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder on the import path, like site-packages."""
    before = list(sys.path)
    sys.path.append(str(tmp_path))
    use_plugin_path("")
    yield tmp_path
    sys.path[:] = before
    use_plugin_path("")


@pytest.fixture
def module(folder: Path) -> str:
    """A module that creates a file when it is imported."""
    name = unique("mine").replace("-", "_")
    (folder / f"{name}.py").write_text(f"open({str(folder / 'imported')!r}, 'w').close()\n{CONNECTOR}")
    return name


def config(mode: WorkerMode = WorkerMode.DISTRIBUTED, **properties: str) -> WorkerConfig:
    given = GROUP | {name.replace("_", "."): value for name, value in properties.items()}
    return WorkerConfig.from_properties(given, where="w", mode=mode)


def find(worker: WorkerConfig, name: str) -> type:
    return connector_class(worker, {"connector.class": name})


def test_a_worker_of_a_group_does_not_import_any_importable_module(folder: Path, module: str):
    with pytest.raises(ConfigError) as raised:
        find(config(), f"{module}.Mine")
    assert raised.value.name == "connector.class"
    for way in ("entry points fencepost.connectors", "plugin.path", "fencepost.plugins.allowed.modules"):
        assert way in str(raised.value)
    assert not (folder / "imported").exists()
    assert module not in sys.modules


@pytest.mark.parametrize(
    "name",
    ["os.path.Mine", "json.tool.Mine", "fencepost.__main__.Mine", "__main__.Mine", "antigravity.Mine", "sys.Mine"],
)
def test_a_worker_of_a_group_imports_neither_the_library_nor_a_main_module(name: str):
    loaded = set(sys.modules)
    with pytest.raises(ConfigError, match=r"is not imported.*fencepost\.plugins\.allowed\.modules"):
        find(config(), name)
    assert set(sys.modules) == loaded


def test_a_package_is_not_imported_to_find_out_about_a_module_in_it(folder: Path, module: str):
    (folder / module).mkdir()
    (folder / f"{module}.py").rename(folder / module / "__init__.py")
    (folder / module / "inner.py").write_text(CONNECTOR)
    with pytest.raises(ConfigError, match="is not imported"):
        find(config(), f"{module}.inner.Mine")
    assert not (folder / "imported").exists()


@pytest.mark.parametrize(
    "configs",
    [
        {"value.converter": "{}.Mine"},
        {"header.converter": "{}.Mine"},
        {"transforms": "a", "transforms.a.type": "{}.Mine"},
        {"predicates": "a", "predicates.a.type": "{}.Mine"},
    ],
)
def test_no_property_of_a_connector_has_a_module_imported(folder: Path, module: str, configs: Mapping[str, str]):
    given = {name: value.format(module) for name, value in configs.items()}
    connector = {"name": "c", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}
    values = validate(config(), TransformedConfig(connector | given)).values
    assert any("fencepost.plugins.allowed.modules" in error for value in values.values() for error in value.errors)
    assert not (folder / "imported").exists()


def test_a_worker_imports_the_modules_that_its_property_allows(module: str):
    assert find(config(fencepost_plugins_allowed_modules=module), f"{module}.Mine").__name__ == "Mine"


@pytest.mark.parametrize("allowed", ["", "{}x", "x.{}"])
def test_the_property_allows_nothing_else(module: str, allowed: str):
    with pytest.raises(ConfigError, match="is not imported"):
        find(config(fencepost_plugins_allowed_modules=allowed.format(module)), f"{module}.Mine")


@pytest.mark.parametrize("value", ["acme/connectors", "acme.*", "1"])
def test_an_invalid_module_name_is_refused_by_the_property(value: str):
    with pytest.raises(ConfigError, match=r"fencepost\.plugins\.allowed\.modules.*names of modules"):
        config(fencepost_plugins_allowed_modules=value)


def test_a_worker_imports_modules_of_its_plugin_path(folder: Path, module: str):
    use_plugin_path(str(folder))
    assert find(config(plugin_path=str(folder)), f"{module}.Mine").__module__ == module


def test_a_plugin_path_directory_does_not_allow_modules_that_shadow_its_own(folder: Path, module: str):
    (folder / "own").mkdir()
    (folder / "own" / f"{module}.py").write_text(CONNECTOR)
    use_plugin_path(str(folder / "own"))
    with pytest.raises(ConfigError, match="is not imported"):
        find(config(plugin_path=str(folder / "own")), f"{module}.Mine")


def test_a_worker_imports_any_module_of_a_distribution_that_declares_plugins(folder: Path, module: str):
    package = folder / unique("package").replace("-", "_")
    (package / "below").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "below" / "__init__.py").write_text(CONNECTOR)
    info = folder / f"{package.name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package.name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[fencepost.transforms]\nAlias = {package.name}.other:Other\n")
    use_plugin_path("")
    assert find(config(), f"{package.name}.below.Mine").__module__ == f"{package.name}.below"
    with pytest.raises(ConfigError, match="is not imported"):
        find(config(), f"{module}.Mine")


def test_a_distribution_vouches_for_its_part_of_a_namespace_only(folder: Path):
    namespace = unique("space").replace("-", "_")
    for part in ("declared", "other"):
        (folder / namespace / part).mkdir(parents=True)
        (folder / namespace / part / "__init__.py").write_text(CONNECTOR)
    info = folder / f"{namespace}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {namespace}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[fencepost.connectors]\nAlias = {namespace}.declared:Mine\n")
    use_plugin_path("")
    assert find(config(), f"{namespace}.declared.Mine").__name__ == "Mine"
    with pytest.raises(ConfigError, match="is not imported"):
        find(config(), f"{namespace}.other.Mine")


def test_connectors_may_name_plugins_from_the_workers_own_file(module: str):
    sources = config(value_converter=f"{module}.Converter").plugin_sources
    assert sources.admit(module)
    assert not config().plugin_sources.admit(module)


def test_a_standalone_worker_imports_any_module(module: str):
    assert find(config(WorkerMode.STANDALONE), f"{module}.Mine").__name__ == "Mine"


def test_a_missing_module_is_unknown_rather_than_refused():
    with pytest.raises(ConfigError, match=r"no connector named 'no_such_module\.Mine'"):
        find_plugin(PluginKind.CONNECTOR, "no_such_module.Mine", property_name="p", sources=PluginSources())
