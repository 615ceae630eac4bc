"""Guards of the results of Java connectors."""

from __future__ import annotations

from tests.mutations.guard import Guard

_PIPELINE = "tests/cluster/test_java_pipeline.py"
_JSON = "tests/unit/java/test_streaming_json.py"
_REFUSED = "tests/cluster/test_java_refused_records.py"
_WAITING = "tests/unit/java/test_waiting_records.py"
_CONNECTORS = "tests/cluster/test_java_connectors.py"
_TRANSACTIONS = "tests/cluster/test_debezium_transactions.py"
_HANGS = "tests/cluster/test_java_hangs.py::test_a_jvm_that_hangs_is_killed_when_its_connector_is_deleted"

GUARDS = (
    Guard(
        "the end of a Java task whose start does not return",
        "runtime/task/run.py",
        "            self._instance.abandon()",
        "            pass",
        f"{_HANGS}[task.start]",
    ),
    Guard(
        "the end of a Java connector whose start does not return",
        "herder/work/connector_work.py",
        "                    await self._parts.run(connector.abandon)",
        "                    pass",
        f"{_HANGS}[connector.start]",
    ),
    Guard(
        "a record that a connector's own pipeline refused, where none may be skipped",
        "engine/error_handler.py",
        "            if not self.tolerates:\n                failure",
        "            if False:\n                failure",
        "tests/unit/engine/test_error_handler.py::test_a_record_refused_by_a_connectors_own_pipeline_fails_the_task[DataError]",
    ),
    Guard(
        "what a batch of columns says about refused records",
        "engine/engine.py",
        "            if batch.pipeline is not None:",
        "            if False:",
        f"{_REFUSED}::test_an_exception_of_a_transform_fails_the_task_with_its_trace[noted]",
    ),
    Guard(
        "the transforms in Python of a Java task that wants to know where its records are",
        "engine/engine.py",
        "    if write.pipeline.transforms:",
        "    if False:",
        f"{_PIPELINE}::test_transforms_in_python_that_need_no_values_run_after_the_jvm[noted]",
    ),
    Guard(
        "the offsets of records that Java code dropped",
        "java/task.py",
        "offsets = [(_decoded(partition), _decoded(offset))",
        "offsets = [] if not answer['rows'] else [(_decoded(partition), _decoded(offset))",
        f"{_PIPELINE}::test_records_that_a_transform_of_another_folder_drops_have_offsets",
    ),
    Guard(
        "the bytes of offsets with half a surrogate pair",
        "storage/compact_json.py",
        "    return _SURROGATES.sub(_escaped, quoted)",
        "    return quoted",
        "tests/unit/storage/offsets/test_codec.py::test_surrogates_that_stand_alone_are_escaped_as_by_java_and_read_again",
    ),
    Guard(
        "the bytes of offsets of a source partition that is null in Java",
        "java/task.py",
        "offsets = [(_decoded(partition), _decoded(offset))",
        "offsets = [(_decoded(partition) or {}, _decoded(offset))",
        "tests/cluster/test_java_offsets.py::test_odd_offsets_have_the_bytes_that_kafka_connect_stores",
    ),
    Guard(
        "the transforms in Python that would take bytes for values",
        "engine/pipeline.py",
        "if plugin is not None and not is_without_content(plugin):",
        "if False:",
        "tests/broker/engine/test_raw_columns.py::test_transforms_of_bytes_are_refused",
    ),
    Guard(
        "a transaction of a database that goes on after a poll",
        "java/host/SourceTransactions.java",
        "return isCommitted || !open.isEmpty() ? null : COMMIT;",
        "return isCommitted ? null : COMMIT;",
        f"{_TRANSACTIONS}::test_rows_of_one_position_arrive_once_and_a_transaction_whole_past_kills[kept]",
    ),
    Guard(
        "a transaction of one database that goes on where another's ends",
        "java/host/SourceTransactions.java",
        "if (open.isEmpty()) last = record;",
        "last = record;",
        "tests/unit/java/test_source_transactions.py::test_a_kafka_transaction_ends_where_no_database_is_within_one",
    ),
    Guard(
        "offsets of dropped records in the midst of a transaction of a database",
        "runtime/task/boundaries.py",
        "            self._within = decision is BoundaryDecision.CONTINUE",
        "            self._within = False",
        "tests/unit/runtime/task/test_boundaries.py::test_offsets_wait_while_a_transaction_of_the_source_goes_on",
    ),
    Guard(
        "the abort of what a JVM that has ended left in a transaction",
        "runtime/task/poll_loop.py",
        "            self._abort_quietly()\n            raise",
        "            self._writes.commit(final=True)\n            raise",
        "tests/cluster/test_java_hostile.py::test_records_of_a_dead_jvm_in_an_open_transaction_are_never_committed",
    ),
    Guard(
        "the end of a JVM in the midst of an answer",
        "java/channel.py",
        "            if not received:\n                raise self._ended()",
        "            if not received:\n                break",
        "tests/unit/java/test_channel.py::test_an_answer_that_breaks_off_is_the_end_of_the_jvm",
    ),
    Guard(
        "the passwords that transforms in Java define",
        "runtime/connector/passwords.py",
        "sources = sources_of(config, worker.plugin_sources)",
        "sources = worker.plugin_sources",
        f"{_PIPELINE}::test_a_password_of_a_transform_in_java_is_hidden",
    ),
    Guard(
        "the bytes of records whose maps have a name twice",
        "java/host/JsonForms.java",
        "if (name == null || !names.add(name)) throw Rare.RARE;",
        "if (name == null) throw Rare.RARE;",
        f"{_JSON}::test_random_records_have_the_bytes_and_errors_of_json_converter[without schemas]",
    ),
    Guard(
        "the bytes of records after one that was not written as JSON",
        "java/host/StreamingJson.java",
        "            forget();\n            return null;",
        "            return null;",
        f"{_JSON}::test_random_records_have_the_bytes_and_errors_of_json_converter[the defaults]",
    ),
    Guard(
        "the heap of a JVM whose task looks at the latest records alone",
        "java/host/Uncommitted.java",
        "latestOnly ? merged(batches.poll(), records) : records.waiting()",
        "records.waiting()",
        f"{_WAITING}::test_of_debeziums_records_the_latest_of_each_database_is_kept",
    ),
    Guard(
        "the last record of all among the latest ones of each database",
        "java/host/Uncommitted.java",
        "new LinkedHashMap<>(16, 0.75f, true);",
        "new LinkedHashMap<>();",
        f"{_WAITING}::test_of_debeziums_records_the_latest_of_each_database_is_kept",
    ),
    Guard(
        "the records that a Java task gets after a commit",
        "java/host/Uncommitted.java",
        "batches.peek().number <= number",
        "batches.peek().number < number",
        f"{_WAITING}::test_of_other_tasks_the_records_and_their_sizes_are_kept",
    ),
    Guard(
        "the commit before the next poll of a Java task that looks at commits, in its JVM",
        "java/host/TaskSession.java",
        "pollsAhead = !looksAtCommits || knowsWhatIsCommitted(task.getClass());",
        "pollsAhead = true;",
        f"{_WAITING}::test_only_a_task_that_may_be_is_polled_before_the_commit_of_its_last_poll[both]",
    ),
    Guard(
        "the commit before the next poll of a Java task that looks at commits, in the worker",
        "java/task.py",
        "if not self._wants_commits and time.monotonic()",
        "if time.monotonic()",
        f"{_PIPELINE}::test_records_are_committed_in_the_order_of_kafka_connect",
    ),
    Guard(
        "the end of a JVM that runs out of memory",
        "java/jvm.py",
        '*("-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData"),',
        '"-XX:-UsePerfData",',
        f"{_CONNECTORS}::test_the_last_words_of_a_jvm_are_in_the_status[leak]",
    ),
    Guard(
        "the log of a plugin that has slf4j in its folder",
        "java/host/PluginLoader.java",
        "|org\\\\.slf4j",
        "",
        "tests/cluster/test_java_hostile.py::test_a_plugin_with_an_slf4j_of_its_own_logs_into_the_workers_log",
    ),
    Guard(
        "the offsets of another source partition than a connector in Java asked for",
        "java/host/Offsets.java",
        "if (!(entry.getKey() instanceof String) || !storable)",
        "if (!(entry.getKey() instanceof String))",
        "tests/unit/java/test_connector.py::test_a_connector_reads_offsets_with_the_types_of_kafka_connect",
    ),
    Guard(
        "the databases whose ends of transactions come late",
        "runtime/connector/source_boundary.py",
        "    elif connector.plugin.java_class.startswith(_LATE):",
        "    elif False:",
        "tests/unit/runtime/connector/test_source_boundary.py::test_a_connector_that_marks_no_ends_is_refused",
    ),
)
