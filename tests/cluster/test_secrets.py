"""Secrets are planted in a worker, and all its output is searched for them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fencepost.embedded.ports import free_ports
from tests.support.checker import read_topic
from tests.support.processes import Process, wait_for
from tests.support.topics import Topics, unique
from tests.support.workers import NO_JAVA, Group, Worker

PLACES = (
    "password-property", "password-default", "task-config", "file-provider", "directory-provider", "env-provider",
    "worker-jaas", "worker-key-password", "rest-user", "producer-jaas", "admin-keystore-key", "converter-password",
)  # fmt: skip
SECRET = {place: f"hunter-{number}-{place}-retnuh" for number, place in enumerate(PLACES)}
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{}";'

# A connector that puts secrets into its logs, errors, offsets and records.
LEAKY = f"""
import logging
import threading
from fencepost import ConfigDef, SourceConnector, SourceTask
from fencepost.converters import StringConverter

LOG = logging.getLogger("fencepost.leaky")

class Converter(StringConverter):
    def config(self):
        return super().config().define("token", ConfigDef.Type.PASSWORD, "")

def fail(text):
    raise ValueError(text)

class Leaky(SourceConnector):
    def version(self):
        return "1"
    def config(self):
        definitions = ConfigDef()
        definitions.define("token", ConfigDef.Type.PASSWORD, "{SECRET["password-default"]}")
        for name in ("file", "folder", "env", "tell"):
            definitions.define(name, ConfigDef.Type.STRING, "")
        return definitions
    def validate(self, config):
        values = super().validate(config)
        if config.get("tell") == "error":
            values[0].errors.append(f"cannot log in with {{dict(config)}}")
        if config.get("tell") == "raise":
            raise RuntimeError(f"cannot log in with {{dict(config)}}" * 1000)
        return values
    def start(self, config):
        self.all = dict(config)
        if config.get("tell") == "thread":
            thread = threading.Thread(target=fail, args=[f"cannot log in with {{self.all}}"])
            thread.start()
            thread.join()
        LOG.warning("started with %s", self.all)
        logging.getLogger("leaky").error("started with %r", self.all)
    def task_class(self):
        return LeakyTask
    def task_configs(self, max_tasks):
        return [{{**self.all, "url": f"db://me:{{self.all['token']}}@host", "api.secret": "{SECRET["task-config"]}"}}]

class LeakyTask(SourceTask):
    def start(self, config):
        self.all = dict(config)
    def poll(self):
        try:
            raise KeyError(str(self.all))
        except KeyError as error:
            # Long enough to be cut, with secrets across the cut.
            raise RuntimeError(f"cannot log in with {{self.all}}" * 1000) from error
"""


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, broker: Any) -> Group:
    folder = tmp_path_factory.mktemp("secrets")
    for path, text in {
        "plugins/leaky.py": LEAKY,
        "db.properties": f"password={SECRET['file-provider']}\n",
        "folder/password": SECRET["directory-provider"],
        "users.properties": f"ann={SECRET['rest-user']}\n",
    }.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    group = Group(folder, broker.bootstrap_servers, plugin_path=str(folder / "plugins"))
    for name in ("File", "Directory", "EnvVar"):
        group.settings[f"config.providers.{name.lower()}.class"] = f"{name}ConfigProvider"
    group.settings |= {
        "config.providers": "file,directory,envvar",
        "sasl.jaas.config": JAAS.format(SECRET["worker-jaas"]),
        "ssl.key.password": SECRET["worker-key-password"],
        "rest.basic.auth.credentials.file": str(folder / "users.properties"),
    }
    return group


class Told:
    """A worker, and all its output."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        user = base64.b64encode(f"ann:{SECRET['rest-user']}".encode()).decode()
        self.headers = {"Authorization": f"Basic {user}"}
        self.said: dict[str, str] = {}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.worker.request(method, path, body, self.headers)
        self.said[f"{len(self.said)} {method} {path}"] = json.dumps([answer.body, answer.headers])
        return answer


@pytest.fixture(scope="module")
def told(group: Group) -> Iterator[Told]:
    port = free_ports(1)[0]
    settings = group.settings | {"listeners": f"http://127.0.0.1:{port}"}
    file = _properties(group.folder / "worker.properties", settings)
    environment = {**NO_JAVA, "LEAKY_PASSWORD": SECRET["env-provider"]}
    with Process.fencepost(
        "--log-level", "DEBUG", "worker", str(file), log_file=group.folder / "log", environment=environment
    ) as process:
        worker = Worker(process, port)
        worker.wait_until_healthy()
        yield Told(worker)


