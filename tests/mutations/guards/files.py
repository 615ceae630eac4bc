"""Guards of the ends of files, of split lines, and of files that are still being written."""

from __future__ import annotations

from tests.mutations.guard import Guard

_TESTS = "tests/unit/connectors/"
_FEED = "files/test_file_source.py::test_a_line_feed_after_a_final_return_is_not_a_row"
_TWO_PARTS = "files/test_bad_rows.py::test_a_line_end_that_is_written_in_two_parts_is_one"
_NOT_CLOSED = "files/test_bad_rows.py::test_text_after_a_quote_that_is_not_closed_is_not_a_value"
_MARK = "files/formats/test_csv_files.py::test_a_byte_order_mark_is_left_out_before_a_quote_and_kept_elsewhere"

GUARDS = (
    Guard(
        "the error of a file that has passed rows which no batch has",
        "connectors/files/task.py",
        "            # first.\n            self._error = error\n",
        "            pass\n",
        f"{_TESTS}files/test_file_source.py::test_rows_that_a_file_passed_before_an_error_are_not_left_out",
    ),
    Guard(
        "the offset of a batch, which is after its own records",
        "connectors/files/task.py",
        "batch.offsets[path])",
        "self._offset(tracked))",
        f"{_TESTS}files/test_odd_files.py::test_no_offset_is_beyond_rows_that_their_file_passed_before_an_error[116-None]",
    ),
    Guard(
        "the file that cannot be looked at, and is not gone for that",
        "connectors/files/content/identity.py",
        "        return error.errno in _GONE\n",
        "        return error.errno is not None\n",
        f"{_TESTS}files/discovery/test_failing_file_systems.py::test_a_file_that_cannot_be_looked_at_is_not_another_one[5]",
    ),
    Guard(
        "the name that a moved file takes before another one does",
        "connectors/files/discovery/ended.py",
        "            target.touch(exist_ok=False)\n",
        "            target.touch()\n",
        f"{_TESTS}files/discovery/test_ended.py::test_a_file_is_moved_under_a_name_that_is_free",
    ),
    Guard(
        "the last row of a file that ends by a return",
        "connectors/files/content/growing.py",
        '    return plan(cast("FileIO", _Followed(file, size)), part, size + 1)\n',
        "    return found\n",
        f"{_TESTS}files/test_file_source.py::test_a_last_row_that_ends_by_a_return_alone_is_read[form0-utf-8]",
    ),
    Guard(
        "the line feed after a return that was the last byte of a file",
        "connectors/files/content/growing.py",
        "                self.position += 1\n",
        "                self.position += 0\n",
        f"{_TESTS}{_FEED}[utf-8-False]",
    ),
    Guard(
        "the line feed after a return that was the last byte of a content",
        "connectors/files/content/compressed.py",
        '            self._data = self._data.removeprefix(b"\\n")\n',
        "",
        f"{_TESTS}{_FEED}[utf-16-le-True]",
    ),
    Guard(
        "the restart point that is not within a line end",
        "connectors/files/content/restart_point.py",
        "            if position < returned.start:\n",
        "            if position < 0:\n",
        f"{_TESTS}{_TWO_PARTS}[compress-1-False]",
    ),
    Guard(
        "the files of HDFS that are still written",
        "connectors/files/stores/hadoop.py",
        "    return whole_blocks and ",
        "    return status.length < 0 and ",
        f"{_TESTS}files/stores/test_objects.py::test_a_file_of_hdfs_that_is_still_written_is_waited_for[False-Hdfs]",
    ),
    Guard(
        "the time of the last change of a file of HDFS",
        "connectors/files/stores/hadoop.py",
        '    return f"{status.length}-{status.modification_time}"\n',
        '    return f"{status.length}"\n',
        f"{_TESTS}files/stores/test_objects.py::test_an_object_that_was_replaced_is_not_read_on[Hdfs-text]",
    ),
    Guard(
        "the quote in a field without quotes",
        "connectors/files/content/csv_quotes.py",
        "    if _are_pairs(plain, quotes, quoting, begin):\n",
        "    if len(quotes):\n",
        f"{_TESTS}files/formats/test_csv_files.py::test_a_lone_quote_costs_no_row_after_it",
    ),
    Guard(
        "the quotes after the one that closes a field",
        "connectors/files/content/csv_quotes.py",
        "    loose = ~at_begin & ",
        "    loose = ~at_begin & False & ",
        f"{_TESTS}files/formats/test_csv_files.py::test_a_lone_quote_in_a_field_without_quotes_is_a_character[bytes-200000]",
    ),
    Guard(
        "the quote that is not closed",
        "connectors/files/formats/csv_reader.py",
        "self.quoting) is not None:\n            raise MisfitError\n",
        "self.quoting) is not None:\n            pass\n",
        f"{_TESTS}{_NOT_CLOSED}[bytes-last]",
    ),
    Guard(
        "the escape character at the end of a file",
        "connectors/files/content/csv_quotes.py",
        "        if active[-1] == len(record) - 1:\n",
        "        if active[-1] == len(record):\n",
        f"{_TESTS}{_NOT_CLOSED}[bytes-escape]",
    ),
    Guard(
        "the byte order mark within a file",
        "connectors/files/formats/csv_reader.py",
        "        if ended and not marked:\n            return text\n",
        "        marked = False\n        if ended and not marked:\n            return text\n",
        f"{_TESTS}{_MARK}",
    ),
    Guard(
        "the end of a text that got a byte order mark",
        "connectors/files/formats/csv_reader.py",
        "block_size=text.size() + 1",
        "block_size=block.length + 1",
        f"{_TESTS}files/formats/test_csv_files.py::test_a_row_that_begins_with_a_byte_order_mark_is_parsed_up_to_its_end",
    ),
)
