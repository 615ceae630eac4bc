"""The JVMs of a process: several start at the same time, and those that ask for the same one wait for it together."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fencepost.config.java_settings import JavaSettings
from fencepost.java.jvm import JvmPool
from tests.support.processes import wait_for


def paused_at_start(file: Path) -> JavaSettings:
    """Settings of a JVM that makes this file when it starts, and goes on when it is removed."""
    pause = f"-XX:PauseAtStartupFile={file}"
    return JavaSettings(options=("-XX:+UnlockDiagnosticVMOptions", "-XX:+PauseAtStartup", pause))


def test_a_jvm_that_starts_slowly_keeps_no_other_from_starting(tmp_path: Path):
    pool, pause = JvmPool(), tmp_path / "paused"
    with contextlib.ExitStack() as stack:
        stack.callback(pool.close)
        threads = stack.enter_context(ThreadPoolExecutor())
        stack.callback(pause.unlink, missing_ok=True)
        slow = [threads.submit(pool.lease, "slow", paused_at_start(pause)) for _ in range(2)]
        wait_for(pause.exists, what="the start of the slow one")
        assert pool.lease("other", JavaSettings()).is_alive
        assert not any(lease.done() for lease in slow)
        pause.unlink()
        assert slow[0].result() is slow[1].result()
