"""Limits the file descriptors of this process."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack

import psutil

ROOM = 64


def few_descriptors() -> Iterator[int]:
    """A fixture: lower the limit to ROOM more descriptors than are open, and restore it at the end.

    Connections that earlier tests left to the garbage collector are closed before, and none meanwhile.
    """
    gc.collect()
    gc.disable()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = psutil.Process().num_fds() + ROOM
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    gc.enable()


def take_descriptors(stack: ExitStack, count: int) -> None:
    """Open this many files until the end of a block."""
    for _ in range(count):
        stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
