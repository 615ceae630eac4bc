"""All processes of one application return the same name, and processes of another application a different one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fencepost.spark.format import driver_process as module
from fencepost.spark.format.driver_process import driver_process

# Spark's daemon is a process group leader, and forks workers.
_DAEMON = """
import os
from fencepost.spark.format.driver_process import driver_process

os.setpgid(0, 0)
worker = os.fork()
if worker == 0:
    print(driver_process(), flush=True)
    os._exit(0)
os.waitpid(worker, 0)
"""
_APPLICATION = "import subprocess, sys; [subprocess.run([sys.executable, '-c', sys.argv[1]], check=True) for _ in '12']"


def workers_of_an_application() -> list[str]:
    """The names that a worker of each of two daemons returns."""
    command = [sys.executable, "-c", _APPLICATION, _DAEMON]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout.split()


def test_workers_of_all_daemons_of_an_application_agree():
    one, other = workers_of_an_application(), workers_of_an_application()
    assert (len(one), len(set(one)), len(set(other))) == (2, 1, 1)
    assert "None" not in one
    assert one[0] != other[0]


def test_the_driver_process_is_unknown_without_proc(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
):
    monkeypatch.setattr(module, "_PROCESSES", tmp_path_factory.mktemp("proc"))
    assert driver_process() is None
