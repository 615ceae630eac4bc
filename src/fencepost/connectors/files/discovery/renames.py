"""Reading a renamed file continues at its position: the new name takes over the source offset of the old name.

    connector    finds the identity of a file in the offset of another name, and gives both names to one task
    task         reads both offsets when no other task can commit them any more, and first of all commits:
                     its present name  <- the furthest offset of the file
                     its old name      <- no offset: another file of that name is read from its start (log rotation)

The same happens if the property `files` spells a path in another way. Then the offset is taken over whatever file is at
the path, as if the offset had been committed under the present name.

If a file was read to its end and is to be deleted or moved, its offset has a mark of the file's state. A new name takes
over such an offset only if its file has exactly this state: the marked file may have been deleted, and another file may
have got its inode.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.connectors.files.content.growing import FILENAME_FIELD, POSITION_FIELD
from fencepost.connectors.files.content.identity import FileIdentity, inode_at
from fencepost.connectors.files.discovery.ended import ENDED_FIELD, Mark
from fencepost.connectors.files.formats.tables.table_file import GROUP_FIELD, ROW_FIELD

_PROGRESS_FIELDS: Final = (POSITION_FIELD, GROUP_FIELD, ROW_FIELD)


def former_names(
    files: Iterable[str],
    offsets: Iterable[tuple[SourcePartition | None, SourceOffset | None]],
    allowed: AllowedPaths,
    inodes: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, list[str]]:
    """Return the old names of each renamed file, found by the identities in a connector's committed offsets.

    The search takes linear time, and is fast for names that still have their offset's file. `inodes` has the
    inodes that are already known; they are not read again.

    Raises DataError for an offset that was not written by a file source, and for a renamed file that cannot be read.
    """
    moved: dict[int, list[tuple[str, SourceOffset]]] = {}
    for partition, offset in offsets:
        path = str((partition or {}).get(FILENAME_FIELD))
        inode = FileIdentity.inode_in_offset(path, offset)
        # If the old name still has the file, the file was not renamed: the new name is an additional link.
        if offset is not None and inode is not None and (inodes.get(path) or inode_at(path)) != inode:
            moved.setdefault(inode, []).append((path, offset))
    found: dict[str, list[str]] = {}
    for file in files if moved else ():
        inode = inodes.get(file) or inode_at(file)
        for path, offset in moved.get(inode, ()) if inode is not None else ():
            # If the file has been renamed again, its bytes cannot be compared here. Its inode alone shows that the
            # offset must be kept.
            if path != file and (inode_at(file) != inode or _is_at(offset, path, file, allowed)):
                found.setdefault(file, []).append(path)
    return found


def together(files: Sequence[str], formers: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Group the files that one task must read together.

    Each group has a name that stays the same while the group exists.

    The grouping takes linear time.
    """
    if not formers:
        return {file: [file] for file in files}
    order = {file: number for number, file in enumerate(files)}
    joined: dict[str, list[str]] = {}
    for file in files:
        for former in formers.get(file, ()):
            if former not in order:
                continue
            first, second = joined.setdefault(former, [former]), joined.setdefault(file, [file])
            if first is not second:
                first += second
                joined |= dict.fromkeys(second, first)
    names = {file: joined[file][0] if file in joined else file for file in files}
    return {
        name: sorted(joined[name], key=order.__getitem__) if name in joined else [name]
        for name in dict.fromkeys(names.values())
    }


@dataclass(frozen=True, slots=True)
class Resumed:
    """The offsets at which files start, None for a file's beginning.

    `changed` are offsets that the task commits first.

    `abandoned` are names whose file was renamed.
    """

    offsets: dict[str, SourceOffset | None]
    changed: list[tuple[SourcePartition, SourceOffset | None]]
    abandoned: frozenset[str]


