"""The files of a task in its configuration: their names, old names, and the inodes that the connector saw.

A few files are stored as readable JSON, each name with its inode. Many files are packed, so that the configuration fits
into a record of the config topic: the common prefix of all paths is stored once, each inode is stored as the difference
from the previous one, and the result is compressed. If the packed form is also too long, the task gets a rule in place
of names (see `file_rule`). A task can read each of these forms.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, Final, Self

from fencepost.api.errors import DataError
from fencepost.config.config_transformer import without_placeholders
from fencepost.connectors.distribution import PathHashes
from fencepost.connectors.files.discovery.file_rule import TASK_RULE, FileRule
from fencepost.connectors.files.stores.objects import is_object

TASK_FILES: Final = "task.files"
TASK_INODES: Final = "task.inodes"
TASK_RENAMED: Final = "task.renamed"
TASK_RENAMED_PACKED: Final = "task.renamed.packed"
TASK_PACKED: Final = "task.files.packed"
TASK_SPELLINGS: Final = "task.spellings"

MOST_NAMED: Final = 500
"""The maximum number of files that a configuration lists without packing."""

MOST_CHARACTERS: Final = 64_000
"""The maximum number of characters of a list of named or packed files. A rule takes about this many characters."""

MOST_RENAMED: Final = 16_000
"""If the old names have more characters than this, they are compressed."""

_SAMPLE: Final = 1_000
_LEVEL: Final = 6


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """A task's number and the number of tasks. The hashes of paths assign nearly all of the task's files to it.

    `elsewhere` are files that belong to this task by their hashes, but are assigned to another task.
    """

    task: int
    tasks: int
    hashes: PathHashes
    elsewhere: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """The files of a task.

    `files` are in reading order. `renamed` has the old names of some files, `spellings` other spellings of directories.
    `inodes` is None if the connector does not scan again. A file that is not in `inodes` did not exist, or is an
    object.
    """

    files: Sequence[str]
    inodes: Mapping[str, int | None] | None = None
    renamed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    spellings: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Mapping[str, str]) -> Self:
        """Read a task's configuration. If it has a rule, the result has no files, and inodes only of renamed files.

        Raises DataError for packed files that were not written by a connector.
        """
        spellings = json.loads(config[TASK_SPELLINGS]) if TASK_SPELLINGS in config else {}
        try:
            renamed, seen = json.loads(config[TASK_RENAMED]) if TASK_RENAMED in config else {}, {}
            if TASK_RENAMED_PACKED in config:
                renamed, seen = _unpacked(config[TASK_RENAMED_PACKED])
            if TASK_RULE in config:
                return cls((), seen, renamed, spellings)
            if TASK_PACKED not in config:
                inodes = json.loads(config[TASK_INODES]) if TASK_INODES in config else None
                return cls(json.loads(config[TASK_FILES]), inodes, renamed, spellings)
            return cls(*_with_prefix(*_unpacked(config[TASK_PACKED])), renamed, spellings)
        except (ValueError, TypeError, zlib.error) as error:
            raise DataError(
                f"The list of files in the task's configuration is not what FileSource wrote ({error}): restart the connector, "
                "so that it gives its tasks new configurations"
            ) from error

    def in_config(self, place: TaskPlace | None = None) -> dict[str, str]:
        """Return the properties of a task's configuration. Only a task with a `place` can have a rule."""
        other = {}
        if self.renamed and len(renamed := _text(self.renamed)) <= MOST_RENAMED:
            other = {TASK_RENAMED: renamed}
        elif self.renamed:
            other = self._packed_renamed()
        if self.spellings:
            other[TASK_SPELLINGS] = _text(self.spellings)
        if len(self.files) <= MOST_NAMED:
            inodes = {TASK_INODES: _text(self.inodes)} if self.inodes is not None else {}
            named = {TASK_FILES: _text(self.files)} | inodes
            if sum(map(len, named.values())) <= MOST_CHARACTERS:
                return named | other
        if place is None or self.inodes is None:
            return {TASK_PACKED: _packed_files(self.files, self.inodes)} | other
        if not self._seem_long() and len(packed := _packed_files(self.files, self.inodes)) <= MOST_CHARACTERS:
            return {TASK_PACKED: packed} | other
        # Objects have no inodes.
        seen = {file: self.inodes.get(file) for file in self.files}
        rule = FileRule.of(place.task, place.tasks, seen, place.hashes, place.elsewhere).in_config()
        if TASK_RENAMED in other:
            del other[TASK_RENAMED]
            other |= self._packed_renamed()
        return rule | other

    def added_to(self, former: Share) -> dict[str, int | None] | None:
        """Return the files that were added to the previous share, with their inodes; None if anything else differs."""
        count, inodes = len(former.files), self.inodes or {}
        added = {file: inodes.get(file) for file in self.files[count:]}
        seen = {file: inode for file, inode in added.items() if inode is not None}
        if not all(map(is_object, added.keys() - seen)):
            return None
        if (self.renamed, self.spellings) != (former.renamed, former.spellings):
            return None
        if self.files[:count] != former.files or {**(former.inodes or {}), **seen} != inodes:
            return None
        # The task knows renamed files by the names that they had when it started.
        return added if added.keys().isdisjoint(chain(*self.renamed.values())) else None

    def _packed_renamed(self) -> dict[str, str]:
        """Return the old names as a property, with the inodes of renamed files, which a rule does not contain."""
        inodes = self.inodes or {}
        return {TASK_RENAMED_PACKED: _packed([self.renamed, {file: inodes.get(file) for file in self.renamed}])}

    def _seem_long(self) -> bool:
        """Return whether a sample of the files shows that all of them would be too long when packed.

        Packing takes longer than making a rule.
        """
        some = self.files[:_SAMPLE]
        return len(_packed_files(some, self.inodes)) * len(self.files) > MOST_CHARACTERS * len(some)


def _packed_files(files: Sequence[str], inodes: Mapping[str, int | None] | None) -> str:
    prefix = os.path.commonprefix(list(files))  # noqa: RUF071 - names may begin alike, too
    steps: list[int | None] | None = None
    if inodes is not None:
        steps, before = [], 0
        for file in files:
            inode = inodes.get(file)
            steps.append(None if inode is None else inode - before)
            before = inode or before
    return _packed([prefix, [file[len(prefix) :] for file in files], steps])


def _with_prefix(
    prefix: str, names: Sequence[str], steps: Sequence[int | None] | None
) -> tuple[list[str], dict[str, int | None] | None]:
    files = [prefix + name for name in names]
    if steps is None:
        return files, None
    found: Any = accumulate(step or 0 for step in steps)
    inodes = (None if step is None else inode for step, inode in zip(steps, found, strict=True))
    return files, dict(zip(files, inodes, strict=True))


def _text(content: object) -> str:
    return without_placeholders(json.dumps(content))


def _packed(content: object) -> str:
    return base64.b64encode(zlib.compress(json.dumps(content, separators=(",", ":")).encode(), _LEVEL)).decode()


def _unpacked(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
