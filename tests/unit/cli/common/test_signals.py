from __future__ import annotations

import signal
import subprocess
import sys

import pytest

_UNTIL_ASKED = """
import sys, {module}
from fencepost.cli.common.signals import await_stop, until_signal
{body}
print("stopped", flush=True)
"""
_THREAD = """
print("ready", flush=True)
await_stop(lambda: None)
"""
_LOOP = """
async def start():
    print("ready", flush=True)
async def run():
    await until_signal(start(), asyncio.get_running_loop().create_future())
asyncio.run(run())
"""


@pytest.mark.parametrize("body", [_THREAD, _LOOP], ids=["thread", "loop"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_command_stops_in_order_at_a_signal(body: str, number: signal.Signals) -> None:
    # The thread sets its handlers after "ready". An earlier signal ends the process at once, as documented.
    source = _UNTIL_ASKED.format(module="asyncio", body=body)
    if body is _THREAD:
        source = source.replace("await_stop(lambda: None)", "await_stop(lambda: print('watched', flush=True))")
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() != ("watched" if body is _THREAD else "ready"):
            assert process.poll() is None
        process.send_signal(number)
        assert process.stdout.read().split()[-1] == "stopped"
    assert process.returncode == 0


def test_an_error_of_the_callback_ends_the_wait() -> None:
    source = "from fencepost.cli.common.signals import await_stop\nawait_stop(lambda: 1 / 0)"
    done = subprocess.run([sys.executable, "-c", source], stderr=subprocess.PIPE, text=True, check=False)
    assert "ZeroDivisionError" in done.stderr
