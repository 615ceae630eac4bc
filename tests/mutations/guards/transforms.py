"""Guards of the transforms, of the properties that plugins take, and of what is null."""

from __future__ import annotations

from tests.mutations.guard import Guard

GUARDS = (
    Guard(
        "the records without a value, of which no key is made",
        "transforms/records.py",
        "F.when(value.isNull(), refusal).otherwise(self.changed(value, kind))",
        "F.when(value.isNotNull(), self.changed(value, kind))",
        "tests/unit/transforms/test_records.py::test_value_to_key_refuses_a_null_value",
    ),
    Guard(
        "the names of fields that are taken",
        "transforms/field_paths.py",
        "        if name in fields:\n",
        "        if False:\n",
        "tests/unit/transforms/test_fields.py::test_replace_field_refuses_names_that_are_taken",
    ),
    Guard(
        "the sets within sets that Python reads otherwise than Java",
        "config/validators.py",
        "        if _has_nested_sets(text):\n",
        "        if False:\n",
        "tests/unit/config/test_connector_config.py::test_expressions_that_python_has_not_or_reads_otherwise_are_refused",
    ),
    Guard(
        "the null value that a delete leaves",
        "transforms/new_record_state.py",
        'changes = event.has_row & ~event.deleted if self._mode == "drop" else event.has_row',
        'changes = event.has_row & ~event.deleted if self._mode in ("drop", "tombstone") else event.has_row',
        "tests/unit/transforms/test_new_record_state.py::test_a_delete_without_a_tombstone_becomes_the_null_value[tombstone]",
    ),
    Guard(
        "the tombstone that is dropped beside its delete",
        "transforms/new_record_state.py",
        'tombstones = F.lit(self._mode == "rewrite-with-tombstone")',
        "tombstones = F.lit(True)",
        "tests/unit/transforms/test_new_record_state.py::test_events_become_rows_and_deletes_what_the_mode_says[tombstone-left1]",
    ),
    Guard(
        "the records that a predicate keeps from a transform that drops",
        "transforms/chain.py",
        "records = records.filter(~applies | transform.kept(records))",
        "records = records.filter(transform.kept(records))",
        "tests/unit/transforms/test_new_record_state.py::test_a_predicate_keeps_records_that_the_transform_would_drop",
    ),
    Guard(
        "the fields that a header says to drop",
        "transforms/new_record_state.py",
        "fields = {name: dropped.without(name, column) for name, column in fields.items()}",
        "pass",
        "tests/unit/transforms/test_new_record_state.py::test_fields_that_a_header_lists_are_not_published",
    ),
    Guard(
        "the refusal of a header that is no list of fields to drop",
        "transforms/new_record_state.py",
        "listed = F.when(value.isNull() | parsed.isNotNull(), parsed).otherwise(malformed)",
        "listed = F.when(value.isNull() | parsed.isNotNull(), parsed) if malformed is not None else parsed",
        "tests/unit/transforms/test_new_record_state.py::test_a_header_that_is_no_list_of_fields_is_refused",
    ),
    Guard(
        "the topics that a column of the row names",
        "engine/pipeline.py",
        "        return transform.keeps_topics\n",
        "        return True\n",
        "tests/unit/engine/test_pipeline.py::test_transforms_are_known_to_keep_topics_or_not",
    ),
    Guard(
        "the refusal of a property that only Java's class does, in a chain",
        "engine/plugin_builder.py",
        "            raise ConfigError(message, name=name)\n",
        "            del name, message\n",
        "tests/unit/config/test_java_properties.py::test_a_chain_with_a_refused_property_is_not_built",
    ),
    Guard(
        "the refusal of a property that only Java's transform does, in validation",
        "runtime/connector/validation.py",
        "[*found, *_refused(plugin, prefix, config)], plugin, prefix, own)",
        "found, plugin, prefix, own)",
        "tests/unit/herder/requests/test_config_infos.py::test_what_only_the_java_class_does_is_an_error_of_that_property",
    ),
    Guard(
        "the null of a column without a schema",
        "engine/conversion.py",
        "    return (schema is None or isinstance(schema, t.NullType)) and values.null_count == len(values)",
        "    return False",
        "tests/unit/engine/test_conversion.py::test_a_column_of_nulls_without_a_schema_is_null_whatever_its_type",
    ),
    Guard(
        "the order of bytes in texts of UTF-16",
        "converters/string_converter.py",
        '_AS_IN_JAVA.get(name, (b"", name))',
        '(b"", name)',
        "tests/unit/converters/test_other_converters.py::test_encodings_without_an_order_of_bytes_have_that_of_java",
    ),
    Guard(
        "the refusal of a record without a required field to insert",
        "transforms/fields.py",
        "refusal = F.when(part.isNotNull(), F.raise_error(F.lit(why)))",
        "refusal = F.lit(why)",
        "tests/unit/transforms/test_field_paths.py::test_a_record_without_a_required_partition_is_refused",
    ),
)
