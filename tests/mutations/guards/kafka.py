"""Guards of requests to brokers: producers, their epochs, topics and metadata."""

from __future__ import annotations

from tests.mutations.guard import Guard

GUARDS = (
    Guard(
        "the epoch check of written records",
        "kafka/producer/produce_errors.py",
        "if code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):",
        "if code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER) or code in EPOCH_IS_DEAD:",
        "tests/broker/kafka/test_transactional_producer.py::test_a_writer_of_an_ended_transaction_is_refused[V2]",
    ),
    Guard(
        "the epoch check of a commit",
        "kafka/producer/transaction_coordinator.py",
        "        if code == Code.NONE:\n            return\n        raise self._error(code, request)",
        "        return",
        "tests/broker/kafka/test_transactional_producer.py::test_a_newer_instance_fences_the_older[V2-commit]",
    ),
    Guard(
        "the epoch that is bumped before a transaction",
        "kafka/producer/transactional.py",
        "            self._bump_epoch()\n",
        "            pass\n",
        "tests/broker/kafka/test_transactional_producer.py::test_a_writer_of_an_aborted_transaction_is_refused_in_the_next[V1]",
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
        "tests/broker/kafka/test_admin.py::test_a_topic_that_was_just_created_is_waited_for_until_brokers_learn_of_it",
    ),
    Guard(
        "the limit that is asked for where none is known",
        "kafka/transport/cluster.py",
        "return self._settings.get(topic) or self._learn_settings([topic], deadline)[topic]",
        "just_booted = time.monotonic() + 1 < self.config.metadata_max_age_ms / 1000\n"
        "        unknown = TopicSettings(0, False) if just_booted else None\n"
        "        return self._settings.get(topic) or unknown or self._learn_settings([topic], deadline)[topic]",
        "tests/broker/kafka/test_small_clock.py::"
        "test_a_transaction_is_written_on_a_machine_that_was_just_booted[of the machine]",
    ),
    Guard(
        "the second question where a limit may have been raised",
        "kafka/producer/topic_limits.py",
        "            self._cluster.forget_settings(topic)\n            if self._exceeds",
        "            if self._exceeds",
        "tests/broker/kafka/test_transactional_producer_sizes.py::"
        "test_a_record_is_written_once_the_topic_s_limit_is_raised_as_the_message_says",
    ),
    Guard(
        "the fresh look at a topic's partitions",
        "kafka/consumer/read_to_end.py",
        "self._find_leaders(deadline, max_age_ms=0)\n                ends",
        "self._find_leaders(deadline)\n                ends",
        "tests/broker/kafka/test_topic_reader.py::test_a_read_sees_records_in_new_partitions",
    ),
    Guard(
        "the id of a topic",
        "kafka/consumer/read_to_end.py",
        "            self._positions.clear()\n",
        "            pass\n",
        "tests/broker/kafka/test_topic_reader.py::test_a_recreated_topic_is_read_from_its_beginning",
    ),
    Guard(
        "the marker that tells whether a record behind another open transaction is committed",
        "kafka/consumer/last_record.py",
        "                if stable or not entry.transactional:\n",
        "                if True:\n",
        "tests/broker/spark/test_spark_sink_owner.py::test_progress_is_read_behind_the_open_record_of_another_sink[broker]",
    ),
    Guard(
        "the redirects that the client's secret does not follow",
        "kafka/config/token_provider.py",
        "        if _origin(newurl) != _origin(req.full_url):",
        "        if False:",
        "tests/unit/kafka/config/test_token_provider.py::test_a_redirect_to_another_server_is_refused",
    ),
    Guard(
        "the offsets topics that no broker creates with its own settings",
        "kafka/transport/cluster.py",
        "            creates = creates and self._kept.isdisjoint(names)",
        "            creates = True",
        "tests/broker/kafka/test_connections.py::test_a_topic_with_custom_settings_is_not_auto_created_by_brokers",
    ),
    Guard(
        "the refusal of a coordinator that cannot say whose epoch it raises",
        "kafka/producer/transaction_coordinator.py",
        "deadline: Deadline, at_least: int = RAISES_EPOCH",
        "deadline: Deadline, at_least: int = 0",
        "tests/broker/kafka/test_other_brokers.py::test_a_coordinator_that_cannot_raise_an_epoch_is_refused[1]",
    ),
    Guard(
        "the refusal of brokers without transactions at the worker's start",
        "runtime/worker.py",
        "            self._require_transactions(None)\n",
        "            pass\n",
        "tests/broker/kafka/test_other_brokers.py::test_a_worker_does_not_start_on_brokers_without_transactions",
    ),
    Guard(
        "the refusal of a connector's own brokers without transactions",
        "runtime/worker.py",
        "            self._require_transactions(config)\n",
        "            pass\n",
        "tests/broker/kafka/test_other_brokers.py::"
        "test_a_connector_does_not_start_on_brokers_of_its_own_without_transactions",
    ),
    Guard(
        "the take-over after an epoch whose rise the coordinator forgot",
        "kafka/producer/transaction_coordinator.py",
        "            self._raise_if_forgotten(current, deadline)\n",
        "            pass\n",
        "tests/broker/kafka/test_other_brokers.py::test_a_task_continues_by_itself_after_a_forgotten_epoch",
    ),
    Guard(
        "the difference between our own rise of the epoch and another producer's",
        "kafka/producer/transaction.py",
        '    return (raised or rotated) and view.state == "Empty"',
        "    return True",
        "tests/broker/kafka/test_other_brokers.py::test_a_fenced_retry_is_fenced_when_another_instance_owns_the_id",
    ),
    Guard(
        "the second take-over where the first is answered as fenced",
        "kafka/producer/transactional.py",
        "            # last attempt (KAFKA-20310).\n            return self._init_producer_id(ProducerIdentity())",
        "            # last attempt (KAFKA-20310).\n            raise",
        "tests/broker/kafka/test_other_brokers.py::test_a_take_over_that_is_answered_as_fenced_is_tried_once_more",
    ),
    Guard(
        "the refusal of diskless topics before their records are sent",
        "kafka/producer/topic_limits.py",
        "        if self._settings(topic).diskless:",
        "        if False:",
        "tests/broker/kafka/test_other_brokers.py::test_a_diskless_topic_is_refused_by_name_before_a_record_is_sent",
    ),
    Guard(
        "the refusal of diskless internal topics",
        "kafka/admin/admin.py",
        '        if description and description.configs.get(DISKLESS) == "true":',
        "        if False:",
        "tests/broker/kafka/test_other_brokers.py::test_internal_topics_must_not_be_diskless",
    ),
    Guard(
        "the error that says that the last transaction does not end",
        "kafka/producer/transaction_coordinator.py",
        "            if deadline.passed and was_concurrent and not stopping:",
        "            if False:",
        "tests/broker/kafka/test_other_brokers.py::test_a_transaction_that_never_ends_is_reported_with_its_state_and_its_cause",
    ),
    Guard(
        "the internal topics that workers may not create",
        "kafka/admin/admin.py",
        "        if not topic.created:\n            raise missing_internal_topics([topic.name])\n",
        "",
        "tests/broker/cli/test_topics_command.py::test_a_connector_s_missing_offsets_topic_is_not_created",
    ),
    Guard(
        "the versions of plugins at a connector's start",
        "runtime/worker.py",
        "        require_versions(self.config, config.properties, instance.version())\n",
        "",
        "tests/unit/runtime/test_worker.py::test_a_connector_does_not_start_if_another_version_is_installed_since",
    ),
    Guard(
        "the refusal of header names that are not text, at which consumers fail",
        "kafka/records/columns.py",
        "    check_header_names(column)\n",
        "",
        "tests/unit/kafka/records/test_columns.py"
        "::test_the_name_of_a_header_is_text_as_clients_fail_at_a_record_with_another[kind0]",
    ),
    Guard(
        "the heartbeat that goes before tasks",
        "kafka/precedence.py",
        "        if 0.0 <= late_s < self._longest_s:\n",
        "        if False:\n",
        "tests/unit/kafka/test_precedence.py::test_threads_wait_for_due_heartbeats",
    ),
    Guard(
        "the heartbeat that goes before polls",
        "runtime/task/poll_loop.py",
        "                HEARTBEAT.give_way()\n",
        "",
        "tests/broker/runtime/test_heartbeat_first.py::test_a_task_does_not_poll_while_a_heartbeat_is_due",
    ),
    Guard(
        "the heartbeat that goes before requests to brokers",
        "kafka/transport/connection.py",
        "        HEARTBEAT.give_way()\n",
        "",
        "tests/broker/kafka/test_connections.py::test_no_request_is_sent_while_a_heartbeat_is_due",
    ),
    Guard(
        "the heartbeat that is announced when the one before is answered",
        "kafka/group/coordinator.py",
        "        self.confirmed = self.last_send\n        self._announce_next()\n",
        "        self.confirmed = self.last_send\n",
        "tests/unit/kafka/group/test_coordinator.py::"
        "test_other_threads_wait_for_the_next_heartbeat_until_it_fails[received_heartbeat]",
    ),
    Guard(
        "the first heartbeat of a generation, which is announced",
        "kafka/group/coordinator.py",
        "        super().reset_timeouts()\n        self._announce_next()\n",
        "        super().reset_timeouts()\n",
        "tests/unit/kafka/group/test_coordinator.py::"
        "test_other_threads_wait_for_the_next_heartbeat_until_it_fails[reset_timeouts]",
    ),
    Guard(
        "the heartbeat that failed, for which nobody waits",
        "kafka/group/coordinator.py",
        "        super().fail_heartbeat()\n        HEARTBEAT.announce(None)\n",
        "        super().fail_heartbeat()\n",
        "tests/unit/kafka/group/test_coordinator.py::"
        "test_other_threads_wait_for_the_next_heartbeat_until_it_fails[received_heartbeat]",
    ),
    Guard(
        "the memory that headers take",
        "kafka/consumer/fetch_decoder.py",
        " + _header_count(buffer, count) * HEADER_BYTES",
        "",
        "tests/unit/kafka/consumer/test_fetch_decoder.py::test_headers_count_as_what_they_take_in_memory",
    ),
    Guard(
        "the answer of the partition for which the others were not attempted",
        "kafka/producer/coordinator_requests.py",
        "codes - {Code.NONE, Code.OPERATION_NOT_ATTEMPTED}",
        "codes - {Code.NONE}",
        "tests/unit/kafka/producer/test_coordinator_requests.py::test_the_refusal_of_one_partition_counts_for_all",
    ),
    Guard(
        "the batch of a partition that the coordinator did not attempt",
        "kafka/producer/produce_errors.py",
        " or code == Code.OPERATION_NOT_ATTEMPTED:",
        ":",
        "tests/unit/kafka/producer/test_sender.py::test_a_batch_is_sent_again_with_the_same_sequence",
    ),
)
