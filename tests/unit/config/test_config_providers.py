"""The built-in config providers: where they find values, and which files nobody may read through them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fencepost import ConfigError, ConfigProvider
from fencepost.config.config_providers import DirectoryConfigProvider, EnvVarConfigProvider, FileConfigProvider
from fencepost.config.plugin_sources import ANY_MODULE
from fencepost.config.plugins import PluginKind, find_plugin

JAVA = "org.apache.kafka.common.config.provider."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "db.properties").write_text("user=me\npassword = hunter2 \n")
    (tmp_path / "open" / "token").write_text("abc\n")
    (tmp_path / "shut").write_text("user=root\n")
    return tmp_path


@pytest.mark.parametrize("provider", [EnvVarConfigProvider, FileConfigProvider, DirectoryConfigProvider])
@pytest.mark.parametrize("prefix", ["", JAVA])
def test_a_provider_answers_to_its_alias_and_to_the_java_class(provider: type[ConfigProvider], prefix: str):
    assert (
        find_plugin(PluginKind.CONFIG_PROVIDER, prefix + provider.__name__, property_name="x", sources=ANY_MODULE)
        is provider
    )


def test_environment_variables_are_found_if_they_are_allowed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DB_USER", "me")
    monkeypatch.setenv("MY_DB_USER", "you")
    provider = EnvVarConfigProvider()
    assert provider.get("", {"DB_USER", "MY_DB_USER", "NO_SUCH"}) == {"DB_USER": "me", "MY_DB_USER": "you"}
    provider.configure({"allowlist.pattern": "DB_.*"})
    assert provider.get("", {"DB_USER", "MY_DB_USER"}) == {"DB_USER": "me"}


def test_environment_variables_have_no_path():
    with pytest.raises(ConfigError, match="no path"):
        EnvVarConfigProvider().get("/etc", {"HOME"})


def test_a_properties_file_is_read_as_java_writes_it(folder: Path):
    found = FileConfigProvider().get(f"{folder}/open/db.properties", {"password", "no.such"})
    assert found == {"password": "hunter2 "}


def test_a_file_of_a_directory_is_a_value(folder: Path):
    assert DirectoryConfigProvider().get(f"{folder}/open", {"token", "no.such"}) == {"token": "abc\n"}


@pytest.mark.parametrize("key", ["../shut", "open/token", "..", "."])
def test_a_key_does_not_lead_out_of_its_directory(folder: Path, key: str):
    (folder / "open" / "open").mkdir()
    (folder / "open" / "open" / "token").write_text("x")
    assert DirectoryConfigProvider().get(f"{folder}/open", {key}) == {}


@pytest.mark.parametrize(
    ("provider", "path"), [(FileConfigProvider, "{}/shut"), (FileConfigProvider, "{}/open/../shut"), (DirectoryConfigProvider, "{}")]
)  # fmt: skip
def test_files_outside_of_the_allowed_paths_are_not_read(folder: Path, provider: type[ConfigProvider], path: str):
    limited = provider()
    limited.configure({"allowed.paths": f"{folder}/open,/nowhere"})
    with pytest.raises(ConfigError, match=r"allowed\.paths"):
        limited.get(path.format(folder), {"user"})


def test_a_link_does_not_lead_out_of_the_allowed_paths(folder: Path):
    (folder / "open" / "link").symlink_to(folder / "shut")
    provider = FileConfigProvider()
    provider.configure({"allowed.paths": f"{folder}/open"})
    with pytest.raises(ConfigError, match=r"allowed\.paths"):
        provider.get(f"{folder}/open/link", {"user"})
    assert provider.get(f"{folder}/open/db.properties", {"user"}) == {"user": "me"}


@pytest.mark.parametrize("linked", ["shut", "missing"])
def test_a_link_in_a_directory_does_not_lead_out_of_the_allowed_paths(folder: Path, linked: str):
    (folder / "open" / "link").symlink_to(folder / linked)
    (folder / "open" / "other-token").symlink_to("token")
    provider = DirectoryConfigProvider()
    provider.configure({"allowed.paths": f"{folder}/open"})
    assert provider.get(f"{folder}/open", {"other-token"}) == {"other-token": "abc\n"}
    with pytest.raises(ConfigError, match=r"allowed\.paths of the config provider"):
        provider.get(f"{folder}/open", {"link"})


def test_a_pipe_in_a_directory_is_not_a_value(folder: Path):
    os.mkfifo(folder / "open" / "pipe")
    limited = DirectoryConfigProvider()
    limited.configure({"allowed.paths": f"{folder}/open"})
    assert limited.get(f"{folder}/open", {"pipe"}) == {}


@pytest.mark.parametrize(
    ("provider", "property_name", "value"),
    [(EnvVarConfigProvider, "allowlist.pattern", "("), (FileConfigProvider, "allowed.paths", "relative/path")],
)
def test_a_provider_names_its_invalid_property(provider: type[ConfigProvider], property_name: str, value: str):
    with pytest.raises(ConfigError) as raised:
        provider().configure({property_name: value})
    assert raised.value.name == property_name


@pytest.mark.parametrize(("provider", "path"), [(FileConfigProvider, ""), (FileConfigProvider, "/no/such"), (DirectoryConfigProvider, "/no/such")])  # fmt: skip
def test_an_unreadable_file_is_an_error(provider: type[ConfigProvider], path: str):
    with pytest.raises(ConfigError):
        provider().get(path, {"x"})
