"""A worker and its connector's three clients: four principals with exactly the ACLs that KIP-618 lists.

The worker and its connector get their ACLs one by one, and each missing one is named. Then each ACL that a running one
needs is removed, named, and added again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.processes import wait_for
from tests.support.security import SecuredBroker
from tests.support.sequence_source import properties, seqs
from tests.support.topics import unique
from tests.support.workers import Answer, Group, Worker

CREATE, DESCRIBE, READ, WRITE = AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE
TOPIC, GROUP, IDS = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
TASKS = 2


def lacks(operation: str, resource: str) -> str:
    """The message about a missing ACL."""
    return f"Not authorized: the principal lacks {operation} on {resource}. Add an ACL that allows {operation}"


@dataclass
class Cluster:
    """A worker and a connector on a secured broker."""

    secured: SecuredBroker
    group: Group
    name: str = field(default_factory=lambda: unique("connector"))
    topic: str = field(default_factory=lambda: unique("topic"))
    offsets: str = field(default_factory=lambda: unique("offsets"))
    worker: Worker = field(init=False)
    versions: int = 0
    last_trace: str = ""

    @property
    def ids(self) -> str:
        """The prefix of the connector's transactional ids."""
        return f"{self.group.id}-{self.name}-"

    def allow(self, user: str, operation: AclOperation, kind: ResourceType, name: str) -> None:
        self.secured.allow(user, operation, kind, name, prefix=name.endswith("-"))

    @contextmanager
    def without(self, user: str, operation: AclOperation, kind: ResourceType, name: str) -> Iterator[None]:
        """Remove an ACL for a while."""
        self.secured.revoke(user, operation, kind, name)
        try:
            yield
        finally:
            self.allow(user, operation, kind, name)

    # -- the worker ----------------------------------------------------------------------------------------------

    def starts_in_vain(self, missing: str) -> None:
        """Start a worker, which ends because an ACL is missing."""
        with self.group.starting() as worker:
            assert worker.process.wait() == 1
            assert missing in worker.process.output

    def refuses(self, missing: str) -> None:
        """Wait until a request fails because the worker lacks an ACL.

        A read that began before the ACL was removed may still succeed.
        """

        def refused() -> bool:
            answer = self.put()
            return answer.status == 500 and missing in answer.body["message"]

        wait_for(refused, what=f"a request is refused: {missing}")

    def logs(self, missing: str) -> None:
        self.worker.process.wait_for_output(missing)

    # -- the connector -------------------------------------------------------------------------------------------

    def put(self) -> Answer:
        """Create or change the connector's configuration: its earlier tasks are fenced and new ones start."""
        self.versions += 1
        clients = {"producer": "producer", "consumer": "consumer", "admin": "administrator"}
        config = properties(
            self.name,
            self.topic,
            {
                "tasks.max": TASKS,
                "poll.ms": 50,
                "messages.per.poll": 1,
                "limit": 1_000_000 + self.versions,
                "offsets.storage.topic": self.offsets,
                "topic.creation.default.partitions": 1,
                "topic.creation.default.replication.factor": 1,
                **{
                    f"{kind}.override.sasl.jaas.config": self.secured.properties(user)["sasl.jaas.config"]
                    for kind, user in clients.items()
                },
            },
        )
        return self.worker.request("PUT", f"/connectors/{self.name}/config", config)

    def put_until_done(self) -> None:
        wait_for(lambda: self.put().status in (200, 201), what="the configuration is written")

    def restart(self) -> None:
        path = f"/connectors/{self.name}/restart?includeTasks=true"
        wait_for(lambda: self.worker.request("POST", path).status == 202, what="the restart is taken on")

    def traces(self, *states: str) -> list[str] | None:
        """The traces of the connector and its tasks, None unless these are their states."""
        status = self.worker.get(f"/connectors/{self.name}/status")
        found = [] if status is None else [status["connector"], *status["tasks"]]
        return [one.get("trace", "") for one in found] if [one["state"] for one in found] == list(states) else None

    def fails(self, missing: str, *states: str) -> None:
        """Wait until the FAILED connector or tasks name a missing ACL, in another trace than last time."""

        def trace() -> str | None:
            traces = [trace for trace in self.traces(*states) or [] if trace]
            new = traces and all(missing in trace for trace in traces) and traces[0] != self.last_trace
            return traces[0] if new else None

        self.last_trace = wait_for(trace, what=f"the connector says: {missing}") or ""

    def tasks_fail(self, missing: str) -> None:
        self.fails(missing, "RUNNING", *["FAILED"] * TASKS)

    def goes_on(self) -> None:
        """Wait until everything is RUNNING, and each task has delivered new records, all records once."""
        self.worker.wait_for_states(self.name, *["RUNNING"] * (1 + TASKS))
        before = self._delivered()

        def further() -> bool:
            return all(now > then for now, then in zip(self._delivered(), before, strict=True))

        wait_for(further, what="every task goes on")

    def _delivered(self) -> list[int]:
        found = values(read_topic(self.secured.sasl_servers, self.topic, settings=self.secured.rdkafka()))
        delivered = [seqs(found, self.name, task) for task in range(TASKS)]
        for task in delivered:
            assert_exactly_once(task, range(1, len(task) + 1))
        return [len(task) for task in delivered]


