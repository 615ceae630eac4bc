"""Distributes files to tasks so that few files change their task when files or tasks are added.

Every task has a preference for every file: a hash of the task's number and the file's path (rendezvous hashing). Pairs
of a task and a file are assigned in the order of preference. No task gets more than its share, so the tasks' numbers of
files differ by at most one.

If there are many files, each file goes to the task that prefers it most. The numbers of files per task then differ by a
few percent, a new file changes the files of only one task, and the time grows linearly with the number of files.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import filterfalse
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MANY: Final = 1_000
"""If there are at least this many files per task, tasks may get different numbers of files."""

_STEP: Final = 0x9E3779B97F4A7C15


class PathHashes:
    """The hashes of paths, kept from call to call: nearly all paths are the same as in the previous call."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, files: Sequence[str]) -> NDArray[np.uint64]:
        """Return the hashes of paths, 64 bits each."""
        import numpy as np  # noqa: PLC0415 - the package imports this module, and a worker that only listens needs no numpy

        known = self._known
        for file in filterfalse(known.__contains__, files):
            known[file] = _hash(file)
        return np.fromiter(map(known.__getitem__, files), np.uint64, len(files))

    def keep(self, files: Sequence[str]) -> None:
        """Once more than half of the kept hashes are of paths that are not in `files`, forget these hashes."""
        if len(self._known) > 2 * len(files):
            self._known = {file: self._known[file] for file in files if file in self._known}


def distribute(files: Sequence[str], tasks: int, hashes: PathHashes | None = None) -> list[list[str]]:
    """Return the files of each task, in the order of `files`. There must be at least as many different files as tasks.

    A caller that repeats this call with almost the same files passes the same `hashes` each time, to save time.
    """
    if are_many(len(files), tasks):
        return _by_preference(files, tasks, hashes or PathHashes())
    share, larger_shares = divmod(len(files), tasks)
    preferences = sorted((_preference(task, file), task, file) for task in range(tasks) for file in files)
    task_of: dict[str, int] = {}
    sizes = [0] * tasks
    for _, task, file in preferences:
        if file in task_of or sizes[task] > share or (sizes[task] == share and not larger_shares):
            continue
        larger_shares -= sizes[task] == share
        sizes[task] += 1
        task_of[file] = task
    return [[file for file in files if task_of[file] == task] for task in range(tasks)]


def are_many(files: int, tasks: int) -> bool:
    """Return whether there are enough files per task that each file goes to the task that prefers it most."""
    return files >= MANY * tasks


def preferring(hashes: NDArray[np.uint64], tasks: int) -> NDArray[np.int64]:
    """Return, for each path, the number of the task that prefers it most. `hashes` are the hashes of the paths."""
    import numpy as np  # noqa: PLC0415 - see above

    best, owner = mixed(hashes, 0), np.zeros(len(hashes), np.int64)
    for task in range(1, tasks):
        preference = mixed(hashes, task)
        better = preference >= best
        best, owner = np.where(better, preference, best), np.where(better, task, owner)
    return owner


def mixed(hashes: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return another hash for each hash, depending on the seed.

    The function is the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
    """
    import numpy as np  # noqa: PLC0415 - see above

    found = hashes + np.uint64(_STEP * (seed + 1) % (1 << 64))
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found ^= found >> np.uint64(31)
    return found


def _by_preference(files: Sequence[str], tasks: int, hashes: PathHashes) -> list[list[str]]:
    """Return the files of each task: each file goes to the task that prefers it most.

    Each path is hashed only once; its hash is then mixed with each task's number.
    """
    hashes.keep(files)
    shares: list[list[str]] = [[] for _ in range(tasks)]
    for file, task in zip(files, preferring(hashes.of(files), tasks).tolist(), strict=True):
        shares[task].append(file)
    return shares


def _hash(path: str) -> int:
    # A path may have bytes that are not UTF-8.
    return int.from_bytes(blake2b(path.encode(errors="surrogateescape"), digest_size=8).digest(), "little")


def _preference(task: int, file: str) -> bytes:
    # A path may have bytes that are not UTF-8.
    return blake2b(f"{task} {file}".encode(errors="surrogateescape"), digest_size=8).digest()
