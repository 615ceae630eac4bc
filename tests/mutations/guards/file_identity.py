"""Guards of files that are renamed or replaced."""

from __future__ import annotations

from tests.mutations.guard import Guard

_SPELLED = "tests/unit/connectors/files/discovery/test_spellings.py::"
_RENAMED = "tests/unit/connectors/files/discovery/test_renames.py::"
_USED_AGAIN = "tests/unit/connectors/files/discovery/test_names_used_again.py::"
_ROTATED = "tests/unit/connectors/files/discovery/test_rotated_files.py::"
_MANY = "tests/unit/connectors/files/test_many_files.py::"
_LISTING = "tests/unit/connectors/files/discovery/test_own_listing.py::"
_WATCH = "tests/unit/connectors/files/discovery/test_watch.py::"
_SMALL = "tests/unit/connectors/files/content/test_small_files.py::"
_TOUCHED = "tests/unit/connectors/files/discovery/test_touched_files.py::"
_BEGUN = "tests/unit/connectors/files/discovery/test_begun.py::"
_FORMER = "tests/unit/connectors/files/discovery/test_former_names.py::"

GUARDS = (
    Guard(
        "the small file that changed after it was taken into memory",
        "connectors/files/content/growing.py",
        "        held = self._held if self._held is not None and stamp_of(self._held[0]) == self.seen else None\n",
        "        held = self._held\n",
        f"{_SMALL}test_a_file_that_changes_after_it_was_opened_first_is_opened_again",
    ),
    Guard(
        "the file that is overwritten in place while its task does not run",
        "connectors/files/content/identity.py",
        " and self.changed == status.st_ctime_ns\n",
        "\n",
        f"{_SMALL}test_a_file_that_is_overwritten_before_a_restart_is_an_error",
    ),
    Guard(
        "the compressed file whose position is its size",
        "connectors/files/content/identity.py",
        "        changed = status.st_ctime_ns if plain else 0\n",
        "        changed = status.st_ctime_ns\n",
        f"{_SMALL}test_a_compressed_file_is_read_on_from_a_position_that_is_its_size",
    ),
    Guard(
        "the unchanged file whose offset was set back",
        "connectors/files/content/growing.py",
        "        if identity is None or self.position != identity.end or not identity.is_whole(status):\n",
        "        if identity is None or not identity.is_whole(status):\n",
        f"{_SMALL}test_an_offset_that_was_set_back_is_read_from_there",
    ),
    Guard(
        "the files that a task sees and the connector does not",
        "connectors/files/discovery/file_rule.py",
        "    alike = np.isin(numbers, differences) ^ compared\n",
        "    alike = np.isin(numbers, differences[:0]) ^ compared\n",
        f"{_MANY}test_a_file_that_the_connector_has_not_seen_is_not_read",
    ),
    Guard(
        "the task of a file that has had a name of another task",
        "connectors/files/discovery/file_rule.py",
        " ^ np.isin(numbers, self.exceptions)\n",
        "\n",
        "tests/unit/connectors/files/discovery/test_file_rule.py::test_a_renamed_file_is_of_the_task_that_was_given_it",
    ),
    Guard(
        "the inodes of the files of a rule",
        "connectors/files/discovery/file_rule.py",
        "    return mixed(hashes ^ mixed(numbers, _INODE_SEED), _FILE_SEED)\n",
        "    return mixed(hashes ^ mixed(numbers * np.uint64(0), _INODE_SEED), _FILE_SEED)\n",
        f"{_LISTING}test_a_name_with_another_file_is_not_read",
    ),
    Guard(
        "the files of a rule that are too many to tell",
        "connectors/files/discovery/sketch.py",
        "        return None if keys.any() or checks.any() else ",
        "        return ",
        "tests/unit/connectors/files/discovery/test_file_rule.py::"
        "test_too_many_other_files_are_not_taken_for_the_task_s",
    ),
    Guard(
        "the files of a rule among too many that have not settled",
        "connectors/files/discovery/own_listing.py",
        "        if found is None and self._discovery.settle_s:\n",
        "        if False:\n",
        f"{_LISTING}test_any_number_of_files_that_have_not_settled_keeps_no_file_back",
    ),
    Guard(
        "the files that the connector saw before they changed again",
        "connectors/files/discovery/file_rule.py",
        "    differences = sketch.differences(numbers[compared])\n",
        "    differences = sketch.differences(numbers[compared])\n    compared[:] = True\n",
        f"{_LISTING}test_any_number_of_files_that_have_not_settled_keeps_no_file_back",
    ),
    Guard(
        "the renamed file that a task with a rule sees late",
        "connectors/files/task.py",
        "        if self._files and not renamed.isdisjoint(files):\n",
        "        if False:\n",
        f"{_MANY}test_a_renamed_file_that_comes_after_its_task_has_started_is_an_error",
    ),
    Guard(
        "the second scan after one that met a rename",
        "connectors/files/discovery/watch.py",
        "if other or self._lacks(found, new) or self._is_elsewhere(found, new, changed):",
        "if other:",
        f"{_ROTATED}test_a_rename_that_a_scan_meets_is_left_to_the_next_scan[seen1]",
    ),
    Guard(
        "the second scan after one that met a file under two names",
        "connectors/files/discovery/watch.py",
        "if other or self._lacks(found, new) or self._is_elsewhere(found, new, changed):",
        "if other or self._lacks(found, new):",
        f"{_ROTATED}test_a_rename_that_a_scan_meets_is_left_to_the_next_scan[seen0]",
    ),
    Guard(
        "the names of a rotation that two scans found alike, of which one name differs",
        "connectors/files/discovery/watch.py",
        "        waiting += others\n",
        "",
        f"{_WATCH}test_all_names_of_a_rotation_wait_if_the_scans_differ_on_one",
    ),
    Guard(
        "the file that was away at its stat",
        "connectors/files/discovery/watch.py",
        "**found, **dict.fromkeys(unseen)}",
        "**dict.fromkeys(unseen), **found}",
        f"{_WATCH}test_a_file_that_was_away_at_its_stat_is_found_when_it_is_back",
    ),
    Guard(
        "the offsets of a file that was away",
        "connectors/files/discovery/former_names.py",
        "self._seen.isdisjoint(numbers)",
        "bool(self._seen)",
        f"{_FORMER}test_a_file_that_was_away_is_found_under_its_new_name",
    ),
    Guard(
        "the offsets of a file that was read and went away while the connector ran",
        "connectors/files/discovery/former_names.py",
        "        self._seen.update(() if now is None else now.values())\n",
        "",
        f"{_FORMER}test_a_file_that_was_read_while_the_connector_ran_and_went_away_is_found",
    ),
    Guard(
        "the offset of a file whose path is spelled in another way now",
        "connectors/files/discovery/renames.py",
        "if committed.get(name) is not None and name not in abandoned]",
        "if name is file]",
        f"{_SPELLED}test_a_file_under_another_spelling_is_not_read_again[as_text-dotted]",
    ),
    Guard(
        "the start of a file that has the name of a renamed one in another spelling",
        "connectors/files/discovery/renames.py",
        "if committed.get(name) is not None and name not in abandoned]",
        "if committed.get(name) is not None]",
        f"{_SPELLED}test_a_file_that_is_renamed_and_spelled_anew_is_not_read_again",
    ),
    Guard(
        "the offset that a former name has no longer",
        "connectors/files/discovery/renames.py",
        "dict.fromkeys(sorted(abandoned)) | adopted",
        "adopted",
        f"{_USED_AGAIN}test_a_new_file_under_an_old_name_of_a_deleted_one_is_read[as_text]",
    ),
    Guard(
        "the offset that a file has no longer that was taken away",
        "connectors/files/task.py",
        "self._changed.append((tracked.partition, None))",
        "pass",
        f"{_USED_AGAIN}test_a_file_that_begins_as_one_that_was_taken_away_is_read[a.log-longer]",
    ),
    Guard(
        "the state of a file that was to be taken away",
        "connectors/files/discovery/renames.py",
        "mark is None or mark == Mark.of(file, allowed)",
        "mark is None or mark",
        f"{_USED_AGAIN}test_it_is_read_also_if_the_worker_was_killed_after_the_move",
    ),
    Guard(
        "the bytes of a file before each batch",
        "connectors/files/content/identity.py",
        "known is not None and not known.begins(file)",
        "known is not None and seen != self.seen and not known.begins(file)",
        f"{_RENAMED}test_a_file_that_is_overwritten_while_it_is_read_is_reported[latin-1]",
    ),
    Guard(
        "the bytes of a file before its position",
        "connectors/files/content/identity.py",
        "not known.begins(file):",
        "not known:",
        f"{_RENAMED}test_a_file_that_is_replaced_by_one_as_long_is_reported[same-plain-running]",
    ),
    Guard(
        "the time of the last change of a file that got the inode of a deleted one",
        "connectors/files/content/identity.py",
        "(size == self.end and modified != self.modified)",
        "size < self.end",
        f"{_RENAMED}test_a_new_file_with_the_inode_and_the_bytes_of_a_deleted_one_is_read",
    ),
    Guard(
        "the offset of a file under its former name",
        "connectors/files/discovery/renames.py",
        "        if best != file:",
        "        if not best:",
        f"{_RENAMED}test_a_file_that_is_renamed_while_nothing_runs_is_not_read_again[as_text]",
    ),
    Guard(
        "the start of a file that has the name of a renamed one",
        "connectors/files/discovery/renames.py",
        "        offsets[name] = None",
        "        offsets[name] = offsets[name]",
        f"{_ROTATED}test_rotated_logs_are_read_once_and_the_new_one_from_its_start[1]",
    ),
    Guard(
        "the furthest offset of a file with several names",
        "connectors/files/discovery/renames.py",
        "best = max([file, *others]",
        "best = min([file, *others]",
        f"{_RENAMED}test_a_file_that_is_renamed_back_continues_at_its_furthest_position",
    ),
    Guard(
        "the stale offset of a name that has another file",
        "connectors/files/discovery/renames.py",
        "if _is_at(committed.get(former), former, file, allowed)\n",
        "\n",
        f"{_ROTATED}test_an_offset_of_another_file_under_an_old_name_is_not_used",
    ),
    Guard(
        "the offset of a file that is renamed again as its task starts",
        "connectors/files/discovery/renames.py",
        "    adopted |= _left_over(committed, formers, unsure, adopted, abandoned)\n",
        "",
        f"{_ROTATED}test_a_file_that_is_renamed_again_before_its_task_starts_is_read_once[given]",
    ),
    Guard(
        "the old name of a file that is renamed again before the connector reads offsets",
        "connectors/files/discovery/renames.py",
        "(inode_at(file) != inode or _is_at(offset, path, file, allowed)):",
        "_is_at(offset, path, file, allowed):",
        f"{_ROTATED}test_a_file_that_is_renamed_again_before_its_task_starts_is_read_once[found]",
    ),
    Guard(
        "the inodes of renamed files of a rule",
        "connectors/files/discovery/shares.py",
        "            other |= self._packed_renamed()\n",
        "            other[TASK_RENAMED_PACKED] = _packed([self.renamed, {}])\n",
        f"{_ROTATED}test_a_listed_file_that_is_renamed_again_before_its_task_starts_is_read_once[given]",
    ),
    Guard(
        "the commit of an adopted offset before all others",
        "connectors/files/task.py",
        "        if self._changed:\n",
        "        if not self._files:\n",
        f"{_ROTATED}test_a_crash_right_after_the_new_name_is_committed_loses_and_doubles_nothing",
    ),
    Guard(
        "the one task for a file and the former name it had",
        "connectors/files/discovery/renames.py",
        "            if first is not second:\n",
        "            if first is second:\n",
        f"{_RENAMED}test_the_names_of_one_file_are_of_one_task_wherever_they_were",
    ),
    Guard(
        "the file that the connector saw under a name",
        "connectors/files/task.py",
        "        another = self._inodes.has_another(tracked.path)\n",
        "        another = False\n",
        f"{_ROTATED}test_another_file_in_place_of_a_renamed_one_is_waited_with",
    ),
    Guard(
        "the time and the inode that a file gets while it keeps its name",
        "connectors/files/task.py",
        "                if changed and not splits:\n",
        "                if changed and splits:\n",
        f"{_TOUCHED}test_a_file_that_was_touched_and_then_renamed_is_not_read_again[running-touch-as_text]",
    ),
    Guard(
        "the file that changes between the look at it and the check of its bytes",
        "connectors/files/content/identity.py",
        "known.is_stale(seen) and stamp_of(status) == seen:\n",
        "known.is_stale(seen):\n",
        f"{_TOUCHED}test_a_file_that_is_exchanged_while_it_is_checked_is_looked_at_again",
    ),
    Guard(
        "the file of a split",
        "connectors/files/content/held.py",
        "part.known is None or part.known.is_in(file)",
        "part.known is None or part.known",
        f"{_ROTATED}test_a_batch_of_a_name_that_gets_another_file_before_it_is_read_fails",
    ),
    Guard(
        "the file that was read, before its name is taken away",
        "connectors/files/tracked.py",
        "track.seen == (mark.inode, mark.modified, mark.size)",
        "track.seen is not None",
        f"{_ROTATED}test_an_unread_file_in_the_place_of_a_read_one_is_not_taken_away[log*]",
    ),
    Guard(
        "the renamed file that is no addition",
        "connectors/files/discovery/shares.py",
        "if (self.renamed, self.spellings) != (former.renamed, former.spellings):",
        "if False:",
        "tests/unit/connectors/files/discovery/test_additions.py::test_a_renamed_addition_is_read_once[True]",
    ),
    Guard(
        "the renamed file that has not settled, and whose first records are not committed yet",
        "connectors/files/discovery/begun.py",
        "        begun = {file for file, inode in unsettled.items() if inode in given}\n",
        "        begun = set[str]()\n",
        f"{_BEGUN}test_a_file_may_be_renamed_before_the_commit_of_its_first_records[True]",
    ),
    Guard(
        "the new file that has the name or the inode of a former one, and has not settled",
        "connectors/files/task.py",
        "        if not (tracked.begun or self._discovery.has_settled(tracked.path)):\n",
        "        if False:\n",
        f"{_BEGUN}test_a_new_file_of_an_old_name_settles_first[True]",
    ),
    Guard(
        "the files that are renamed while their task starts",
        "connectors/files/task.py",
        "        if all(file in unsure for file in seen if self._inodes.is_unsure(file)):\n",
        "        if True:\n",
        f"{_ROTATED}test_files_that_are_rotated_while_the_task_starts_are_read_once",
    ),
    Guard(
        "the names of a file that is renamed again before its first records are committed",
        "connectors/files/discovery/watch.py",
        ".extend((path, *known.get(path, ())))",
        ".extend((path,))",
        f"{_ROTATED}test_a_file_that_is_renamed_again_before_its_first_task_ends_is_read_once[names0]",
    ),
)
