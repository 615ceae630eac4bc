"""Java connectors are found in jars by their service files, or by their superclasses."""

from __future__ import annotations

import logging
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.api.errors import ConfigError
from fencepost.config.java_plugins import SOURCE_CONNECTOR, find_java_connector, java_connectors

SERVICE = f"META-INF/services/{SOURCE_CONNECTOR}"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    java_connectors.cache_clear()
    yield
    java_connectors.cache_clear()


def jar(path: Path, **files: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def class_file(name: str, parent: str, *, flags: int = 0x21) -> bytes:
    """A class file with no members, and a long among its constants, which takes two numbers."""
    constants = [b"\x05" + struct.pack(">q", 7)]
    for text in (name, parent):
        encoded = text.replace(".", "/").encode()
        constants.append(b"\x01" + struct.pack(">H", len(encoded)) + encoded)
    # The long is 1 and 2, the texts are 3 and 4, the classes 5 and 6.
    constants += [b"\x07" + struct.pack(">H", number) for number in (3, 4)]
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, 61, 7)
    return head + b"".join(constants) + struct.pack(">HHHHHHH", flags, 5, 6, 0, 0, 0, 0)


def found(directory: Path) -> dict[str, list[str]]:
    return {one.java_class: [path.name for path in one.jars] for one in java_connectors((directory,))}


def test_java_connectors_come_from_service_files_with_all_jars_of_the_folder(tmp_path: Path):
    jar(tmp_path / "acme" / "lib" / "a.jar", **{SERVICE: "# ours\nacme.Source # first\n\nacme.Other\n"})
    jar(tmp_path / "acme" / "b.jar")
    jar(tmp_path / "single.jar", **{SERVICE: "single.Source"})
    (tmp_path / "python").mkdir()
    assert found(tmp_path) == {
        "acme.Source": ["b.jar", "a.jar"], "acme.Other": ["b.jar", "a.jar"], "single.Source": ["single.jar"]
    }  # fmt: skip


def test_a_plugin_without_service_files_is_scanned(tmp_path: Path):
    classes = {
        "acme/Base.class": class_file("acme.Base", SOURCE_CONNECTOR, flags=0x421),
        "acme/Source.class": class_file("acme.Source", "acme.Base"),
        "acme/Task.class": class_file("acme.Task", "org.apache.kafka.connect.source.SourceTask"),
        "acme/Loop.class": class_file("acme.Loop", "acme.Loop"),
    }
    jar(tmp_path / "acme" / "a.jar", **classes)
    assert list(found(tmp_path)) == ["acme.Source"]


def test_a_directory_that_is_missing_has_no_plugins(tmp_path: Path):
    assert found(tmp_path / "missing") == {}


def test_a_jar_that_is_none_hides_no_other_plugin(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "bad.jar").write_bytes(b"nothing")
    jar(tmp_path / "odd" / "odd.jar", **{"A.class": b"\xca\xfe\xba\xbe\0\0\0\0\0\5\x63"})
    jar(tmp_path / "good.jar", **{SERVICE: "good.Source"})
    with caplog.at_level(logging.ERROR):
        assert list(found(tmp_path)) == ["good.Source"]
    assert "bad.jar of plugin.path cannot be read" in caplog.text
    assert "odd.jar of plugin.path cannot be scanned" in caplog.text


def test_a_connector_has_the_aliases_of_connect(tmp_path: Path):
    jar(tmp_path / "a.jar", **{SERVICE: "acme.FileConnector"})
    for name in ("acme.FileConnector", "FileConnector", "File"):
        plugin = find_java_connector([tmp_path], name)
        assert plugin is not None
        assert plugin.java_class == "acme.FileConnector"
    assert find_java_connector([tmp_path], "Fil") is None


def test_a_class_in_two_plugins_is_refused(tmp_path: Path):
    jar(tmp_path / "one.jar", **{SERVICE: "acme.Source"})
    jar(tmp_path / "two.jar", **{SERVICE: "acme.Source"})
    with pytest.raises(ConfigError, match=r"more than once .*one\.jar; .*two\.jar"):
        find_java_connector([tmp_path], "Source")
