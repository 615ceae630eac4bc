from __future__ import annotations

import pytest

from fencepost import IllegalStateError
from fencepost.runtime.task.transaction_context import Request, WorkerTransactionContext
from tests.unit.runtime.records import source_record


def test_a_request_is_used_up_by_its_first_use():
    context = WorkerTransactionContext()
    record = source_record(1)
    context.commit_transaction(record)
    context.abort_transaction()
    assert context.take_record_request(record) is Request.COMMIT
    assert context.take_record_request(record) is None
    assert context.take_batch_request() is Request.ABORT
    assert context.take_batch_request() is None
    assert not context.has_record_requests()


def test_records_are_distinguished_by_identity():
    context = WorkerTransactionContext()
    asked, equal = source_record(1), source_record(1)
    context.commit_transaction(asked)
    assert context.take_record_request(equal) is None
    assert context.take_record_request(asked) is Request.COMMIT


def test_a_record_named_in_a_request_keeps_its_identity():
    context = WorkerTransactionContext()
    for number in range(1000):
        context.commit_transaction(source_record(number))
    assert not any(context.is_requested_for(record) for record in [source_record(n) for n in range(1000)])


def test_asking_for_both_after_the_same_record_names_the_record():
    context = WorkerTransactionContext()
    record = source_record(7, topic="orders", partition=3)
    context.commit_transaction(record)
    context.abort_transaction(record)
    with pytest.raises(IllegalStateError, match=r"orders, partition 3, of \{'p': 0\} at \{'n': 7\}"):
        context.take_record_request(record)


def test_asking_for_both_after_the_same_batch_is_an_error():
    context = WorkerTransactionContext()
    context.commit_transaction()
    context.abort_transaction()
    with pytest.raises(IllegalStateError, match="same batch"):
        context.take_batch_request()


def test_none_for_a_record_is_an_error_in_the_tasks_own_call():
    context = WorkerTransactionContext()
    with pytest.raises(IllegalStateError, match="commit_transaction"):
        context.commit_transaction(None)
    with pytest.raises(IllegalStateError, match="abort_transaction"):
        context.abort_transaction(None)
    assert context.take_batch_request() is None


def test_asking_twice_for_the_same_is_asking_once():
    context = WorkerTransactionContext()
    context.commit_transaction()
    context.commit_transaction()
    assert context.take_batch_request() is Request.COMMIT
    assert context.take_batch_request() is None
