"""The daemon from which Spark forks its Python workers. It has already imported the modules that fencepost's jobs need.

    spark.python.daemon.module=fencepost.engine.spark.daemon

Spark ends Python workers after 60 s without work, and pyspark's daemon forks each new worker without any imports: a
worker then needs a second of CPU time until its first row. Here a forked worker already has the imports. The imported
modules start no Python threads, and their libraries handle the threads of jemalloc and OpenBLAS at a fork.
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
"""The modules that a Python worker needs to read, convert and write. pyspark's own are internals, and may change."""


def import_ahead() -> None:
    """Import the modules that workers need.

    A module that cannot be imported is skipped. A worker that needs the module will report the error.
    """
    for module in _MODULES:
        with suppress(Exception):
            importlib.import_module(module)
    with suppress(Exception):
        # The first array of Python values makes pyarrow import pandas: 0.3 s of CPU time.
        importlib.import_module("pyarrow").array([""])
    # A worker collects garbage after each task. The imported objects are permanent: they need not be scanned, nor be
    # copied after a fork.
    gc.collect()
    gc.freeze()


def quiet_if_cancelled(work: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """Wrap the function `work` of a forked worker: print no traceback if the JVM has closed the connection.

    The JVM closes the connection when a job is cancelled or the session stops, and reports that itself.
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
