"""Guards of the sink for Spark users."""

from __future__ import annotations

from tests.mutations.guard import Guard

GUARDS = (
    Guard(
        "the progress of a Spark sink, which tells a repeated batch",
        "spark/config/progress.py",
        "    if number > committed:\n",
        "    if number >= committed:\n",
        "tests/unit/spark/config/test_progress.py::test_the_last_batch_is_not_written_again",
    ),
    Guard(
        "the time at which a batch of a Spark sink was planned",
        "spark/config/progress.py",
        "        last.batch_timestamp_ms != batch.batch_timestamp_ms\n",
        "        False\n",
        "tests/unit/spark/config/test_progress.py::test_the_last_number_with_another_timestamp_is_refused",
    ),
    Guard(
        "InitProducerId before the progress of a Spark sink is read",
        "spark/sink/sink.py",
        """        self._producer.init_transactions()
        if self._keeps_progress:
            self.last = self._log.read()
""",
        """        if self._keeps_progress:
            self.last = self._log.read()
        self._producer.init_transactions()
""",
        "tests/broker/spark/test_spark_sink_owner.py::test_a_new_owner_sees_all_commits_of_the_fenced_owner",
    ),
    Guard(
        "the one attempt of a task of format(fencepost) that may write",
        "spark/format/ledger.py",
        "        return self.state is LedgerState.OPEN and self.attempts.get(task, attempt) == attempt\n",
        "        return self.state is LedgerState.OPEN\n",
        "tests/unit/spark/format/test_ledger.py::test_a_second_attempt_is_refused_with_the_failure_of_the_first",
    ),
    Guard(
        "the comparison of all attempts with the results of Spark",
        "spark/format/open_write.py",
        "            log.ledger.check(attempts)\n",
        "",
        "tests/broker/spark/test_spark_format_owner.py::test_a_result_that_was_lost_keeps_the_driver_from_committing[V2]",
    ),
    Guard(
        "the close of a ledger before the commit",
        "spark/format/open_write.py",
        "            log.add(Closed())\n            log.ledger.check(attempts)\n",
        "            pass\n",
        "tests/broker/spark/test_spark_format_owner.py::test_an_attempt_that_is_late_writes_nothing[V2]",
    ),
    Guard(
        "the sequence number of a partition that a task takes over",
        "spark/format/task_write.py",
        "        self._sequences |= ledger.sequences\n",
        "",
        "tests/broker/spark/test_spark_format_owner.py::test_tasks_hand_a_partition_on_and_all_is_committed_at_once[V2]",
    ),
    Guard(
        "the first end of a task in a ledger, whatever comes late",
        "spark/format/ledger.py",
        "            case Done() if self.attempts.get(entry.task) == entry.attempt and entry.task not in self.finished:\n",
        "            case Done() if self.attempts.get(entry.task) == entry.attempt:\n",
        "tests/unit/spark/format/test_ledger.py::test_late_copies_of_entries_change_nothing",
    ),
    Guard(
        "InitProducerId of a Spark sink before its batch is written again",
        "spark/sink/sink.py",
        "                if self._producer.state is TransactionState.FAILED:\n                    self.own()\n",
        "                if self._producer.state is TransactionState.FAILED:\n"
        "                    self._producer.init_transactions()\n",
        "tests/broker/spark/test_spark_sink_owner.py::test_a_failed_commit_that_took_place_is_not_repeated",
    ),
    Guard(
        "the refusal of a second function for a Spark sink in one query",
        "spark/query/writers.py",
        "            if known.run == batch.run and former() not in (None, function):",
        "            if False:",
        "tests/unit/spark/query/test_writers.py::test_a_second_function_in_one_query_is_refused",
    ),
    Guard(
        "the check of the topic's id before a Spark sink commits",
        "spark/sink/sink.py",
        "        self._check_topic()\n        if not",
        "        if not",
        "tests/broker/spark/test_spark_sink_owner.py::test_nothing_is_committed_to_a_topic_that_was_created_again_under_its_owner",
    ),
    Guard(
        "the refusal of a second DataFrame for a batch of a Spark sink",
        "spark/query/writers.py",
        "            elif not self._same_rows(known, frame):",
        "            elif False:",
        "tests/unit/spark/query/test_writers.py::test_a_second_call_for_a_batch_with_another_dataframe_is_refused",
    ),
    Guard(
        "the refusal of a second DataFrame whose plan is equal",
        "spark/query/same_rows.py",
        "        return _is_of_one_rdd(plan, one.sparkSession._jvm) and one.sameSemantics(other)",
        "        return one.semanticHash() == other.semanticHash()",
        "tests/broker/spark/sink/test_repeated_calls.py::test_a_batch_that_is_staged_part_by_part_is_refused[stage_in_path]",
    ),
    Guard(
        "the refusal of a DataFrame that reads its table anew",
        "spark/query/same_rows.py",
        "        if one is other:\n            return plan",
        "        if one is other:\n            return True or plan",
        "tests/broker/spark/sink/test_repeated_calls.py::test_a_table_that_is_written_between_two_calls_is_refused",
    ),
    Guard(
        "the id of the cluster of a Spark sink, whose servers may be spelled otherwise",
        "spark/foreach_batch.py",
        "ClusterSink(sink.cluster_id, sink.key.sink)",
        'ClusterSink(",".join(sink._config.producer.client.bootstrap_servers), sink.key.sink)',
        "tests/broker/spark/sink/test_repeated_calls.py::test_two_spellings_of_the_servers_are_one_cluster",
    ),
    Guard(
        "the limit of the bytes of a partition that the driver gets for a small batch",
        "spark/frame/few_rows.py",
        "    fits = F.col(name) <= most_bytes\n",
        "    fits = F.lit(True)\n",
        "tests/broker/spark/sink/test_few_rows.py::test_rows_that_are_too_large_together_are_not_taken[8]",
    ),
    Guard(
        "the one partition in which the bytes of all rows of a small batch are added up",
        "spark/frame/few_rows.py",
        ".coalesce(1)",
        "",
        "tests/broker/spark/sink/test_few_rows.py::test_rows_that_are_too_large_together_are_not_taken[12]",
    ),
    Guard(
        "the blanks at the ends of a run or a name of a Spark sink",
        "spark/config/sink_config.py",
        "    if text.strip() and text != text.strip():\n",
        "    if False:\n",
        "tests/unit/spark/config/test_sink_config.py::test_a_run_with_a_blank_at_an_end_is_refused",
    ),
    Guard(
        "the refusal of a second query for a Spark sink, which would fence the first",
        "spark/query/writers.py",
        "            if known.run != batch.run and is_running(known):",
        "            if False:",
        "tests/unit/spark/query/test_writers.py::test_a_query_beside_a_running_one_is_refused",
    ),
    Guard(
        "the text of a run, which is the same in write_kafka and the data source",
        "spark/config/sink_config.py",
        "key = SinkKey(sink, name)",
        "key = SinkKey(sink, run)",
        "tests/unit/spark/config/test_sink_config.py::test_a_runs_key_is_made_of_its_text",
    ),
    Guard(
        "transactional ids of a Spark sink's runs, which no other sink has",
        "spark/config/progress.py",
        'OF_RUN: Final = "/run="\n',
        'OF_RUN: Final = "-"\n',
        "tests/unit/spark/config/test_progress.py::test_no_run_has_the_transactional_id_of_another_sink_or_run",
    ),
    Guard(
        "the progress of a sink, by which format(fencepost) tells a repeated batch of a stream",
        "spark/format/stream.py",
        "        return next_step(key.sink, last, planned, first_batch=config.first_batch)\n",
        "        return NextStep.WRITE\n",
        "tests/broker/spark/test_spark_format_stream_owner.py::test_batches_are_written_once_however_often_they_are_run[V2]",
    ),
    Guard(
        "InitProducerId before format(fencepost) reads the progress of a sink",
        "spark/format/open_write.py",
        "            sink.own()\n            if decide(sink.last) is NextStep.SKIP:\n",
        "            sink.last = sink._log.read()\n"
        "            read = decide(sink.last)\n"
        "            sink.own()\n"
        "            if read is NextStep.SKIP:\n",
        "tests/broker/spark/test_spark_format_stream_owner.py::test_commits_before_the_fencing_are_seen[V2]",
    ),
    Guard(
        "the number of the batch that Spark commits by format(fencepost)",
        "spark/format/stream.py",
        "        if batchId != begun.progress.batch:\n",
        "        if False:\n",
        "tests/broker/spark/test_spark_format_stream_owner.py"
        "::test_an_older_instance_that_comes_back_writes_nothing_under_another_number[V2]",
    ),
    Guard(
        "the claim of a task of a micro-batch in the ledger",
        "spark/format/task_write.py",
        """        ledger, timeout_ms = self._log.ledger, self._spec.config.producer.transaction_timeout_ms
        deadline = Deadline.after(timeout_ms)
""",
        """        self.has_claimed = True
        self._owned |= {(claim.topic, claim.partitions[0])} if claim.one else {(claim.topic, p) for p in claim.partitions}
        return claim.partitions[:1] if claim.one else claim.partitions
        ledger, timeout_ms = self._log.ledger, self._spec.config.producer.transaction_timeout_ms
        deadline = Deadline.after(timeout_ms)
""",
        "tests/broker/spark/test_spark_format_stream_owner.py::test_a_second_attempt_of_a_task_writes_nothing[V2]",
    ),
    Guard(
        "the driver whose open transaction an abort without results ends",
        "spark/format/ledger_log.py",
        "                and (entry.transactional_id, entry.driver) == (transactional_id, driver)\n",
        "                and entry.transactional_id == transactional_id\n",
        "tests/broker/spark/test_spark_format_stream_owner.py"
        "::test_a_newer_instance_fences_the_older_and_is_left_alone_by_its_abort[V2]",
    ),
    Guard(
        "the refusal of a DataFrame without columns, of which a task of format(fencepost) gets no rows",
        "spark/format/open_write.py",
        "    if not schema.fields:\n",
        "    if False:\n",
        "tests/unit/spark/format/test_writer.py::test_a_dataframe_without_columns_is_refused_as_no_task_gets_its_rows",
    ),
    Guard(
        "the refusal of continuous processing by format(fencepost)",
        "spark/format/task_settings.py",
        "    if context.getLocalProperty(_CONTINUOUS) is not None:\n",
        "    if False:\n",
        "tests/unit/spark/format/test_task_settings.py::test_a_task_of_continuous_processing_writes_nothing",
    ),
    Guard(
        "the partitions of a topic, asked for together with its id",
        "spark/sink/sink.py",
        "            refresh_topics(self._producer, [self._config.topic])\n",
        "",
        "tests/broker/spark/sink/test_dataframes.py"
        "::test_a_topic_that_has_fewer_partitions_since_an_earlier_write_is_written[False-by the driver]",
    ),
    Guard(
        "the partitions that a task of format(fencepost) asks for in each write",
        "spark/format/task_write.py",
        "        self._writer.refresh_topics([topic])\n",
        "",
        "tests/broker/spark/test_spark_format_owner.py"
        "::test_a_topic_that_has_fewer_partitions_since_an_earlier_write_is_written[V2]",
    ),
)
