"""Checks where the identity in an offset that a user sets would lead a task, before the offset is stored.

    the file at the path begins with the bytes of the identity     it is read on, even a copy with another inode
    the connector finds the bytes and the inode at another path    it was renamed: the offset moves to its name, and the
                                                                   file at the old path is read from its start
    there is no file at the path                                   the task waits for the file of the identity
    another file is at the path                                    its task fails
    the offset has an end mark of another file                     the file at the path is new, and read from its start

The last two are refused if the connector reads the file at the path. The second and the third are valid, for example
after a log rotation, or before the files are copied to another machine, but may surprise the user: the log warns of
them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import DataError, FencepostError
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.connectors.files.content.growing import FILENAME_FIELD
from fencepost.connectors.files.content.identity import IDENTITY_FIELD, FileIdentity, inode_at
from fencepost.connectors.files.content.ranges import open_file, unreadable
from fencepost.connectors.files.discovery.ended import ENDED_FIELD, Mark
from fencepost.connectors.files.discovery.find import FILES
from fencepost.connectors.files.discovery.renames import former_names
from fencepost.connectors.files.discovery.spellings import plain_spelling
from fencepost.connectors.files.stores.objects import is_object

_log: Final = logging.getLogger(__name__)


def check_identities(
    offsets: Iterable[tuple[SourcePartition | None, SourceOffset | None]],
    allowed: AllowedPaths,
    find: Callable[[], Sequence[str]],
) -> None:
    """Raise DataError for an offset that does not belong to the file at its path, if the connector reads this file.

    `find` returns the connector's files, also files that have not settled. It is called only if the file at a path does
    not belong to the offset, or has another inode. Files that cannot be read, or that are not on this machine, are not
    compared.
    """
    named = {
        str(partition[FILENAME_FIELD]): offset
        for partition, offset in offsets
        if partition is not None and offset is not None and _names_file(offset)
    }
    named = {path: offset for path, offset in named.items() if _may_be_read(path, allowed)}
    missing = {path for path in named if not os.path.lexists(path)}
    same = {path: _is_same(path, offset, allowed) for path, offset in named.items() if path not in missing}
    apart = {path: named[path] for path in named if not same.get(path) or _has_other_inode(path, named[path])}
    try:
        files = find() if apart else ()
        moved = _moved(apart, files, allowed)
    except FencepostError:
        # The connector and its tasks report a file that is missing or cannot be read.
        return
    found = set(map(plain_spelling, files))
    for path in filter(lambda path: plain_spelling(path) in found, apart):
        if path in moved:
            _log.warning(
                "The offset of the file %s has the identity of %s, so it moves to that name, and the file that is now at "
                "%s is read from its start", path, moved[path], path,
            )  # fmt: skip
        elif same.get(path) is False:
            raise _foreign(path, named[path], _name_beside(path, named[path], found, allowed))
    away = [path for path in named if path in missing and path not in moved and named[path].get(ENDED_FIELD) is None]
    if away:
        _warn_of_missing(away, _name_beside(away[0], named[away[0]], found, allowed))


def copied_files(
    offsets: Iterable[tuple[SourcePartition | None, SourceOffset | None]],
    allowed: AllowedPaths,
    find: Callable[[], Sequence[str]],
) -> set[str]:
    """Return the paths that have a copy of the file in their offset: another inode, but the same bytes.

    `find` is as for `check_identities`. A path is left out if the connector finds the file of its offset under another name.
    """
    copies = {
        str(partition[FILENAME_FIELD]): offset
        for partition, offset in offsets
        if partition is not None and offset is not None and offset.get(IDENTITY_FIELD) is not None
    }
    copies = {
        path: offset
        for path, offset in copies.items()
        if _may_be_read(path, allowed) and os.path.lexists(path) and _has_other_inode(path, offset)
    }
    try:
        copies = {path: offset for path, offset in copies.items() if _is_same(path, offset, allowed)}
        return copies.keys() - _moved(copies, find() if copies else (), allowed).keys()
    except FencepostError:
        # The connector and its tasks report a file that is missing or cannot be read.
        return set()


def of_copy(path: str, offset: SourceOffset, allowed: AllowedPaths) -> SourceOffset:
    """Return the offset of a file with the inode and the times of its copy at the path."""
    identity, mark = FileIdentity.in_offset(path, offset), Mark.in_offset(offset)
    if identity is None:
        return offset
    with open_file(path, allowed) as file:
        status = os.fstat(file.fileno())
    changed = status.st_ctime_ns if identity.changed else 0
    found = replace(identity, inode=status.st_ino, modified=status.st_mtime_ns, changed=changed)
    bound = {**offset, IDENTITY_FIELD: found.in_json()}
    if mark is not None:
        bound[ENDED_FIELD] = replace(mark, inode=status.st_ino, modified=status.st_mtime_ns).in_json()
    return bound


def _names_file(offset: SourceOffset) -> bool:
    return offset.get(IDENTITY_FIELD) is not None or offset.get(ENDED_FIELD) is not None


def _may_be_read(path: str, allowed: AllowedPaths) -> bool:
    """Return whether a path that may be read has a regular file or none. Opening a pipe would wait for its writer."""
    try:
        allowed.check(path)
        return not is_object(path) and (os.path.isfile(path) or not os.path.lexists(path))  # noqa: PTH113 - as above
    except (FencepostError, ValueError, OSError):
        return False


def _is_same(path: str, offset: SourceOffset, allowed: AllowedPaths) -> bool | None:
    """Return whether a task would continue to read the file at a path, None if the file cannot be opened.

    Raises DataError for a file that has grown after its end was marked.
    """
    identity, mark = FileIdentity.in_offset(path, offset), Mark.in_offset(offset)
    try:
        file = open_file(path, allowed)
    except FencepostError:
        return None
    with file:
        if mark is not None and mark.is_at(path, allowed):
            return True
        try:
            begins = identity is None or (identity.end <= os.fstat(file.fileno()).st_size and identity.begins(file))
            return begins if mark is None else identity is not None and begins and mark.is_copied_to(path, allowed)
        except OSError as error:
            raise unreadable(path, error) from error


def _has_other_inode(path: str, offset: SourceOffset) -> bool:
    return inode_at(path) != FileIdentity.inode_in_offset(path, offset)


def _moved(offsets: Mapping[str, SourceOffset], files: Sequence[str], allowed: AllowedPaths) -> dict[str, str]:
    """Return the paths whose offset belongs to a file that the connector finds under another name, with that name."""
    pairs = [({FILENAME_FIELD: path}, offset) for path, offset in offsets.items()]
    return {former: file for file, formers in former_names(files, pairs, allowed).items() for former in formers}


def _name_beside(path: str, offset: SourceOffset, found: Collection[str], allowed: AllowedPaths) -> str | None:
    """Return the name that the file of an offset has now in the directory of its path, but for the connector's files.

    None says that it has no such name, or may not be read there.
    """
    identity, folder = FileIdentity.in_offset(path, offset), os.path.dirname(path)  # noqa: PTH120 - keeps the spelling
    if identity is None:
        return None
    try:
        with os.scandir(folder or ".") as entries:
            names = [
                os.path.join(folder, entry.name)  # noqa: PTH118 - as above
                for entry in entries
                if entry.inode() == identity.inode and entry.is_file(follow_symlinks=False)
            ]
        others = [name for name in names if plain_spelling(name) not in found and _may_be_read(name, allowed)]
        return next((name for name in others if identity.is_at(name, allowed)), None)
    except (FencepostError, OSError, ValueError):
        return None


def _foreign(path: str, offset: SourceOffset, beside: str | None) -> DataError:
    """Return the error for an offset of another file. `beside` is the name that this file has now in the directory."""
    if offset.get(ENDED_FIELD) is not None:
        return DataError(
            f"The offset of the file {path} marks another file as read to its end, so the file at the path would be read "
            f"from its start. To have it read on from the offset, leave {ENDED_FIELD} out, and also {IDENTITY_FIELD} "
            "unless it is a copy. To have it read from its start, give null as its offset"
        )
    belongs = f"The {IDENTITY_FIELD} in the offset of the file {path} belongs to another file"
    from_start = "give null as the offset to have the file at the path read from its start"
    if beside is not None:
        return DataError(
            f"{belongs}: it is {beside}, which the property {FILES} does not name: add this path to have it read on, or "
            f"{from_start}"
        )
    return DataError(
        f"{belongs}: the one at the path begins with other bytes, or is shorter, and the connector finds the other file "
        f"under no other name. Bring that file back, or {from_start}. If the offset is meant for the file at the path, "
        f"leave the field {IDENTITY_FIELD} out, or give the one that GET /connectors/NAME/offsets shows"
    )


def _warn_of_missing(paths: Sequence[str], beside: str | None) -> None:
    """Warn of files that are not there. `beside` is the name that the first one has now in its directory."""
    more = f", and {len(paths) - 1:,} more for which offsets with an identity were given" if paths[1:] else ""
    now = f", whose file is {beside} now, which the property {FILES} does not name" if beside is not None else ""
    _log.warning(
        "There is no file %s%s%s. The file with the identity in the offset is read on when it comes to the path; if another "
        "file comes, its task fails. To have any file read on, leave %s out of the offset; to have the next file at the path "
        "read from its start, give null as the offset",
        paths[0],
        now,
        more,
        IDENTITY_FIELD,
    )
