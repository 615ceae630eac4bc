"""A worker's metadata as the members of its group see them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fencepost.config.worker_config import WorkerConfig, WorkerMode
from fencepost.herder.distributed.group_view import GroupView
from fencepost.kafka.group.codec import decode_metadata, encode_metadata
from fencepost.kafka.group.protocol import ConnectProtocol, WorkerMetadata


@pytest.mark.parametrize("allowed", [{}, {"fencepost.files.allowed.paths": "data"}])
def test_a_directory_whose_name_is_not_utf8_is_announced_as_text(
    allowed: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/l\xe4n")
    Path(folder).mkdir()
    monkeypatch.chdir(folder)
    given = {
        "bootstrap.servers": "127.0.0.1:1",
        "group.id": "g",
        **{f"{kind}.storage.topic": f"{kind}" for kind in ("config", "offset", "status")},
        **{f"{kind}.converter": "org.apache.kafka.connect.storage.StringConverter" for kind in ("key", "value")},
        **allowed,
    }
    config = WorkerConfig.from_properties(given, where="a test", mode=WorkerMode.DISTRIBUTED)
    files = GroupView.of(config, "http://127.0.0.1:1").files
    metadata = WorkerMetadata(url="http://127.0.0.1:1/", config_offset=1, support="enabled", files=files)
    assert decode_metadata(encode_metadata(metadata, ConnectProtocol.SESSIONED)).files == files
    assert files.directory == rf"{tmp_path}/l\udce4n"
    assert files.paths == (files.directory + ("/data" if allowed else ""),)
