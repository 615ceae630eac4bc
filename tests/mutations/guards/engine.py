"""Guards of the engine and its transforms."""

from __future__ import annotations

from tests.mutations.guard import Guard

GUARDS = (
    Guard(
        "all rows of a record, or none",
        "engine/conversion.py",
        "        if errors.refused:\n",
        "        if not errors:\n",
        "tests/broker/engine/spark/test_engine_sql.py::test_all_rows_of_a_record_are_skipped_if_a_converter_refuses_one",
    ),
    Guard(
        "the record that is counted once, however many of its rows are refused",
        "engine/error_handler.py",
        "if number not in self._refused:",
        "if True:",
        "tests/broker/engine/spark/test_engine_sql.py::test_all_rows_of_a_record_are_skipped_if_a_converter_refuses_one",
    ),
    Guard(
        "the metadata of a record's last row",
        "engine/conversion.py",
        "return np.where(self.followed.to_numpy(zero_copy_only=False), -1, self.positions)",
        "return self.positions",
        "tests/broker/engine/spark/test_engine_sql.py::test_a_record_that_becomes_several_is_reported_with_the_last_one",
    ),
    Guard(
        "the dead letters of rows that cannot be read",
        "engine/error_handler.py",
        "            self._letters += [DeadLetter.of_row(row, reader, topic) for row in rows]",
        "            pass",
        "tests/broker/engine/test_dead_letters.py::test_bad_rows_of_a_file_are_dead_letters[worker]",
    ),
    Guard(
        "the refusal of fields that a schema does not have",
        "engine/grouping.py",
        "        check_fields(values, form.schema, name, topic)\n",
        "",
        "tests/unit/engine/test_schema_fit.py::test_a_field_that_the_schema_does_not_have_is_refused",
    ),
    Guard(
        "values of polled records that Arrow would change",
        "engine/grouping.py",
        '        check_kept(values, form.schema, f"{name} of a record for topic {topic}")\n',
        "",
        "tests/unit/engine/test_schema_fit.py::test_numbers_that_are_too_large_for_a_float_do_not_become_infinite",
    ),
    Guard(
        "the last millisecond of 1969",
        "engine/record_places.py",
        "least < 0:",
        "least < -1:",
        "tests/unit/engine/test_conversion.py::test_the_last_millisecond_of_1969_is_not_taken_for_no_timestamp",
    ),
    Guard(
        "header values that a source declares as bytes, beside which a text would become base64",
        "engine/conversion.py",
        "types.has_headers and not types.raw_headers and isinstance(types.header, t.BinaryType)",
        "False",
        "tests/broker/engine/spark/test_headers_in_flight.py::test_a_text_beside_bytes_stays_a_text",
    ),
    Guard(
        "headers of polled records, which a function must not have converted again",
        "engine/function_steps.py",
        'raw = types.raw_headers and isinstance(_made_header(replaced.get("headers")), t.BinaryType | None)',
        'raw = types.raw_headers and "headers" not in replaced',
        "tests/broker/engine/spark/test_headers_in_flight.py::test_headers_of_polled_records_are_converted_once",
    ),
    Guard(
        "the numbers that Cast would make infinite",
        "transforms/cast.py",
        "            return self._number(column, old, new, name)",
        "            return column.cast(new)",
        "tests/unit/transforms/test_fields.py::test_cast_refuses_a_number_that_is_too_large",
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
        "(session, settings_hash(session), steps,",
        "(session, steps,",
        "tests/unit/transforms/test_known_plans.py::test_a_setting_that_changes_counts_for_the_next_batch",
    ),
    Guard(
        "the refusal of a null in a field that may not be null",
        "api/required_fields.py",
        "if not field.nullable and pc.is_null(array).true_count:",
        "if False:",
        "tests/unit/engine/test_batch_columns.py::test_a_null_in_a_required_field_is_refused",
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
        "the mark of the failures that a job's own stages send",
        "engine/reports.py",
        'rf"fencepost-failure:{mark}:(',
        'rf"fencepost-failure:(?:{mark}|\\w*):(',
        "tests/unit/engine/test_reports.py::test_text_that_imitates_a_failure_is_not_a_failure",
    ),
    Guard(
        "the check of a schema before Python imports what it names",
        "engine/spark/job_write.py",
        "        check_user_types(frame, where=write.spec.pipeline.given)\n",
        "",
        "tests/broker/engine/spark/test_engine_hostile_rows.py::test_a_file_that_names_a_python_class_for_a_column_imports_nothing",
    ),
    Guard(
        "the check whether an imported module has the class that a file names",
        "engine/spark/transform.py",
        "return isinstance(found, type) and issubclass(found, t.UserDefinedType)",
        "return module in sys.modules",
        "tests/broker/engine/spark/test_engine_hostile_rows.py::test_a_file_that_names_a_module_of_an_imported_package_does_not_import_it",
    ),
    Guard(
        "the refusal of a write that Spark runs again",
        "engine/attempts.py",
        "if context.attemptNumber() > 0:",
        "if False:",
        "tests/chaos/test_spark_faults.py::test_a_write_that_spark_runs_again_is_refused",
    ),
    Guard(
        "the order of the partitions that Spark joins",
        "engine/spark/job_write.py",
        "return partitions <= count or all(",
        "return True or all(",
        "tests/broker/engine/spark/test_engine_spark.py::test_the_rows_of_a_kept_dataframe_keep_their_order",
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
        "self.requested_counts.get(topic, self._known.get(topic))",
        "self.requested_counts.get(topic)",
        "tests/broker/engine/spark/test_engine_spark.py::test_a_key_stays_in_its_partition_while_a_topic_grows",
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
        "engine/spark/session_settings.py",
        "settings.get(name, required.default)",
        "settings.get(name, required.value)",
        "tests/unit/engine/spark/test_session_settings.py::test_a_session_of_the_users_own_must_not_run_a_stage_again",
    ),
    Guard(
        "the first exception of a trace, which no row imitates",
        "engine/job_failure.py",
        "any(lines[0].partition(",
        "any(lines[-1].partition(",
        "tests/unit/engine/test_job_failure.py::test_a_retriable_error_of_python_code_is_distinguished_from_imitations",
    ),
    Guard(
        "rows, which are not to blame for a Python that lacks a module",
        "engine/job_failure.py",
        "return not self.is_of_python",
        "return True",
        "tests/unit/engine/test_job_failure.py::test_a_missing_module_is_distinguished_from_bad_data",
    ),
    Guard(
        "the headers of shuffled records",
        "engine/targeted_blocks.py",
        'timestamp=block["timestamp"], headers=block["headers"])\n',
        'timestamp=block["timestamp"])\n',
        "tests/unit/engine/test_targeted_blocks.py"
        "::test_shuffled_records_equal_their_rows_with_any_offset_width_of_spark[64-bit offsets]",
    ),
    Guard(
        "the order of shuffled blocks of one topic partition",
        "engine/spark/job_write.py",
        '.repartitionById(writers, F.col("writer")).sortWithinPartitions(_POSITION)',
        '.repartitionById(writers, F.col("writer")).sortWithinPartitions(F.col(_POSITION).desc())',
        "tests/broker/engine/spark/test_engine_spark.py::test_keyed_splits_keep_the_order_of_each_key[3]",
    ),
    Guard(
        "the second question for the partitions of topics that rows name",
        "engine/spark/job_write.py",
        "                self.metadata.refresh_topics({*asked, *spec.partitions})\n",
        "                pass\n",
        "tests/broker/spark/sink/test_dataframes.py"
        "::test_a_topic_that_has_fewer_partitions_since_an_earlier_write_is_written[True-by executors]",
    ),
)
