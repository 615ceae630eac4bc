"""Java plugins are found in jars by their service files, or by the classes that they extend and implement."""

from __future__ import annotations

import logging
import struct
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fencepost.api.errors import ConfigError
from fencepost.config.java_plugins import (
    CONNECT,
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
    java_sinks,
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
    """A class file without members, with a long constant, which takes two entries of the constant pool."""
    constants = [b"\x05" + struct.pack(">q", 7)]
    texts = (name, parent, *interfaces)
    for text in texts:
        encoded = text.replace(".", "/").encode()
        constants.append(b"\x01" + struct.pack(">H", len(encoded)) + encoded)
    # Entries 1 and 2 are the long, then come the texts, then the classes.
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


@pytest.mark.parametrize("folder", ["", ".venv", "project/.venv"])
def test_the_jars_of_a_python_environment_are_no_plugins(tmp_path: Path, folder: str):
    environment = tmp_path / folder
    packages = environment / "lib" / "site-packages"
    (packages / "pyspark").mkdir(parents=True)
    (environment / "pyvenv.cfg").touch()
    jar(packages / "pyspark" / "a.jar", **{SERVICE: "a.Source"})
    assert found(tmp_path) == found(packages) == {}
    # A plugin is found beside them, and if its own folder has some.
    jar(tmp_path / "plugin" / "a.jar", **{SERVICE: "a.Source"})
    (tmp_path / "plugin" / "site-packages").mkdir()
    (tmp_path / "site-packages").mkdir()
    forget_plugins()
    assert found(tmp_path) == {"a.Source": ["a.jar"]}


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


def test_a_connector_without_a_service_file_is_listed_beside_a_converter_with_one(tmp_path: Path):
    base = class_file("acme.Base", SOURCE_CONNECTOR, flags=0x421)
    jar(tmp_path / "acme" / "base.jar", **{"acme/Base.class": base})
    jar(tmp_path / "acme" / "connector.jar", **{"acme/Source.class": class_file("acme.Source", "acme.Base")})
    jar(tmp_path / "acme" / "avro.jar", **{f"META-INF/services/{CONVERTER}": "other.Avro"})
    listed = [(one.java_class, one.base) for one in java_plugins((tmp_path,))]
    assert listed == [("acme.Source", SOURCE_CONNECTOR), ("other.Avro", CONVERTER)]
    assert [one.java_class for one in find_java_connectors([tmp_path], "Source")] == ["acme.Source"]


def test_a_connector_beside_a_listed_one_is_found_by_its_full_name(tmp_path: Path):
    classes = {
        "acme/Base.class": class_file("acme.Base", SOURCE_CONNECTOR, flags=0x421),
        "acme/Source.class": class_file("acme.Source", "acme.Base"),
        "acme/Task.class": class_file("acme.Task", "org.apache.kafka.connect.source.SourceTask"),
    }
    jar(tmp_path / "one" / "a.jar", **classes)
    jar(tmp_path / "one" / "b.jar", **{SERVICE: "other.Source"})
    assert list(found(tmp_path)) == ["other.Source"]
    (plugin,) = find_java_connectors([tmp_path], "acme.Source")
    assert (plugin.base, plugin.location.name, len(plugin.jars)) == (SOURCE_CONNECTOR, "one", 2)
    # An alias stands for classes that are listed, and a class of another type is no connector.
    assert [one.java_class for one in find_java_connectors([tmp_path], "Source")] == ["other.Source"]
    for name in ("acme.Base", "acme.Task", "acme.Missing"):
        assert find_java_connectors([tmp_path], name) == ()


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


def test_jars_are_read_once_until_the_plugins_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    opened: list[str] = []

    class Opened(zipfile.ZipFile):
        def __init__(self, file: Path) -> None:
            opened.append(file.name)
            super().__init__(file)

    jar(tmp_path / "acme" / "a.jar", **{SERVICE: "acme.Source"})
    jar(tmp_path / "acme" / "b.jar", **{"acme/Avro.class": b""})
    monkeypatch.setattr("fencepost.config.java_plugins.zipfile.ZipFile", Opened)
    for _ in range(3):
        (connector,) = find_java_connectors([tmp_path], "acme.Source")
        assert find_beside(connector, CONVERTER, [tmp_path], "acme.Avro") != ()
    # The first scan reads each jar, and a class that no service file lists is looked for in each once.
    assert sorted(opened) == ["a.jar", "a.jar", "b.jar", "b.jar"]
    forget_plugins()
    assert list(found(tmp_path)) == ["acme.Source"]
    assert len(opened) == 6


def test_a_changed_jar_is_seen_once_the_plugins_are_forgotten(tmp_path: Path):
    path = jar(tmp_path / "acme" / "a.jar", **{SERVICE: "acme.Source"})
    assert find_java_connectors([tmp_path], "Source")
    (connector,) = java_connectors((tmp_path,))
    assert find_beside(connector, CONVERTER, [tmp_path], "acme.Avro") == ()
    jar(path, **{SERVICE: "acme.Newer", "acme/Avro.class": ""})
    jar(tmp_path / "more" / "b.jar", **{SERVICE: "more.Source"})
    # A worker reads plugin.path once.
    assert list(found(tmp_path)) == ["acme.Source"]
    forget_plugins()
    assert list(found(tmp_path)) == ["acme.Newer", "more.Source"]
    assert find_beside(connector, CONVERTER, [tmp_path], "acme.Avro") != ()


def test_the_log_says_in_which_folder_or_jar_each_class_is(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    jar(tmp_path / "acme" / "lib" / "a.jar", **{SERVICE: "acme.Source"})
    # Debezium's ByteArrayConverter converts both values and headers.
    both = {f"META-INF/services/{base}": "single.Bytes" for base in (CONVERTER, HEADER_CONVERTER)}
    jar(tmp_path / "single.jar", **{SERVICE: "single.Source"}, **both)
    for _ in range(2):
        java_plugins((tmp_path,))
    assert caplog.messages == [
        f"The Java class acme.Source is in {tmp_path / 'acme'}",
        f"The Java class single.Source is in {tmp_path / 'single.jar'}",
        f"The Java class single.Bytes is in {tmp_path / 'single.jar'}",
    ]


def test_requests_at_the_same_time_list_each_class_once(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    names = [f"acme.Source{number:02}" for number in range(40)]
    for name in names:
        jar(tmp_path / f"{name}.jar", **{SERVICE: name})
    jar(tmp_path / "damaged.jar").write_text("no archive")
    threads, together = 4, threading.Barrier(4)

    def ask(_: int) -> tuple[object, object]:
        together.wait()
        return java_plugins((tmp_path,)), java_sinks((tmp_path,))

    with ThreadPoolExecutor(threads) as pool:
        answers = list(pool.map(ask, range(threads)))
    assert all(answer == answers[0] for answer in answers)
    assert sum("damaged.jar of plugin.path cannot be read" in message for message in caplog.messages) == 1
    listed = [message for message in caplog.messages if message.startswith("The Java class")]
    assert listed == [f"The Java class {name} is in {tmp_path / name}.jar" for name in names]


def test_the_log_says_which_class_takes_the_place_of_a_connector_in_python(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    java_name, built_in = f"{CONNECT}file.FileStreamSourceConnector", "fencepost.connectors.files.stream_source"
    classes = {
        SERVICE: f"{java_name}\nacme.FileStreamSource\nacme.Other",
        # A converter in a jar converts records of connectors in Java only, so it takes no place.
        f"META-INF/services/{CONVERTER}": "io.apicurio.registry.utils.converter.AvroConverter",
    }
    jar(tmp_path / "a.jar", **classes)
    java_plugins((tmp_path,))
    ends = [message.partition(str(tmp_path / "a.jar"))[2] for message in caplog.messages]
    taken = f", and takes the place of {built_in}.FileStreamSourceConnector in Python: that one is fencepost:"
    assert ends == [f"{taken}{java_name}", f"{taken}FileStreamSource", "", ""]
