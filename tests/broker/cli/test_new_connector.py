"""The tests that `fencepost new connector` writes pass as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fencepost.cli.develop.new import KINDS, write_connector
from fencepost.config.plugin_sources import PluginSources
from fencepost.config.plugins import PluginKind, find_plugin
from tests.support.topics import unique


@pytest.mark.parametrize("kind", KINDS)
def test_the_tests_of_a_new_connector_pass(tmp_path: Path, bootstrap_servers: str, kind: str) -> None:
    # The connector's name is also its topic's name, and tests share the broker.
    name = unique("written")
    write_connector(tmp_path / name, name, kind)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    if kind == "dataframe":
        # Each test takes several Spark jobs, so only some of them are run.
        command += ["-k", "not conformance or resumes or before_a_commit or reads_the_source"]
    ran = subprocess.run(
        [*command, "--fencepost-bootstrap-servers", bootstrap_servers],
        env={variable: value for variable, value in os.environ.items() if not variable.startswith("PYTEST")},
        cwd=tmp_path / name,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " passed" in ran.stdout
    assert " skipped" not in ran.stdout


def test_the_entry_point_of_a_new_connector_is_its_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_connector(tmp_path / "entered-source", "entered-source", "poll")
    monkeypatch.syspath_prepend(str(tmp_path / "entered-source" / "src"))

    entry = EntryPoint("EnteredSource", "entered_source.connector:EnteredSourceConnector", "fencepost.connectors")
    by_path = find_plugin(
        PluginKind.CONNECTOR,
        "entered_source.connector.EnteredSourceConnector",
        property_name="connector.class",
        sources=PluginSources(modules=("*",)),
    )
    assert entry.load() is by_path
