"""The suite can fail: each guard of the guarantee is taken out of a copy of the package, and a test turns red.

`python -m tests.chaos.test_mutations` lists the guards.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import OUTER_BROKER

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "fencepost"
_TIMEOUT_SECONDS = 540


@dataclass(frozen=True)
class Guard:
    """A piece of code that exactly-once stands on, what is left without it, and a test that must notice."""

    name: str
    file: str
    code: str
    without: str
    test: str


GUARDS = (
    Guard(
        "the former offsets topics that commits name",
        "storage/offsets/connector_store.py",
        "former=lambda: self._needed,",
        "former=frozenset,",
        "tests/broker/test_separate_offsets.py::test_d7_an_uncopied_offset_is_found_behind_commits_of_other_tasks",
    ),
    Guard(
        "the look-up of subtransactions that run",
        "connectors/jdbc/snapshot_reader.py",
        "        ended = Snapshot.of(new.xmax, running)",
        "        ended = new",
        "tests/broker/test_jdbc_snapshot.py::test_a_long_transaction_delays_only_itself[xmin]",
    ),
    Guard(
        "the running transactions in the offset of a part of a poll",
        "connectors/jdbc/snapshot.py",
        "if xid <= last)",
        "if xid < 0)",
        "tests/unit/connectors/jdbc/test_snapshot.py::test_a_part_of_a_poll_adds_the_transactions_up_to_its_last",
    ),
    Guard(
        "the whole transactions of a poll by their rows' column",
        "connectors/jdbc/snapshot_reader.py",
        "rows with ties",
        "rows only",
        "tests/broker/test_jdbc_snapshot.py::test_a_transaction_is_not_split_but_a_poll_is",
    ),
    Guard(
        "the rows of one timestamp in one poll",
        "connectors/jdbc/column_reader.py",
        "rows with ties",
        "rows only",
        "tests/broker/test_jdbc_columns.py::test_rows_of_one_timestamp_stay_together",
    ),
    Guard(
        "the refusal of a server whose WAL is behind the offset",
        "connectors/jdbc/server.py",
        "        if parse_lsn(present) < offset.lsn:",
        "        if False:",
        "tests/broker/test_jdbc_server.py::test_a_server_that_was_restored_from_a_backup_is_refused_and_so_is_another",
    ),
    Guard(
        "the refusal of a failover that lost what was read",
        "connectors/jdbc/server.py",
        "    if end < offset.lsn:",
        "    if False:",
        "tests/broker/test_jdbc_server.py::test_a_failover_goes_on_only_where_nothing_was_lost",
    ),
    Guard(
        "the snapshot that all ranges of a table share",
        "connectors/jdbc/ranges.py",
        """            connection.execute(f"set transaction snapshot '{self.snapshot}'".encode())""",
        "            pass",
        "tests/broker/test_jdbc_ranges.py::test_changes_during_a_large_read_come_with_the_next_poll[column]",
    ),
    Guard(
        "the commit before a file is taken away",
        "connectors/file_task.py",
        "                    self._ended[file.path] = mark\n",
        "                    self._ended[file.path] = mark\n                    self._take_away()\n",
        "tests/unit/connectors/test_ended_files.py::test_a_file_is_deleted_after_the_commit_of_its_end",
    ),
    Guard(
        "the mark of the file whose end was committed",
        "connectors/file_task.py",
        "                offset = None\n",
        "                pass\n",
        "tests/unit/connectors/test_ended_files.py::test_a_new_file_of_the_same_name_is_read_from_its_start",
    ),
    Guard(
        "the content of a compressed file up to its position",
        "connectors/content_file.py",
        "        left, self._line, returned = self.position, 1, False",
        "        left, self._line, returned = 0, 1, False",
        "tests/unit/connectors/test_compressed_files.py::"
        "test_positions_count_the_content_and_each_of_them_can_be_resumed_from",
    ),
    Guard(
        "the identity of a file with groups of rows",
        "connectors/tables/table_file.py",
        "if known.identity is not None and known.identity != table.identity:",
        "if known.identity is None and known.group is not None:",
        "tests/unit/connectors/test_table_files.py::test_another_file_in_its_place_is_told",
    ),
    Guard(
        "the rows of a group that were read before",
        "connectors/tables/table.py",
        "part = batch.slice(skip, left)",
        "part = batch.slice(0, left)",
        "tests/unit/connectors/test_table_files.py::test_each_row_is_read_once_whatever_the_batches_and_restarts",
    ),
    Guard(
        "the inferred schema in the offset",
        "connectors/file_task.py",
        "offsets=[(file.partition, {**file.offset, **self._inferred})],",
        "offsets=[(file.partition, file.offset)],",
        "tests/unit/connectors/test_schema_inference.py::"
        "test_what_was_inferred_is_pinned_in_the_offset_and_a_restart_keeps_it",
    ),
    Guard(
        "the changes of a transaction that were read before its stream was cut",
        "connectors/postgres/decoder.py",
        "        if known.any():",
        "        if False:",
        "tests/unit/connectors/postgres/test_decoder.py::test_a_stream_that_is_cut_anywhere_resumes_at_the_next_change",
    ),
    Guard(
        "the position after a logical message of no transaction",
        "connectors/postgres/decoder.py",
        "self._end = max(self._end, int(block.be64[starts[loose[-1]] + MESSAGE + 2]) + 1)",
        "pass",
        "tests/unit/connectors/postgres/test_decoder.py::test_logical_messages_arrive_once_wherever_a_stream_is_cut",
    ),
    Guard(
        "the position of a quiet slot within a transaction",
        "connectors/postgres/decoder.py",
        "if decoded.wal_end and not self._in_transaction:",
        "if decoded.wal_end:",
        "tests/unit/connectors/postgres/test_decoder.py::test_a_keepalive_moves_the_position_between_transactions_only",
    ),
    Guard(
        "the refusal of a slot past the offset",
        "connectors/postgres/slot.py",
        "if slot.confirmed is not None and slot.confirmed > position.lsn:",
        "if False:",
        "tests/unit/connectors/postgres/test_position.py::test_a_slot_past_the_offset_is_refused",
    ),
    Guard(
        "the refusal of a publication that lost a table for a while",
        "connectors/postgres/slot.py",
        "    if altered := sorted(altered_parts(state, now).keys() - dropped):",
        "    if False:",
        "tests/unit/connectors/postgres/test_position.py::test_a_publication_may_grow_but_not_lose_what_it_had",
    ),
    Guard(
        "the refusal of a publication that lost a table which was added to it while the connector ran",
        "connectors/postgres/streaming.py",
        "        if self._new_table:",
        "        if False:",
        "tests/broker/test_postgres_faults.py::test_a_table_added_to_the_publication_is_captured[True]",
    ),
    Guard(
        "the offsets of dead letters",
        "runtime/task/writes.py",
        "if sent is not None or position in result.lettered",
        "if sent is not None",
        "tests/broker/test_dead_letters.py::test_polled_records_that_are_refused_are_dead_letters_with_their_offsets",
    ),
    Guard(
        "the dead letters of rows that cannot be read",
        "engine/error_handler.py",
        "            self._letters += [DeadLetter.of_row(row, reader, topic) for row in rows]",
        "            pass",
        "tests/broker/test_dead_letters.py::test_bad_rows_of_a_file_are_dead_letters[worker]",
    ),
    Guard(
        "the progress of a Spark sink, which tells a repeated batch",
        "spark/progress.py",
        "    if number > committed:\n",
        "    if number >= committed:\n",
        "tests/unit/spark/test_progress.py::test_the_last_batch_is_not_written_again",
    ),
    Guard(
        "the time at which a batch of a Spark sink was planned",
        "spark/progress.py",
        "        last.batch_timestamp_ms != batch.batch_timestamp_ms\n",
        "        False\n",
        "tests/unit/spark/test_progress.py::test_the_last_number_with_another_timestamp_is_refused",
    ),
    Guard(
        "InitProducerId before the progress of a Spark sink is read",
        "spark/sink.py",
        """        self._producer.init_transactions()
        if not self._keeps_progress:
            return
        self.last = self._log.read()
