"""Guards of the built-in file connectors, and of code that all sources of rows share."""

from __future__ import annotations

from tests.mutations.guard import Guard

GUARDS = (
    Guard(
        "texts of different lengths that are as long together as even ones",
        "converters/text.py",
        " or (lengths_of(strings) != width).any()",
        "",
        "tests/unit/converters/test_text.py::test_one_longer_and_one_shorter_text_are_not_even",
    ),
    Guard(
        "the commit before a file is taken away",
        "connectors/files/ends.py",
        "            self._ended.append(tracked)\n",
        "            self._ended.append(tracked)\n            list(self.take_away())\n",
        "tests/unit/connectors/files/discovery/test_ended.py::test_a_file_is_deleted_after_the_commit_of_its_end",
    ),
    Guard(
        "the mark of the file whose end was committed",
        "connectors/files/opening.py",
        "            mark = offset = None\n",
        "            mark = None\n",
        "tests/unit/connectors/files/discovery/test_ended.py::test_a_new_file_of_the_same_name_is_read_from_its_start",
    ),
    Guard(
        "the content of a compressed file up to its position",
        "connectors/files/content/compressed.py",
        "        left, self._line, returned = self.position - start,",
        "        left, self._line, returned = 0,",
        "tests/unit/connectors/files/content/test_compressed_files.py::"
        "test_positions_count_the_content_and_each_of_them_can_be_resumed_from",
    ),
    Guard(
        "the identity of a file with groups of rows",
        "connectors/files/formats/tables/table_file.py",
        "if known.identity is not None and known.identity != table.identity:",
        "if known.identity is None and known.group is not None:",
        "tests/unit/connectors/files/formats/test_table_files.py::test_another_file_in_its_place_is_reported",
    ),
    Guard(
        "the rows of a group that were read before",
        "connectors/files/formats/tables/table.py",
        "part = batch.slice(skip, left)",
        "part = batch.slice(0, left)",
        "tests/unit/connectors/files/formats/test_table_files.py::test_each_row_is_read_once_whatever_the_batches_and_restarts",
    ),
    Guard(
        "the inferred schema in the offset",
        "connectors/files/task.py",
        "return {**tracked.offset, **self._inferred}",
        "return {**tracked.offset}",
        "tests/unit/connectors/files/formats/test_inference.py::"
        "test_the_inferred_schema_is_in_the_offset_and_survives_a_restart",
    ),
    Guard(
        "the check of a configuration's files",
        "connectors/files/stream_source.py",
        "            blame(values, lambda: self._check_file(config[FILE]))",
        "            pass",
        "tests/unit/connectors/files/test_allowed_files.py::"
        "test_the_property_that_names_another_file_is_refused_when_it_is_checked",
    ),
    Guard(
        "the streams of bzip2 and xz after the first one",
        "connectors/files/content/codecs/compressed_parts.py",
        "            if left:\n                return True\n",
        "            if left:\n                return False\n",
        "tests/unit/connectors/files/content/test_compressed_files.py::test_zeros_between_and_after_members_are_not_content[xz]",
    ),
    Guard(
        "the numbers of CSV that are too large for their type",
        "connectors/files/formats/csv_reader.py",
        "odd = [name for name in types if not is_finite(table.column(name))]",
        "odd: list[str] = []",
        "tests/unit/connectors/files/test_odd_files.py::test_a_number_that_is_too_large_for_its_type_is_a_bad_row[FLOAT-1e39]",
    ),
    Guard(
        "the DECIMALs of CSV that are parsed from their texts",
        "connectors/files/formats/csv_reader.py",
        "    texts = (t.TimestampType, t.TimestampNTZType, t.DecimalType)",
        "    texts = (t.TimestampType, t.TimestampNTZType)",
        "tests/unit/connectors/files/formats/test_field_values.py::test_a_decimal_that_does_not_fit_is_refused_and_not_wrapped[DECIMAL(10,2)-9999999999]",
    ),
    Guard(
        "the DECIMALs of JSON lines that are parsed in 256 bits",
        "connectors/files/formats/jsonl_reader.py",
        "            return pa.decimal256(_MOST_DIGITS, data_type.scale)",
        "            return arrow_type(data_type)",
        "tests/unit/connectors/files/formats/test_field_values.py::test_a_decimal_that_does_not_fit_is_refused_and_not_wrapped[DECIMAL(38,37)-1e37]",
    ),
    Guard(
        "the DECIMALs of JSON lines with many places",
        "connectors/files/formats/jsonl_reader.py",
        "            self._check_lines(block, _odd_decimals(block), columns)",
        "            pass",
        "tests/unit/connectors/files/formats/test_field_values.py::test_a_decimal_with_many_places_does_not_end_the_process[1e-2000000000]",
    ),
    Guard(
        "the escaped characters of DECIMALs in JSON lines",
        "connectors/files/formats/jsonl_reader.py",
        "        *(match.start() for match in _ESCAPED.finditer(block.data, begin, block.length)),\n",
        "",
        "tests/unit/connectors/files/formats/test_field_values.py::test_a_decimal_with_many_places_does_not_end_the_process[1\\\\u0065-2000000000]",
    ),
    Guard(
        "the whole numbers of CSV in hexadecimal",
        "connectors/files/formats/csv_reader.py",
        "        if any(map(pt.is_integer, types.values())) and _has_hexadecimal(block, self.quoting):",
        "        if False:",
        "tests/unit/connectors/files/formats/test_field_values.py::test_the_grammar_of_csv_is_the_documented_one",
    ),
    Guard(
        "the numbers of JSON lines that are too large for their type",
        "connectors/files/formats/jsonl_reader.py",
        "        if not all(map(is_finite, table.columns)):",
        "        if False:",
        "tests/unit/connectors/files/formats/test_field_values.py::test_the_grammar_of_json_lines_is_the_documented_one",
    ),
    Guard(
        "the zones of local times in JSON lines",
        "connectors/files/formats/jsonl_reader.py",
        "        case t.DateType() | t.TimestampNTZType():",
        "        case t.DateType():",
        "tests/unit/connectors/files/formats/test_field_values.py::test_the_grammar_of_json_lines_is_the_documented_one",
    ),
    Guard(
        "the years of dates and times",
        "connectors/rows/row_types.py",
        '    if found["min"] is not None and not first <= found["min"] <= found["max"] <= last:',
        "    if False:",
        "tests/unit/connectors/files/formats/test_field_values.py::test_the_grammar_of_csv_is_the_documented_one",
    ),
    Guard(
        "the digits of DECIMALs in Avro",
        "connectors/files/formats/tables/avro_schema.py",
        '                kept["logicalType"] = EXACT_DECIMAL',
        "                pass",
        "tests/unit/connectors/files/formats/test_table_bad_rows.py::test_avro_values_beyond_their_types_are_bad_rows_and_not_rounded",
    ),
    Guard(
        "the check of values in Parquet and ORC files",
        "connectors/rows/arrow_columns.py",
        "        if _has(values.type, _is_unchecked):",
        "        if False:",
        "tests/unit/connectors/files/formats/test_table_bad_rows.py::test_a_decimal_with_more_digits_than_its_column_has_is_a_bad_row",
    ),
    Guard(
        "the nanoseconds before 1970",
        "connectors/rows/arrow_columns.py",
        "    return pc.subtract(towards_zero, pc.greater(pc.multiply(towards_zero, 1_000), nanoseconds).cast(pa.int64()))",
        "    return towards_zero",
        "tests/unit/connectors/files/formats/test_table_bad_rows.py::test_nanoseconds_are_cut_off_downwards_before_1970_and_wherever_they_are",
    ),
    Guard(
        "the identity of an object",
        "connectors/files/content/origin.py",
        "        if self._identity not in (None, found):",
        "        if self._identity not in (None, found, self._identity):",
        "tests/unit/connectors/files/stores/test_objects.py::test_an_object_that_was_replaced_is_not_read_on[Seaweed-text]",
    ),
    Guard(
        "the position of an object before its server was away",
        "connectors/files/content/compressed.py",
        "            self._reopen(position, restart)\n",
        "            self.close()\n",
        "tests/unit/connectors/files/stores/test_objects.py::test_a_poll_continues_at_its_position_after_the_server_was_away",
    ),
    Guard(
        "the fingerprint of a file before its restart point",
        "connectors/files/content/restart_point.py",
        "    if stream.fingerprint(point.place) != point.fingerprint:",
        "    if not point.fingerprint:",
        "tests/unit/connectors/files/content/test_restart_points.py::"
        "test_a_file_that_was_replaced_is_not_read_from_the_restart_point[gzip members]",
    ),
    Guard(
        "the restart point that is not behind the position",
        "connectors/files/content/restart_point.py",
        " and point.position <= position else None",
        " else None",
        "tests/unit/connectors/files/content/test_restart_points.py::test_an_offset_set_back_is_read_from_the_beginning",
    ),
    Guard(
        "the refusal of a line that is null",
        "connectors/files/formats/jsonl_reader.py",
        '        if line.startswith(b"null"):',
        "        if False:",
        "tests/unit/connectors/files/test_bad_rows.py::test_a_line_that_is_null_is_not_an_object[False-null]",
    ),
)
