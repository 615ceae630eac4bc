"""Decides which modules a worker imports because a configuration names a class in them.

Importing a module runs its code. Every client of a worker's REST API can choose names, so a worker of a group imports
only modules that its owner provided for plugins. The origin of a module is determined without importing the module or
its packages.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from fencepost.api.errors import ConfigError
from fencepost.config.java_plugins import JavaPlugin
from fencepost.config.java_settings import JavaSettings

ALLOWED_MODULES: Final = "fencepost.plugins.allowed.modules"
_ALL: Final = "*"
_GROUPS: Final = "fencepost."


@dataclass(frozen=True, slots=True)
class PluginSources:
    """The modules from which plugins are imported, besides distributions that declare plugins.

    `directories` come from `plugin.path`. `modules` are names, which include their submodules; `*` stands for all
    modules. `remedy` is the advice in messages about a missing plugin. `java` has the settings for the JVMs of Java
    plugins. `connector` is the Java connector whose pipeline the plugins are for; None for a Python connector.
    """

    directories: tuple[Path, ...] = ()
    modules: tuple[str, ...] = ()
    remedy: str = "Install the package that has it (pip install ...) or put its directory on plugin.path"
    java: JavaSettings = field(default_factory=JavaSettings)
    connector: JavaPlugin | None = None

    @classmethod
    def from_values(cls, values: Mapping[str, Any], named: Iterable[str]) -> PluginSources:
        """Read a worker's properties; `named` are the classes in the worker's own file."""
        own = [name.strip().rpartition(".")[0] for name in named]
        return cls(
            tuple(Path(path).expanduser().resolve() for path in values["plugin.path"] if path),
            tuple(dict.fromkeys(module for module in (*values[ALLOWED_MODULES], *own) if module)),
            java=JavaSettings.from_values(values),
        )

    def without_any_module(self) -> PluginSources:
        """Return the sources without `*`."""
        return replace(self, modules=tuple(module for module in self.modules if module != _ALL))

    def admit(self, module: str) -> bool:
        """Return whether a module may be imported. True if it cannot be found, which its import will report.

        Imports nothing.
        """
        if _ALL in self.modules:
            return True
        if "__main__" in module.split("."):
            return False
        if any(f"{module}.".startswith(f"{allowed}.") for allowed in self.modules):
            return True
        try:
            first = _first_code(module)
        except ValueError:
            # The module was created at run time, and its origin is unknown.
            return False
        if first is None:
            return True
        return first.name in _declared(tuple(sys.path)) or self._in_directory(first)

    def _in_directory(self, spec: ModuleSpec) -> bool:
        if not spec.has_location or spec.origin is None:
            return False
        origin = Path(spec.origin).resolve()
        return any(origin.is_relative_to(directory) for directory in self.directories)


ANY_MODULE: Final = PluginSources(modules=(_ALL,))
"""Allows all modules. It is for names that the worker's owner chose."""


def is_below_plain_module(module: str) -> bool:
    """Return whether the parent of a module is not a package, such as `io`: then the module cannot exist.

    Imports nothing.
    """
    first, dot, _ = module.partition(".")
    try:
        spec = find_spec(first)
    except ValueError:
        # The module was created at run time.
        return False
    return bool(dot) and spec is not None and spec.submodule_search_locations is None


def check_modules(name: str, value: Any) -> None:
    """Raise ConfigError for a value that is neither a module name nor `*`."""
    for module in value or ():
        if module and module != _ALL and not all(part.isidentifier() for part in module.split(".")):
            raise ConfigError(
                f"Invalid value {module!r} for the property {name}: give names of modules, such as acme.connectors, or *",
                name=name,
            )


def forget_sources() -> None:
    """Read the installed distributions again, because the import path changed."""
    _declared.cache_clear()


def _first_code(module: str) -> ModuleSpec | None:
    """Return the package or module whose code runs first when `module` is imported, None if there is none.

    Namespace packages have no code. Raises ValueError for a module that is loaded and has no spec.
    """
    name, *below = module.split(".")
    spec = find_spec(name)
    while spec is not None and spec.origin is None and below:
        name = f"{name}.{below.pop(0)}"
        spec = PathFinder.find_spec(name, spec.submodule_search_locations)
    return spec


@lru_cache(maxsize=16)
def _declared(import_path: tuple[str, ...]) -> frozenset[str]:  # noqa: ARG001 - what is installed depends on it
    """Return the names of the outermost packages and modules with code, of all distributions that declare plugins."""
    found: set[str] = set()
    for distribution in distributions():
        entries = [entry.module for entry in distribution.entry_points if entry.group.startswith(_GROUPS)]
        if not entries:
            continue
        specs = [_first_code(module) for module in (*entries, *_top_level(distribution))]
        found.update(spec.name for spec in specs if spec is not None)
    return frozenset(found)


def _top_level(distribution: Distribution) -> set[str]:
    """Return the names of a distribution's outermost packages and modules that have code."""
    files = [file.parts for file in distribution.files or ()]
    packages = {parts[0] for parts in files if parts[1:] == ("__init__.py",)}
    return packages | {parts[0].removesuffix(".py") for parts in files if len(parts) == 1 and parts[0].endswith(".py")}
