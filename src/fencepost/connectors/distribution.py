"""Distributes files to tasks such that few of them move when files or tasks are added.

Every task has a preference for every file: a hash of the task's number and the file's path (rendezvous hashing). Files
go to tasks in the order of preference. No task gets more than its share, so the numbers of files differ by one at most.

Of many files each goes to the task that prefers it most: the numbers differ by some percent then, a new file changes one
task alone, and the time is linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

MANY: Final = 1_000
"""The number of files for each task from which on the shares need not be equal."""

_STEP: Final = 0x9E3779B97F4A7C15


def distribute(files: Sequence[str], tasks: int) -> list[list[str]]:
    """Return the files of each task, in the order of `files`. There must be as many different files as tasks."""
    if len(files) >= MANY * tasks:
        return _by_preference(files, tasks)
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


def _by_preference(files: Sequence[str], tasks: int) -> list[list[str]]:
    """Return the files of each task without a limit. One hash of each path is mixed with the tasks' numbers."""
    import numpy as np  # noqa: PLC0415 - the package imports this module, and a worker that only listens needs no numpy

    digests = b"".join(blake2b(file.encode(errors="surrogateescape"), digest_size=8).digest() for file in files)
    hashes = np.frombuffer(digests, "<u8")
    best, owner = np.zeros(len(files), np.uint64), np.zeros(len(files), np.int64)
    for task in range(tasks):
        # The finalizer of SplitMix64 (Steele, Lea and Flood 2014), of a state that depends on file and task.
        mixed = hashes + np.uint64(_STEP * (task + 1) % (1 << 64))
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
        better = mixed >= best
        best, owner = np.where(better, mixed, best), np.where(better, task, owner)
    shares: list[list[str]] = [[] for _ in range(tasks)]
    for file, task in zip(files, owner.tolist(), strict=True):
        shares[task].append(file)
    return shares


def _preference(task: int, file: str) -> bytes:
    # A path may have bytes that are not UTF-8.
    return blake2b(f"{task} {file}".encode(errors="surrogateescape"), digest_size=8).digest()
