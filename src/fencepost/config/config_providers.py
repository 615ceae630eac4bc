"""The config providers that come with fencepost: environment variables, properties files, and files in a directory."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.api.config_def import ConfigDef
from fencepost.api.config_provider import ConfigProvider
from fencepost.api.errors import ConfigError
from fencepost.config.properties import load_properties

_ALLOWLIST: Final = "allowlist.pattern"
_ALLOWED_PATHS: Final = "allowed.paths"


class EnvVarConfigProvider(ConfigProvider):
    """Environment variables of the worker: `${env:NAME}`."""

    def __init__(self) -> None:
        self._allowed = re.compile(".*")

    def config(self) -> ConfigDef:
        """Return the definition of `allowlist.pattern`."""
        return ConfigDef().define(
            _ALLOWLIST, ConfigDef.Type.STRING, ".*", ConfigDef.Importance.MEDIUM,
            "A regular expression that the whole name of a variable must match to be looked up.",
        )  # fmt: skip

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the allowlist. Raises ConfigError for a malformed one."""
        pattern = self.config().parse(configs)[_ALLOWLIST]
        try:
            self._allowed = re.compile(pattern)
        except re.error as error:
            raise ConfigError(
                f"The property {_ALLOWLIST} is not a regular expression: {error}", name=_ALLOWLIST
            ) from None

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Return the variables that are set and allowed. Raises ConfigError for a path, because variables have none."""
        if path:
            raise ConfigError(f"environment variables have no path, and {path!r} is given: write ${{env:NAME}}")
        return {key: os.environ[key] for key in keys if key in os.environ and self._allowed.fullmatch(key)}


class _PathConfigProvider(ConfigProvider):
    """Reads files that `allowed.paths` allows."""

    def __init__(self) -> None:
        self._allowed = ANYWHERE

    def config(self) -> ConfigDef:
        """Return the definition of `allowed.paths`."""
        return _allowed_paths_def()

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the allowed paths. Raises ConfigError for one that is not absolute."""
        self._allowed = _allowed_paths(configs)


class FileConfigProvider(_PathConfigProvider):
    """Values in a properties file: `${file:/path/to/file.properties:key}`."""

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Return the values of the file. Raises ConfigError if it cannot be read, or is not allowed."""
        _require(path)
        properties = load_properties(path, self._allowed)
        return {key: properties[key] for key in keys if key in properties}


class DirectoryConfigProvider(_PathConfigProvider):
    """Files of a directory, each holding one value: `${dir:/path/to/directory:file}`."""

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Return the contents of files, unchanged. Raises ConfigError if one cannot be read, or is not allowed."""
        _require(path)
        self._allowed.check(path)
        directory = Path(path)
        if not directory.is_dir():
            raise ConfigError(f"{path} is not a directory")
        # A key must be the plain name of a file in the directory, so that it cannot lead to another directory.
        found = {key: self._text(directory / key) for key in keys if Path(key).name == key}
        return {key: text for key, text in found.items() if text is not None}

    def _text(self, path: Path) -> str | None:
        """Return a file's text, None if it does not exist. Links are followed only within the allowed paths."""
        try:
            with self._allowed.open(str(path)) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return None
                return str(file.readall(), "utf-8")
        except (FileNotFoundError, IsADirectoryError):
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from None


def _require(path: str) -> None:
    if not path:
        raise ConfigError("no path is given: write ${provider:/path:key}")


def _allowed_paths_def() -> ConfigDef:
    return ConfigDef().define(
        _ALLOWED_PATHS, ConfigDef.Type.LIST, "", ConfigDef.Importance.MEDIUM,
        "Absolute paths, comma-separated: only files there or below are read. Unset: all files that the worker may read.",
    )  # fmt: skip


def _allowed_paths(configs: Mapping[str, str]) -> AllowedPaths:
    """Read the property. Raises ConfigError for a path that is not absolute."""
    paths = [path for path in _allowed_paths_def().parse(configs)[_ALLOWED_PATHS] if path]
    for path in paths:
        if not Path(path).is_absolute():
            raise ConfigError(
                f"The property {_ALLOWED_PATHS} names {path}: paths must be absolute", name=_ALLOWED_PATHS
            )
    return AllowedPaths.of(paths, f"{_ALLOWED_PATHS} of the config provider") if paths else ANYWHERE
