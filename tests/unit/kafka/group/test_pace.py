"""The pace of rebalances."""

from __future__ import annotations

import pytest

from fencepost.kafka.group.pace import RebalancePace


def test_the_first_rebalance_may_begin_at_once():
    assert RebalancePace().due_at == 0.0


def test_the_next_rebalance_waits_in_proportion_to_the_cost_of_the_last():
    pace = RebalancePace(share=0.1)
    pace.began(cpu_s=3.0)
    pace.ended(cpu_s=3.5, now=100.0)
    assert pace.due_at == pytest.approx(104.5)


def test_the_cost_of_an_unfinished_rebalance_counts_for_the_next_one():
    pace = RebalancePace(share=0.5)
    pace.began(cpu_s=1.0)
    pace.began(cpu_s=2.0)
    pace.ended(cpu_s=4.0, now=10.0)
    assert pace.due_at == pytest.approx(13.0)


def test_the_processor_time_between_two_attempts_is_no_cost():
    """While no broker answers, a member retries again and again; that is not the cost of a rebalance."""
    pace = RebalancePace(share=0.5)
    pace.began(cpu_s=1.0)
    pace.interrupted(cpu_s=1.25)
    pace.interrupted(cpu_s=8.0)
    pace.began(cpu_s=9.0)
    pace.ended(cpu_s=9.5, now=10.0)
    assert pace.due_at == pytest.approx(10.75)


def test_an_end_without_a_beginning_changes_nothing():
    pace = RebalancePace()
    pace.ended(cpu_s=4.0, now=10.0)
    assert pace.due_at == 0.0


def test_changes_one_after_the_other_take_no_more_than_the_share():
    """A rebalance with more changes costs more, but the total cost must not grow with the square of the changes."""
    pace, now, cpu, changes = RebalancePace(share=0.1), 0.0, 0.0, 0
    while changes < 10_000:
        changes, now = changes + 1, now + 0.01
        if now >= pace.due_at:
            pace.began(cpu)
            cpu, now = cpu + changes * 1e-5, now + changes * 1e-5
            pace.ended(cpu, now)
    assert cpu <= 0.1 * now + changes * 1e-5
