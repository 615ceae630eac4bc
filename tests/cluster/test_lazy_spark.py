"""A worker of a group starts Spark's JVM only when it needs Spark: not for polled records or Java connectors."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.java import find_java
from tests.support.checker import read_topic, values
from tests.support.java_connectors import Connectors
from tests.support.java_plugins import FILE_STREAM, plugin_path
from tests.support.processes import wait_for
from tests.support.running_tasks import create_sequence
from tests.support.topics import Topics, unique
from tests.support.workers import Group, Worker

SPARK, HOST = "org.apache.spark.deploy.SparkSubmit", "fencepost.host.Host"
LINES = [b"line %d" % number for number in range(100)]


def jvms(worker: Worker) -> set[str]:
    """The kinds of JVMs that the worker runs: Spark's and those for Java connectors."""
    children = psutil.Process(worker.process.pid).children(recursive=True)
    words = {word for one in children if one.status() != psutil.STATUS_ZOMBIE for word in one.cmdline()}
    return words & {SPARK, HOST}


def test_spark_is_started_by_the_first_connector_that_needs_it(tmp_path: Path, broker: EmbeddedBroker, topics: Topics):
    group = Group(tmp_path, broker.bootstrap_servers, plugin_path=str(plugin_path(tmp_path)))
    file, servers = tmp_path / "in.txt", broker.bootstrap_servers
    file.write_bytes(b"".join(line + b"\n" for line in LINES))
    polled, java, plain, changed = (topics.create() for _ in range(4))

    def delivered(topic: str) -> bool:
        return len(read_topic(servers, topic)) == len(LINES)

    with group.starting(environment={"JAVA_HOME": str(find_java().home), "PATH": os.environ["PATH"]}) as worker:
        worker.wait_until_healthy()
        connectors = Connectors(worker)
        connectors.start({"connector.class": f"java:{FILE_STREAM}", "file": str(file), "topic": java})
        create_sequence(worker, unique("polled"), polled, tasks=2)
        connectors.start({"connector.class": f"fencepost:{FILE_STREAM}", "file": str(file), "topic": plain})
        for topic in (polled, java, plain):
            wait_for(lambda topic=topic: delivered(topic), what=f"the records of {topic}")
        assert jvms(worker) == {HOST}
        sql = {"transforms": "t", "transforms.t.type": "Sql", "transforms.t.value": "upper(value)"}
        connectors.start({"connector.class": f"fencepost:{FILE_STREAM}", "file": str(file), "topic": changed, **sql})
        wait_for(lambda: delivered(changed), what="the changed records")
        assert values(read_topic(servers, changed)) == [line.upper() for line in LINES]
        assert jvms(worker) == {HOST, SPARK}