""",
        """        self.last = self._log.read()
        self._producer.init_transactions()
""",
        "tests/broker/test_spark_sink_owner.py::test_a_new_owner_sees_what_the_former_committed_until_it_was_fenced",
    ),
    Guard(
        "the one attempt of a task of format(fencepost) that may write",
        "spark/ledger.py",
        "        return self.state is LedgerState.OPEN and self.attempts.get(task, attempt) == attempt\n",
        "        return self.state is LedgerState.OPEN\n",
        "tests/unit/spark/test_ledger.py::test_a_second_attempt_is_refused_and_told_why_the_first_failed",
    ),
    Guard(
        "the comparison of all attempts with the results of Spark",
        "spark/data_source_writer.py",
        "            log.ledger.check(attempts)\n",
        "",
        "tests/broker/test_spark_format_owner.py::test_a_result_that_was_lost_keeps_the_driver_from_committing[V2]",
    ),
    Guard(
        "the close of a ledger before the commit",
        "spark/data_source_writer.py",
        "            log.add(Closed())\n            log.ledger.check(attempts)\n",
        "            pass\n",
        "tests/broker/test_spark_format_owner.py::test_an_attempt_that_is_late_writes_nothing[V2]",
    ),
    Guard(
        "the sequence number of a partition that a task takes over",
        "spark/task_write.py",
        "        self._sequences |= ledger.sequences\n",
        "",
        "tests/broker/test_spark_format_owner.py::test_tasks_hand_a_partition_on_and_all_is_committed_at_once[V2]",
    ),
    Guard(
        "the first end of a task in a ledger, whatever comes late",
        "spark/ledger.py",
        "            case Done() if self.attempts.get(entry.task) == entry.attempt and entry.task not in self.finished:\n",
        "            case Done() if self.attempts.get(entry.task) == entry.attempt:\n",
        "tests/unit/spark/test_ledger.py::test_late_copies_of_entries_change_nothing",
    ),
    Guard(
        "InitProducerId of a Spark sink before its batch is written again",
        "spark/sink.py",
        "                if self._producer.state is TransactionState.FAILED:\n                    self.own()\n",
        "                if self._producer.state is TransactionState.FAILED:\n"
        "                    self._producer.init_transactions()\n",
        "tests/broker/test_spark_sink_owner.py::test_a_failed_commit_that_took_place_is_not_repeated",
    ),
    Guard(
        "the refusal of a second function for a Spark sink in one query",
        "spark/writers.py",
        "            if known.run == batch.run and former() not in (None, function):",
        "            if False:",
        "tests/unit/spark/test_writers.py::test_a_second_function_in_one_query_is_refused",
    ),
    Guard(
        "the refusal of a second query for a Spark sink, which would fence the first",
        "spark/writers.py",
        "            if known.run != batch.run and is_running(known):",
        "            if False:",
        "tests/unit/spark/test_writers.py::test_a_query_beside_a_running_one_is_refused",
    ),
    Guard(
        "the edge around a task's poll",
        "runtime/task/instance.py",
        "answer: Any = call_plugin(what, self._task.poll)",
        "answer: Any = self._task.poll()",
        "tests/unit/runtime/task/test_instance.py::test_an_exit_in_poll_is_a_failure",
    ),
    Guard(
        "the last resort of a task's thread",
        "runtime/task/source_task.py",
        "            except BaseException as raised:  # noqa",
        "            except Exception as raised:  # noqa",
        "tests/unit/runtime/task/test_source_task.py::test_an_exit_that_passed_the_edge_fails_the_task",
    ),
    Guard(
        "the comparison of the internal topics of a group's members",
        "herder/core/group_topics.py",
        "        return bool(self.breaking)",
        "        return False",
        "tests/unit/herder/core/test_group_topics.py::test_all_members_start_no_task_while_one_has_other_topics",
    ),
    Guard(
        "the wait of a worker whose topics differed from those of a leader that left",
        "herder/core/group_topics.py",
        "    if not _breaks(own, former.leader) or _breaks(own, found.leader):",
        "    if True:",
        "tests/unit/herder/core/test_group_topics.py::test_a_worker_that_differed_starts_nothing_after_its_leader_left",
    ),
    Guard(
        "the refusal of fields that a schema does not have",
        "engine/grouping.py",
        "        _check_fields(values, form.schema, name, topic)\n",
        "",
        "tests/unit/engine/test_grouping.py::test_a_field_that_the_schema_does_not_have_is_refused",
    ),
    Guard(
        "the mark of transforms whose plan is kept",
        "transforms/chain.py",
        "    return all(is_planned_by_schema(plugin) for plugin in plugins)",
        "    return bool(plugins)",
        "tests/unit/transforms/test_known_plans.py::test_a_transform_that_is_not_marked_is_applied_to_each_batch",
    ),
    Guard(
        "the settings that a kept plan was made with",
        "engine/spark/transform.py",
        "(session, settings_hash(session), tuple(",
        "(session, tuple(",
        "tests/unit/transforms/test_known_plans.py::test_a_setting_that_changes_counts_for_the_next_batch",
    ),
    Guard(
        "the one user of a kept plan",
        "engine/spark/known_plans.py",
        "known = self._plans.pop(key, _Use.NEVER)",
        "known = self._plans.get(key, _Use.NEVER)",
        "tests/unit/transforms/test_known_plans.py::test_a_plan_has_one_user_at_a_time",
    ),
    Guard(
        "the kept plan that goes with an error",
        "engine/spark/known_plans.py",
        """        yield None if isinstance(plan, _Use) else plan
        with self._lock:
            self._plans[key] = _Use.ONCE if isinstance(plan, _Use) else plan
