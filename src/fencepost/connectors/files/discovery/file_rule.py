"""A task's files, described by a rule. The size of a rule does not depend on the number of files, or on their names.

    connector   assigns each path to a task, by the path's hash. The task's rule contains summaries (see `sketch`) of
                the names and inodes that the connector saw
    task        lists the directories, and reads its own files if the connector also saw them

So the connector decides which files are read, as if it gave the task a list of names. If the task finds a file that the
connector did not see, it does not read this file until the connector gives it another configuration: another task may
have read this file under its old name. If the task does not find a file that the connector saw, it looks for the file
again (see `own_listing`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Self

import numpy as np

from fencepost.api.errors import DataError
from fencepost.config.config_transformer import without_placeholders
from fencepost.connectors.distribution import PathHashes, mixed, preferring
from fencepost.connectors.files.discovery.sketch import Numbers, Sketch

TASK_RULE: Final = "task.files.rule"

_SAMPLE: Final = 8
_INODE_SEED: Final = 1 << 34
_FILE_SEED: Final = 1 << 35


@dataclass(frozen=True, slots=True, eq=False)
class FileRule:
    """The rule for the `count` files of the task with the number `task` among `tasks` tasks.

    `names` summarizes the files' paths, `files` their paths with inodes. `sample` contains some of the paths with
    inodes. `exceptions` are the hashes of paths that belong to this task although their hashes assign them to another
    task, and the reverse: all names of a renamed file belong to one task.
    """

    task: int
    tasks: int
    count: int
    names: Sketch
    files: Sketch
    sample: Mapping[str, int]
    exceptions: Numbers

    @classmethod
    def of(
        cls,
        task: int,
        tasks: int,
        inodes: Mapping[str, int | None],
        hashes: PathHashes,
        elsewhere: Sequence[str] = (),
    ) -> Self:
        """Return the rule for files. `inodes` maps each path to its inode: None if it is not known, or for a stored object.

        `elsewhere` are files that belong to this task by their hashes, but are assigned to other tasks.
        """
        files = list(inodes)
        numbers = hashes.of(files)
        known = [(file, inode) for file, inode in inodes.items() if inode is not None]
        return cls(
            task,
            tasks,
            len(files),
            Sketch.of(numbers),
            Sketch.of(_with_inodes(numbers, inodes.values())),
            dict(islice(known, 0, None, len(known) // _SAMPLE + 1)),
            np.concatenate((numbers[preferring(numbers, tasks) != task], hashes.of(elsewhere))),
        )

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> Self | None:
        """Read the rule in a task's configuration, None if it has no rule. Raises DataError if the rule is damaged."""
        if TASK_RULE not in config:
            return None
        try:
            read = json.loads(config[TASK_RULE])
            names, files = Sketch.from_text(read.pop("names")), Sketch.from_text(read.pop("files"))
            exceptions = np.frombuffer(base64.b64decode(read.pop("exceptions"), validate=True), "<u8")
            return cls(names=names, files=files, exceptions=exceptions, **read)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"The property {TASK_RULE} of the task's configuration is not what FileSource wrote ({error}): restart the "
                "connector, so that it gives its tasks new configurations"
            ) from error

    def in_config(self) -> dict[str, str]:
        """Return the rule as a property of a task's configuration: about 70 kB, and 11 bytes for each exception."""
        content = {
            "task": self.task,
            "tasks": self.tasks,
            "count": self.count,
            "names": self.names.in_text(),
            "files": self.files.in_text(),
            "sample": dict(self.sample),
            "exceptions": base64.b64encode(self.exceptions.astype("<u8").tobytes()).decode(),
        }
        return {TASK_RULE: without_placeholders(json.dumps(content))}

    def candidates(self, paths: Iterable[str], hashes: PathHashes) -> list[str]:
        """Return the paths that belong to the task by their hashes, whether or not the connector saw them."""
        listed = list(paths)
        numbers = hashes.of(listed)
        own = (preferring(numbers, self.tasks) == self.task) ^ np.isin(numbers, self.exceptions)
        return [path for path, is_own in zip(listed, own.tolist(), strict=True) if is_own]

    def seen_files(
        self, inodes: Mapping[str, int | None], hashes: PathHashes, unlikely: Container[str] = ()
    ) -> list[str] | None:
        """Return the files that the connector saw with the same inodes; None if too many differ to find out which.

        `unlikely` are files that the connector probably did not see. Such a file counts as a difference if the
        connector saw it, and any other file counts as a difference if the connector did not see it.
        """
        files = list(inodes)
        return _in_both(self.files, files, _with_inodes(hashes.of(files), inodes.values()), unlikely)

    def seen_names(self, paths: Sequence[str], hashes: PathHashes, unlikely: Container[str] = ()) -> list[str] | None:
        """Return the paths that the connector saw, whatever their inodes; None if too many differ to find out which."""
        return _in_both(self.names, paths, hashes.of(paths), unlikely)

    def numbers_differ(self, inodes: Mapping[str, int | None]) -> bool:
        """Return whether files of the sample exist here, and all have other inodes than on the connector's machine."""
        there = [file for file in self.sample if file in inodes]
        return bool(there) and all(inodes[file] != self.sample[file] for file in there)


def _in_both(sketch: Sketch, files: Sequence[str], numbers: Numbers, unlikely: Container[str]) -> list[str] | None:
    compared = np.fromiter((file not in unlikely for file in files), np.bool_, len(files))
    differences = sketch.differences(numbers[compared])
    if differences is None:
        return None
    # A file that was left out of the comparison is a difference if the connector saw it.
    alike = np.isin(numbers, differences) ^ compared
    return [file for file, both in zip(files, alike.tolist(), strict=True) if both]


def _with_inodes(hashes: Numbers, inodes: Collection[int | None]) -> Numbers:
    numbers = np.fromiter((inode or 0 for inode in inodes), np.uint64, len(inodes))
    return mixed(hashes ^ mixed(numbers, _INODE_SEED), _FILE_SEED)