def resume(
    files: Sequence[str],
    formers: Mapping[str, Sequence[str]],
    committed: Mapping[str, SourceOffset | None],
    allowed: AllowedPaths,
    spellings: Mapping[str, Sequence[str]] = MappingProxyType({}),
    *,
    unsure: Mapping[str, int | None] = MappingProxyType({}),
) -> Resumed:
    """Decide at which offset each file starts, by the committed offsets of its present and old names.

    `spellings` are other spellings of some names. `unsure` has the names at which the task found another file than the
    connector saw there, each with the inode that the connector saw. No offset is moved to these names.

    Raises DataError for an offset that was not written by a file source, and for a renamed file that cannot be read.
    """
    offsets = {file: committed.get(file) for file in files}
    moved = {
        file: [
            former
            for former in (() if file in unsure else formers.get(file, ()))
            if _is_at(committed.get(former), former, file, allowed)
        ]
        for file in files
    }
    abandoned = set(chain(*moved.values()))
    # After a rename, the offset under the old name belongs to the renamed file. So another file that now has the old
    # name must not take over this offset, even if its path is spelled in another way.
    respelled = {
        file: [name for name in names if committed.get(name) is not None and name not in abandoned]
        for file, names in spellings.items()
    }
    adopted: dict[str, SourceOffset] = {}
    for file in files:
        others = [*moved[file], *respelled.get(file, ())]
        if not others:
            continue
        # Only these files' identities are read: reading the identities of all files would take longer than all other
        # steps.
        identities = {name: FileIdentity.in_offset(name, committed.get(name)) for name in (file, *others)}
        keeps = _has(identities[file], inode_at(file)) or (not moved[file] and committed.get(file) is not None)
        progress = {name: _progress(identity, committed.get(name)) for name, identity in identities.items()}
        best = max([file, *others] if keeps else others, key=progress.__getitem__)
        if best != file:
            dropped = (ENDED_FIELD,) if best in moved[file] else ()
            adopted[file] = {name: v for name, v in (committed[best] or {}).items() if name not in dropped}
    adopted |= _left_over(committed, formers, unsure, adopted, abandoned)
    abandoned.update(*respelled.values())
    for name in abandoned & offsets.keys():
        offsets[name] = None
    offsets |= adopted
    changed = dict.fromkeys(sorted(abandoned)) | adopted
    return Resumed(
        offsets, [({FILENAME_FIELD: name}, offset) for name, offset in changed.items()], frozenset(abandoned)
    )


def _left_over(
    committed: Mapping[str, SourceOffset | None],
    formers: Mapping[str, Sequence[str]],
    unsure: Mapping[str, int | None],
    adopted: Iterable[str],
    abandoned: Container[str],
) -> dict[str, SourceOffset]:
    """Return replaced offsets of files that the task does not find, by the names under which the connector saw them.

    When the connector finds such a file under another name, the offset is moved to that name.
    """
    later: dict[str, list[str]] = {}
    for file in unsure:
        for former in formers.get(file, ()):
            later.setdefault(former, []).append(file)
    found: dict[str, SourceOffset] = {}
    waiting = list(adopted) if later else []
    while waiting:
        name = waiting.pop()
        offset = committed.get(name)
        for file in later.get(name, ()) if name not in abandoned else ():
            if offset is not None and file not in found and unsure[file] == FileIdentity.inode_in_offset(name, offset):
                found[file] = offset
                waiting.append(file)
    return found


def _is_at(offset: SourceOffset | None, name: str, file: str, allowed: AllowedPaths) -> bool:
    """Return whether the offset that was committed for `name` belongs to the file at `file`."""
    identity, mark = FileIdentity.in_offset(name, offset), Mark.in_offset(offset)
    if identity is None or not identity.is_at(file, allowed):
        return False
    return mark is None or mark == Mark.of(file, allowed)


def _has(identity: FileIdentity | None, inode: int | None) -> bool:
    return identity is not None and identity.inode == inode


def _progress(identity: FileIdentity | None, offset: Mapping[str, Any] | None) -> tuple[int, ...]:
    numbers = (offset or {}).get
    return (identity.end if identity is not None else 0, *(int(numbers(field) or 0) for field in _PROGRESS_FIELDS))
