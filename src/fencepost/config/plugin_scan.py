"""Finds classes that may be plugins in plain modules of `plugin.path`, by their syntax trees: nothing is imported.

A class may be a plugin if it derives from something that its module imports from fencepost, or from another such class.
Modules of installed distributions are not scanned: their entry points list their plugins.
"""

from __future__ import annotations

import ast
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

_log: Final = logging.getLogger(__name__)


def scan(directories: Sequence[Path], base_name: str | None = None) -> list[str]:
    """Return the Python paths of classes that may be plugins, in order. A module that cannot be read is logged once.

    With `base_name`, return only classes that derive from fencepost's class with that name, such as `SourceConnector`.
    """
    return _derived(_bases(directories), base_name)


def scan_for(directories: Sequence[Path], base_names: Iterable[str]) -> dict[str, list[str]]:
    """Return the result of `scan` for each name of a base class. The directories are scanned only once."""
    bases = _bases(directories)
    return {name: _derived(bases, name) for name in base_names}


def _bases(directories: Sequence[Path]) -> dict[str, frozenset[str]]:
    bases: dict[str, frozenset[str]] = {}
    for directory in directories:
        if not directory.is_dir():
            continue
        for name, path in _modules(directory):
            bases.update(_classes(name, path, *_state(path)))
    return bases


def _derived(bases: Mapping[str, frozenset[str]], base_name: str | None) -> list[str]:
    found: set[str] = set()
    while True:
        more = {
            name for name, names in bases.items() if any(_is_ours(base, base_name) or base in found for base in names)
        } - found
        if not more:
            return sorted(name for name in found if not name.rpartition(".")[2].startswith("_"))
        found |= more


def _state(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        # The path is a link that leads nowhere, or a file that is being replaced. Reading the file will report that.
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _is_ours(base: str, name: str | None) -> bool:
    return base.startswith("fencepost.") and name in (None, base.rpartition(".")[2])


def _modules(directory: Path) -> Iterator[tuple[str, Path]]:
    installed = {
        file.parts[0] for one in distributions(path=[str(directory)]) for file in one.files or () if file.parts
    }
    for path in sorted(directory.iterdir()):
        if path.name in installed or not path.stem.isidentifier() or path.stem == "__main__":
            continue
        if path.suffix == ".py" and path.is_file():
            yield path.stem, path
        elif _is_package(path):
            yield from _package(path.name, path)


def _is_package(folder: Path) -> bool:
    """Whether a folder is a package. A folder that this worker may not read does not count as one."""
    return os.access(folder / "__init__.py", os.F_OK) and os.access(folder, os.R_OK)


def _package(name: str, folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.iterdir()):
        if path.name == "__init__.py":
            yield name, path
        elif path.suffix == ".py" and path.stem.isidentifier() and path.stem != "__main__":
            yield f"{name}.{path.stem}", path
        elif _is_package(path):
            yield from _package(f"{name}.{path.name}", path)


@lru_cache(maxsize=4096)
def _classes(module: str, path: Path, _changed: int, _size: int) -> dict[str, frozenset[str]]:
    """Return the classes of a module, with the names of their bases as Python paths."""
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        _log.error("The module %s cannot be scanned for plugins: %s", path, error)
        return {}
    names = {name: target for node in ast.walk(tree) for name, target in _imports(node, module, path)}
    own = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    names |= {node.name: f"{module}.{node.name}" for node in own}
    return {f"{module}.{node.name}": frozenset(_base(base, names) for base in node.bases) for node in own}


def _imports(node: ast.AST, module: str, path: Path) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield (
                alias.asname or alias.name.partition(".")[0],
                alias.name if alias.asname else alias.name.partition(".")[0],
            )
    elif isinstance(node, ast.ImportFrom):
        package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
        above = package[: len(package) - node.level + 1] if node.level else []
        source = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            yield alias.asname or alias.name, f"{source}.{alias.name}"


def _base(node: ast.expr, names: dict[str, str]) -> str:
    text = ast.unparse(node.value if isinstance(node, ast.Subscript) else node)
    first, dot, rest = text.partition(".")
    return f"{names.get(first, first)}{dot}{rest}"
