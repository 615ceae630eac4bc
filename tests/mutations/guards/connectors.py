"""Guards of the built-in connectors."""

from __future__ import annotations

from tests.mutations.guard import Guard

GUARDS = (
    Guard(
        "the look-up of subtransactions that run",
        "connectors/jdbc/snapshot_reader.py",
        "        ended = Snapshot.of(new.xmax, running)",
        "        ended = new",
        "tests/broker/test_jdbc_snapshot.py::test_a_long_transaction_delays_only_itself[xmin]",
    ),
    Guard(
        "the running transactions in the offset of a part of a poll",
        "connectors/jdbc/snapshot.py",
        "if xid <= last)",
        "if xid < 0)",
        "tests/unit/connectors/jdbc/test_snapshot.py::test_a_part_of_a_poll_adds_the_transactions_up_to_its_last",
    ),
    Guard(
        "the whole transactions of a poll by their rows' column",
        "connectors/jdbc/snapshot_reader.py",
        "rows with ties",
        "rows only",
        "tests/broker/test_jdbc_snapshot.py::test_a_transaction_is_not_split_but_a_poll_is",
    ),
    Guard(
        "the rows of one timestamp in one poll",
        "connectors/jdbc/column_reader.py",
        "rows with ties",
        "rows only",
        "tests/broker/test_jdbc_columns.py::test_rows_of_one_timestamp_stay_together",
    ),
    Guard(
        "the refusal of a server whose WAL is behind the offset",
        "connectors/jdbc/server.py",
        "        if parse_lsn(present) < offset.lsn:",
        "        if False:",
        "tests/broker/test_jdbc_server.py::test_a_server_that_was_restored_from_a_backup_is_refused_and_so_is_another",
    ),
    Guard(
        "the refusal of a failover that lost what was read",
        "connectors/jdbc/server.py",
        "    if end < offset.lsn:",
        "    if False:",
        "tests/broker/test_jdbc_server.py::test_a_failover_goes_on_only_where_nothing_was_lost",
    ),
    Guard(
        "the snapshot that all ranges of a table share",
        "connectors/jdbc/ranges.py",
        """            connection.execute(f"set transaction snapshot '{self.snapshot}'".encode())""",
        "            pass",
        "tests/broker/test_jdbc_ranges.py::test_changes_during_a_large_read_come_with_the_next_poll[column]",
    ),
    Guard(
        "the commit before a file is taken away",
        "connectors/file_task.py",
        "                    self._ended[file.path] = mark\n",
        "                    self._ended[file.path] = mark\n                    self._take_away()\n",
        "tests/unit/connectors/test_ended_files.py::test_a_file_is_deleted_after_the_commit_of_its_end",
    ),
    Guard(
        "the mark of the file whose end was committed",
        "connectors/file_task.py",
        "                offset = None\n",
        "                pass\n",
        "tests/unit/connectors/test_ended_files.py::test_a_new_file_of_the_same_name_is_read_from_its_start",
    ),
    Guard(
        "the content of a compressed file up to its position",
        "connectors/content_file.py",
        "        left, self._line, returned = self.position - start,",
        "        left, self._line, returned = 0,",
        "tests/unit/connectors/test_compressed_files.py::"
        "test_positions_count_the_content_and_each_of_them_can_be_resumed_from",
    ),
    Guard(
        "the identity of a file with groups of rows",
        "connectors/tables/table_file.py",
        "if known.identity is not None and known.identity != table.identity:",
        "if known.identity is None and known.group is not None:",
        "tests/unit/connectors/test_table_files.py::test_another_file_in_its_place_is_told",
    ),
    Guard(
        "the rows of a group that were read before",
        "connectors/tables/table.py",
        "part = batch.slice(skip, left)",
        "part = batch.slice(0, left)",
        "tests/unit/connectors/test_table_files.py::test_each_row_is_read_once_whatever_the_batches_and_restarts",
    ),
    Guard(
        "the inferred schema in the offset",
        "connectors/file_task.py",
        "offsets=[(file.partition, {**file.offset, **self._inferred})],",
        "offsets=[(file.partition, file.offset)],",
        "tests/unit/connectors/test_schema_inference.py::"
        "test_what_was_inferred_is_pinned_in_the_offset_and_a_restart_keeps_it",
    ),
    Guard(
        "the changes of a transaction that were read before its stream was cut",
        "connectors/postgres/decoder.py",
        "        if known.any():",
        "        if False:",
        "tests/unit/connectors/postgres/test_decoder.py::test_a_stream_that_is_cut_anywhere_resumes_at_the_next_change",
    ),
    Guard(
        "the position after a logical message of no transaction",
        "connectors/postgres/decoder.py",
        "self._end = max(self._end, int(block.be64[starts[loose[-1]] + MESSAGE + 2]) + 1)",
        "pass",
        "tests/unit/connectors/postgres/test_decoder.py::test_logical_messages_arrive_once_wherever_a_stream_is_cut",
    ),
    Guard(
        "the position of a quiet slot within a transaction",
        "connectors/postgres/decoder.py",
        "if decoded.wal_end and not self._in_transaction:",
        "if decoded.wal_end:",
        "tests/unit/connectors/postgres/test_decoder.py::test_a_keepalive_moves_the_position_between_transactions_only",
    ),
    Guard(
        "the refusal of a slot past the offset",
        "connectors/postgres/slot.py",
        "if slot.confirmed is not None and slot.confirmed > position.lsn:",
        "if False:",
        "tests/unit/connectors/postgres/test_position.py::test_a_slot_past_the_offset_is_refused",
    ),
    Guard(
        "the tables that were rewritten as the first snapshot began",
        "connectors/postgres/held_tables.py",
        "c.relkind = 'p' OR c.relfilenode = pg_relation_filenode(c.oid)",
        "true",
        "tests/broker/test_postgres_rewrites.py::test_a_table_rewritten_as_the_snapshot_begins_keeps_its_rows",
    ),
    Guard(
        "the publication that was altered as the first snapshot began",
        "connectors/postgres/database.py",
        "if now != parts or _definitions(before) != _definitions(self.published()):",
        "if False:",
        "tests/broker/test_postgres_rewrites.py::test_a_table_added_to_the_publication_as_the_snapshot_begins_is_whole",
    ),
    Guard(
        "the refusal of a publication that lost a table for a while",
        "connectors/postgres/slot.py",
        "    if altered := sorted(altered_parts(state, now).keys() - dropped):",
        "    if False:",
        "tests/unit/connectors/postgres/test_position.py::test_a_publication_may_grow_but_not_lose_what_it_had",
    ),
    Guard(
        "the refusal of a publication that lost a table which was added to it while the connector ran",
        "connectors/postgres/streaming.py",
        "        if self._new_table:",
        "        if False:",
        "tests/broker/test_postgres_faults.py::test_a_table_added_to_the_publication_is_captured[True]",
    ),
    Guard(
        "the check of a configuration's files",
        "connectors/file_stream.py",
        "            blame(values, lambda: self._check_file(config))",
        "            pass",
        "tests/unit/connectors/test_allowed_files.py::"
        "test_the_property_that_names_another_file_is_refused_when_it_is_checked",
    ),
    Guard(
        "the streams of bzip2 and xz after the first one",
        "connectors/compressed_parts.py",
        "            if left:\n                return True\n",
        "            if left:\n                return False\n",
        "tests/unit/connectors/test_compressed_files.py::test_zeros_between_and_after_members_are_no_content[xz]",
    ),
    Guard(
        "the fingerprint of a file before its restart point",
        "connectors/restart_point.py",
        "    if stream.fingerprint(point.place) != point.fingerprint:",
        "    if not point.fingerprint:",
        "tests/unit/connectors/test_restart_points.py::"
        "test_a_file_that_was_replaced_is_not_read_from_the_restart_point[gzip members]",
    ),
    Guard(
        "the restart point that is not behind the position",
        "connectors/restart_point.py",
        " and point.position <= position else None",
        " else None",
        "tests/unit/connectors/test_restart_points.py::test_an_offset_that_was_set_back_is_read_from_the_begin",
    ),
    Guard(
        "the refusal of a line that is null",
        "connectors/jsonl_reader.py",
        '        if line.startswith(b"null"):',
        "        if False:",
        "tests/unit/connectors/test_bad_rows.py::test_a_line_that_is_null_is_no_object[False-null]",
    ),
)
