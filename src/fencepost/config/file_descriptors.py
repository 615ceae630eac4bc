"""The limit of file descriptors of this process (RLIMIT_NOFILE): connections and files need one each."""

from __future__ import annotations

import errno
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from fencepost.api.errors import RetriableError, describe_error

_MAX_LIMIT: Final = 1 << 20
"""The limit that is set if the hard limit is higher, or infinite, as in containers."""

_RESERVED: Final = 32
_SHARE_RESERVED: Final = 8
_SHARE_OF_REQUESTS: Final = 4
_MOST_FOR_REQUESTS: Final = 1000

_OPEN: Final = "/dev/fd"
_COUNTED: Final = Path("/proc/self/fd")
"""Since Linux 6.2, the size of this folder is the number of open descriptors. In older versions, the size is 0."""
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE)


class OutOfFileDescriptorsError(RetriableError):
    """No file descriptor is left. `what` failed because of that."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: this process may have {limit()} files and connections open, and needs more. Raise that limit "
            "(LimitNOFILE= of a systemd unit, ulimit -n of a shell), or run fewer tasks in this process"
        )


def explained(what: str, error: Exception) -> Exception:
    """Return an OutOfFileDescriptorsError if missing descriptors caused the given error; else the given error."""
    if isinstance(error, OutOfFileDescriptorsError) or not is_exhaustion(error):
        return error
    explanation = OutOfFileDescriptorsError(f"{what} failed for want of file descriptors ({describe_error(error)})")
    explanation.__cause__ = error
    return explanation


def raise_limit() -> None:
    """Raise the soft limit to the hard one, as a JVM does.

    The usual soft limit is 1024, for programs that use select().
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_LIMIT if hard == resource.RLIM_INFINITY else min(hard, _MAX_LIMIT)
    if soft not in (resource.RLIM_INFINITY, wanted) and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def limit() -> int:
    """Return how many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_LIMIT if soft == resource.RLIM_INFINITY else soft


def reserved() -> int:
    """Return how many descriptors tasks must leave to the REST API, the group and other parts of the worker."""
    return min(_RESERVED, limit() // _SHARE_RESERVED)


def for_requests() -> int:
    """Return how many connections the REST API may have. Other descriptors are for brokers, databases and files."""
    return min(_MOST_FOR_REQUESTS, limit() // _SHARE_OF_REQUESTS)


def free() -> int:
    """Return how many more descriptors this process may open now.

    If the system does not show the open descriptors, none counts as open.
    """
    with suppress(OSError):
        if count := _COUNTED.stat().st_size:
            return max(0, limit() - count)
    try:
        with os.scandir(_OPEN) as opened:
            return max(0, limit() - sum(1 for _ in opened) + 1)
    except FileNotFoundError:
        return limit()
    except OSError:
        return 0


def is_reserved(descriptor: int) -> bool:
    """Return whether a descriptor that was just opened is among the last free ones, which are reserved.

    The system gives the lowest free number, so all lower ones are in use.
    """
    return descriptor >= limit() - reserved()


def is_exhaustion(error: BaseException) -> bool:
    """Return whether an error, or one of its causes, occurred because no descriptor was left."""
    return any(_is_exhausted(cause) for cause in _causes(error))


def _is_exhausted(error: BaseException) -> bool:
    # Looking up a host's name needs files. Without a free descriptor, resolution fails without saying why.
    unresolved = isinstance(error, socket.gaierror) and free() == 0
    refused = isinstance(error, OSError) and error.errno in _EXHAUSTED
    return unresolved or refused or isinstance(error, OutOfFileDescriptorsError)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__
