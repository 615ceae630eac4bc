"""Java plugins are found in jars by their service files, or by what their classes extend and implement."""

from __future__ import annotations

import logging
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.api.errors import ConfigError
from fencepost.config.java_plugins import (
    CONVERTER,
    HEADER_CONVERTER,
    PREDICATE,
    SOURCE_CONNECTOR,
    TRANSFORMATION,
    find_beside,
    find_java_connectors,
    forget_plugins,
    java_connectors,
    java_plugins,
)

SERVICE = f"META-INF/services/{SOURCE_CONNECTOR}"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    forget_plugins()
    yield
    forget_plugins()


def jar(path: Path, **files: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def class_file(name: str, parent: str, *interfaces: str, flags: int = 0x21) -> bytes:
    """A class file with no members, and a long among its constants, which takes two numbers."""
    constants = [b"\x05" + struct.pack(">q", 7)]
    texts = (name, parent, *interfaces)
    for text in texts:
        encoded = text.replace(".", "/").encode()
        constants.append(b"\x01" + struct.pack(">H", len(encoded)) + encoded)
    # The long is 1 and 2, then there are the texts, then the classes.
    first = 3 + len(texts)
    constants += [b"\x07" + struct.pack(">H", number) for number in range(3, first)]
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, 61, first + len(texts))
    numbers = range(first + 2, first + len(texts))
    tail = struct.pack(f">HHHH{len(numbers)}H", flags, first, first + 1, len(numbers), *numbers)
    return head + b"".join(constants) + tail + struct.pack(">HHH", 0, 0, 0)


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


def test_jars_behind_links_to_folders_are_of_the_plugin_once(tmp_path: Path):
    plugin = jar(tmp_path / "plugins" / "acme" / "a.jar", **{SERVICE: "acme.Source"}).parent
    jar(tmp_path / "elsewhere" / "b.jar")
    (plugin / "lib").symlink_to(tmp_path / "elsewhere")
    (plugin / "same").symlink_to(tmp_path / "elsewhere")
    (plugin / "circle").symlink_to(plugin)
    assert found(tmp_path / "plugins") == {"acme.Source": ["a.jar", "b.jar"]}


def test_a_plugin_without_service_files_is_scanned(tmp_path: Path):
    classes = {
        "acme/Base.class": class_file("acme.Base", SOURCE_CONNECTOR, flags=0x421),
        "acme/Source.class": class_file("acme.Source", "acme.Base"),
        "acme/Task.class": class_file("acme.Task", "org.apache.kafka.connect.source.SourceTask"),
        "acme/Loop.class": class_file("acme.Loop", "acme.Loop"),
    }
    jar(tmp_path / "acme" / "a.jar", **classes)
    assert list(found(tmp_path)) == ["acme.Source"]


def test_plugins_of_all_kinds_are_scanned_by_what_they_implement(tmp_path: Path):
    text = "acme.Text"
    classes = {
        "acme/Smt.class": class_file("acme.Smt", "java.lang.Object", TRANSFORMATION, flags=0x621),
        "acme/Upper.class": class_file("acme.Upper", "java.lang.Object", "java.io.Serializable", "acme.Smt"),
        "acme/Upper$Key.class": class_file("acme.Upper$Key", "acme.Upper"),
        "acme/Text.class": class_file(text, "java.lang.Object", CONVERTER, HEADER_CONVERTER),
        "acme/Is.class": class_file("acme.Is", "java.lang.Object", PREDICATE),
    }
    jar(tmp_path / "a.jar", **classes)
    assert sorted((one.java_class, one.base) for one in java_plugins((tmp_path,))) == sorted(
        [
            ("acme.Is", PREDICATE), (text, CONVERTER), (text, HEADER_CONVERTER), ("acme.Upper", TRANSFORMATION),
            ("acme.Upper$Key", TRANSFORMATION),
        ]
    )  # fmt: skip


def test_a_jar_with_the_api_of_connect_in_it_has_its_connectors(tmp_path: Path):
    classes = {
        "api.class": class_file(SOURCE_CONNECTOR, "java.lang.Object", flags=0x421),
        "acme/Source.class": class_file("acme.Source", SOURCE_CONNECTOR),
    }
    jar(tmp_path / "a.jar", **classes)
    assert list(found(tmp_path)) == ["acme.Source"]


def test_the_api_of_connect_beside_a_plugin_has_no_plugins(tmp_path: Path):
    text = "org.apache.kafka.connect.storage.StringConverter"
    jar(tmp_path / "acme" / "connect-api.jar", **{f"META-INF/services/{CONVERTER}": text})
    jar(tmp_path / "acme" / "a.jar", **{"acme/Avro.class": class_file("acme.Avro", "java.lang.Object", CONVERTER)})
    assert [one.java_class for one in java_plugins((tmp_path,))] == ["acme.Avro"]


