"""Checks an offset that a user wants to set, and compares its position with the file at the path."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from io import FileIO
from typing import Any, Final

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import ConfigError, DataError
from fencepost.connectors.files.content.codecs.compression import codec_in
from fencepost.connectors.files.content.codecs.foreign_content import UTF_8
from fencepost.connectors.files.content.growing import position_of
from fencepost.connectors.files.content.identity import FileIdentity
from fencepost.connectors.files.content.ranges import open_file, unreadable
from fencepost.connectors.files.stores.objects import is_object, read_at

_LINE_ENDS: Final = (b"\n", b"\r")


def check_fields(path: str, offset: Mapping[str, Any], known: Collection[str], kind: str) -> None:
    """Raise DataError if an offset has a field that is not known: it would be stored, and have no effect.

    `kind` names the files whose offsets have the known fields, in the plural.
    """
    for name in offset:
        if name not in known:
            raise DataError(
                f"The offset {dict(offset)} of the file {path} has the field {name!r}, which has no meaning there: correct "
                f"it, or leave it out. Offsets of {kind} have the fields {', '.join(known)}"
            )


def check_columns(path: str, offset: Mapping[str, Any], field: str, columns: Callable[[str], object]) -> None:
    """Raise DataError if the columns in a field of an offset are none that a task could use.

    `columns` reads them. It raises ConfigError for columns that do not fit the configuration.
    """
    ddl = offset.get(field)
    if ddl is None:
        return
    advice = "the columns as GET /connectors/NAME/offsets shows them, as in 'id BIGINT, name STRING', or leave it out"
    if not isinstance(ddl, str):
        raise DataError(
            f"The field {field} in the offset of the file {path} is {ddl!r}, which is no text: give {advice}"
        )
    try:
        columns(ddl)
    except ConfigError as error:
        raise DataError(
            f"The field {field} in the offset of the file {path} is refused: {error}. Give {advice}"
        ) from error


def check_no_directory(path: str, allowed: AllowedPaths) -> None:
    """Raise DataError if a path that may be read is a directory."""
    if is_object(path) or not os.path.isdir(path):  # noqa: PTH112 - also False for an invalid path
        return
    try:
        allowed.check(path)
    except ConfigError:
        return
    raise DataError(
        f"{path} is a directory: give the path of a file, as GET /connectors/NAME/offsets shows it. Each file has its own "
        "offset"
    )


def check_altered(
    path: str, offset: Mapping[str, Any], encoding: str, allowed: AllowedPaths, marked: int | None = None
) -> None:
    """Raise DataError if a position is beyond the end of its file, within a row, or before the end that is `marked`.

    `encoding` is the name of a Python codec. `marked` is the size of the file in the offset's end mark, if there is
    one.

    These offsets are not checked:

    - offsets of objects, and of files that are not on this machine or may not be read
    - offsets of files whose content is decoded, because reading up to the position could take long
    - an offset with the identity of another file, because the file may have been renamed
    - an offset with the identity of this file up to the position, as FileSource commits it: a last row without a line
      end may have grown since the commit. Only the end mark of such an offset is checked

    If an offset has no identity, and the last row of the file has no line end, the end of the file is within that row.
    """
    position = position_of(path, offset)
    # Opening a pipe would wait for its writer.
    if is_object(path) or encoding != UTF_8 or not os.path.isfile(path):  # noqa: PTH113 - also False for an invalid path
        return
    identity = FileIdentity.in_offset(path, offset)
    try:
        file = open_file(path, allowed)
    except DataError:
        return
    with file:
        try:
            size = os.fstat(file.fileno()).st_size
            if identity is not None and (identity.end > size or not identity.begins(file)):
                return
        except OSError as error:
            raise unreadable(path, error) from error
        if codec_in(file, path, encoding)[1] is not None:
            return
        if marked is not None and position < marked:
            raise DataError(
                f"The offset of the file {path} has the position {position}, but marks the file as read to its end, byte "
                f"{marked}, so the rest would not be read: leave the mark out to have it read"
            )
        if identity is not None and identity.end == position:
            return
        if position > size:
            raise DataError(
                f"The position {position} is beyond the end of the file {path}, which has {size} bytes: give the byte at "
                "which a row begins"
            )
        check_row_begins(path, file, position)


def check_row_begins(path: str, file: FileIO, position: int) -> None:
    """Raise DataError if a position in a text file is not after a line end. The position is at most the file's size."""
    try:
        before = read_at(file, 1, position - 1) if position else _LINE_ENDS[0]
    except OSError as error:
        raise unreadable(path, error) from error
    if before and before not in _LINE_ENDS:
        raise DataError(
            f"The position {position} is within a row of the file {path}: give the byte at which a row begins, which is "
            "after a line end"
        )
