"""Guards of the worker's topics: offsets, configs and statuses."""

from __future__ import annotations

from tests.mutations.guard import Guard

_UNCHANGED = "tests/unit/storage/configs/test_unchanged_tasks.py::"

GUARDS = (
    Guard(
        "the removed offset that another place has, and is remembered",
        "storage/offsets/table.py",
        "                if alone and all(place.value is None for place in places):\n",
        "                if alone:\n",
        "tests/unit/storage/offsets/test_table.py::"
        "test_a_removal_is_remembered_as_long_as_another_place_has_an_older_offset",
    ),
    Guard(
        "the former offsets topics that commits name",
        "storage/offsets/connector_store.py",
        "former=lambda: self._needed,",
        "former=frozenset,",
        "tests/broker/runtime/test_separate_offsets.py::test_an_uncopied_offset_is_found_behind_commits_of_other_tasks",
    ),
    Guard(
        "the watch over source partitions that two tasks write",
        "storage/offsets/partition_guard.py",
        "        if known is None or known == self._known or shared is None:",
        "        if True:",
        "tests/broker/herder/test_standalone.py::test_tasks_that_share_a_source_partition_fail_the_connector",
    ),
    Guard(
        "the leader's transaction",
        "storage/configs/topic.py",
        "            if transactional\n",
        "            if False\n",
        "tests/broker/storage/test_config_topic.py::test_an_old_leader_gets_an_error_to_retry_on_and_can_change_nothing",
    ),
    Guard(
        "the newest commit of several places",
        "storage/offsets/table.py",
        "            return self.mark.time > other.mark.time\n",
        "            return False\n",
        "tests/unit/storage/offsets/test_table.py::"
        "test_of_equal_keys_in_two_partitions_the_newest_counts_in_any_order_of_reading",
    ),
    Guard(
        "the order of commits by what was read",
        "storage/offsets/uncommitted.py",
        "known + 1",
        "0",
        "tests/unit/storage/offsets/test_uncommitted.py::"
        "test_a_commit_time_is_later_than_all_read_ones_even_with_a_slow_clock",
    ),
    Guard(
        "the removal in each place that has an offset",
        "storage/offsets/table.py",
        "for place in places if value is None and place.value and place is not newest",
        "for place in () if place",
        "tests/unit/storage/offsets/test_table.py::test_an_offset_is_removed_wherever_the_source_partition_has_one",
    ),
    Guard(
        "the former offsets topics of a connector",
        "storage/offsets/connector_store.py",
        "            self._refresh_former(origin, timeout_ms)\n",
        "            pass\n",
        "tests/broker/storage/test_offsets_topic_changes.py::"
        "test_nothing_is_read_twice_if_an_own_topic_is_removed_while_copies_fail",
    ),
    Guard(
        "the dropping of late copies",
        "storage/offsets/copies.py",
        "if not self._is_outdated(copy)",
        "if copy",
        "tests/broker/storage/test_offsets_topic_changes.py::"
        "test_a_late_copy_is_dropped_where_something_newer_was_committed",
    ),
    Guard(
        "the mending of a late copy",
        "storage/offsets/copies.py",
        "if stored is None or not stored.is_buried:",
        "if True:",
        "tests/broker/storage/test_offsets_topic_changes.py::test_a_late_copy_after_a_newer_commit_is_corrected",
    ),
    Guard(
        "the newest status of several partitions",
        "storage/statuses/topic.py",
        "elif self._newest.take(record):",
        "elif self._newest.take(record) or True:",
        "tests/broker/storage/test_status_topic.py::test_the_newest_status_of_equal_keys_in_two_partitions_wins",
    ),
    Guard(
        "the digits of a commit time that a stranger wrote",
        "storage/offsets/codec.py",
        'rb"[0-9]{1,18}"',
        'rb"[0-9]+"',
        "tests/unit/storage/offsets/test_codec.py::test_an_invalid_commit_time_is_replaced_by_the_timestamp",
    ),
    Guard(
        "the fencing of all former tasks before a task gets additions",
        "storage/configs/state.py",
        "len(before.tasks) == len(tasks) == len(before.unchanged_tasks)",
        "len(before.tasks) == len(tasks)",
        f"{_UNCHANGED}test_a_task_gets_additions_once_all_former_tasks_are_fenced[False]",
    ),
    Guard(
        "the tasks that lose something where another one gets additions",
        "storage/configs/state.py",
        "all_fenced and all(map(_has_all_of",
        "all_fenced and any(map(_has_all_of",
        f"{_UNCHANGED}test_a_task_with_additions_is_new_if_another_one_loses_something[b-x]",
    ),
    Guard(
        "the former additions at the beginning of the new ones",
        "storage/configs/state.py",
        "return added.startswith(before) and {**",
        "return {**",
        f"{_UNCHANGED}test_a_task_is_new_unless_its_additions_begin_with_the_former_ones[a+2-b-cd]",
    ),
)
