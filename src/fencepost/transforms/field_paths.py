"""Paths of fields within structs, Connect's `field.syntax.version` (KIP-821)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql.types import DataType, StructField, StructType

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.config.unknown_properties import unknown_properties
from fencepost.config.validators import one_of

FieldPath = tuple[str, ...]
"""The names of the structs around a field, the outermost first, and the field's own name."""

Change = Callable[[Column, StructField], Mapping[str, Column]]
"""Takes the content of a field. Returns the contents that replace it, by name."""

_SYNTAX: Final = "field.syntax.version"


class NameTakenError(Exception):
    """Two fields of a struct would have the same name."""


def define_syntax(definitions: ConfigDef) -> ConfigDef:
    """Add the property that says how fields are named, and return the definitions."""
    return definitions.define(
        _SYNTAX, ConfigDef.Type.STRING, "V1", ConfigDef.Importance.HIGH,
        "How properties name fields. V1: by name; a dot in a name has no special meaning. V2: by path within structs, "
        "as in address.city; a name that contains dots stands in backticks.", validator=one_of(("v1", "v2")),
    )  # fmt: skip


def alternatives(name: str, names: Sequence[str]) -> str:
    """Return the existing field names, and the name that may be meant, for a message about a missing field."""
    nearest = unknown_properties([name], names)[name]
    return ", ".join(names) + ("" if nearest is None else f" (did you mean {nearest}?)")


def field_path(text: str, properties: Mapping[str, Any], name: str) -> FieldPath:
    """Return the path in `text`, the value of the property `name`. Raises ConfigError for unmatched backticks."""
    if str(properties[_SYNTAX]).upper() == "V1":
        return (text,)
    steps, rest = [], text
    while rest.startswith("`"):
        step, found, rest = _quoted(rest[1:])
        if not found:
            raise ConfigError(
                f"{name} has the path {text!r} with a backtick that is not closed: close it, or put a backslash before a "
                "backtick that belongs to the name of a field and is followed by a dot",
                name=name,
            )
        steps.append(step)
        if not rest:
            return tuple(steps)
        rest = rest[1:]
    step, dot, rest = rest.partition(".")
    steps.append(step)
    return (*steps, *field_path(rest, properties, name)) if dot else tuple(steps)


def _quoted(text: str) -> tuple[str, bool, str]:
    """Return the text before the closing backtick, whether there is a closing backtick, and the text after it.

    A backtick closes if a dot or the end of the text follows it, and no backslash precedes it.
    """
    step = ""
    for position, letter in enumerate(text):
        ends = letter == "`" and text[position + 1 : position + 2] in ("", ".")
        if ends and not step.endswith("\\"):
            return step, True, text[position + 1 :]
        step = f"{step[:-1]}`" if ends else step + letter
    return step, False, ""


def field_at(kind: DataType, path: FieldPath) -> StructField | None:
    """Return the field at a path of a struct type; None if it does not exist."""
    found: StructField | None = None
    for name in path:
        if not isinstance(kind, StructType) or name not in kind.names:
            return None
        found = kind[name]
        kind = found.dataType
    return found


def content_at(column: Column, path: FieldPath) -> Column:
    """Return the content of the field at a path. It is null if a struct on the path is null."""
    return reduce(Column.getField, path, column)


def rebuilt(column: Column, fields: Sequence[Column]) -> Column:
    """Return a struct of named columns. It is null where `column` is null."""
    return F.when(column.isNotNull(), F.struct(*fields))


def with_changes(column: Column, kind: StructType, changes: Mapping[FieldPath, Change]) -> Column:
    """Return a struct in which the fields at some paths are changed, renamed or left out.

    Missing paths have no effect.
    """
    return rebuilt(column, [part.alias(name) for name, part in _changed(column, kind, changes).items()])


def _changed(column: Column, kind: StructType, changes: Mapping[FieldPath, Change]) -> dict[str, Column]:
    parts: dict[str, Column] = {}
    for field in kind.fields:
        content = column.getField(field.name)
        below = {path[1:]: change for path, change in changes.items() if path[0] == field.name and len(path) > 1}
        if (field.name,) in changes:
            parts |= changes[field.name,](content, field)
        elif below and isinstance(field.dataType, StructType):
            parts[field.name] = with_changes(content, field.dataType, below)
        else:
            parts[field.name] = content
    return parts


def with_fields(column: Column, kind: StructType, added: Mapping[FieldPath, Column]) -> Column:
    """Return a struct with fields added at some paths.

    The parent structs of the added fields must exist; an existing field is replaced.
    """
    parts = {field.name: column.getField(field.name) for field in kind.fields}
    for name in dict.fromkeys(path[0] for path in added if len(path) > 1):
        within = {path[1:]: content for path, content in added.items() if path[0] == name and len(path) > 1}
        struct = kind[name].dataType
        if isinstance(struct, StructType):
            parts[name] = with_fields(parts[name], struct, within)
    parts |= {path[0]: content for path, content in added.items() if len(path) == 1}
    return rebuilt(column, [part.alias(name) for name, part in parts.items()])


def without(column: Column, kind: StructType, paths: Collection[FieldPath]) -> Column | None:
    """Return a struct without the fields at some paths; None if the struct, or one within it, would have no fields."""
    return selected(column, kind, lambda path: path not in paths, dict.fromkeys(paths, ""))


def selected(
    column: Column,
    kind: StructType,
    keeps: Callable[[FieldPath], bool],
    names: Mapping[FieldPath, str],
    at: FieldPath = (),
) -> Column | None:
    """Return a struct with the fields that are kept; None if the struct, or one within it, would have no fields.

    Raises NameTakenError.

    `names` maps the paths that matter to the field's new name, empty for an unchanged name. A struct that contains none
    of these paths stays unchanged. `at` is the path of the struct itself.
    """
    fields: dict[str, Column] = {}
    for field in kind.fields:
        path = (*at, field.name)
        name = names.get(path) or field.name
        if not keeps(path):
            continue
        content: Column | None = column.getField(field.name)
        if isinstance(field.dataType, StructType) and _any_within(path, names):
            content = selected(column.getField(field.name), field.dataType, keeps, names, path)
        if content is None:
            return None
        if name in fields:
            raise NameTakenError(".".join((*at, name)))
        fields[name] = content.alias(name)
    return rebuilt(column, list(fields.values())) if fields else None


def _any_within(path: FieldPath, paths: Collection[FieldPath]) -> bool:
    return any(len(other) > len(path) and other[: len(path)] == path for other in paths)
