"""A machine that has just booted: its monotonic clock shows less time than the caches' lifetimes of minutes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.checker import read_topic, values
from tests.support.topics import Topics

_ROOT = Path(__file__).parents[3]
_UPTIME_SECONDS = 3
# Codecs and pure functions, which do not use the clock and whose tests take the longest.
_CLOCKLESS = ("kafka/records", "storage/configs")

_TRANSACTION = """
import sys, time
if len(sys.argv) > 3:
    # Where the kernel allows no time namespaces.
    clock, before = time.monotonic, float(sys.argv[3])
    time.monotonic = lambda: clock() - before
assert time.monotonic() < 200, time.monotonic()
from tests.support.writing import open_producer, producer_config, write_in_transaction
with open_producer(producer_config(sys.argv[1]), "small-clock-" + sys.argv[2]) as producer:
    for value in (b"first", b"second"):
        producer.begin_transaction()
        write_in_transaction(producer, sys.argv[2], [value])
        producer.commit_transaction()
"""


def _namespace() -> list[str] | None:
    """The prefix of a command that runs it with a small monotonic clock; None where the kernel does not allow that."""
    shift = _UPTIME_SECONDS - int(time.monotonic())
    command = ["unshare", "--user", "--map-root-user", "--time", f"--monotonic={shift}"]
    try:
        allowed = subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return None
    return command if allowed else None


@pytest.mark.parametrize("injected", [False, True], ids=["of the machine", "injected"])
def test_a_transaction_is_written_on_a_machine_that_was_just_booted(
    bootstrap_servers: str, topics: Topics, injected: bool
) -> None:
    topic = topics.create()
    namespace = None if injected else _namespace()
    shift = [] if namespace else [str(time.monotonic() - _UPTIME_SECONDS)]
    command = [*(namespace or ()), sys.executable, "-c", _TRANSACTION, bootstrap_servers, topic, *shift]

    run = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=300, check=False)

    assert run.returncode == 0, run.stderr
    assert values(read_topic(bootstrap_servers, topic)) == [b"first", b"second"]


def test_unit_tests_with_clocks_pass_on_a_machine_that_was_just_booted() -> None:
    folders = [f"tests/unit/{name}" for name in ("kafka", "runtime", "storage", "herder")]
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *folders]
    command = [*(_namespace() or ()), *pytest_command, *(f"--ignore=tests/unit/{name}" for name in _CLOCKLESS)]

    run = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=590, check=False)

    assert run.returncode == 0, run.stdout[-3000:]
