"""Each guard is removed from a copy of the package, and its test must fail. Run by `make mutations`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import OUTER_BROKER
from tests.mutations.guard import PACKAGE, ROOT, Guard
from tests.mutations.guards import GUARDS

_TIMEOUT_SECONDS = 540


def _copy(folder: Path) -> Path:
    """A copy of the package in `folder`."""
    return Path(shutil.copytree(PACKAGE, folder / "fencepost", ignore=shutil.ignore_patterns("__pycache__")))


def _run(test: str, source: Path, bootstrap_servers: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(source), OUTER_BROKER: bootstrap_servers}
    # The outer run's xdist workers and seed must not apply to the inner run.
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", test]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
    )


# `make mutations K=...` selects guards by these ids: by their file, and by words in their names.
@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"{guard.file}: {guard.name}")
def test_each_guard_has_a_test_that_fails_without_it(guard: Guard, bootstrap_servers: str, tmp_path: Path):
    mutated = _copy(tmp_path) / guard.file
    mutated.write_text(guard.mutated())

    run = _run(guard.test, tmp_path, bootstrap_servers)

    assert run.returncode == pytest.ExitCode.TESTS_FAILED, f"nobody misses {guard.name}:\n{run.stdout[-3000:]}"
    assert str(mutated.parent) in run.stdout or " failed" in run.stdout


def test_a_copy_with_all_guards_stays_green(bootstrap_servers: str, tmp_path: Path):
    _copy(tmp_path)

    run = _run(GUARDS[0].test, tmp_path, bootstrap_servers)

    assert run.returncode == pytest.ExitCode.OK, run.stdout[-3000:]
