"""The files in deploy/ are valid for their tools, and match each other and the worker."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from fencepost.api.own_files import NO_FILES
from fencepost.cli.main import run
from fencepost.config.config_transformer import resolve_worker_properties
from fencepost.config.file_limits import working_directory
from fencepost.config.group_config import GroupConfig
from fencepost.config.properties import load_properties
from fencepost.config.rest_config import RestConfig
from fencepost.config.worker_config import WorkerConfig, WorkerMode
from tests.support.model_herder import ModelHerder
from tests.support.rest import RestApis

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()
MANIFESTS = ("deployment.yaml", "disruption-budget.yaml", "service.yaml")
UNIT = DEPLOY / "systemd" / "fencepost-worker.service"


def load(name: str) -> Any:
    return yaml.safe_load((DEPLOY / "kubernetes" / name).read_text())


def pod() -> Any:
    return load("deployment.yaml")["spec"]["template"]["spec"]


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_fits_the_schema_of_kubernetes(name: str) -> None:
    import kubernetes_validate  # noqa: PLC0415 - takes seconds, and each process of tests imports this file

    kubernetes_validate.validate(load(name), kubernetes_validate.latest_version(), strict=True)


def test_the_kustomization_names_the_files_that_there_are() -> None:
    kustomization = load("kustomization.yaml")
    assert sorted(kustomization["resources"]) == sorted(MANIFESTS)
    (generated,) = kustomization["configMapGenerator"]
    assert all((DEPLOY / "kubernetes" / file).exists() for file in generated["files"])
    assert [volume["configMap"]["name"] for volume in pod()["volumes"] if "configMap" in volume] == [generated["name"]]
    assert kustomization["images"][0]["name"] == pod()["containers"][0]["image"]


def test_service_and_disruption_budget_select_the_workers() -> None:
    labels = load("deployment.yaml")["spec"]["template"]["metadata"]["labels"]
    assert load("service.yaml")["spec"]["selector"] == labels
    assert load("disruption-budget.yaml")["spec"]["selector"]["matchLabels"] == labels


def test_the_worker_file_is_accepted_with_the_address_of_the_pod(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("POD_IP", "10.0.0.7")
    mounted = "config.providers.directory.param.allowed.paths"
    properties = load_properties(DEPLOY / "kubernetes" / "worker.properties")
    mounts = {mount["mountPath"] for mount in pod()["containers"][0]["volumeMounts"]}
    assert properties[mounted] in mounts

    resolved = resolve_worker_properties({**properties, mounted: str(tmp_path)}, where="worker.properties")

    config = WorkerConfig.from_properties(resolved, where="worker.properties", mode=WorkerMode.DISTRIBUTED)
    GroupConfig.from_properties(resolved, where="worker.properties")
    rest = RestConfig.from_properties(resolved, where="worker.properties")
    assert rest.advertised_host == "10.0.0.7"
    (worker,) = pod()["containers"]
    assert [port["containerPort"] for port in worker["ports"]] == [listener.port for listener in rest.listeners]
    assert config.group_id == "fencepost"


def test_a_worker_answers_the_probes() -> None:
    (worker,) = pod()["containers"]
    probe = worker["readinessProbe"]["httpGet"]
    with RestApis() as apis:
        assert apis.serve(ModelHerder()).get(probe["path"]).status == 200
    names = {port["name"] for port in worker["ports"]}
    assert {probe["port"], worker["livenessProbe"]["tcpSocket"]["port"], "rest"} == names


def test_the_command_lines_are_valid_for_fencepost() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(UNIT)
    for command in (pod()["containers"][0]["args"], shlex.split(unit["Service"]["ExecStart"])[1:]):
        assert command[-2:] == ["worker", "/etc/fencepost/worker.properties"]
        assert run([*command, "--help"]) == 0


@pytest.mark.parametrize("deployed", ["image", "pod", "unit"])
def test_the_working_directory_has_no_file_of_the_worker(deployed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default connectors may read the working directory."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(UNIT)
    (container,) = pod()["containers"]
    directory = {
        "image": re.findall(r"^WORKDIR (.+)$", CONTAINERFILE, re.MULTILINE)[-1],
        "pod": container["workingDir"],
        "unit": unit["Service"]["WorkingDirectory"].replace("%S", "/var/lib"),
    }[deployed]
    others = {mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] != "data"}
    for place in {"/etc/fencepost/worker.properties", "/etc/fencepost-credentials", *others}:
        assert not Path(place).is_relative_to(directory)
        assert not Path(directory).is_relative_to(place)

    monkeypatch.setattr(Path, "cwd", lambda: Path(directory))
    monkeypatch.setattr(os, "getcwd", lambda: directory)
    assert working_directory(NO_FILES).paths == (directory,)
    if deployed == "unit":
        assert directory.removeprefix("/var/lib/") == unit["Service"]["StateDirectory"]


def test_the_image_has_the_user_that_the_pod_runs_as() -> None:
    (user,) = re.findall(r"^USER (\d+):\d+$", CONTAINERFILE, re.MULTILINE)
    assert pod()["securityContext"]["runAsUser"] == int(user)
    assert f"useradd --uid {user} " in CONTAINERFILE


def test_the_containerfile_has_no_findings() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    found = subprocess.run([hadolint, DEPLOY / "Containerfile"], check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def test_the_pinned_packages_are_those_that_the_wheel_asks_for() -> None:
    pinned = dict(line.split("==") for line in (DEPLOY / "constraints.txt").read_text().splitlines())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in map(Requirement, project["dependencies"]):
        assert requirement.specifier.contains(pinned[requirement.name]), requirement


def test_systemd_has_no_findings(tmp_path: Path) -> None:
    # Without systemd on this machine, only the other tests check the unit.
    analyze = shutil.which("systemd-analyze") or "true"
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/fencepost/bin/fencepost", sys.executable))
    found = subprocess.run([analyze, "verify", unit], check=False, capture_output=True, text=True)
    assert [line for line in found.stderr.splitlines() if UNIT.name in line] == []
