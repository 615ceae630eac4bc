"""Refuses an offset that a user sets for a file that has another offset, in the same request or stored.

A task keeps only the furthest of a file's offsets under different names (see `renames`), and would drop the others
without a message. These names are of one file:

- spellings of one path
- the name of an offset with an identity, and the present name of the file with this identity
- a link and the path that it leads to, unless the connector reads both: then each has its own offset

A stored offset of a link or its target does no harm: no task moves it.

It also refuses to replace the only offset of a renamed file. After a rotation without a worker, the offset that is stored
under the old name is still the one of the renamed file, and shows up to where that file was read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.context import OffsetReader
from fencepost.api.errors import ConfigError, DataError, FencepostError
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.connectors.files.content.growing import FILENAME_FIELD
from fencepost.connectors.files.content.identity import IDENTITY_FIELD, FileIdentity, inode_at
from fencepost.connectors.files.discovery.renames import former_names
from fencepost.connectors.files.discovery.spellings import plain_spelling
from fencepost.connectors.files.stores.objects import is_object


def check_rivals(
    offsets: Iterable[tuple[SourcePartition | None, SourceOffset | None]],
    stored: Iterable[tuple[SourcePartition | None, SourceOffset]],
    allowed: AllowedPaths,
    find: Callable[[], Sequence[str]],
) -> None:
    """Raise DataError if a file would have two offsets, in `offsets` or among the `stored` offsets that stay in place.

    Removing an offset is always valid. `find` returns the connector's files. It is called only if a link and its target
    have offsets.
    """
    named = {_name(partition): offset for partition, offset in offsets}
    given = {path: offset for path, offset in named.items() if offset is not None}
    if not given:
        return
    kept = {path: offset for partition, offset in stored if (path := _name(partition)) not in named}
    spelled: dict[str, str] = {}
    for path in given:
        if (other := spelled.setdefault(_spelling(path), path)) != path:
            raise _rivals(other, path, "are spellings of one path")
    _check_stored_spellings(spelled, kept)
    targets = {path: target for path in given if (target := _target(path, allowed)) is not None}
    _check_links(targets, find)
    _check_renamed({path: given[path] for path in targets}, kept, allowed)


def check_replaced(
    offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]],
    stored: OffsetReader,
    allowed: AllowedPaths,
    find: Callable[[], Sequence[str]],
) -> None:
    """Raise DataError if an offset would replace the only one of a file that the connector finds under a new name.

    `find` returns the connector's files. It is called only if the file at a path is not the one of the stored offset.
    """
    named = {_name(partition): offset for partition, offset in offsets}
    apart: dict[str, SourceOffset] = {}
    for (path, offset), replaced in zip(named.items(), _stored_offsets(list(named), stored), strict=True):
        # Without an identity, an offset is of the file that is at its path.
        inode = None if replaced is None else _inode_of(path, replaced, allowed)
        if replaced is not None and inode is not None and _inode_of(path, offset or {}, allowed) != inode:
            apart[path] = replaced
    try:
        pairs = [({FILENAME_FIELD: path}, replaced) for path, replaced in apart.items()]
        formers = former_names(find(), pairs, allowed) if apart else {}
    except FencepostError:
        # The connector and its tasks report a file that is missing or cannot be read.
        return
    for present, paths in formers.items():
        if present not in named:
            raise _replaced(paths[0], present, apart[paths[0]])


def _stored_offsets(paths: Sequence[str], stored: OffsetReader) -> Sequence[SourceOffset | None]:
    """Return the stored offsets of files. A malformed offset counts as none, so that it can be replaced."""
    try:
        return list(stored.offsets([{FILENAME_FIELD: path} for path in paths]))
    except DataError:
        if len(paths) == 1:
            return [None]
    return [offset for path in paths for offset in _stored_offsets([path], stored)]


def _name(partition: SourcePartition | None) -> str:
    return str((partition or {}).get(FILENAME_FIELD))


def _spelling(path: str) -> str:
    try:
        return plain_spelling(path)
    except ValueError:
        # The path is invalid, so it cannot be a spelling of another one.
        return path


def _check_stored_spellings(spelled: Mapping[str, str], kept: Iterable[str]) -> None:
    bases = set(map(os.path.basename, spelled))
    for other in kept:
        # Making the plain spelling of each stored name would take longer.
        path = spelled.get(_spelling(other)) if os.path.basename(other) in bases else None  # noqa: PTH119 - as above
        if path is not None:
            raise DataError(
                f"{path} is another spelling of {other}, under which the offset of the file is stored: give the offset of "
                f"{other}. If the connector reads {path} now, this offset moves there"
            )


def _check_links(targets: Mapping[str, str], find: Callable[[], Sequence[str]]) -> None:
    names: dict[str, list[str]] = {}
    for path, target in targets.items():
        names.setdefault(target, []).append(path)
    linked = [paths for paths in names.values() if len(paths) > 1]
    if not linked:
        return
    try:
        found = set(map(plain_spelling, find()))
    except FencepostError:
        found = set()
    for first, *others in linked:
        for other in others:
            if not found.issuperset(map(plain_spelling, (first, other))):
                raise _rivals(first, other, "lead to one file, and the connector does not read both")


def _target(path: str, allowed: AllowedPaths) -> str | None:
    """Return a path with its links resolved; None for an object, and for a path that is not allowed or invalid."""
    try:
        if is_object(path):
            return None
        allowed.check(path)
        return os.path.realpath(path)
    except (ConfigError, ValueError, OSError):
        return None


def _check_renamed(given: Mapping[str, SourceOffset], kept: Mapping[str, SourceOffset], allowed: AllowedPaths) -> None:
    inodes = {inode_at(path) for path in given} | {_inode_of(path, offset, allowed) for path, offset in given.items()}
    inodes.discard(None)
    near = {
        path: offset
        for path, offset in kept.items()
        if _inode_of(path, offset, allowed) in inodes and _target(path, allowed) is not None
    }
    every = {**near, **given}
    try:
        formers = former_names(every, [({FILENAME_FIELD: path}, offset) for path, offset in every.items()], allowed)
    except FencepostError:
        # The connector and its tasks report a file that cannot be read.
        return
    for path, names in formers.items():
        identity = FileIdentity.in_offset(path, every[path])
        # An offset with the identity of another file may move to the present name of the other file.
        if identity is None or identity.inode == inode_at(path):
            for name in names if path in given else filter(given.__contains__, names):
                raise _renamed(name, path)


def _inode_of(path: str, offset: SourceOffset, allowed: AllowedPaths) -> int | None:
    """Return the inode of the file that an offset belongs to, None if it is unknown or the file may not be read."""
    try:
        # If the offset has an identity, the file is not checked: a connector may have stored many offsets.
        inode = FileIdentity.inode_in_offset(path, offset)
        if inode is not None or is_object(path):
            return inode
        allowed.check(path)
        return inode_at(path)
    except (FencepostError, ValueError, OSError):
        return None


def _replaced(path: str, present: str, offset: SourceOffset) -> DataError:
    return DataError(
        f"The offset that is stored for {path} belongs to the file that is now {present}, which would be read again from its "
        f"start. Give an offset for {present} in the same request: {json.dumps(dict(offset))} to have it read on, or null to "
        "have it read again"
    )


def _renamed(former: str, present: str) -> DataError:
    advice = f". If the offset of {former} is meant for another file, leave its {IDENTITY_FIELD} out"
    return _rivals(former, present, "are the former and the present name of one file", advice)


def _rivals(first: str, second: str, why: str, advice: str = "") -> DataError:
    return DataError(
        f"{first} and {second} {why}, which can have one offset: give the offset of the name that the connector reads, and "
        f"null for the other one{advice}"
    )
