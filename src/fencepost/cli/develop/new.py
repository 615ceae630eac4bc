"""`fencepost new`: the files of a new project."""

from __future__ import annotations

import keyword
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

from fencepost import __version__
from fencepost.api.errors import ConfigError

KINDS: Final = ("poll", "dataframe")

_SUFFIX: Final = ".tmpl"
_NAME: Final = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")

_TEXTS: Final[Mapping[str, Mapping[str, str]]] = {
    "poll": {
        "DESCRIPTION": "It reads `streams`, each a sequence of rows with ids. Replace `read_rows` in "
        "`src/@PACKAGE@/connector.py` by what\nreads your source.",
        "OFFSETS": '`{"stream": name}` -> `{"id": the id of the last row}`',
    },
    "dataframe": {
        "DESCRIPTION": "It reads ranges of ids as DataFrames, which Spark's executors write. Replace `last_id` and "
        "`read_rows` in\n`src/@PACKAGE@/connector.py` by what reads your source.",
        "OFFSETS": '`{"source": "@NAME@"}` -> `{"id": the id of the last row}`',
    },
}


@click.group()
def new() -> None:
    """Write the files of a new project."""


@new.command()
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default=KINDS[0],
    show_default=True,
    help="What the tasks return: records, or DataFrames that Spark's executors write.",
)
def connector(name: str, kind: str) -> None:
    """Write a package for a connector into the new directory NAME, with tests that pass."""
    write_connector(Path(name), name, kind)
    click.echo(
        f"Wrote {name}. Its tests pass as they are, in the environment where fencepost is installed: "
        f"cd {name} && pip install -e '.[test]' && pytest"
    )


def write_connector(folder: Path, name: str, kind: str) -> None:
    """Write the package of a connector. Raises ConfigError for an unusable name, and if the directory exists."""
    values = _values(name, kind)
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise ConfigError(f"{folder} already exists: choose another name, or remove it") from None
    except OSError as error:
        raise ConfigError(f"Cannot create {folder}: {error.strerror}") from None
    try:
        _write_files(folder, kind, values)
    except OSError as error:
        # A partly written folder would block the name for the next attempt.
        shutil.rmtree(folder, ignore_errors=True)
        raise ConfigError(f"Cannot write {folder}: {error.strerror}") from None


def _write_files(folder: Path, kind: str, values: Mapping[str, str]) -> None:
    templates = resources.files("fencepost.cli.develop") / "templates" / "connector"
    for root in ("common", kind):
        for path, text in _files(templates / root):
            target = folder / _filled(path.removesuffix(_SUFFIX), values)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_filled(text, values), encoding="utf-8")


def _values(name: str, kind: str) -> dict[str, str]:
    package = name.replace("-", "_")
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a name for a package: use lower-case letters, digits and hyphens, as in my-source"
        )
    if keyword.iskeyword(package) or package in sys.stdlib_module_names or package == "fencepost":
        raise ConfigError(
            f"{name!r} is the name of something of Python's or fencepost's: choose another, as {name}-source"
        )
    if find_spec(package) is not None or _is_installed(name):
        raise ConfigError(
            f"{name!r} is the name of a package that is installed here, which the new one would hide or replace: choose "
            f"another, as {name}-source, or uninstall it first"
        )
    words = package.split("_")
    return {
        # These texts are filled in first, because they have placeholders, too.
        **_TEXTS[kind],
        "NAME": name,
        "PACKAGE": package,
        "CLASS": "".join(word.capitalize() for word in words),
        "TITLE": " ".join(words),
        "VERSION": __version__,
    }


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _files(folder: Traversable, path: str = "") -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        below = f"{path}/{entry.name}" if path else entry.name
        if entry.is_dir():
            yield from _files(entry, below)
        elif entry.name.endswith(_SUFFIX):
            yield below, entry.read_text(encoding="utf-8")


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text