def test_a_class_that_no_service_file_lists_is_found_by_its_name(tmp_path: Path):
    jar(tmp_path / "one" / "a.jar", **{SERVICE: "acme.Source"})
    jar(tmp_path / "one" / "b.jar", **{"acme/Avro.class": b""})
    (connector,) = find_java_connectors([tmp_path], "Source")
    (plugin,) = find_beside(connector, CONVERTER, [tmp_path], "acme.Avro")
    assert (plugin.base, plugin.location.name) == (CONVERTER, "one")
    assert find_beside(connector, CONVERTER, [tmp_path], "Avro") == ()


def test_the_transform_in_the_folder_of_the_connector_comes_first(tmp_path: Path):
    transform = f"META-INF/services/{TRANSFORMATION}"
    jar(tmp_path / "one" / "a.jar", **{SERVICE: "acme.Source", transform: "acme.Smt"})
    jar(tmp_path / "a-two" / "a.jar", **{transform: "acme.Smt\nacme.Other"})
    jar(tmp_path / "three" / "a.jar", **{SERVICE: "acme.Third"})

    def locations(connector: str, name: str) -> list[str]:
        (java,) = find_java_connectors([tmp_path], connector)
        return [plugin.location.name for plugin in find_beside(java, TRANSFORMATION, [tmp_path], name)]

    assert (locations("Source", "Smt"), locations("Source", "acme.Other")) == (["one", "a-two"], ["a-two"])
    assert locations("Source", "acme.Missing") == []
    assert locations("Third", "acme.Smt") == ["a-two", "one"]


def test_an_alias_means_the_class_in_the_folder_of_the_connector(tmp_path: Path):
    transform = f"META-INF/services/{TRANSFORMATION}"
    jar(tmp_path / "one" / "a.jar", **{SERVICE: "acme.Source", transform: "acme.Smt"})
    jar(tmp_path / "two" / "a.jar", **{transform: "other.Smt"})
    jar(tmp_path / "three" / "a.jar", **{SERVICE: "acme.Third"})
    (first,), (third,) = (find_java_connectors([tmp_path], name) for name in ("Source", "Third"))
    assert [one.java_class for one in find_beside(first, TRANSFORMATION, [tmp_path], "Smt")] == ["acme.Smt"]
    with pytest.raises(ConfigError, match=r"several classes .*acme\.Smt in .*one; other\.Smt in .*two"):
        find_beside(third, TRANSFORMATION, [tmp_path], "Smt")


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


def test_a_jar_with_damaged_content_hides_no_other_plugin(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    damaged = tmp_path / "bad.jar"
    with zipfile.ZipFile(damaged, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(SERVICE, "bad.Source" * 100)
    content = bytearray(damaged.read_bytes())
    content[30 + len(SERVICE)] = 0xFF
    damaged.write_bytes(content)
    jar(tmp_path / "cut.jar", **{"A.class": class_file("acme.Source", SOURCE_CONNECTOR)[:19]})
    jar(tmp_path / "good.jar", **{SERVICE: "good.Source"})
    with caplog.at_level(logging.ERROR):
        assert list(found(tmp_path)) == ["good.Source"]
    assert "bad.jar of plugin.path cannot be read" in caplog.text
    assert "cut.jar of plugin.path cannot be scanned" in caplog.text


def test_a_connector_has_the_aliases_of_connect(tmp_path: Path):
    jar(tmp_path / "a.jar", **{SERVICE: "acme.FileConnector"})
    for name in ("acme.FileConnector", "FileConnector", "File"):
        (plugin,) = find_java_connectors([tmp_path], name)
        assert plugin.java_class == "acme.FileConnector"
    assert find_java_connectors([tmp_path], "Fil") == ()


def test_a_class_is_found_in_each_folder_and_an_alias_of_two_is_refused(tmp_path: Path):
    jar(tmp_path / "one.jar", **{SERVICE: "acme.Source"})
    jar(tmp_path / "two.jar", **{SERVICE: "acme.Source"})
    assert [one.location.name for one in find_java_connectors([tmp_path], "Source")] == ["one.jar", "two.jar"]
    jar(tmp_path / "three.jar", **{SERVICE: "other.Source"})
    forget_plugins()
    with pytest.raises(ConfigError, match=r"several classes .*one\.jar; .*two\.jar; .*three\.jar"):
        find_java_connectors([tmp_path], "Source")
