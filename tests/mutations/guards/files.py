"""Guards of the ends of files, of lines that are cut, and of files that are still written."""

from __future__ import annotations

from tests.mutations.guard import Guard

_TESTS = "tests/unit/connectors/"
_FEED = "test_file_source.py::test_a_line_feed_after_a_return_that_was_the_last_byte_is_no_row"
_TWO_PARTS = "test_bad_rows.py::test_a_line_end_that_is_written_in_two_parts_is_one"

GUARDS = (
    Guard(
        "the rows in a chunk of xz that is cut off",
        "connectors/xz_blocks.py",
        "            data = self._bytes.take(of_data)\n",
        "            data = self._bytes.take_all(of_data)\n",
        f"{_TESTS}test_compressed_files.py::test_as_much_of_a_truncated_file_is_read_as_can_be_decompressed[4-xz]",
    ),
    Guard(
        "the last row of a file that ends by a return",
        "connectors/growing_file.py",
        '    return plan(cast("FileIO", _Followed(file, size)), part, size + 1)\n',
        "    return found\n",
        f"{_TESTS}test_file_source.py::test_a_last_row_that_ends_by_a_return_alone_is_read[form0-utf-8]",
    ),
    Guard(
        "the line feed after a return that was the last byte of a file",
        "connectors/growing_file.py",
        "                self.position += 1\n",
        "                self.position += 0\n",
        f"{_TESTS}{_FEED}[utf-8-False]",
    ),
    Guard(
        "the line feed after a return that was the last byte of a content",
        "connectors/content_file.py",
        '            self._data = self._data.removeprefix(b"\\n")\n',
        "",
        f"{_TESTS}{_FEED}[utf-16-le-True]",
    ),
    Guard(
        "the restart point that is not within a line end",
        "connectors/content_file.py",
        "            if position < held.start:\n",
        "            if position < 0:\n",
        f"{_TESTS}{_TWO_PARTS}[compress-1-False]",
    ),
    Guard(
        "the files of HDFS that are still written",
        "connectors/hadoop_store.py",
        "    return whole_blocks and ",
        "    return status.length < 0 and ",
        f"{_TESTS}test_object_store.py::test_a_file_of_hdfs_that_is_still_written_is_waited_for[False-Hdfs]",
    ),
    Guard(
        "the time of the last change of a file of HDFS",
        "connectors/hadoop_store.py",
        '    return f"{status.length}-{status.modification_time}"\n',
        '    return f"{status.length}"\n',
        f"{_TESTS}test_object_store.py::test_an_object_that_was_replaced_is_not_read_on[Hdfs-text]",
    ),
)
