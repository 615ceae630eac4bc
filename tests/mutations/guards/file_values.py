"""Guards of the values of Parquet, ORC and Avro files, and of the detection of compressed files."""

from __future__ import annotations

from tests.mutations.guard import Guard

_TABLES = "connectors/files/formats/tables/"
_TESTS = "tests/unit/connectors/files/formats/test_table_values.py::"

GUARDS = (
    Guard(
        "the rows beside one whose list has a value that does not fit",
        "connectors/rows/arrow_columns.py",
        "batch.take(half)",
        "batch.slice(half[0].as_py(), len(half))",
        f"{_TESTS}test_a_value_in_a_list_that_does_not_fit_refuses_its_row_alone[2-_lists]",
    ),
    Guard(
        "the row of a batch of one that was cut from more",
        "connectors/rows/arrow_columns.py",
        "        if batch.num_rows == 1 and alone:\n",
        "        if batch.num_rows == 1:\n",
        f"{_TESTS}test_a_batch_of_one_row_is_not_refused_for_the_row_after_it[orc]",
    ),
    Guard(
        "the years of dates and times as texts",
        "api/time_texts.py",
        '    if found["min"] is None or (',
        "    if True or (",
        "tests/unit/api/test_time_texts.py::test_dates_of_any_year_have_the_text_that_java_has",
    ),
    Guard(
        "the frames to skip at the start of a file",
        "connectors/files/content/codecs/compression.py",
        "        if is_skippable(head):\n",
        "        if False:\n",
        "tests/unit/connectors/files/content/test_compressed_files.py::test_a_file_that_ends_after_a_skippable_frame_is_not_text[12]",
    ),
    Guard(
        "the digits of numbers of JSON that an inferred DOUBLE would lose",
        "connectors/files/formats/inference.py",
        " and math.isfinite(float(text)) and not _is_double(text)\n",
        " and False\n",
        "tests/unit/connectors/files/formats/test_inference.py::test_a_number_of_json_that_a_double_would_change_is_reported",
    ),
    Guard(
        "the checksums of pages of Parquet",
        f"{_TABLES}parquet_table.py",
        "page_checksum_verification=True",
        "page_checksum_verification=False",
        f"{_TESTS}test_a_page_whose_checksum_is_wrong_is_damaged",
    ),
)
