"""The audit of dependencies evaluates pip-audit's report."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

AUDIT = runpy.run_path(str(Path(__file__).parents[3] / ".ci" / "audit.py"))

CLEAN = {"name": "sound", "version": "1", "vulns": []}
SKIPPED = {"name": "unheard", "skip_reason": "Dependency not found on PyPI"}
BAD = {"name": "bad", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1", "3"]}]}


@pytest.mark.parametrize(
    ("packages", "status", "said"),
    [
        ([CLEAN], 0, ["No known vulnerabilities in 1 dependencies"]),
        ([BAD, CLEAN], 1, ["bad 2: PYSEC-1, fixed in 2.1, 3"]),
        ([BAD, SKIPPED], 1, ["bad 2: PYSEC-1", "1 of 2 dependencies were NOT audited"]),
        ([SKIPPED], 0, ["1 of 1 dependencies were NOT audited"]),
    ],
)
def test_a_known_vulnerability_fails_lint_and_unaudited_packages_are_listed(
    packages: list[dict[str, Any]], status: int, said: list[str]
):
    found, lines = AUDIT["verdict"]({"dependencies": packages})
    assert found == status
    assert [line.startswith(text) for line, text in zip(lines, said, strict=True)] == [True] * len(said)


def test_an_unreachable_service_is_reported_and_is_not_a_failure():
    status, lines = AUDIT["verdict"](None)
    assert (status, "NOT audited" in lines[0]) == (0, True)
