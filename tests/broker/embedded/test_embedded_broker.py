"""The embedded broker: its data persist, its errors say what to do, and it never outlives its parent process."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.errors import DataDirError, PortTakenError
from fencepost.embedded.ports import free_ports, is_listening
from tests.support.checker import read_topic, values
from tests.support.processes import Process, wait_for
from tests.support.topics import Topics

_FREQUENT_RETENTION_CHECKS = {"log.initial.task.delay.ms": "0", "log.retention.check.interval.ms": "100"}


def produce(bootstrap_servers: str, topic: str, value: bytes, timestamp: int = 0) -> None:
    """Produce a record; a timestamp of 0 stands for now."""
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(topic, value, timestamp=timestamp)
    assert producer.flush(60) == 0


def test_a_started_broker_takes_topics(topics: Topics) -> None:
    name = topics.create(partitions=3, config={"cleanup.policy": "compact"})

    assert topics.partitions(name) == 3
    assert topics.config(name)["cleanup.policy"] == "compact"


def test_a_record_with_an_old_timestamp_stays_unless_its_topic_says_otherwise(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "broker", properties=_FREQUENT_RETENTION_CHECKS) as broker:
        servers, topics = broker.bootstrap_servers, Topics(broker.bootstrap_servers)
        kept, brief = topics.create(), topics.create(config={"retention.ms": "1000"})
        produce(servers, kept, b"of 2017", timestamp=1_500_000_000_000)
        # Between two deletions of this topic's records the broker has checked every topic.
        for _ in range(2):
            produce(servers, brief, b"of 2017", timestamp=1_500_000_000_000)
            wait_for(lambda: read_topic(servers, brief) == [])

        assert values(read_topic(servers, kept)) == [b"of 2017"]


def test_records_are_still_there_after_a_kill_and_after_a_new_start(tmp_path: Path) -> None:
    folder = tmp_path / "kafka däta"
    folder.mkdir()
    first = EmbeddedBroker(folder).start()
    topic = Topics(first.bootstrap_servers).create()
    produce(first.bootstrap_servers, topic, b"before the kill")
    node = first.nodes[0]
    node.kill()
    assert not node.running
    node.start()
    produce(first.bootstrap_servers, topic, b"after the kill")
    first.stop()

    (port,) = free_ports(1)
    with EmbeddedBroker(folder, port=port) as second:
        assert second.bootstrap_servers == f"127.0.0.1:{port}"
        assert values(read_topic(second.bootstrap_servers, topic)) == [b"before the kill", b"after the kill"]
        assert not is_listening(first.nodes[0].place.ports["CLIENT"])
        with pytest.raises(DataDirError, match="in use by another broker"):
            EmbeddedBroker(folder).start()

    with pytest.raises(DataDirError, match=r"holds a broker of 1 node.*--nodes 1"):
        EmbeddedBroker(folder, nodes=3).start()


def test_a_taken_port_is_named_and_nothing_is_left_running(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        broker = EmbeddedBroker(tmp_path, port=port)
        with pytest.raises(PortTakenError, match=f"port {port} .*choose another port"):
            broker.start()

    assert not any(node.running for node in broker.nodes)


def test_a_suspended_broker_answers_again_after_it_resumes(broker: EmbeddedBroker, topic: str) -> None:
    broker.nodes[0].pause()
    try:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        producer.produce(topic, b"v")
        assert producer.flush(0.3) == 1
    finally:
        broker.nodes[0].resume()

    assert producer.flush(60) == 0


def test_the_command_runs_a_broker_that_ends_with_it(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    arguments = ("broker", "--port", str(port), "--data-dir", str(tmp_path / "data"))
    with Process.fencepost(*arguments, log_file=tmp_path / "log") as command:
        command.wait_for_output(f"Kafka listens on 127.0.0.1:{port}")
        topic = Topics(f"127.0.0.1:{port}").create()
        command.signal(signal.SIGTERM)
        assert command.wait() == 0
    assert not is_listening(port)

    with Process.fencepost(*arguments, log_file=tmp_path / "log2") as command:
        command.wait_for_output("Kafka listens")
        assert Topics(f"127.0.0.1:{port}").partitions(topic) == 1
        command.kill()
        wait_for(lambda: not is_listening(port), what="the broker dies with the command")


def test_a_broker_ends_with_a_test_process_that_is_killed(tmp_path: Path) -> None:
    # The broker is started from a thread that ends at once: the kernel must not take the thread's end for its parent's.
    script = (
        "import sys, threading, time; from pathlib import Path; from fencepost.embedded.broker import EmbeddedBroker\n"
        f"broker = EmbeddedBroker(Path({str(tmp_path / 'data')!r}))\n"
        "thread = threading.Thread(target=broker.start); thread.start(); thread.join()\n"
        "time.sleep(0.2); assert broker.nodes[0].running\n"
        "print('pid', broker.nodes[0].pid, flush=True); time.sleep(600)"
    )
    with Process([sys.executable, "-c", script], tmp_path / "log") as starter:
        starter.wait_for_output("pid")
        pid = int(starter.output.split()[-1])
        os.kill(pid, 0)
        starter.kill()

        wait_for(lambda: not Path(f"/proc/{pid}").exists(), what="the broker is gone")


def test_the_broker_command_reports_a_full_disk(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    arguments = ("broker", "--port", str(port), "--data-dir", str(tmp_path / "data"))
    with Process.fencepost(*arguments, log_file=tmp_path / "log") as process:
        process.wait_for_output("Kafka listens")
        with (tmp_path / "data" / "node-1" / "broker.log").open("a") as log:
            log.write("java.io.IOException: No space left on device\n")
        (jvm,) = psutil.Process(process.pid).children()
        jvm.kill()
        assert process.wait() == 1
    full = "fencepost: broker node 1 ended by itself: the disk of .*node-1 is full. Free some space"
    assert re.search(full, process.output)
