"""Each guard's code is in the package, so that `make mutations` can remove it."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.mutations.guard import ROOT
from tests.mutations.guards import GUARDS

_ADVICE = "Correct the Guard in tests/mutations/guards, or remove it together with what it guarded:"


def _told(faults: list[str]) -> str:
    return "\n".join([_ADVICE, *faults])


def test_each_guard_occurs_once_in_the_code() -> None:
    faults = [
        f"{guard.name}: its code stands {guard.occurrences} times in src/fencepost/{guard.file}"
        for guard in GUARDS
        if guard.occurrences != 1
    ]

    assert not faults, _told(faults)


def test_without_a_guard_the_code_differs_and_can_be_run() -> None:
    for guard in GUARDS:
        assert guard.code != guard.without, _told([f"{guard.name}: nothing is taken out"])
        # The test compiles Java code.
        if guard.file.endswith(".py"):
            ast.parse(guard.mutated(), filename=guard.file)


def test_the_test_of_each_guard_exists(request: pytest.FixtureRequest) -> None:
    """Parameters are checked only for collected tests; `make test` collects all tests."""
    collected = {item.nodeid for item in request.session.items}
    functions = {nodeid.partition("[")[0] for nodeid in collected}
    faults = []
    for guard in GUARDS:
        function = guard.test.partition("[")[0]
        exists = guard.test in collected | functions if function in functions else _is_defined(function)
        if not exists:
            faults.append(f"{guard.name}: there is no test {guard.test}")

    assert not faults, _told(faults)


def _is_defined(test: str) -> bool:
    file, _, name = test.partition("::")
    if not (ROOT / file).is_file():
        return False
    return not name or name in _functions(ROOT / file)


@cache
def _functions(file: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}


def test_no_two_guards_have_one_name() -> None:
    assert [name for name, count in Counter(guard.name for guard in GUARDS).items() if count > 1] == []