def start_worker(cluster: Cluster, stack: ExitStack) -> None:
    """Give the worker its ACLs one by one, until it accepts a connector."""
    group = cluster.group.id
    cluster.allow("worker", DESCRIBE, TOPIC, f"{group}-")
    # The worker opens its three topics concurrently, and names the first one that fails.
    cluster.starts_in_vain(f"the principal lacks CREATE (or CREATE on the cluster) on topic {group}-")
    cluster.allow("worker", CREATE, TOPIC, f"{group}-")
    for kind in ("offsets", "configs", "status"):
        for operation in (READ, WRITE):
            cluster.allow("worker", operation, TOPIC, f"{group}-{kind}")
    cluster.starts_in_vain(lacks("READ", f"group {group}"))
    cluster.allow("worker", READ, GROUP, group)
    cluster.worker = stack.enter_context(cluster.group.worker())
    for operation in (DESCRIBE, WRITE):
        cluster.refuses(lacks(operation.name, f"transactional id connect-cluster-{group}"))
        cluster.allow("worker", operation, IDS, f"connect-cluster-{group}")
    cluster.put_until_done()


def start_connector(cluster: Cluster) -> None:
    """Give the connector's clients their ACLs one by one, until it runs and its tasks were fenced once."""
    offsets, topic = f"topic {cluster.offsets}", f"topic {cluster.topic}"
    create = "CREATE (or CREATE on the cluster)"
    for operation, named in ((DESCRIBE, "DESCRIBE"), (CREATE, create)):
        cluster.fails(lacks(named, offsets), "FAILED")
        cluster.allow("administrator", operation, TOPIC, cluster.offsets)
        cluster.restart()
    for user, operation, kind, name, missing in (
        ("producer", DESCRIBE, IDS, cluster.ids, f"DESCRIBE on transactional id {cluster.ids}"),
        ("producer", WRITE, IDS, cluster.ids, f"WRITE on transactional id {cluster.ids}"),
        ("consumer", DESCRIBE, TOPIC, cluster.offsets, f"DESCRIBE on {offsets}."),
        ("administrator", CREATE, TOPIC, cluster.topic, f"{create} on {topic}."),
        ("administrator", DESCRIBE, TOPIC, cluster.topic, f"DESCRIBE on {topic}."),
        ("producer", DESCRIBE, TOPIC, cluster.topic, f"DESCRIBE on {topic}."),
        ("producer", DESCRIBE, TOPIC, cluster.offsets, f"DESCRIBE on {offsets}."),
        ("producer", WRITE, TOPIC, cluster.offsets, f"WRITE on {offsets}."),
    ):
        cluster.tasks_fail(missing)
        if name == cluster.offsets and user == "producer":
            # Records and source offsets are sent concurrently, so either topic's missing ACL may be named first.
            cluster.allow("producer", WRITE, TOPIC, cluster.topic)
        cluster.allow(user, operation, kind, name)
        cluster.restart()
    # The source had no offsets until now, so none were read.
    cluster.allow("consumer", READ, TOPIC, cluster.offsets)
    cluster.goes_on()
    cluster.put_until_done()
    cluster.tasks_fail(f"WRITE and DESCRIBE on transactional ids {cluster.ids}0, {cluster.ids}1.")
    for operation in (DESCRIBE, WRITE):
        cluster.allow("administrator", operation, IDS, cluster.ids)
    cluster.restart()
    cluster.goes_on()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, secured: SecuredBroker) -> Iterator[Cluster]:
    group = Group(tmp_path_factory.mktemp("acls"), secured.sasl_servers, **secured.properties("worker"))
    cluster = Cluster(secured, group)
    with ExitStack() as stack:
        start_worker(cluster, stack)
        start_connector(cluster)
        yield cluster


