"""The daemon from which Spark forks its Python workers, with the imports of fencepost's jobs already done.

    spark.python.daemon.module=fencepost.engine.spark.daemon

Spark ends Python workers after 60 s without work, and the daemon of pyspark forks each new one without any imports: a
second of CPU until its first row. Here the fork has them. The imports start no threads of Python, and the threads of
the libraries (jemalloc's, OpenBLAS's) are handled by these at a fork.
"""

from __future__ import annotations

import gc
import importlib
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Final

from pyspark import daemon

_MODULES: Final = (
    "pyspark.worker",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.json",
    "fencepost",
    "fencepost.converters",
    "fencepost.connectors.files.connector",
    "fencepost.connectors.files.stream_source",
    "fencepost.engine.write_stage",
)
"""The imports of a Python worker that reads, converts and writes; pyspark's own are internals, and may change."""


def import_ahead() -> None:
    """Import the modules that workers need.

    A module that cannot be imported is left out: a worker that needs it reports why.
    """
    for module in _MODULES:
        with suppress(Exception):
            importlib.import_module(module)
    with suppress(Exception):
        # The first array of Python values imports pandas: 0.3 s of CPU.
        importlib.import_module("pyarrow").array([""])
    # A worker collects garbage after each task: these objects stay, and need not be scanned, nor copied by a fork.
    gc.collect()
    gc.freeze()


def quiet_if_cancelled(work: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """Return pyspark's function of a forked worker, without the traceback for a JVM that has closed the connection.

    The JVM does so when a job is cancelled or the session stops, and reports it itself.
    """

    @wraps(work)
    def worker(sock: socket.socket, authenticated: bool) -> int:
        try:
            return work(sock, authenticated)
        except BrokenPipeError:
            return 1

    return worker


if __name__ == "__main__":
    import_ahead()
    vars(daemon)["worker"] = quiet_if_cancelled(daemon.worker)
    daemon.manager()
