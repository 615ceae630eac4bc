"""A Spark standalone cluster on loopback: a master and workers of one core each, from pyspark's own launcher."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psutil
import pyspark

from fencepost.embedded.java import find_java
from fencepost.engine.spark.session import make_java_home
from tests.support.processes import Process, wait_for

_DEPLOY = "org.apache.spark.deploy"
_PATIENCE = 180.0


@dataclass(frozen=True)
class SparkCluster:
    """A running cluster. `settings` are for a session that uses it."""

    master: str
    workers: list[Process]
    start_worker: Callable[[], Process]

    @property
    def settings(self) -> dict[str, str]:
        return {
            "spark.master": self.master,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "480m",
            # Jobs wait until all executors have registered, so that each gets a task.
            "spark.cores.max": str(len(self.workers)),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.executor.defaultJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
            "spark.default.parallelism": str(len(self.workers)),
            "spark.sql.shuffle.partitions": str(len(self.workers)),
        }

    def executor_of(self, python_worker: int) -> psutil.Process:
        """The executor's JVM that a Python worker (its process id) belongs to."""
        parents = psutil.Process(python_worker).parents()
        return next(parent for parent in parents if "CoarseGrainedExecutorBackend" in " ".join(parent.cmdline()))

    def replace_worker_of(self, python_worker: int) -> None:
        """Kill the Spark worker that a Python worker (its process id) belongs to, with its executor, and start another."""
        executor = self.executor_of(python_worker)
        above = {parent.pid for parent in executor.parents()}
        (worker,) = (worker for worker in self.workers if worker.pid in above)
        worker.kill()
        executor.kill()
        self.workers.remove(worker)
        self.workers.append(self.start_worker())


@contextmanager
def spark_cluster(folder: Path, *, workers: int) -> Iterator[SparkCluster]:
    port = _free_port()
    environment = {
        "JAVA_HOME": make_java_home(find_java(), folder / "java"),
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": os.environ["SPARK_SUBMIT_OPTS"],
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_NO_DAEMONIZE": "1",
    }
    launcher = os.path.join(os.path.dirname(pyspark.__file__), "bin", "spark-class")  # noqa: PTH118, PTH120 - a str
    address = ["--host", "127.0.0.1", "--webui-port", str(_free_port())]

    def start(role: str, *arguments: str, log: str) -> Process:
        command = ["bash", launcher, f"{_DEPLOY}.{role}", *arguments]
        return Process(command, folder / f"{log}.log", environment=environment)

    with ExitStack() as stack:
        master = stack.enter_context(start("master.Master", *address, "--port", str(port), log="master"))
        master.wait_for_output("I have been elected leader", _PATIENCE)
        url = f"spark://127.0.0.1:{port}"
        size = ["--cores", "1", "--memory", "1g"]
        number = count()

        def start_worker() -> Process:
            where = ["--host", "127.0.0.1", "--webui-port", str(_free_port())]
            return stack.enter_context(start("worker.Worker", *where, *size, url, log=f"w{next(number)}"))

        started = [start_worker() for _ in range(workers)]
        wait_for(lambda: len(re.findall("Registering worker", master.output)) == workers, _PATIENCE)
        yield SparkCluster(url, started, start_worker)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