def test_each_missing_right_is_named_until_all_are_granted_and_data_flows(cluster: Cluster) -> None:
    # The fixture has checked each missing ACL before it added that ACL.
    cluster.goes_on()


@pytest.mark.parametrize(
    ("operation", "kind", "name"),
    [(WRITE, TOPIC, "{group}-configs"), (READ, TOPIC, "{group}-configs"), (WRITE, IDS, "connect-cluster-{group}")],
)
def test_a_request_names_the_right_that_the_worker_lost_and_works_once_it_is_back(
    cluster: Cluster, operation: AclOperation, kind: ResourceType, name: str
) -> None:
    name = name.format(group=cluster.group.id)
    resource = f"topic {name}" if kind is TOPIC else f"transactional id {name}"

    with cluster.without("worker", operation, kind, name):
        cluster.refuses(lacks(operation.name, resource))

    cluster.put_until_done()
    cluster.goes_on()


@pytest.mark.parametrize(
    ("user", "operation", "kind", "name"),
    [
        ("worker", READ, TOPIC, "{group}-offsets"),
        ("consumer", READ, TOPIC, "{offsets}"),
        ("producer", WRITE, TOPIC, "{offsets}"),
        ("producer", WRITE, TOPIC, "{topic}"),
        ("producer", WRITE, IDS, "{ids}"),
    ],
)
def test_tasks_name_the_right_that_a_client_lost_and_resume_once_it_is_back(
    cluster: Cluster, user: str, operation: AclOperation, kind: ResourceType, name: str
) -> None:
    name = name.format(group=cluster.group.id, offsets=cluster.offsets, topic=cluster.topic, ids=cluster.ids)
    cluster.goes_on()

    with cluster.without(user, operation, kind, name):
        cluster.restart()
        cluster.tasks_fail(f"{operation.name} on {'topic' if kind is TOPIC else 'transactional id'} {name}")

    cluster.restart()
    cluster.goes_on()


@pytest.mark.parametrize(
    ("operation", "told"),
    [(WRITE, "Statuses cannot be written to {topic}; retrying: "),
     (READ, "Topic {topic} cannot be followed; retrying: ")],
)  # fmt: skip
def test_missing_statuses_are_written_once_the_worker_may_use_the_topic(
    cluster: Cluster, operation: AclOperation, told: str
) -> None:
    topic = f"{cluster.group.id}-status"

    with cluster.without("worker", operation, TOPIC, topic):
        assert cluster.worker.request("PUT", f"/connectors/{cluster.name}/pause").status == 202
        cluster.logs(told.format(topic=topic) + lacks(operation.name, f"topic {topic}"))

    cluster.worker.wait_for_states(cluster.name, *["PAUSED"] * (1 + TASKS))
    assert cluster.worker.request("PUT", f"/connectors/{cluster.name}/resume").status == 202
    cluster.goes_on()


def test_tasks_run_on_while_the_worker_may_not_copy_their_offsets_to_its_own_topic(cluster: Cluster) -> None:
    topic = f"{cluster.group.id}-offsets"

    with ExitStack() as unwritten:
        with cluster.without("worker", READ, TOPIC, topic):
            cluster.logs(f"their tasks keep running: {lacks('READ', f'topic {topic}')}")
            unwritten.enter_context(cluster.without("worker", WRITE, TOPIC, topic))
        cluster.logs(f"their tasks keep running: {lacks('WRITE', f'topic {topic}')}")
        cluster.goes_on()

    cluster.logs(f"Offsets are copied to the worker's offsets topic {topic} again")
