"""Guards of the converters' use of a schema registry, and of its passwords."""

from __future__ import annotations

from tests.mutations.guard import Guard

_CLIENT = "tests/unit/converters/registry/test_client.py"
_TASKS = "tests/broker/runtime/test_registry.py"
_DECISIONS = "tests/unit/converters/registry/test_decisions.py"
_RECURSIVE = "tests/unit/converters/registry/test_recursive_schemas.py"
_APICURIO = "tests/unit/converters/avro/test_apicurio.py"
_VALIDATION = "tests/unit/runtime/connector/test_registry_validation.py"

GUARDS = (
    Guard(
        "the passwords of a registry, which executors must not get",
        "converters/registry/base.py",
        'return {**self.__dict__, "_registry_settings": None}',
        "return self.__dict__",
        "tests/unit/converters/registry/test_decisions.py::"
        "test_a_pickled_converter_has_its_ids_and_no_way_to_the_registry",
    ),
    Guard(
        "the login of a registry, which no other server must get",
        "converters/registry/http.py",
        "preload_content=False, redirect=False, retries=False",
        "preload_content=False, redirect=True, retries=3",
        f"{_CLIENT}::test_redirects_are_not_followed",
    ),
    Guard(
        "the ids of a registry that are none",
        "converters/registry/client.py",
        "if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= _LARGEST_ID:",
        "if not isinstance(number, int):",
        f"{_CLIENT}::test_a_wrong_id_is_refused",
    ),
    Guard(
        "the schema that an id is of",
        "converters/registry/registry.py",
        "if _content(known) != _content(found.schema):",
        "if False:",
        f"{_CLIENT}::test_one_id_for_two_schemas_is_refused",
    ),
    Guard(
        "the size of a registry's answers",
        "converters/registry/http.py",
        "if size > LONGEST_ANSWER:",
        "if size > 1000 * LONGEST_ANSWER:",
        f"{_CLIENT}::test_an_answer_without_an_end_is_not_read_to_the_end",
    ),
    Guard(
        "an open transaction, which must not wait for a registry",
        "runtime/task/poll_loop.py",
        "aborted = self._end_before_wait() or aborted",
        "aborted = False",
        f"{_TASKS}::test_an_open_transaction_is_committed_before_a_task_waits_for_its_registry",
    ),
    Guard(
        "a transaction that was aborted while it waited, whose records are read again",
        "runtime/task/poll_loop.py",
        "                if aborted:",
        "                if False:",
        f"{_TASKS}::test_a_transaction_without_boundary_is_aborted_once_while_a_task_waits",
    ),
    Guard(
        "a transaction without a boundary, which no wait may commit",
        "runtime/task/boundaries.py",
        """        del now
        return BoundaryDecision.CONTINUE

    @abstractmethod
    def at_end""",
        """        del now
        return BoundaryDecision.COMMIT

    @abstractmethod
    def at_end""",
        f"{_TASKS}::test_a_transaction_without_boundary_is_aborted_once_while_a_task_waits",
    ),
    Guard(
        "the schema that another worker registers at the same time",
        "converters/registry/registry.py",
        "if error.status != HTTPStatus.CONFLICT:",
        "if True:",
        f"{_DECISIONS}::test_a_conflict_with_another_worker_is_not_an_incompatibility",
    ),
    Guard(
        "the answers of a registry that may pass",
        "converters/registry/client.py",
        "frozenset({408, 429, 500, 502, 503, 504})",
        "frozenset({408})",
        f"{_DECISIONS}::test_a_busy_registry_is_asked_again",
    ),
    Guard(
        "the number of a field, which no other field of its subject may get",
        "converters/protobuf/numbers.py",
        "highest = number = _next(highest)",
        "number = len(fields) + 1",
        "tests/unit/converters/protobuf/test_converter.py::test_names_keep_the_numbers_of_any_version_of_their_subject",
    ),
    Guard(
        "the time that a validation waits for a registry",
        "converters/registry/client.py",
        "if time.monotonic() > self._deadline:",
        "if False:",
        f"{_VALIDATION}::test_a_registry_that_hangs_does_not_hold_up_the_validation",
    ),
    Guard(
        "the reader of recursive schemas, which raises where the compiled one ends the process",
        "converters/avro/reading.py",
        "_read_py.schemaless_reader if _is_recursive(parsed, named) else",
        "_read_py.schemaless_reader if False else",
        f"{_RECURSIVE}::test_values_that_are_too_deep_are_refused_and_do_not_end_the_process",
    ),
    Guard(
        "each of Apicurio's settings for ids, without which it writes other bytes",
        "converters/registry/apicurio.py",
        'if line == "3":',
        "if True:",
        f"{_APICURIO}::test_the_second_line_writes_them_if_each_setting_says_so",
    ),
    Guard(
        "the length before a whole value of bytes, which Apicurio's readers want",
        "converters/avro/apicurio.py",
        "raw_bytes=False",
        "raw_bytes=True",
        f"{_APICURIO}::test_bytes_have_their_length_as_apicurios_serializer_writes_it",
    ),
    Guard(
        "keys of one name in JSON, of which readers keep one",
        "engine/schemaless_json.py",
        "                if text in found:",
        "                if False:",
        "tests/unit/engine/test_grouping.py::test_keys_that_json_gives_one_name_are_refused",
    ),
    Guard(
        "all digits of decimals that verify compares",
        "api/decimals.py",
        ".scaleb(-scale, _EXACT)",
        ".scaleb(-scale)",
        "tests/unit/api/test_decimals.py::test_readers_of_a_registry_keep_all_digits",
    ),
    Guard(
        "numbers that JSON does not have, which readers take for zero",
        "converters/jsonschema/converter.py",
        "            check_numbers(values)\n",
        "",
        "tests/unit/converters/jsonschema/test_converter.py::"
        "test_numbers_that_json_does_not_have_are_refused_with_their_place",
    ),
    Guard(
        "a login in an address, which answers hide",
        "runtime/connector/passwords.py",
        "defined | with_login | {",
        "defined | {",
        f"{_VALIDATION}::test_logins_are_passwords_wherever_they_are",
    ),
)
