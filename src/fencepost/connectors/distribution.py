"""Distributes files to tasks such that few of them move when files or tasks are added.

Every task has a preference for every file: a hash of the task's number and the file's path (rendezvous hashing). Files
go to tasks in the order of preference. No task gets more than its share, so the numbers of files differ by one at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b


def distribute(files: Sequence[str], tasks: int) -> list[list[str]]:
    """Return the files of each task, in the order of `files`. There must be as many different files as tasks."""
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


def _preference(task: int, file: str) -> bytes:
    # A path may have bytes that are not UTF-8.
    return blake2b(f"{task} {file}".encode(errors="surrogateescape"), digest_size=8).digest()
