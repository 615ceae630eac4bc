"""Connectors that change their process once, and then number records like good ones."""

from __future__ import annotations

import asyncio
import builtins
import ctypes
import decimal
import gc
import json
import locale
import logging
import mmap
import multiprocessing
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings

from good import Numbers, NumbersTask

HERE = os.getpid()


def time_zone():
    os.environ["TZ"] = "Pacific/Kiritimati"
    time.tzset()


def change_locale():
    for name in ("tr_TR.UTF-8", "de_DE.UTF-8", "C"):
        try:
            locale.setlocale(locale.LC_ALL, name)
        except locale.Error:
            continue


def deleted_folder():
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


def close_streams():
    sys.stdout.close()
    sys.stdin.close()


def silent_logs():
    logging.disable(logging.CRITICAL)
    logging.getLogger().handlers.clear()
    logging.shutdown()


def threads_left():
    for number in range(20):
        threading.Thread(target=threading.Event().wait, name=f"left-{number}", daemon=False).start()


def thread_that_raises():
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()


def fork_and_exit():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def fork_and_go_on():
    os.fork()


def fork_and_raise():
    if os.fork() == 0:
        raise ValueError("in the child")


def fork_and_exit_politely():
    if os.fork() == 0:
        sys.exit(0)


def fork_by_multiprocessing():
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(0.01,))
    process.start()
    process.join()


def run_a_program():
    subprocess.run([sys.executable, "-S", "-c", ""], check=True)


def print_much():
    os.write(1, b"x" * 1_000_000 + b"\n")
    os.write(2, b"\x00\x1b[2J\n" * 1000)


def own_event_loop():
    asyncio.run(asyncio.sleep(0.01))
    asyncio.set_event_loop_policy(None)


def own_logging():
    logging.basicConfig(level=logging.ERROR, force=True)


def use_decimals():
    decimal.getcontext().prec = 1
    decimal.setcontext(decimal.Context(prec=2, traps=[decimal.Inexact]))


MILD = {
    "time zone": time_zone,
    "locale": change_locale,
    "warnings are errors": lambda: warnings.simplefilter("error"),
    "streams closed": close_streams,
    "folder deleted": deleted_folder,
    "environment cleared": os.environ.clear,
    "umask": lambda: os.umask(0o777),
    "randomness seeded": lambda: random.seed(7),
    "garbage kept": lambda: (gc.disable(), gc.freeze()),
    "threads left": threads_left,
    "thread raises": thread_that_raises,
    "fork, child exits": fork_and_exit,
    "fork, child goes on": fork_and_go_on,
    "fork, child raises": fork_and_raise,
    "fork, child exits politely": fork_and_exit_politely,
    "fork by multiprocessing": fork_by_multiprocessing,
    "runs a program": run_a_program,
    "prints much": print_much,
    "own event loop": own_event_loop,
    "own logging": own_logging,
    "decimals": use_decimals,
    "except hook": lambda: setattr(threading, "excepthook", lambda *_: sys.exit(1)),
    "trace function": lambda: threading.settrace(lambda *_: None),
    "sockets time out": lambda: socket.setdefaulttimeout(0.001),
    "switch interval": lambda: sys.setswitchinterval(0.5),
}
"""Changes that must not affect other connectors."""


def broken(*_, **__):
    raise RuntimeError("broken on purpose")


def year_back(real=time.time):
    time.time = lambda: real() - 365 * 86400


def hour_ahead(real=time.monotonic):
    time.monotonic = lambda: real() + 3600


def close_everything():
    os.closerange(3, 4096)


WILD = {
    "exits at once": lambda: os._exit(9),
    "aborts": os.abort,
    "null pointer": lambda: ctypes.string_at(0),
    "SIGKILL": lambda: os.kill(HERE, signal.SIGKILL),
    "SIGTERM": lambda: os.kill(HERE, signal.SIGTERM),
    "SIGINT": lambda: signal.raise_signal(signal.SIGINT),
    "SIGHUP": lambda: os.kill(HERE, signal.SIGHUP),
    "alarm": lambda: signal.alarm(1),
    "json.dumps broken": lambda: setattr(json, "dumps", broken),
    "json.loads broken": lambda: setattr(json, "loads", broken),
    "json.dumps lies": lambda: setattr(json, "dumps", lambda *_, **__: '{"lies": true}'),
    "time goes back": year_back,
    "monotonic clock jumps": hour_ahead,
    "sleep returns at once": lambda: setattr(time, "sleep", lambda _: None),
    "threads do not start": lambda: setattr(threading.Thread, "start", broken),
    "open is broken": lambda: setattr(builtins, "open", broken),
    "logs are gone": silent_logs,
    "files closed": close_everything,
    "search path cleared": lambda: sys.path.clear(),
    "modules forgotten": lambda: [sys.modules.pop(name) for name in ("json", "decimal", "uuid") if name in sys.modules],
    "recursion limit": lambda: sys.setrecursionlimit(60),
}
"""Changes that may end the process or make it useless: after a restart it must work as before."""


class MeddlingTask(NumbersTask):
    """Makes its change in the second poll, unless a file `once` shows that it was made before."""

    def start(self, config):
        super().start(config)
        self.meddle = (MILD | WILD)[config["how"]]
        self.once = pathlib.Path(config["once"])
        self.polls = 0

    def poll(self):
        self.polls += 1
        if self.polls == 2 and not self.once.exists():
            self.once.touch()
            self.meddle()
        return super().poll()


class Meddling(Numbers):
    """Has a task that changes its process."""

    def task_class(self):
        return MeddlingTask


class ForkingTask(NumbersTask):
    """Forks in its second poll; the child process returns as well, and both read on from a shared file position."""

    def start(self, config):
        super().start(config)
        self.position = mmap.mmap(-1, 8)
        self.position[:] = self.seq.to_bytes(8)
        self.polls = 0

    def poll(self):
        self.polls += 1
        if self.polls == 2 and os.fork() == 0:
            return None
        return super().poll()

    def next_record(self):
        self.seq = int.from_bytes(self.position[:])
        self.position[:] = (self.seq + 1).to_bytes(8)
        return super().next_record()


class Forking(Numbers):
    """Has a task that forks."""

    def task_class(self):
        return ForkingTask


class SignalTask(NumbersTask):
    """Installs a signal handler, which Python allows in the main thread only."""

    def start(self, config):
        super().start(config)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


class Signals(Numbers):
    """Has a task that installs a handler for SIGTERM."""

    def task_class(self):
        return SignalTask


class ConfigThief(Numbers):
    """Changes every configuration that it gets or returned."""

    def validate(self, config):
        config = getattr(config, "_mapping", config)
        spoil(config)
        return super().validate(config)

    def start(self, config):
        super().start(config)
        spoil(config)

    def task_class(self):
        return ConfigThiefTask

    def task_configs(self, max_tasks):
        configs = super().task_configs(max_tasks)
        threading.Timer(0.2, lambda: [spoil(config) for config in configs]).start()
        return configs


class ConfigThiefTask(NumbersTask):
    """Changes its configuration, and the offsets that it read."""

    def start(self, config):
        super().start(config)
        spoil(config)
        spoil(self.context.configs())
        offset = self.context.offset_reader.offset(self.partition)
        if offset:
            offset["seq"] = 0


def spoil(config):
    """Change a mapping in place, if it lets itself be changed."""
    try:
        config["topic"] = "stolen"
        config["name"] = "good"
        config["connector.class"] = "nothing.AtAll"
    except TypeError:
        pass