""",
        """        try:
            yield None if isinstance(plan, _Use) else plan
        finally:
            self._plans[key] = _Use.ONCE if isinstance(plan, _Use) else plan
        with self._lock:
""",
        "tests/unit/transforms/test_known_plans.py::test_a_plan_is_dropped_after_an_error",
    ),
    Guard(
        "the epoch check of written records",
        "kafka/producer/produce_errors.py",
        "if code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):",
        "if code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER) or code in EPOCH_IS_DEAD:",
        "tests/broker/test_transactional_producer.py::test_a_writer_of_an_ended_transaction_is_refused[V2]",
    ),
    Guard(
        "the epoch check of a commit",
        "kafka/producer/transaction_coordinator.py",
        "        if code == Code.NONE:\n            return\n        raise self._error(code, request)",
        "        return",
        "tests/broker/test_transactional_producer.py::test_a_newer_instance_fences_the_older[V2-commit]",
    ),
    Guard(
        "the epoch that is bumped before a transaction",
        "kafka/producer/transactional.py",
        "            self._bump_epoch()\n",
        "            pass\n",
        "tests/broker/test_transactional_producer.py::test_a_writer_of_an_aborted_transaction_is_refused_in_the_next[V1]",
    ),
    Guard(
        "the epoch that ends with an abort while writers may be alive",
        "kafka/producer/transactional.py",
        "        return in_doubt and self._version is TransactionVersion.V1",
        "        return False",
        "tests/chaos/test_writer_faults_v1.py::"
        "test_a_batch_that_arrives_after_its_abort_is_not_committed_by_the_next[not verifying]",
    ),
    Guard(
        "the epoch that ends with a task that is given up",
        "kafka/producer/transactional.py",
        "retire=self._version is TransactionVersion.V1)",
        "retire=False)",
        "tests/chaos/test_writer_faults_v1.py::"
        "test_executor_writes_after_the_abort_are_not_committed_by_the_next[not verifying-abandon]",
    ),
    Guard(
        "the refusal to commit while writers may be alive",
        "kafka/producer/transactional.py",
        "        self._require_finished_writers()\n        self._move_to",
        "        self._move_to",
        "tests/chaos/test_writer_faults.py::test_no_commit_takes_place_while_a_writer_may_be_alive[V2]",
    ),
    Guard(
        "the wait for a topic that was just created",
        "kafka/transport/created_topics.py",
        "    if created_at is None:",
        "    if True:",
        "tests/broker/test_admin.py::test_a_topic_that_was_just_created_is_waited_for_until_brokers_learn_of_it",
    ),
    Guard(
        "the limit that is asked for where none is known",
        "kafka/transport/cluster.py",
        "if known is None or self._is_old(known.learnt_at):",
        "known = known or _MessageBytes(0, -1.0)\n        if self._is_old(known.learnt_at):",
        "tests/broker/test_small_clock.py::"
        "test_a_transaction_is_written_on_a_machine_that_was_just_booted[of the machine]",
    ),
    Guard(
        "the second question where a limit may have been raised",
        "kafka/producer/sender.py",
        "            self._cluster.forget_message_bytes(topic)\n            if self._exceeds",
        "            if self._exceeds",
        "tests/broker/test_transactional_producer_sizes.py::"
        "test_a_record_is_written_once_the_topic_s_limit_is_raised_as_the_message_says",
    ),
    Guard(
        "the offset records of a transaction",
        "runtime/task/transaction.py",
        "                self._write_offsets(self._producer)",
        "                self._offsets.clear()",
        "tests/broker/test_source_task.py::test_d3_a_task_resumes_from_the_last_commit",
    ),
    Guard(
        "the watch over source partitions that two tasks write",
        "storage/offsets/partition_guard.py",
        "        if known is None or known == self._known or shared is None:",
        "        if True:",
        "tests/broker/test_standalone.py::test_tasks_that_share_a_source_partition_fail_the_connector",
    ),
    Guard(
        "the run that a task's commits name",
        "runtime/task/run.py",
        "{owned.producer_id}.{owned.epoch}.{reader.reads}",
        "{owned.producer_id}",
        "tests/broker/test_source_task.py::test_commits_name_the_task_and_a_run_that_changes_with_each_read",
    ),
    Guard(
        "the abort of a transaction that failed",
        "runtime/task/poll_loop.py",
        "            self._abort_quietly()",
        "            self._writes.commit()",
        "tests/broker/test_source_task_life.py::test_t22_an_error_of_poll_fails_the_task_and_nothing_uncommitted_is_visible",
    ),
    Guard(
        "the abort that a connector asks for",
        "runtime/task/poll_loop.py",
        "            self._writes.abort()",
        "            pass",
        "tests/broker/test_source_task.py::test_i4_the_connector_boundary_commits_the_offsets_of_aborted_records_too",
    ),
    Guard(
        "the fencing call of the leader's rounds",
        "herder/work/fencing_round.py",
        "            admin.fence_producers(ids).all()",
        "            pass",
        "tests/broker/test_start_checks.py::test_a_round_fences_all_former_tasks_and_records_how_many_may_start",
    ),
    Guard(
        "the task count check before a task starts",
        "herder/distributed/group_fencing.py",
        "        if self._parts.fencing_is_due(connector):\n            raise RebalanceNeededError(",
        "        if False:\n            raise RebalanceNeededError(",
        "tests/broker/test_start_checks.py::test_a_task_beyond_the_task_count_does_not_start",
    ),
    Guard(
        "the look for the task count of another standalone worker",
        "herder/standalone/standalone_fencing.py",
        "if fenced is None or latest != fenced.offset:",
        "if False:",
        "tests/broker/test_standalone.py::test_tasks_of_a_process_that_was_overtaken_do_not_start",
    ),
    Guard(
        "the turns that rounds of a standalone worker take",
        "herder/standalone/standalone_fencing.py",
        "        async with self._turn:\n",
        "        if True:\n",
        "tests/broker/test_standalone.py::test_rounds_of_one_process_come_one_after_the_other",
    ),
    Guard(
        "the limits of what requests configure in a standalone worker",
        "herder/standalone/standalone_parts.py",
        "self.requested = self.worker.limited()",
        "self.requested = self.worker",
        "tests/broker/test_standalone_rest.py::test_requests_are_under_limits_that_files_are_not",
    ),
    Guard(
        "the read to end after a task owns its transactional id",
        "herder/distributed/group_checks.py",
        "        await self._parts.read_config_topic()\n        await self._check(task)",
        "        await self._check(task)",
        "tests/broker/test_start_checks.py::"
        "test_a_task_with_its_transactional_id_does_not_start_on_outdated_task_configs",
    ),
    Guard(
        "the leader's transaction",
        "storage/configs/topic.py",
        "            if transactional\n",
        "            if False\n",
        "tests/broker/test_config_topic.py::test_an_old_leader_gets_an_error_to_retry_on_and_can_change_nothing",
    ),
    Guard(
        "the look at where a module comes from before it is imported",
        "config/plugins.py",
        "    if not sources.admit(module_name):",
        "    if False:",
        "tests/unit/config/test_plugin_sources.py::test_a_worker_of_a_group_does_not_import_what_is_only_importable",
    ),
    Guard(
        "the mark of the failures that a job's own stages send",
        "engine/reports.py",
        'rf"fencepost-failure:{mark}:(',
        'rf"fencepost-failure:(?:{mark}|\\w*):(',
        "tests/unit/engine/test_reports.py::test_text_that_imitates_a_failure_is_not_a_failure",
    ),
    Guard(
        "the look at a schema before Python imports what it names",
        "engine/spark/job_write.py",
        "        check_user_types(frame, where=write.spec.pipeline.given)\n",
        "",
        "tests/broker/test_engine_hostile_rows.py::test_a_file_that_names_a_python_class_for_a_column_imports_nothing",
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
        "tests/broker/test_offsets_topic_changes.py::"
        "test_d7_nothing_is_read_twice_if_an_own_topic_is_removed_while_copies_fail",
    ),
    Guard(
        "the dropping of late copies",
        "storage/offsets/copies.py",
        "if not self._is_outdated(copy)",
        "if copy",
        "tests/broker/test_offsets_topic_changes.py::"
        "test_d7_a_late_copy_is_dropped_where_something_newer_was_committed",
    ),
    Guard(
        "the mending of a late copy",
        "storage/offsets/copies.py",
        "if stored is None or not stored.is_buried:",
        "if True:",
        "tests/broker/test_offsets_topic_changes.py::test_d7_a_late_copy_after_a_newer_commit_is_corrected",
    ),
    Guard(
        "the fresh look at a topic's partitions",
        "kafka/consumer/read_to_end.py",
        "self._find_leaders(deadline, max_age_ms=0)\n                ends",
        "self._find_leaders(deadline)\n                ends",
        "tests/broker/test_topic_reader.py::test_a_read_sees_what_was_written_to_partitions_that_are_new",
    ),
    Guard(
        "the id of a topic",
        "kafka/consumer/read_to_end.py",
        "            self._positions.clear()\n",
        "            pass\n",
        "tests/broker/test_topic_reader.py::test_a_recreated_topic_is_read_from_its_beginning",
    ),
    Guard(
        "the newest status of several partitions",
        "storage/statuses/topic.py",
        "elif self._newest.take(record):",
        "elif self._newest.take(record) or True:",
        "tests/broker/test_status_topic.py::test_the_newest_status_of_equal_keys_in_two_partitions_wins",
    ),
    Guard(
        "the paths that connectors of files keep to",
        "api/allowed_paths.py",
        "            if target.is_relative_to(root):",
        "            if True:",
        "tests/unit/connectors/test_allowed_files.py",
    ),
    Guard(
        "the links that are not followed when a file is opened",
        "api/allowed_paths.py",
        "_NO_LINK: Final = os.O_NOFOLLOW | os.O_CLOEXEC",
        "_NO_LINK: Final = os.O_CLOEXEC",
        "tests/unit/api/test_allowed_paths.py::test_a_link_that_is_put_in_between_check_and_open_leads_nowhere",
    ),
    Guard(
        "the redirects that the client's secret does not follow",
        "kafka/config/token_provider.py",
        "        if _origin(newurl) != _origin(req.full_url):",
        "        if False:",
        "tests/unit/kafka/config/test_token_provider.py::test_a_redirect_to_another_server_is_refused",
    ),
    Guard(
        "the refusal of a write that Spark runs again",
        "engine/attempts.py",
        "if context.attemptNumber() > 0:",
        "if False:",
        "tests/chaos/test_spark_faults.py::test_a_write_that_spark_runs_again_is_refused",
    ),
    Guard(
        "the worker's credentials that stay with its own brokers",
        "config/client_overrides.py",
        "    if not changed or _CREDENTIALS not in worker:",
        "    if True:",
        "tests/unit/runtime/connector/test_client_properties.py::test_the_workers_credentials_go_only_where_the_worker_sends_them",
    ),
    Guard(
        "the brokers that connectors may not choose",
        "config/client_overrides.py",
        '    "acks", "batch.size",',
        '    "bootstrap.servers", "acks", "batch.size",',
        "tests/unit/config/test_worker_config.py::"
        "test_k9_without_a_policy_connectors_tune_clients_and_choose_no_brokers",
    ),
    Guard(
        "the loopback that is listened on without passwords",
        "config/rest_config.py",
        "usual = [_LOOPBACK if loopback else EVERYWHERE]",
        "usual = [EVERYWHERE]",
        "tests/unit/config/test_rest_config.py::"
        "test_without_passwords_a_worker_listens_on_port_8083_of_the_loopback_by_default",
    ),
    Guard(
        "the content type of bodies",
        "rest/routes.py",
        "if content and (hdrs.CONTENT_TYPE not in request.headers or request.content_type != JSON):",
        "if False:",
        "tests/unit/rest/test_server.py::test_a_body_must_say_that_it_is_json",
    ),
    Guard(
        "the second signature that workers require of each other",
        "herder/distributed/leadership.py",
        "                bound=self._fencepost_only,\n",
        "                bound=False,\n",
        "tests/cluster/test_worker_single.py::test_a_signature_for_one_connector_is_refused_for_another",
    ),
    Guard(
        "offsets that are moved to the own topic before they are removed from the worker's",
        "runtime/connector_offsets.py",
        "if elsewhere := store.held_elsewhere(removed):",
        "if elsewhere := []:",
        "tests/broker/test_separate_offsets.py::"
        "test_f8_a_reset_that_is_fenced_leaves_offsets_that_only_the_workers_topic_has",
    ),
    Guard(
        "requests between workers that are accepted once",
        "herder/distributed/leadership.py",
        "            if self.leads:\n",
        "            if False:\n",
        "tests/cluster/test_worker_single.py::test_a_copy_of_former_task_configs_is_refused",
    ),
    Guard(
        "the ids of signed requests",
        "herder/peers/request_signing.py",
        "    request_id = secrets.token_hex(16)\n",
        '    request_id = "0"\n',
        "tests/unit/rest/test_internal.py::test_tasks_that_start_in_the_same_millisecond_are_both_fenced",
    ),
    Guard(
        "the request that a signature is bound to",
        "herder/peers/request_signing.py",
        '    return f"{method}\\n{path}\\n{time}\\n{request_id}\\n".encode() + body',
        "    return body",
        "tests/unit/rest/test_internal.py::test_a_recorded_request_is_refused_for_another_connector",
    ),
    Guard(
        "the order of the partitions that Spark joins",
        "engine/spark/job_write.py",
        "return partitions <= count or all(",
        "return True or all(",
        "tests/broker/test_engine_spark.py::test_the_rows_of_a_kept_dataframe_keep_their_order",
    ),
    Guard(
        "the one number of partitions of a batch with keys",
        "engine/routing.py",
        "self._keyed_among.setdefault(converted.topic, count)",
        "count",
        "tests/unit/engine/test_routing.py::test_keyed_records_are_sent_again_if_their_topic_grows_within_a_batch",
    ),
    Guard(
        "the worker's numbers of partitions on executors",
        "engine/routing.py",
        "self.asked.get(topic, self._known.get(topic))",
        "self.asked.get(topic)",
        "tests/broker/test_engine_spark.py::test_a_key_stays_in_its_partition_while_a_topic_grows",
    ),
    Guard(
        "the second question where a topic may have grown",
        "engine/routing.py",
        "count = self._beyond(converted.topic, highest)",
        "pass",
        "tests/unit/engine/test_routing.py::test_metadata_is_refreshed_if_a_record_names_an_unknown_partition",
    ),
    Guard(
        "the refusal of a stage that Spark runs again",
        "engine/attempts.py",
        "    if int(found[2]) > 0:",
        "    if False:",
        "tests/chaos/test_spark_faults.py::test_a_stage_that_spark_runs_again_is_refused",
    ),
    Guard(
        "the refusal of a session that may run a stage again",
        "engine/spark/session.py",
        "settings.get(name, required.default)",
        "settings.get(name, required.value)",
        "tests/unit/engine/spark/test_session_settings.py::test_a_session_of_the_users_own_must_not_run_a_stage_again",
    ),
    Guard(
        "the check of a configuration's files",
        "connectors/file_stream.py",
        "            blame(values, lambda: self._check_file(config))",
        "            pass",
        "tests/unit/connectors/test_allowed_files.py::"
        "test_the_property_that_names_another_file_is_refused_when_it_is_checked",
    ),
    Guard(
        "the links in a directory that a config provider does not follow",
        "config/config_providers.py",
        "with self._allowed.open(str(path)) as file:",
        "with ANYWHERE.open(str(path)) as file:",
        "tests/unit/config/test_config_providers.py::test_a_link_in_a_directory_does_not_lead_out_of_the_allowed_paths",
    ),
    Guard(
        "the token endpoints that connectors may not name",
        "runtime/connector/client_properties.py",
        "    _check_token_endpoint(worker, own.get(ENDPOINT), usual=properties.get(ENDPOINT))\n",
        "",
        "tests/unit/runtime/connector/test_client_properties.py::"
        "test_a_connector_of_a_group_names_only_token_endpoints_that_are_allowed",
    ),
    Guard(
        "the stored password that nothing defines as one",
        "herder/requests/shown_configs.py",
        "    secret = set(kept) & set(passwords_before) - set(passwords_now)",
        "    secret: set[str] = set()",
        "tests/unit/herder/requests/test_shown_configs.py::"
        "test_a_stored_password_is_not_taken_over_where_nothing_defines_it",
    ),
    Guard(
        "the control characters that are escaped",
        "api/texts.py",
        "line if line.isprintable() else _escaped(line)",
        "line",
        "tests/unit/api/test_traces.py::test_control_characters_of_an_error_are_shown_escaped",
    ),
    Guard(
        "the exits that are failures of a call",
        "herder/core/calls.py",
        'future.set_exception(as_failure("A call on a thread of this worker", error))',
        "future.set_exception(error)",
        "tests/unit/herder/core/test_calls.py::test_exceptions_that_would_end_the_loop_fail_the_call",
    ),
    Guard(
        "the depth of JSON that strangers wrote",
        "api/foreign_json.py",
        "    except RecursionError:",
        "    except MemoryError:",
        "tests/unit/storage/test_deep_json.py",
    ),
    Guard(
        "the digits of a commit time that a stranger wrote",
        "storage/offsets/marks.py",
        'rb"[0-9]{1,18}"',
        'rb"[0-9]+"',
        "tests/unit/storage/offsets/test_marks.py::test_an_invalid_commit_time_is_replaced_by_the_timestamp",
    ),
    Guard(
        "the first exception of a trace, which no row imitates",
        "engine/job_failure.py",
        "any(lines[0].partition(",
        "any(lines[-1].partition(",
        "tests/unit/engine/test_job_failure.py::test_a_retriable_error_of_python_code_is_distinguished_from_imitations",
    ),
    Guard(
        "the passwords that are left out of traces",
        "api/traces.py",
        'SECRETS.hidden("".join(shown.format()))',
        '"".join(shown.format())',
        "tests/unit/api/test_traces.py::test_no_part_of_a_secret_stays_where_a_text_is_cut",
    ),
    Guard(
        "the passwords that are hidden before a message is cut",
        "api/errors.py",
        "SECRETS.hidden(_text(error))",
        "_text(error)",
        "tests/unit/api/test_traces.py::test_no_part_of_a_secret_stays_where_a_text_is_cut",
    ),
    Guard(
        "the passwords of which a cut left a part",
        "api/secrets.py",
        "return self._without_halves(hidden) if",
        "return hidden if",
        "tests/unit/api/test_secrets.py::test_the_rest_of_a_value_beside_a_cut_is_hidden",
    ),
    Guard(
        "the passwords that are left out of what --traceback shows",
        "cli/main.py",
        "click.echo(format_trace(error), nl=False, err=True)",
        "raise error",
        "tests/unit/cli/test_main.py::test_an_expected_failure_has_no_passwords",
    ),
    Guard(
        "the passwords that are left out of shown configurations",
        "herder/requests/shown_configs.py",
        "    return value if not value or _REFERENCE.fullmatch(value) else HIDDEN",
        "    return value",
        "tests/unit/herder/requests/test_shown_configs.py::test_passwords_are_not_shown_and_placeholders_are",
    ),
    Guard(
        "the offsets topics that no broker creates with its own settings",
        "kafka/transport/cluster.py",
        "            creates = name not in self._kept",
        "            creates = True",
        "tests/broker/test_connections.py::test_a_topic_with_custom_settings_is_not_auto_created_by_brokers",
    ),
)


def _run(test: str, source: Path, bootstrap_servers: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(source), OUTER_BROKER: bootstrap_servers}
    # The outer run's workers and seed are not the inner run's.
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", test]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
    )


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_each_guard_has_a_test_that_fails_without_it(guard: Guard, bootstrap_servers: str, tmp_path: Path):
    copy = tmp_path / "fencepost"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    mutated = copy / guard.file
    code = mutated.read_text()
    assert code.count(guard.code) == 1, f"the guard stands {code.count(guard.code)} times in {guard.file}"
    mutated.write_text(code.replace(guard.code, guard.without))

    run = _run(guard.test, tmp_path, bootstrap_servers)

    assert run.returncode == pytest.ExitCode.TESTS_FAILED, f"nobody misses {guard.name}:\n{run.stdout[-3000:]}"
    assert str(mutated.parent) in run.stdout or " failed" in run.stdout


def test_a_copy_with_all_guards_stays_green(bootstrap_servers: str, tmp_path: Path):
    shutil.copytree(PACKAGE, tmp_path / "fencepost", ignore=shutil.ignore_patterns("__pycache__"))

    run = _run(GUARDS[0].test, tmp_path, bootstrap_servers)

    assert run.returncode == pytest.ExitCode.OK, run.stdout[-3000:]


if __name__ == "__main__":
    for guard in GUARDS:
        print(f"{guard.name:60} {guard.file:32} {guard.test}")  # noqa: T201 - a script that prints
