"""Prints results: as tables for people, as JSON for programs."""

from __future__ import annotations

import json
import math
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fencepost.api.texts import printable

# Output that a program reads is neither truncated nor wrapped.
_WIDTH_OF_PIPES: Final = 10_000
_UNITS: Final = ("kB", "MB", "GB")
_KILO: Final = 1000
_THREE_DIGITS: Final = 100

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="The output format.",
)


def print_json(body: Any) -> None:
    """Print an answer unchanged."""
    click.echo(json.dumps(body, ensure_ascii=False, indent=2))


def print_table(columns: Iterable[str], rows: Iterable[Iterable[str | Text]]) -> None:
    """Print rows under the names of their columns."""
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(printable(cell) if isinstance(cell, str) else cell for cell in row))
    # Brackets in names and configurations are literal, not markup.
    width = None if sys.stdout.isatty() else _WIDTH_OF_PIPES
    Console(markup=False, highlight=False, emoji=False, width=width).print(table)


def print_indented(text: str) -> None:
    """Print a text of any length, indented; on a terminal broken into lines that fit."""
    text = printable(text)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH_OF_PIPES
    indent = " " * 4
    click.echo(textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False))


def print_unknown(properties: Mapping[str, str | None]) -> None:
    """Print undefined properties, each with the defined property that may be meant."""
    for name, nearest in properties.items():
        hint = "" if nearest is None else f": did you mean {nearest}?"
        click.echo(printable(f"The property {name} is unknown{hint}"))


def print_figures(console: Console, title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print names with their figures, which are aligned at the right."""
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, figure in rows:
        table.add_row(name, figure)
    console.print(table)


def counted(number: int, noun: str) -> str:
    """Return a number with its unit: `1 row`, `2,000 rows`. The plural of `noun` ends with an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def shown_size(count: float) -> str:
    """Return a number of bytes with a unit, and one decimal below 100: `512 bytes`, `14.2 kB`, `101 MB`."""
    if count < _KILO:
        return counted(round(count), "byte")
    power = min(int(math.log(count, _KILO)), len(_UNITS))
    size = count / _KILO**power
    return f"{size:,.{1 if size < _THREE_DIGITS else 0}f} {_UNITS[power - 1]}"


def shown_time(milliseconds: int | None) -> str:
    """Return a time since the epoch in the local time zone; an empty text for None."""
    if milliseconds is None:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().isoformat(sep=" ", timespec="seconds")
