"""Guards of the lifecycle of connectors and tasks."""

from __future__ import annotations

from tests.mutations.guard import Guard

GUARDS = (
    Guard(
        "the offsets of dead letters",
        "runtime/task/transactional_writes.py",
        "self._only_drops = self._only_drops and not result.topics",
        "self._only_drops = self._only_drops and not result.written",
        "tests/broker/engine/test_dead_letters.py::test_a_batch_of_dead_letters_alone_is_committed_with_its_offsets",
    ),
    Guard(
        "the topics with the state of workers, which take no records",
        "runtime/task/writes.py",
        "refused = {**context.path.state_topics, **_refused",
        "refused = {**_refused",
        "tests/broker/runtime/test_source_task.py::test_a_task_that_produces_to_a_topic_with_workers_state_fails",
    ),
    Guard(
        "the offsets of dropped records that are committed at an interval",
        "runtime/task/transactional_writes.py",
        "waits = self._only_drops and not final and started < self._flush_at",
        "waits = self._only_drops and not final",
        "tests/broker/runtime/test_dropped_offsets.py::test_a_source_whose_records_are_all_dropped_advances_while_it_runs",
    ),
    Guard(
        "a connector's open transaction, which offsets of dropped records must not end",
        "runtime/task/transactional_writes.py",
        "return not self._open and len(self._offsets) > 0 and (",
        "return len(self._offsets) > 0 and (",
        "tests/broker/runtime/test_dropped_offsets.py::"
        "test_a_connectors_open_transaction_is_not_cut_by_offsets_of_dropped_records",
    ),
    Guard(
        "the edge around a task's poll",
        "runtime/task/instance.py",
        "answer: Any = call_plugin(what, self._task.poll)",
        "answer: Any = self._task.poll()",
        "tests/unit/runtime/task/test_instance.py::test_an_exit_in_poll_is_a_failure",
    ),
    Guard(
        "the end of a child that a plugin forked",
        "api/plugin_calls.py",
        "        if process is not _process:",
        "        if False and process is not _process:",
        "tests/unit/api/test_plugin_calls.py::test_a_child_that_a_plugin_forks_ends_where_it_would_return",
    ),
    Guard(
        "the last resort of a task's thread",
        "runtime/task/source_task.py",
        "            except BaseException as raised:  # noqa",
        "            except Exception as raised:  # noqa",
        "tests/unit/runtime/task/test_source_task.py::test_an_exit_that_passed_the_edge_fails_the_task",
    ),
    Guard(
        "the offset records that are sent with the records of a transaction",
        "runtime/task/transactional_writes.py",
        "        self._sent_offsets = latest\n        return records",
        "        self._sent_offsets = latest\n        return []",
        "tests/broker/runtime/test_source_task.py::test_a_task_resumes_from_the_last_commit",
    ),
    Guard(
        "the offset records of a transaction that are sent at its end",
        "runtime/task/transactional_writes.py",
        "                self._write_offsets(self._producer)",
        "                self._offsets.clear()",
        "tests/broker/runtime/test_source_task.py::test_the_connector_boundary_also_commits_offsets_of_aborted_records",
    ),
    Guard(
        "the offsets of an unfinished transaction, which are not sent before its end",
        "runtime/task/poll_loop.py",
        "ends=decision is BoundaryDecision.COMMIT",
        "ends=decision is not BoundaryDecision.COMMIT",
        "tests/broker/runtime/test_source_task.py::test_the_connector_boundary_also_commits_offsets_of_aborted_records",
    ),
    Guard(
        "the run that a task's commits name",
        "runtime/task/run.py",
        "{owned.producer_id}.{owned.epoch}.{reader.reads}",
        "{owned.producer_id}",
        "tests/broker/runtime/test_source_task.py::test_commits_name_the_task_and_a_run_that_changes_with_each_read",
    ),
    Guard(
        "the abort of a transaction that failed",
        "runtime/task/poll_loop.py",
        "            self._abort_quietly()",
        "            self._writes.commit()",
        "tests/broker/runtime/test_source_task_life.py::test_an_error_of_poll_fails_the_task_and_nothing_uncommitted_is_visible",
    ),
    Guard(
        "the abort that a connector asks for",
        "runtime/task/poll_loop.py",
        "            self._writes.abort()",
        "            pass",
        "tests/broker/runtime/test_source_task.py::test_the_connector_boundary_also_commits_offsets_of_aborted_records",
    ),
    Guard(
        "offsets that are moved to the own topic before they are removed from the worker's",
        "runtime/connector_offsets.py",
        "if elsewhere := store.held_elsewhere(removed):",
        "if elsewhere := []:",
        "tests/broker/runtime/test_separate_offsets.py::"
        "test_a_reset_that_is_fenced_leaves_offsets_that_only_the_workers_topic_has",
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
        "the end of the samples that nobody reads",
        "runtime/metrics/windowed.py",
        "deque(maxlen=_WINDOWS)",
        "deque()",
        "tests/unit/runtime/metrics/test_worker_metrics.py::test_a_task_whose_metrics_are_not_read_does_not_grow",
    ),
    Guard(
        "the file descriptors that tasks leave to the worker",
        "runtime/task/admission.py",
        "            if file_descriptors.free() < needed:\n",
        "            if False:\n",
        "tests/unit/runtime/task/test_admission.py::test_no_more_tasks_are_admitted_than_descriptors_are_left_for",
    ),
    Guard(
        "the last file descriptors, which no connection to a broker takes",
        "kafka/transport/connection.py",
        "        if is_reserved(plain.fileno()):\n",
        "        if False:\n",
        "tests/unit/kafka/transport/test_descriptors.py::test_connections_do_not_take_the_last_file_descriptors",
    ),
    Guard(
        "the connections of a task that has ended",
        "kafka/producer/transactional.py",
        "        self._move_to(TransactionState.CLOSED)\n        POOL.leave(self._config.client)\n",
        "        self._move_to(TransactionState.CLOSED)\n",
        "tests/broker/kafka/test_transactional_producer.py::test_the_last_producer_of_a_client_leaves_no_connection",
    ),
    Guard(
        "the limit of starts that are in progress",
        "runtime/turns.py",
        "            while self._waiting and len(self._held) < self._at_once:\n",
        "            while self._waiting:\n",
        "tests/unit/runtime/test_turns.py::test_no_more_turns_are_held_than_may_be_at_once",
    ),
    Guard(
        "a transaction that lasts as long as a snapshot",
        "runtime/task/boundaries.py",
        "return BoundaryDecision.CONTINUE if self._in_snapshot else BoundaryDecision.COMMIT",
        "return BoundaryDecision.COMMIT",
        "tests/unit/runtime/task/test_boundaries.py::"
        "test_the_snapshot_boundary_commits_when_a_snapshot_ends_and_after_later_polls",
    ),
    Guard(
        "folders of sockets of processes that live",
        "java/process_folder.py",
        "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "descriptor.bit_length()",
        "tests/unit/java/test_process_folder.py::"
        "test_a_folder_of_a_killed_process_is_removed_and_one_of_a_living_process_is_not",
    ),
    Guard(
        "the pause before a retry that a stop ends",
        "engine/spark/jobs.py",
        "    if cancelled.wait(seconds):\n",
        "    if cancelled.wait(seconds) and cancelled.is_set():\n",
        "tests/broker/engine/test_error_handling.py::test_a_stop_ends_the_pause_before_a_retry",
    ),
    Guard(
        "the batch that is read again after a pause while it was tried again",
        "runtime/task/poll_loop.py",
        "        except (_ReadAgainError, BatchCancelledError):\n",
        "        except _ReadAgainError:\n",
        "tests/broker/engine/test_error_handling.py::test_a_task_that_is_paused_before_a_retry_reads_all_again",
    ),
)
