"""Requests, plugins, files and signatures that a worker must refuse. It always keeps running."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.herder.peers.request_signing import ALGORITHM_HEADER, SIGNATURE_HEADER
from tests.support.processes import wait_for
from tests.support.rest_fuzz import CONNECTOR, requests
from tests.support.running_tasks import create_sequence
from tests.support.sequence_source import properties
from tests.support.topics import unique
from tests.support.workers import Group, Worker, signed

# Python modules in plugin.path, which no configuration names.
PLAIN = {
    "plain_numbers.py": """
from fencepost import ConfigDef, SourceConnector

class Numbers(SourceConnector):
    def version(self):
        return "7.1"
    def config(self):
        return ConfigDef().define("first.number", ConfigDef.Type.INT, 1)
    def task_class(self):
        raise NotImplementedError
""",
    "plain_waiting.py": """
from pathlib import Path
from fencepost import RetriableError
from tests.support.sequence_source import SequenceConnector

class Waiting(SequenceConnector):
    def start(self, config):
        super().start(config)
        self._until = Path(config["until"])
    def task_configs(self, max_tasks):
        if not self._until.exists():
            raise RetriableError("the source does not answer")
        return super().task_configs(max_tasks)
""",
    "plain_broken.py": """
import fencepost
import a_package_that_nobody_has

class Broken(fencepost.SourceConnector):
    pass
""",
    "plain_other.py": "raise AssertionError('a module without plugins is not imported')\n",
}


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, broker: Any) -> Group:
    folder = tmp_path_factory.mktemp("refusals")
    (folder / "plugins").mkdir()
    for name, code in PLAIN.items():
        (folder / "plugins" / name).write_text(code)
    return Group(
        folder,
        broker.bootstrap_servers,
        plugin_path=str(folder / "plugins"),
        fencepost_files_allowed_paths="/no/such",
    )


@pytest.fixture(scope="module")
def worker(group: Group) -> Iterator[Worker]:
    with group.worker() as worker:
        yield worker


@pytest.mark.parametrize("plugin", ["antigravity.Connector", "fencepost.__main__.Connector"])
def test_a_request_cannot_make_the_worker_import_any_module(worker: Worker, plugin: str) -> None:
    config = {"connector.class": plugin, "topic": "t", "name": "c"}
    for path in ("/connectors/c/config", "/connector-plugins/Connector/config/validate"):
        answer = worker.request("PUT", path, config)
        assert answer.status == 400, answer
        assert f"{plugin}, given by the property connector.class, is not imported" in answer.body["message"]
        assert "fencepost.plugins.allowed.modules" in answer.body["message"]


@pytest.fixture(scope="module")
def known(worker: Worker) -> Iterator[str]:
    """A stopped connector. All connectors are deleted at the end."""
    name = unique("known")
    config = {**CONNECTOR, "name": name}
    before = worker.get("/connectors")
    assert worker.request("POST", "/connectors", {"config": config, "initial_state": "STOPPED"}).status == 201
    yield name
    for left in set(worker.get("/connectors")) - set(before):
        worker.request("DELETE", f"/connectors/{quote(left, safe='')}")


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_request_makes_a_worker_fail(worker: Worker, known: str, data: st.DataObject) -> None:
    request = data.draw(requests(known))
    status, body = worker.send(request)
    assert status < 500, body
    if status >= 400 and request.method != "HEAD":
        error = json.loads(body)
        assert error["error_code"] == status
        assert error["message"]


def test_a_config_that_kafka_refuses_is_a_bad_request_and_keeps_the_leader(worker: Worker, known: str) -> None:
    for property_, value, said in (
        ("text", "x" * 2_000_000, "make it smaller"),
        ("offsets.storage.topic", "no such topic", "the name of a topic has"),
    ):
        answer = worker.request("PUT", f"/connectors/{known}/config", {**CONNECTOR, "name": known, property_: value})
        assert answer.status == 400, answer
        assert said in answer.body["message"]
    assert "is lost" not in worker.process.output


def test_an_invalid_configuration_is_refused_with_all_its_errors(worker: Worker, name: str) -> None:
    config = properties(name, "t", {"tasks.max": "none", "value.converter": "Xml"})
    answer = worker.request("POST", "/connectors", {"name": name, "config": config})

    assert answer.status == 400
    assert "tasks.max" in answer.body["message"]
    assert "Xml" in answer.body["message"]
    assert worker.request("GET", f"/connectors/{name}").status == 404


def test_requests_between_workers_must_be_signed(worker: Worker, name: str, topic: str) -> None:
    create_sequence(worker, name, topic)
    signed = {"X-Connect-Authorization": "bm8=", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"}

    assert worker.request("PUT", f"/connectors/{name}/fence").status == 400
    assert worker.request("PUT", f"/connectors/{name}/fence", headers=signed).status == 403
    assert worker.request("POST", f"/connectors/{name}/tasks", [{}], signed).status == 403


def test_a_signature_for_one_connector_is_refused_for_another(
    worker: Worker, group: Group, name: str, topic: str
) -> None:
    """All workers are fencepost's, so a signature of the body alone is refused as well."""
    create_sequence(worker, name, topic)
    recorded = signed("PUT", "/connectors/another/fence", b"", group.session_key())
    body_only = {header: recorded[header] for header in (SIGNATURE_HEADER, ALGORITHM_HEADER)}

    answers = [worker.request("PUT", f"/connectors/{name}/fence", headers=headers) for headers in (recorded, body_only)]

    assert [answer.status for answer in answers] == [403, 400]
    assert group.internal(worker, "PUT", f"/connectors/{name}/fence").status == 204


