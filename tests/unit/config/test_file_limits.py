"""The files that connectors may read by default, and the worker's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost import ConfigError
from fencepost.api.own_files import NO_FILES
from fencepost.config.config_transformer import placeholder_files
from fencepost.config.file_limits import own_files, working_directory
from fencepost.config.worker_config import WorkerConfig, WorkerMode

GROUP = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "g",
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
    **{f"{store}.storage.topic": store for store in ("offset", "config", "status")},
}


def worker(properties: dict[str, str], *files: str, mode: WorkerMode = WorkerMode.DISTRIBUTED) -> WorkerConfig:
    return WorkerConfig.from_properties(GROUP | properties, where="worker.properties", mode=mode, files=files)


@pytest.mark.parametrize("directory", ["/", "/etc", "/etc/ssl", "/usr", "/proc", "/proc/self", "/root", "/var", "/lib"])
@pytest.mark.parametrize("mode", WorkerMode)
def test_a_directory_of_the_system_is_not_read_by_default(
    directory: str, mode: WorkerMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path(directory).is_dir():
        pytest.skip("the directory does not exist here")
    monkeypatch.chdir(directory)
    allowed = worker({}, mode=mode).limited().allowed_paths
    with pytest.raises(ConfigError, match=r"fencepost.files.allowed.paths allows \(nothing: it is not set, and .* /"):
        allowed.check(f"{directory}/hostname")
    if not directory.startswith("/proc"):
        worker({"fencepost.files.allowed.paths": "."}).allowed_paths.check(f"{directory}/any")


def test_a_directory_for_data_is_read_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for directory in (tmp_path, Path("/var/lib/fencepost"), Path("/data"), Path("/home/me"), Path("/usr/src/app")):
        monkeypatch.setattr(Path, "cwd", lambda found=directory: found)
        assert working_directory(NO_FILES).paths is not None
        assert working_directory(NO_FILES).paths != ()


def test_files_that_the_worker_is_configured_with_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    named = {
        "rest.basic.auth.credentials.file": "users",
        "ssl.truststore.location": "ca.pem",
        "producer.ssl.keystore.location": "client.pem",
        "listeners.https.ssl.keystore.location": "rest.pem",
        "spark.ssl.keyStore": "spark.jks",
        "sasl.oauthbearer.token.endpoint.url": "token",
    }
    for file in (*named.values(), "worker.properties", "connector.json", "data", "password", "db.properties"):
        (tmp_path / file).write_text("x")
    properties = {name: str(tmp_path / file) for name, file in named.items()}
    properties |= {name: named[name] for name in ("ssl.truststore.location", "rest.basic.auth.credentials.file")}
    properties["sasl.oauthbearer.token.endpoint.url"] = f"file://{tmp_path / 'token'}"
    given = {"sasl.jaas.config": "${f:db.properties:user} ${d:" + f"{tmp_path}:password}}", "name": "${env:data}"}
    files = [str(tmp_path / "worker.properties"), str(tmp_path / "connector.json"), *placeholder_files(given)]

    for mode in WorkerMode:
        allowed = worker(properties, *files, mode=mode).allowed_paths
        for file in (*named.values(), "worker.properties", "connector.json", "password", "db.properties"):
            with pytest.raises(ConfigError, match="one of the worker's own"):
                allowed.open(str(tmp_path / file))
        allowed.open(str(tmp_path / "data")).close()


def test_an_empty_file_property_is_not_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g").write_text("data")
    assert worker({"ssl.keystore.location": ""}).allowed_paths.own == NO_FILES
    worker({}).allowed_paths.open("g").close()


@pytest.mark.parametrize(
    ("provider", "allowed", "own"),
    [("secrets", "data", True), ("secrets", ".", True), ("data", "data", False), (".", "data", False)],
)
def test_files_of_config_providers_are_the_workers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str, allowed: str, *, own: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    found = own_files(
        {
            "config.providers.file.param.allowed.paths": str(tmp_path / provider),
            "fencepost.files.allowed.paths": allowed,
        },
        (),
    )
    assert found.paths == ((str(tmp_path / provider),) if own else ())
