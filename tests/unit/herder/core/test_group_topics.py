"""Group members whose internal topics differ from the leader's, and the consequences for a worker."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fencepost.config.worker_config import ExactlyOnceSourceSupport
from fencepost.herder.core.group_topics import GroupTopics, judge_topics
from fencepost.herder.core.mixed_group import judge_group
from fencepost.herder.distributed.assignor_leader import ConfiguredWork, LeaderAssignor
from fencepost.kafka.group.protocol import UNKNOWN_TOPICS, Assignment, ConnectProtocol, Election, WorkerMetadata
from fencepost.kafka.group.protocol import WorkerTopics as Topics

_DISABLED, _, _ENABLED = ExactlyOnceSourceSupport
_RIGHT = Topics("offsets", "configs", "statuses")
_OTHER_OFFSETS = _RIGHT._replace(offset="others")
_OTHER_CONFIGS = _RIGHT._replace(config="others")
_OTHER_STATUSES = _RIGHT._replace(status="others")


def _given(*members: Topics, offsets: Mapping[int, int] | None = None) -> Assignment:
    """The assignment that the first of these members sends as the leader; the others are http://w1/, ..."""
    metadata = {
        f"m{number}": WorkerMetadata(
            url=f"http://w{number}/", config_offset=(offsets or {}).get(number, 0), support="enabled", topics=topics
        )
        for number, topics in enumerate(members)
    }
    assign = LeaderAssignor(lambda: ConfiguredWork(0, {}), max_delay_ms=0)
    given = assign(Election(leader="m0", protocol=ConnectProtocol.SESSIONED, members=metadata, held=None))
    told = {(assignment.leader_topics, assignment.other_topics, assignment.error) for assignment in given.values()}
    assert len(told) == 1
    return given["m0"]


def _new(own: Topics, number: int) -> GroupTopics:
    return GroupTopics(own, f"http://w{number}/")


@pytest.mark.parametrize("other", [_OTHER_OFFSETS, _OTHER_CONFIGS])
def test_all_members_start_no_task_while_one_has_other_topics(other: Topics):
    given = _given(_RIGHT, _RIGHT, other)
    for number, own in enumerate((_RIGHT, _RIGHT, other)):
        found = judge_topics(_new(own, number), given)
        assert (found.holds_tasks, found.breaking, found.differing) == (True, ("http://w2/",), ("http://w2/",))
        assert found.knows_connectors is (own is not _OTHER_CONFIGS)


def test_the_advice_names_each_setting_that_differs():
    found = judge_topics(_new(_RIGHT, 0), _given(_RIGHT, _OTHER_OFFSETS, Topics("offsets", "a", "b")))
    assert "http://w1/ has offset.storage.topic=others (the leader: offsets)" in found.advice
    assert (
        "http://w2/ has config.storage.topic=a, status.storage.topic=b (the leader: configs, statuses)" in found.advice
    )


def test_another_status_topic_is_named_and_holds_nothing():
    found = judge_topics(_new(_RIGHT, 0), _given(_RIGHT, _OTHER_STATUSES))
    assert (found.holds_tasks, found.breaking, found.differing) == (False, (), ("http://w1/",))
    assert "status.storage.topic=others" in found.advice


@pytest.mark.parametrize("members", [(_RIGHT, _RIGHT), (_RIGHT, UNKNOWN_TOPICS), (UNKNOWN_TOPICS, _RIGHT)])
def test_equal_or_unknown_topics_do_not_differ(members: tuple[Topics, ...]):
    """Workers of Kafka Connect and of earlier versions do not announce their topics."""
    found = judge_topics(_new(_RIGHT, members.index(_RIGHT)), _given(*members))
    assert (found.advice, found.holds_tasks, found.differing, found.knows_connectors) == ("", False, (), True)


@pytest.mark.parametrize(
    "left", [(_OTHER_OFFSETS,), (_OTHER_OFFSETS, UNKNOWN_TOPICS), (UNKNOWN_TOPICS, _OTHER_OFFSETS)]
)
def test_a_worker_that_differed_starts_nothing_after_its_leader_left(left: tuple[Topics, ...]):
    """No member contradicts the worker after the leader left, but its topics are still the wrong ones."""
    former = judge_topics(_new(_OTHER_OFFSETS, 1), _given(_RIGHT, _OTHER_OFFSETS))
    found = judge_topics(former, _given(*left))
    assert (found.holds_tasks, found.breaking) == (True, ("http://w1/",))
    assert found.advice == former.advice


def test_a_worker_that_differed_continues_once_a_member_agrees_with_it():
    former = judge_topics(_new(_OTHER_OFFSETS, 1), _given(_RIGHT, _OTHER_OFFSETS))
    assert not judge_topics(former, _given(_OTHER_OFFSETS, _OTHER_OFFSETS)).holds_tasks


def test_the_leader_continues_once_the_member_that_differed_left():
    former = judge_topics(_new(_RIGHT, 0), _given(_RIGHT, _OTHER_OFFSETS))
    found = judge_topics(former, _given(_RIGHT))
    assert (found.holds_tasks, found.advice) == (False, "")


@pytest.mark.parametrize(("support", "breaking"), [(_ENABLED, ("http://w1/",)), (_DISABLED, ())])
def test_different_topics_break_exactly_once_if_a_member_is_enabled(
    support: ExactlyOnceSourceSupport, breaking: tuple[str, ...]
):
    topics = judge_topics(_new(_RIGHT, 0), _given(_RIGHT, _OTHER_OFFSETS))
    group = judge_group(support, [("http://w0/", str(support))], topics)
    assert (group.breaking, group.disabled, group.other_topics) == (breaking, (), ("http://w1/",))


def test_a_leader_does_not_compare_offsets_of_another_config_topic():
    """The group would read up to an offset that its own config topic never reaches, again and again."""
    assert not _given(_RIGHT, _OTHER_CONFIGS, offsets={1: 7}).failed
    assert _given(_RIGHT, _RIGHT, offsets={1: 7}).failed
    assert _given(_RIGHT, UNKNOWN_TOPICS, offsets={1: 7}).failed
