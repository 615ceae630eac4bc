"""Guards of the herders: fencing rounds, start checks, requests between workers."""

from __future__ import annotations

from tests.mutations.guard import Guard

GUARDS = (
    Guard(
        "the comparison of the internal topics of a group's members",
        "herder/core/group_topics.py",
        "        return bool(self.breaking)",
        "        return False",
        "tests/unit/herder/core/test_group_topics.py::test_all_members_start_no_task_while_one_has_other_topics",
    ),
    Guard(
        "the wait of a worker whose topics differed from the topics of a leader that left",
        "herder/core/group_topics.py",
        "    if not _breaks(own, former.leader) or _breaks(own, found.leader):",
        "    if True:",
        "tests/unit/herder/core/test_group_topics.py::test_a_worker_that_differed_starts_nothing_after_its_leader_left",
    ),
    Guard(
        "the fencing call of the leader's rounds",
        "herder/work/fencing_round.py",
        "            admin.fence_producers(ids).all()",
        "            pass",
        "tests/broker/kafka/test_start_checks.py::test_a_round_fences_all_earlier_tasks_and_records_how_many_may_start",
    ),
    Guard(
        "the task count check before a task starts",
        "herder/distributed/group_fencing.py",
        "        if self._parts.fencing_is_due(connector):\n            raise RebalanceNeededError(",
        "        if False:\n            raise RebalanceNeededError(",
        "tests/broker/kafka/test_start_checks.py::test_a_task_beyond_the_task_count_does_not_start",
    ),
    Guard(
        "the look for the task count of another standalone worker",
        "herder/standalone/standalone_fencing.py",
        "if fenced is None or latest != fenced.offset:",
        "if False:",
        "tests/broker/herder/test_standalone_fencing.py::test_tasks_of_a_process_that_was_overtaken_do_not_start",
    ),
    Guard(
        "the turns that rounds of a standalone worker take",
        "herder/standalone/standalone_fencing.py",
        "        async with self._turn:\n",
        "        if True:\n",
        "tests/broker/herder/test_standalone_fencing.py::test_rounds_of_one_process_come_one_after_the_other",
    ),
    Guard(
        "the limits of what requests configure in a standalone worker",
        "herder/standalone/standalone_parts.py",
        "self.requested = worker.limited()",
        "self.requested = worker",
        "tests/broker/rest/test_standalone_rest.py::test_requests_are_limited_where_connector_files_are_not",
    ),
    Guard(
        "the read to end after a task owns its transactional id",
        "herder/work/start_checks.py",
        "        await self._fencing.confirm(task.connector)\n        self._check(task)",
        "        self._check(task)",
        "tests/broker/kafka/test_start_checks.py::"
        "test_a_task_with_its_transactional_id_does_not_start_on_outdated_task_configs",
    ),
    Guard(
        "the second signature that workers require of each other",
        "herder/distributed/leadership.py",
        "                bound=self._fencepost_only,\n",
        "                bound=False,\n",
        "tests/cluster/test_worker_refusals.py::test_a_signature_for_one_connector_is_refused_for_another",
    ),
    Guard(
        "requests between workers that are accepted once",
        "herder/distributed/leadership.py",
        "            if self.leads:\n",
        "            if False:\n",
        "tests/cluster/test_worker_refusals.py::test_a_copy_of_earlier_task_configs_is_refused",
    ),
    Guard(
        "the ids of signed requests",
        "herder/peers/request_signing.py",
        "    request_id = secrets.token_hex(16)\n",
        '    request_id = "0"\n',
        "tests/unit/rest/test_internal.py::test_tasks_that_start_in_the_same_millisecond_are_both_fenced",
    ),
    Guard(
        "the request that a signature is bound to",
        "herder/peers/request_signing.py",
        '    return f"{method}\\n{path}\\n{time}\\n{request_id}\\n".encode() + body',
        "    return body",
        "tests/unit/rest/test_internal.py::test_a_recorded_request_is_refused_for_another_connector",
    ),
    Guard(
        "the stored password that nothing defines as one",
        "runtime/connector/passwords.py",
        "    secret = set(kept) & set(passwords_before) - set(passwords_now)",
        "    secret: set[str] = set()",
        "tests/unit/runtime/connector/test_passwords.py::"
        "test_a_stored_password_is_not_taken_over_where_nothing_defines_it",
    ),
    Guard(
        "the exits that are failures of a call",
        "herder/core/calls.py",
        'future.set_exception, as_failure("A call on a thread of this worker", error))',
        "future.set_exception, error)",
        "tests/unit/herder/core/test_calls.py::test_exceptions_that_would_end_the_loop_fail_the_call",
    ),
    Guard(
        "the passwords that are left out of shown configurations",
        "runtime/connector/passwords.py",
        "    return value if not value or _REFERENCE.fullmatch(value) else HIDDEN",
        "    return value",
        "tests/unit/runtime/connector/test_passwords.py::test_passwords_are_not_shown_and_placeholders_are",
    ),
)
