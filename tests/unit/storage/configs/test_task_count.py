"""Task count records, and the fencing state that follows from them."""

from __future__ import annotations

import pytest

from fencepost.storage.configs.task_count import (
    decode_task_count,
    encode_task_count,
    fencing_plan,
    leader_transactional_id,
    task_transactional_id,
)


def test_a_task_count_is_written_as_apache_ships_it():
    assert encode_task_count("c1", 2) == (b"tasks-fencing-c1", b'{"task-count":2}')


def test_a_task_count_is_read_in_both_spellings():
    assert decode_task_count(b"tasks-fencing-c1", b'{"task-count":2}') == ("c1", 2)
    assert decode_task_count(b"tasks-count-c1", b'{ "tasks": 3 }') == ("c1", 3)


def test_a_removed_task_count_is_none():
    assert decode_task_count(b"tasks-fencing-c1", None) == ("c1", None)


@pytest.mark.parametrize("key", [None, b"", b"connector-c1", b"task-c1-0", b"tasks-fencing-", b"commit-c1", b"\xff"])
def test_other_records_are_not_task_counts(key: bytes | None):
    assert decode_task_count(key, b'{"task-count":2}') is None


@pytest.mark.parametrize(
    "value", [b"x", b"[]", b"2", b"{}", b'{"task-count":"2"}', b'{"task-count":true}', b'{"task-count":-1}']
)
def test_a_malformed_task_count_is_ignored_with_a_warning(value: bytes, caplog: pytest.LogCaptureFixture):
    assert decode_task_count(b"tasks-fencing-c1", value) is None
    assert "tasks-fencing-c1" in caplog.text


def test_a_connector_that_never_ran_needs_no_fencing():
    assert fencing_plan(None, 5) is None


def test_one_task_after_one_task_needs_no_fencing():
    assert fencing_plan(1, 1) is None


@pytest.mark.parametrize(("old", "new"), [(1, 2), (2, 1), (3, 5), (5, 3), (3, 3)])
def test_the_tasks_of_the_old_count_are_fenced(old: int, new: int):
    assert fencing_plan(old, new) == list(range(old))


def test_tasks_that_are_unchanged_are_not_fenced():
    assert fencing_plan(4, 3, unchanged={0, 2}) == [1, 3]


def test_a_stopped_connector_takes_a_round_without_ids():
    assert fencing_plan(0, 1) == []


def test_transactional_ids_are_connects():
    assert leader_transactional_id("g") == "connect-cluster-g"
    assert task_transactional_id("g", "c", 2) == "g-c-2"