def test_a_copy_of_earlier_task_configs_is_refused(worker: Worker, group: Group, name: str, topic: str) -> None:
    """A captured request between workers cannot bring earlier task configurations back."""
    create_sequence(worker, name, topic)
    path, key = f"/connectors/{name}/tasks", group.session_key()
    wait_for(lambda: len(worker.get(path)) == 1, what="the connector has its task")
    config = worker.get(path)[0]["config"]
    former, newer = ([{**config, "task.id": text}] for text in ("former", "newer"))
    recorded = signed("POST", path, json.dumps(former).encode(), key)
    assert worker.request("POST", path, former, recorded).status == 204
    assert group.internal(worker, "POST", path, newer).status == 204

    copy = worker.request("POST", path, former, recorded)

    assert (copy.status, "replays" in copy.body["message"]) == (403, True), copy
    assert worker.get(path)[0]["config"]["task.id"] == "newer"


@pytest.mark.parametrize(
    "config",
    [
        {"connector.class": "FileStreamSource", "file": "{}"},
        {"connector.class": "FileSource", "files": "{}", "format": "text"},
    ],
)
def test_a_connector_reads_no_file_that_the_worker_does_not_let_it(
    worker: Worker, name: str, topic: str, tmp_path: Path, config: dict[str, str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    named = {key: value.format(secret) for key, value in config.items()}
    checked_config = {"name": name, "topic": topic, **named}

    refused = worker.request("PUT", f"/connectors/{name}/config", {"topic": topic, **named})
    checked = worker.request("PUT", f"/connector-plugins/{config['connector.class']}/config/validate", checked_config)

    assert (refused.status, checked.status) == (400, 200)
    assert f"The file {secret} may not be read" in refused.body["message"]
    assert "fencepost.files.allowed.paths" in refused.body["message"]
    wrong = {found["value"]["name"] for found in checked.body["configs"] if found["value"]["errors"]}
    assert wrong == {"file" if "file" in config else "files"}


def test_plain_modules_of_plugin_path_are_listed_before_anybody_names_them(worker: Worker) -> None:
    for query in ("", "?connectorsOnly=false"):
        listed = {plugin["class"]: plugin for plugin in worker.get(f"/connector-plugins{query}")}
        plain = {name: plugin for name, plugin in listed.items() if name.startswith("plain_")}
        assert plain == {
            "plain_numbers.Numbers": {"class": "plain_numbers.Numbers", "type": "source", "version": "7.1"}
        }

    keys = {key["name"]: key for key in worker.get("/connector-plugins/plain_numbers.Numbers/config")}
    assert (keys["first.number"]["type"], keys["first.number"]["default_value"]) == ("INT", "1")
    assert "tasks.max" in keys
    assert worker.request("GET", "/connector-plugins/plain_broken.Broken/config").status == 404
    assert worker.process.output.count("The module plain_broken of plugin.path cannot be used") == 1
    assert "a_package_that_nobody_has" in worker.process.output
    assert "plain_other" not in worker.process.output


def test_a_connector_that_exits_is_failed_and_the_worker_runs_on(worker: Worker) -> None:
    for where, states in (
        ("start", ["FAILED"]),
        ("task_configs", ["FAILED"]),
        ("poll", ["RUNNING", "FAILED"]),
    ):
        name = unique("exiting")
        config = {"connector.class": "tests.support.exiting_source.ExitingConnector", "in": where}
        answer = worker.request("POST", "/connectors", {"name": name, "config": config})
        assert answer.status == 201, answer
        worker.wait_for_states(name, *states)
        status = worker.get(f"/connectors/{name}/status")
        trace = (status["tasks"][0] if where == "poll" else status["connector"])["trace"]
        assert f"{where}() of" in trace
        assert "raised SystemExit(3) at " in trace
        assert "exiting_source.py" in trace
        assert "fencepost/runtime" not in trace


def test_a_connector_whose_source_is_away_is_failed_until_it_answers(worker: Worker, topic: str, tmp_path: Path):
    name, until = unique("waiting"), tmp_path / "until"
    config = {**properties(name, topic), "connector.class": "plain_waiting.Waiting", "until": str(until)}
    del config["name"]
    assert worker.request("PUT", f"/connectors/{name}/config", config).status == 201
    worker.wait_for_states(name, "FAILED")
    assert "the source does not answer" in worker.get(f"/connectors/{name}/status")["connector"]["trace"]
    until.touch()
    worker.wait_for_states(name, "RUNNING", "RUNNING")
    assert worker.request("DELETE", f"/connectors/{name}").status == 204


def test_a_module_that_exits_when_it_is_imported_fails_the_request_alone(worker: Worker) -> None:
    kind = "tests.support.exiting_module.Connector"
    config = {"name": unique("exiting"), "connector.class": kind}
    answer = worker.request("PUT", f"/connector-plugins/{kind}/config/validate", config)
    assert answer.status == 400, answer
    assert "raised SystemExit(3)" in str(answer)
    assert worker.request("GET", "/").status == 200
