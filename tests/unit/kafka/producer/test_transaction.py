"""The states of a transaction, and how expiry differs from fencing."""

from __future__ import annotations

import pickle

import pytest

from fencepost.kafka.producer.transaction import (
    TRANSITIONS,
    CoordinatorView,
    ProducerIdentity,
    Transaction,
    TransactionState,
    TransactionVersion,
    has_expired,
    may_be_own_rise,
)

_OURS = ProducerIdentity(7, 3)
_EXPIRED = CoordinatorView(ProducerIdentity(7, 4), "CompleteAbort")


def test_a_transaction_can_be_pickled() -> None:
    transaction = Transaction("t", 7, 3, TransactionVersion.V2, {("topic", 0): 5})

    assert pickle.loads(pickle.dumps(transaction)) == transaction  # noqa: S301 - our own
    assert transaction.identity == _OURS


def test_every_transaction_state_can_be_closed() -> None:
    assert set(TRANSITIONS) == set(TransactionState)
    assert all(TransactionState.CLOSED in followers for followers in TRANSITIONS.values())


def test_a_fenced_producer_can_only_be_closed() -> None:
    assert TRANSITIONS[TransactionState.FENCED] == {TransactionState.CLOSED}


def test_an_old_transaction_that_the_coordinator_aborted_has_expired() -> None:
    assert has_expired(_OURS, _EXPIRED, open_ms=1_000, timeout_ms=1_000)
    assert has_expired(_OURS, CoordinatorView(ProducerIdentity(7, 4), "PrepareAbort"), open_ms=1_000, timeout_ms=1_000)


def test_a_young_transaction_cannot_have_expired() -> None:
    assert not has_expired(_OURS, _EXPIRED, open_ms=999, timeout_ms=1_000)
    assert not has_expired(_OURS, None, open_ms=999, timeout_ms=1_000)


@pytest.mark.parametrize(
    "view",
    [
        CoordinatorView(ProducerIdentity(7, 5), "Empty"),
        CoordinatorView(ProducerIdentity(7, 4), "Empty"),
        CoordinatorView(ProducerIdentity(7, 4), "Ongoing"),
        CoordinatorView(ProducerIdentity(7, 5), "CompleteAbort"),
        CoordinatorView(ProducerIdentity(8, 0), "CompleteAbort"),
    ],
)
def test_any_state_left_by_a_newer_producer_is_not_expiry(view: CoordinatorView) -> None:
    assert not has_expired(_OURS, view, open_ms=5_000, timeout_ms=1_000)


def test_age_alone_decides_if_the_coordinator_cannot_be_asked() -> None:
    assert has_expired(_OURS, None, open_ms=1_000, timeout_ms=1_000)


@pytest.mark.parametrize(
    ("ours", "seen"),
    [
        (ProducerIdentity(7, 3), ProducerIdentity(7, 4)),
        (ProducerIdentity(7, 32_766), ProducerIdentity(8, 0)),
        (ProducerIdentity(7, 32_765), ProducerIdentity(8, 0)),
    ],
)
def test_a_coordinator_may_have_forgotten_that_it_raised_our_epoch(
    ours: ProducerIdentity, seen: ProducerIdentity
) -> None:
    assert may_be_own_rise(ours, CoordinatorView(seen, "Empty"))


@pytest.mark.parametrize(
    ("ours", "view"),
    [
        (ProducerIdentity(7, 3), CoordinatorView(ProducerIdentity(7, 5), "Empty")),
        (ProducerIdentity(7, 3), CoordinatorView(ProducerIdentity(7, 3), "Empty")),
        (ProducerIdentity(7, 3), CoordinatorView(ProducerIdentity(8, 0), "Empty")),
        (ProducerIdentity(7, 32_764), CoordinatorView(ProducerIdentity(8, 0), "Empty")),
        (ProducerIdentity(7, 32_766), CoordinatorView(ProducerIdentity(8, 1), "Empty")),
        (ProducerIdentity(7, 3), CoordinatorView(ProducerIdentity(7, 4), "Ongoing")),
        (ProducerIdentity(7, 3), CoordinatorView(ProducerIdentity(7, 4), "CompleteCommit")),
    ],
)
def test_an_epoch_that_another_producer_raised_is_not_our_own(ours: ProducerIdentity, view: CoordinatorView) -> None:
    assert not may_be_own_rise(ours, view)
