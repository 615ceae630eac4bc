from __future__ import annotations

import errno
import resource
import socket
from contextlib import ExitStack

import pytest

from fencepost import DataError, RetriableError
from fencepost.config import file_descriptors
from fencepost.config.file_descriptors import OutOfFileDescriptorsError, explained, is_exhaustion, raise_limit
from tests.support.descriptors import few_descriptors, take_descriptors

TOO_MANY = OSError(errno.EMFILE, "Too many open files")


few = pytest.fixture(few_descriptors)


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def test_the_soft_limit_is_raised_to_the_hard_one(few: int):
    raise_limit()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert few < soft == min(hard, 1 << 20)


def test_free_descriptors_are_counted(few: int):
    free = file_descriptors.free()
    with ExitStack() as stack:
        take_descriptors(stack, 10)
        assert file_descriptors.free() == free - 10
        take_descriptors(stack, free - 10)
        assert file_descriptors.free() == 0
    assert file_descriptors.limit() == few


@pytest.mark.parametrize(
    "error",
    [TOO_MANY, OSError(errno.ENFILE, "x"), _caused(DataError("no file"), TOO_MANY), OutOfFileDescriptorsError("x")],
)
def test_a_failure_for_want_of_descriptors_is_named(error: Exception):
    assert is_exhaustion(error)
    told = explained("Task c-0", error)
    assert isinstance(told, OutOfFileDescriptorsError)
    assert isinstance(told, RetriableError)
    assert "LimitNOFILE=" in str(told)
    assert "ulimit -n" in str(told)


@pytest.mark.parametrize("error", [OSError(errno.ENOENT, "x"), DataError("x"), socket.gaierror(-2, "unknown")])
def test_other_errors_are_not_explained_by_missing_descriptors(error: Exception):
    assert explained("Task c-0", error) is error
