"""What a thread for each idle task costs, against one thread that polls them all: decision 48 weighs both.

Each task is asked twice a second and has nothing. In `threads` each task has a thread that waits in between; in `shared` one
thread keeps the times of all polls in a heap. Sockets are counted separately: `sockets` keeps one open for each task, connected to
a listener of the same process, and no thread. The figures are of a new process for each part: resident MB above a process
without tasks, and cores.

Run: .venv/bin/python bench/idle_tasks.py --tasks 2000 --seconds 10 --rounds 5
"""

from __future__ import annotations

import argparse
import heapq
import multiprocessing
import resource
import socket
import statistics
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import psutil

_EVERY_S = 0.5


def poll() -> None:
    """A poll that finds nothing."""


def threads(tasks: int, end: threading.Event) -> None:
    def task() -> None:
        while not end.wait(_EVERY_S):
            poll()

    for _ in range(tasks):
        threading.Thread(target=task, daemon=True).start()


def shared(tasks: int, end: threading.Event) -> None:
    def all_tasks() -> None:
        due = [(time.monotonic() + _EVERY_S * number / tasks, number) for number in range(tasks)]
        while not end.wait(max(0.0, due[0][0] - time.monotonic())):
            poll()
            heapq.heapreplace(due, (due[0][0] + _EVERY_S, due[0][1]))

    threading.Thread(target=all_tasks, daemon=True).start()


_KEPT: list[socket.socket] = []


def sockets(tasks: int, _: threading.Event) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    for _number in range(tasks):
        _KEPT.append(socket.create_connection(listener.getsockname()))
        _KEPT.append(listener.accept()[0])


PARTS: dict[str, Callable[[int, threading.Event], None]] = {"threads": threads, "shared": shared, "sockets": sockets}


def measured(part: str, tasks: int, seconds: float, answer: Connection) -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    before, end = psutil.Process().memory_info().rss, threading.Event()
    PARTS[part](tasks, end)
    time.sleep(2 * _EVERY_S)
    cpu, start = time.process_time(), time.monotonic()
    time.sleep(seconds)
    cores = (time.process_time() - cpu) / (time.monotonic() - start)
    answer.send(((psutil.Process().memory_info().rss - before) / 1e6, cores))
    end.set()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=2000, help="the idle tasks (2000)")
    parser.add_argument("--seconds", type=float, default=10, help="how long CPU is counted (10)")
    parser.add_argument("--rounds", type=int, default=5, help="the rounds, in each of which the parts take turns (5)")
    options = parser.parse_args()
    figures: dict[str, list[tuple[float, float]]] = {part: [] for part in PARTS}
    context = multiprocessing.get_context("spawn")
    for _ in range(options.rounds):
        for part, found in figures.items():
            mine, its = context.Pipe()
            process = context.Process(target=measured, args=(part, options.tasks, options.seconds, its))
            process.start()
            found.append(mine.recv())
            process.join()
    for part, found in figures.items():
        texts = [
            f"{statistics.median(each):.3f} ({min(each):.3f} to {max(each):.3f})" for each in zip(*found, strict=True)
        ]
        print(f"{part}: {texts[0]} MB, {texts[1]} cores")


if __name__ == "__main__":
    main()