def _properties(path: Path, settings: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def _found(out: Mapping[str, str]) -> list[tuple[str, str]]:
    """Each output that contains a part of a secret, with the text around that part."""
    return [
        (where, part) for where, text in out.items() for part in re.findall(r".{0,40}(?:hunter-|-retnuh).{0,40}", text)
    ]


def _config(group: Group, topics: Topics) -> dict[str, str]:
    return {
        "connector.class": "leaky.Leaky",
        "topic": topics.create(),
        "token": SECRET["password-property"],
        "file": f"${{file:{group.folder}/db.properties:password}}",
        "folder": f"${{directory:{group.folder}/folder:password}}",
        "env": "${envvar:LEAKY_PASSWORD}",
        "producer.override.sasl.jaas.config": JAAS.format(SECRET["producer-jaas"]),
        "admin.override.ssl.keystore.key": SECRET["admin-keystore-key"],
        "admin.override.ssl.keystore.certificate.chain": "none",
        "value.converter": "leaky.Converter",
        "value.converter.token": SECRET["converter-password"],
    }


def test_no_output_of_a_worker_contains_a_secret(
    told: Told, group: Group, topics: Topics, bootstrap_servers: str
) -> None:
    name, config = unique("leaky"), _config(group, topics)
    path = f"/connectors/{name}"

    assert told.ask("POST", "/connectors", {"name": name, "config": config}).status == 201
    wait_for(lambda: "FAILED" in str(told.ask("GET", f"{path}/status").body.get("tasks")), what="the task tells it all")
    for method, asked, body in (
        ("PUT", f"{path}/config", {**config, "tasks.max": "2"}),
        ("PATCH", f"{path}/config", {"tasks.max": "1"}),
        ("PUT", f"{path}/config", {**config, "tell": "error"}),
        ("PUT", f"{path}/config", {**config, "tell": "raise"}),
        ("PUT", "/connector-plugins/leaky.Leaky/config/validate", {"name": name, **config}),
        ("PUT", "/connector-plugins/leaky.Leaky/config/validate", {"name": name, **config, "tell": "error"}),
        ("PUT", "/connector-plugins/leaky.Leaky/config/validate", {"name": name, **config, "tell": "raise"}),
    ):
        told.ask(method, asked, body)
    for asked in (
        "/", "/health", "/connectors?expand=info&expand=status", path, f"{path}/config", f"{path}/tasks",
        f"{path}/status", f"{path}/tasks/0/status", f"{path}/offsets", f"{path}/topics", f"{path}/transactions",
        "/connector-plugins", "/connector-plugins/leaky.Leaky/config", "/admin/loggers",
    ):  # fmt: skip
        told.ask("GET", asked)

    metrics = told.worker.text("/metrics", told.headers)
    statuses = [record.value or b"" for record in read_topic(bootstrap_servers, f"{group.id}-status")]
    log = told.worker.process.output
    out = {**told.said, "metrics": metrics, "statuses": b"".join(statuses).decode(), "log": log}
    assert "cannot log in" in out["log"]
    assert "cannot log in" in out["statuses"]
    assert name in out["metrics"]
    assert _found(out) == []


def test_a_shown_configuration_can_be_sent_back(told: Told, group: Group, topics: Topics) -> None:
    name, config = unique("leaky"), _config(group, topics)
    assert told.ask("POST", "/connectors", {"name": name, "config": config}).status == 201
    shown = told.ask("GET", f"/connectors/{name}/config").body
    assert (shown["token"], shown["file"]) == ("[hidden]", config["file"])

    assert told.ask("PUT", f"/connectors/{name}/config", {**shown, "tasks.max": "3"}).status == 200

    stored = [json.loads(value) for key, value in group.config_records() if key == f"connector-{name}"]
    assert stored[-1]["properties"] == {**config, "name": name, "tasks.max": "3"}
    answer = told.ask("POST", "/connectors", {"name": unique("leaky"), "config": shown | {"name": unique("leaky")}})
    assert answer.status == 400


@pytest.mark.parametrize(
    ("options", "tell", "said"),
    [
        (["--traceback"], "raise", "failed while it checked the configuration"),
        (["--traceback"], "thread", "ended with ValueError"),
        (["--log-format", "json"], "thread", "ended with ValueError"),
    ],
    ids=["refused", "with traces", "as json"],
)
def test_no_output_of_a_standalone_worker_contains_a_secret(
    group: Group, topics: Topics, options: Sequence[str], tell: str, said: str
) -> None:
    # The standalone worker has its own group, because it would fence the other group's leader.
    own = {
        name: unique("standalone") for name in group.settings if name == "group.id" or name.endswith("storage.topic")
    }
    rest = {name: value for name, value in group.settings.items() if not name.startswith("rest.")}
    worker = _properties(group.folder / "standalone.properties", rest | own)
    config = {**_config(group, topics), "name": unique("leaky"), "tell": tell}
    connector = _properties(group.folder / f"{config['name']}.properties", config)
    command = [*options, "standalone", "--once", str(worker), str(connector)]
    environment = {**NO_JAVA, "LEAKY_PASSWORD": SECRET["env-provider"]}
    with Process.fencepost(*command, log_file=group.folder / config["name"], environment=environment) as process:
        # The exit code says whether the configuration was refused or a task failed.
        assert process.wait() == (2 if tell == "raise" else 1)

    assert said in process.output
    assert "cannot log in" in process.output
    assert "Traceback" in process.output
    assert _found({"stdout and stderr": process.output}) == []
