"""Active topics are recorded, shown and reset according to the worker's settings."""

from __future__ import annotations

import pytest

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.active_topics import ActiveTopics
from fencepost.herder.errors import ForbiddenError
from fencepost.storage.statuses.codec import ActiveTopic, TopicStatus
from fencepost.storage.statuses.table import StatusTable
from tests.support.model_herder import model_worker_config

TASK = ConnectorTaskId("c", 0)


class Statuses:
    """A status store whose topic is this table."""

    def __init__(self) -> None:
        self.table = StatusTable()

    def put_active_topic(self, task: ConnectorTaskId, topic: str) -> None:
        self.table.apply(ActiveTopic(task.connector, topic), TopicStatus(topic, task.connector, task.task, 0))

    def delete_active_topic(self, active: ActiveTopic) -> None:
        self.table.apply(active, None)


def _topics(**settings: str) -> tuple[ActiveTopics, Statuses]:
    statuses = Statuses()
    return ActiveTopics(model_worker_config(**settings), statuses), statuses


def test_topics_are_noted_shown_and_forgotten():
    topics, _ = _topics()
    topics.note(TASK, {"b", "a"})
    assert topics.topics("c") == ["a", "b"]
    assert topics.topics("other") == []
    topics.reset("c")
    topics.reset("other")
    assert topics.topics("c") == []


def test_without_tracking_nothing_is_written_and_questions_are_forbidden():
    topics, statuses = _topics(topic_tracking_enable="false")
    topics.note(TASK, {"a"})
    assert statuses.table.topics("c") == []
    for ask in (topics.topics, topics.reset):
        with pytest.raises(ForbiddenError, match="Topic tracking is disabled"):
            ask("c")


def test_where_a_reset_is_not_allowed_topics_stay():
    topics, _ = _topics(topic_tracking_allow_reset="false")
    topics.note(TASK, {"a"})
    with pytest.raises(ForbiddenError, match="Topic tracking reset is disabled"):
        topics.reset("c")
    assert topics.topics("c") == ["a"]
