"""Tasks that keep running when others change, as far as the config topic proves that this is safe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.source import TASK_ADDITIONS
from fencepost.config.ids import ConnectorTaskId
from fencepost.storage.configs.codec import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    TaskCountRecord,
    TaskRecord,
    encode,
)
from fencepost.storage.configs.state import ClusterConfigState, apply, tasks_digest

_Written = tuple[int, ConfigRecord]


def _config(share: str) -> dict[str, str]:
    """In a share, the text after a + is its additions."""
    share, plus, added = share.partition("+")
    return {"share": share, **({TASK_ADDITIONS: added} if plus else {})}


class _Topic:
    """A config topic with one connector, written by a leader that has read the whole topic."""

    def __init__(self) -> None:
        self.state = ClusterConfigState()
        self.log: list[_Written] = []

    def write(self, *records: ConfigRecord) -> _Topic:
        for record in records:
            # Offsets have gaps where markers are.
            offset = 2 * len(self.log)
            self.log.append((offset, record))
            self.state, _ = apply(self.state, offset, record)
        return self

    def configure(self, **changed: str) -> _Topic:
        config, entry = {"name": "c", **changed}, self.state.entry("c")
        return self.write(ConnectorRecord("c", config, entry.committed if entry.applied_config == config else None))

    def commit(self, *tasks: str, continues: bool = True, adds: bool = True) -> _Topic:
        configs = [_config(share) for share in tasks]
        entry = self.state.entry("c")
        commit = CommitRecord("c", len(tasks))
        if continues and entry.config is not None:
            digest = tasks_digest(entry.config, configs)
            commit = replace(commit, digest=digest, continues=entry.commit, adds=adds)
        return self.write(*self.records(*tasks), commit)

    def fenced(self) -> _Topic:
        return self.write(TaskCountRecord("c", len(self.state.tasks("c"))))

    @staticmethod
    def records(*tasks: str) -> list[ConfigRecord]:
        return [TaskRecord(ConnectorTaskId("c", number), _config(share)) for number, share in enumerate(tasks)]

    @property
    def unchanged(self) -> set[int]:
        return set(self.state.unchanged_tasks("c"))

    @property
    def generations(self) -> list[int | None]:
        return [self.state.task_generation(task) for task in self.state.tasks("c")]


@pytest.fixture
def topic() -> _Topic:
    return _Topic().configure(**{"tasks.max": "3"}).commit("a", "b", "cd").fenced()


def test_unchanged_tasks_keep_running_when_tasks_max_changes(topic: _Topic):
    topic.configure(**{"tasks.max": "4"}).commit("a", "b", "c", "d")

    assert topic.unchanged == {0, 1}
    assert topic.generations == [0, 0, 1, 1]
    assert topic.state.pending_fencing("c")


def test_once_the_others_are_fenced_all_tasks_are_as_they_were(topic: _Topic):
    topic.configure(**{"tasks.max": "4"}).commit("a", "b", "c", "d").fenced()

    assert topic.unchanged == {0, 1, 2, 3}


def test_a_configuration_under_another_task_number_counts_as_new(topic: _Topic):
    topic.commit("b", "a", "cd")

    assert topic.unchanged == {2}


def test_all_tasks_are_new_unless_the_leader_continues_unchanged_ones(topic: _Topic):
    topic.commit("a", "b", "cd", continues=False)

    assert topic.unchanged == set()
    assert topic.generations == [1, 1, 1]


def test_tasks_continue_from_the_second_commit_that_declares_it():
    topic = _Topic().configure().commit("a", continues=False).fenced().commit("a").fenced()
    assert topic.generations == [1]

    assert topic.commit("a").generations == [1]


def test_any_other_change_of_the_connector_makes_all_tasks_new(topic: _Topic):
    topic.configure(**{"tasks.max": "3", "topic": "other"}).commit("a", "b", "cd")

    assert topic.unchanged == set()


def test_a_task_that_was_another_one_in_between_is_new(topic: _Topic):
    topic.commit("a", "b", "c", "d").commit("a", "b", "cd")

    assert topic.unchanged == {0, 1}
    assert topic.generations == [0, 0, 2]


@pytest.mark.parametrize("fenced", [True, False])
def test_tasks_changed_since_the_last_round_are_fenced(topic: _Topic, *, fenced: bool):
    topic.commit("a", "x", "y")
    if fenced:
        topic.fenced()
    topic.commit("a", "x", "z")

    assert topic.unchanged == ({0, 1} if fenced else {0})


def test_all_tasks_are_new_after_a_stop(topic: _Topic):
    topic.commit(continues=False).commit("a", "b", "cd")

    assert topic.unchanged == set()


def test_all_tasks_of_a_connector_that_was_deleted_and_created_again_are_new(topic: _Topic):
    topic.write(ConnectorRecord("c", None)).configure(**{"tasks.max": "3"}).commit("a", "b", "cd")

    assert topic.unchanged == set()


def test_no_task_keeps_running_that_a_leader_without_the_last_commit_fences(topic: _Topic):
    """A Kafka Connect worker was the leader in between."""
    topic.commit("a", "b", "cd", continues=False).fenced().commit("a", "b", "x")

    assert topic.unchanged == set()


def test_all_tasks_keep_running_when_some_get_additions(topic: _Topic):
    topic.commit("a+1", "b", "cd")
    assert topic.generations == [0, 0, 0]
    assert topic.unchanged == {0, 1, 2}

    topic.commit("a+12", "b+3", "cd")
    assert topic.generations == [0, 0, 0]


@pytest.mark.parametrize(
    "tasks", [("a+2", "b", "cd"), ("a+", "b", "cd"), ("a", "b", "cd"), ("x+12", "b", "cd")], ids="-".join
)
def test_a_task_is_new_unless_its_additions_begin_with_the_former_ones(topic: _Topic, tasks: Sequence[str]):
    topic.commit("a+1", "b", "cd").commit(*tasks)

    assert topic.generations == [2, 0, 0]


@pytest.mark.parametrize("others", [("b", "x"), ("b", "c", "d"), ("b",)], ids="-".join)
def test_a_task_with_additions_is_new_if_another_one_loses_something(topic: _Topic, others: Sequence[str]):
    """The added partition may have belonged to the other task, which is not fenced yet."""
    topic.commit("a+1", *others)

    assert 0 not in topic.unchanged


@pytest.mark.parametrize("fenced", [True, False])
def test_a_task_gets_additions_once_all_former_tasks_are_fenced(topic: _Topic, *, fenced: bool):
    topic.commit("a", "x", "cd")
    if fenced:
        topic.fenced()
    topic.commit("a+1", "x", "cd")

    assert topic.generations == ([0, 1, 0] if fenced else [2, 1, 0])


def test_a_task_with_additions_is_new_if_the_leader_is_of_an_older_version(topic: _Topic):
    topic.commit("a+1", "b", "cd", adds=False)

    assert topic.generations == [1, 0, 0]
    assert topic.unchanged == {1, 2}


def test_a_task_with_additions_is_new_if_the_leader_continues_no_task(topic: _Topic):
    topic.commit("a+1", "b", "cd", continues=False)

    assert topic.unchanged == set()


_SHARES = ["x", "y", "x+1", "x+12", "x+2"]
_TASKS = st.lists(st.sampled_from(_SHARES), min_size=1, max_size=2)
_OPERATIONS = st.one_of(
    st.tuples(st.just("configure"), st.sampled_from("12"), st.sampled_from("pppq")),
    st.tuples(st.just("commit"), _TASKS, st.sampled_from([True, True, True, False])),
    st.tuples(st.just("commit"), _TASKS, st.just(True)),
    # A leader died before the commit of the task records that it had written.
    st.tuples(st.just("leave"), _TASKS),
    st.tuples(st.just("fence")),
    st.tuples(st.just("fence")),
    st.tuples(st.sampled_from(["delete", "fence"])),
)


@st.composite
def _topics_and_what_is_read(draw: st.DrawFn) -> tuple[_Topic, list[_Written]]:
    """A topic for which a fencing round is pending, and the records that a reader gets.

    Any record may be missing if a later one has its key.
    """
    topic = _Topic().configure(**{"tasks.max": "1", "topic": "p"}).commit(*draw(_TASKS)).fenced()
    for operation in draw(st.lists(_OPERATIONS, max_size=8)):
        match operation:
            case ("configure", most, target):
                topic.configure(**{"tasks.max": most, "topic": target})
            case ("commit", tasks, continues):
                topic.commit(*tasks, continues=continues)
            case ("leave", tasks):
                topic.write(*topic.records(*tasks))
            case ("fence",):
                topic.fenced()
            case ("delete",):
                topic.write(ConnectorRecord("c", None))
    topic.commit(*draw(_TASKS))
    latest = {encode(record)[0]: offset for offset, record in topic.log}
    missing = draw(st.sets(st.sampled_from([offset for offset, _ in topic.log])))
    return topic, [
        (offset, record) for offset, record in topic.log if latest[encode(record)[0]] == offset or offset not in missing
    ]


def _state_of(read: Sequence[_Written]) -> ClusterConfigState:
    state = ClusterConfigState()
    for offset, record in read:
        state, _ = apply(state, offset, record)
    return state


@given(_topics_and_what_is_read())
def test_no_reader_of_a_compacted_log_treats_a_changed_task_as_unchanged(
    topic_and_read: tuple[_Topic, list[_Written]],
):
    topic, read = topic_and_read

    assert _state_of(read).unchanged_tasks("c") <= topic.state.unchanged_tasks("c")
