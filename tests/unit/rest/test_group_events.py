"""Rebalances and fencing rounds on the page."""

from __future__ import annotations

from dataclasses import replace

from fencepost.herder.distributed.group_metrics import GroupMetrics
from fencepost.rest.group_events import GroupCounters, counters, events
from fencepost.runtime.metrics.worker_metrics import WorkerMetrics
from tests.support.model_herder import ModelHerder
from tests.support.rest import RestApis

_NOW = 1_000_000_000
_BEFORE = GroupCounters("http://a:1/", 4, rebalances=3, rebalance_seconds=1.5, last=60.0, rounds=2, round_seconds=0.5)


def test_no_event_is_shown_if_no_counter_grew():
    assert list(events(_BEFORE, replace(_BEFORE, last=62.0, rebalancing=True), _NOW)) == []


def test_a_rebalance_is_placed_where_it_was_completed():
    now = replace(_BEFORE, generation=5, rebalances=4, rebalance_seconds=1.75, last=1.5)

    assert list(events(_BEFORE, now, _NOW)) == [
        {"kind": "rebalance", "at": _NOW - 1_500, "count": 1, "generation": 5, "seconds": 0.25}
    ]


def test_fencing_rounds_are_counted_with_those_that_failed():
    now = replace(_BEFORE, rounds=4, failed_rounds=1, round_seconds=2.5)

    assert list(events(_BEFORE, now, _NOW)) == [
        {"kind": "fencing", "at": _NOW, "count": 2, "failed": 1, "seconds": 2.0}
    ]


def test_the_first_reading_reports_earlier_events():
    fencing, rebalance = events(None, _BEFORE, _NOW)

    assert (fencing["at"], fencing["count"]) == (None, 2)
    assert (rebalance["at"], rebalance["count"], rebalance["generation"]) == (_NOW - 60_000, 3, 4)


def test_the_counters_come_from_a_members_metrics():
    clock = iter((10.0, 10.5, 12.0, 13.0))
    metrics = GroupMetrics(lambda: next(clock))
    metrics.rebalance_began()
    metrics.rebalance_completed()
    metrics.fenced(0.25, success=False)
    metrics.rebalance_began()

    found = counters(metrics.collect())

    assert found == GroupCounters(None, 0, True, 1, 0.5, 2.5, 1, 1, 0.25)


def test_the_page_shows_events_of_a_group_and_none_of_a_standalone_worker():
    member, alone, group = WorkerMetrics(), WorkerMetrics(), GroupMetrics()
    member.registry.register(group)
    group.rebalance_began()
    group.rebalance_completed()
    with RestApis() as apis:
        first = apis.serve(ModelHerder(), registry=member.registry).get("/ui/api/overview").body["membership"]
        second = apis.serve(ModelHerder(), registry=alone.registry).get("/ui/api/overview").body["membership"]

    assert (first["leader"], first["rebalancing"], second) == (None, False, None)
    assert [(event["kind"], event["count"]) for event in first["events"]] == [("rebalance", 1)]
