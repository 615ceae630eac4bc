"""Guards of source functions, of the frames that they yield, and of `fencepost.run`."""

from __future__ import annotations

from tests.mutations.guard import Guard

_FRAMES = "tests/unit/connectors/functions/test_frames.py::"
_VALUES = "tests/unit/connectors/functions/test_frame_values.py::"
_DECLARED = "tests/unit/connectors/functions/test_declared.py::"

GUARDS = (
    Guard(
        "the times of frames that are finer than a microsecond",
        "connectors/rows/arrow_columns.py",
        "        if not exact and _has(values.type, _is_nanoseconds):",
        "        if _has(values.type, _is_nanoseconds):",
        f"{_VALUES}test_a_value_that_would_change_refuses_its_row",
    ),
    Guard(
        "the objects of several types in data frames of pandas",
        "connectors/functions/frames.py",
        "            _check_objects(frame[name].to_numpy(), name, where)",
        "            pass",
        f"{_VALUES}test_objects_of_several_types_are_refused",
    ),
    Guard(
        "the Python objects in data frames of polars",
        "connectors/functions/frames.py",
        '            if str(kind) == "Object":',
        "            if False:",
        f"{_VALUES}test_values_without_a_form_in_arrow_are_refused",
    ),
    Guard(
        "the extension types whose storage is not the value",
        "connectors/functions/frames.py",
        "        if kind.extension_name not in _PLAIN_EXTENSIONS or nested:",
        "        if False:",
        f"{_VALUES}test_types_without_a_form_are_refused_by_their_columns",
    ),
    Guard(
        "the rows before a frame, whose cursor is not the frame's",
        "connectors/functions/function_reader.py",
        "                    if not pairs:\n",
        "                    if True:\n",
        f"{_FRAMES}test_rows_before_a_frame_come_before_it_and_rows_after_it_later",
    ),
    Guard(
        "the source partition that a function has twice",
        "connectors/functions/declared.py",
        "    if twice := next((text for text in texts if texts.count(text) > 1), None):",
        "    if twice := None:",
        f"{_DECLARED}test_wrong_partitions_are_refused",
    ),
    Guard(
        "the commit of a script's tasks before its result",
        "herder/standalone/herder.py",
        "        self._member.close()\n        await self._work.revoke(self._work.units)",
        "        await self._work.revoke(self._work.units)\n        self._member.close()",
        "tests/broker/cli/test_script_run.py::test_ctrl_c_commits_and_returns_the_result",
    ),
)
