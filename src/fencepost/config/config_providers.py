"""The config providers that come with fencepost: environment variables, properties files, and files in a directory."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

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
        """Take the allowlist. Raises ConfigError for a malformed one."""
        pattern = self.config().parse(configs)[_ALLOWLIST]
        try:
            self._allowed = re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"The property {_ALLOWLIST} is no regular expression: {error}", name=_ALLOWLIST) from None

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Return the variables that are set and allowed. Raises ConfigError for a path: there are none."""
        if path:
            raise ConfigError(f"environment variables have no path, and {path!r} is given: write ${{env:NAME}}")
        return {key: os.environ[key] for key in keys if key in os.environ and self._allowed.fullmatch(key)}


class _PathConfigProvider(ConfigProvider):
    """Reads where `allowed.paths` lets it."""

    def __init__(self) -> None:
        self._allowed = _AllowedPaths()

    def config(self) -> ConfigDef:
        """Return the definition of `allowed.paths`."""
        return _allowed_paths_def()

    def configure(self, configs: Mapping[str, str]) -> None:
        """Take the allowed paths. Raises ConfigError for one that is not absolute."""
        self._allowed = _AllowedPaths.of(configs)


class FileConfigProvider(_PathConfigProvider):
    """Values in a properties file: `${file:/path/to/file.properties:key}`."""

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Return what the file has. Raises ConfigError if it cannot be read, or must not be."""
        properties = load_properties(self._allowed.checked(path))
        return {key: properties[key] for key in keys if key in properties}


class DirectoryConfigProvider(_PathConfigProvider):
    """Files of a directory, each holding one value: `${dir:/path/to/directory:file}`."""

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Return the contents of files, as they are. Raises ConfigError for what cannot be read, or must not be."""
        directory = self._allowed.checked(path)
        if not directory.is_dir():
            raise ConfigError(f"{path} is not a directory")
        # A key is the name of a file in the directory, never a way out of it.
        return {key: _text(directory / key) for key in keys if Path(key).name == key and (directory / key).is_file()}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def _allowed_paths_def() -> ConfigDef:
    return ConfigDef().define(
        _ALLOWED_PATHS, ConfigDef.Type.LIST, "", ConfigDef.Importance.MEDIUM,
        "Absolute paths, comma-separated: only what is there or below is read. Unset: whatever the worker may read.",
    )  # fmt: skip


class _AllowedPaths:
    """Where files may be read."""

    def __init__(self, paths: Collection[Path] = ()) -> None:
        """No paths are no limit."""
        self._paths = paths

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> _AllowedPaths:
        """Read the property. Raises ConfigError for a path that is not absolute."""
        paths = [Path(path) for path in _allowed_paths_def().parse(configs)[_ALLOWED_PATHS] if path]
        for path in paths:
            if not path.is_absolute():
                raise ConfigError(
                    f"The property {_ALLOWED_PATHS} names {path}: paths must be absolute", name=_ALLOWED_PATHS
                )
        return cls([path.resolve() for path in paths])

    def checked(self, path: str) -> Path:
        """Return where a path leads, links followed. Raises ConfigError if that is not allowed."""
        if not path:
            raise ConfigError("no path is given: write ${provider:/path:key}")
        target = Path(path).resolve()
        if self._paths and not any(target.is_relative_to(allowed) for allowed in self._paths):
            raise ConfigError(f"{path} is not among the paths that the provider's {_ALLOWED_PATHS} allows")
        return target
