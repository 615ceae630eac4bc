"""Properties that validation refuses, or does not know."""

from __future__ import annotations

import pytest

from tests.unit.herder.requests.test_config_infos import (
    CONFIG,
    FUNCTION,
    errors_of,
    info_of,
    validated,
)


@pytest.mark.parametrize(
    ("config", "more", "unknown"),
    [
        (CONFIG, {"tasks.maxx": "1"}, {"tasks.maxx": "tasks.max"}),
        (CONFIG, {"own": "1"}, {"own": None}),
        (CONFIG, {"producer.override.no.such": "1", "transforms": ""}, {}),
        (CONFIG, {"value.converter.schemas.enable": "false"}, {"value.converter.schemas.enable": None}),
        (
            CONFIG,
            {"value.converter": "JsonConverter", "value.converter.schema.enable": "false"},
            {"value.converter.schema.enable": "value.converter.schemas.enable"},
        ),
        (
            CONFIG,
            {
                "value.converter": "ByteArrayConverter",
                "value.converter.surplus": "1",
                "value.converter.converter.type": "value",
            },
            {"value.converter.surplus": None},
        ),
        (CONFIG, {"header.converter": "SimpleHeaderConverter", "header.converter.converter.type": "header"}, {}),
        (
            CONFIG,
            {"transforms": "f", "transforms.f.type": "Filter", "transforms.f.surplus": "1"},
            {"transforms.f.surplus": None},
        ),
        (
            CONFIG,
            {"predicates": "p", "predicates.p.type": "RecordIsTombstone", "predicates.p.surplus": "1"},
            {"predicates.p.surplus": None},
        ),
        (
            CONFIG,
            {"transforms": "h", "transforms.h.type": "HoistField$Value", "transforms.h.fields": "1"},
            {"transforms.h.fields": "transforms.h.field"},
        ),
        (
            CONFIG,
            {
                "topic.creation.default.partitions": "1",
                "topic.creation.default.replication.factor": "1",
                "topic.creation.default.retention.ms": "1",
                "topic.creation.big.partitions": "9",
            },
            {"topic.creation.big.partitions": "topic.creation.default.partitions"},
        ),
        ({"connector.class": "tests.support.bare_source.BareConnector", "name": "c"}, {"own": "1"}, {}),
        (FUNCTION, {"own": "1"}, {}),
        (FUNCTION, {"key.colums": "id"}, {"key.colums": "key.columns"}),
        (
            {"connector.class": "tests.support.bare_source.BareConnector", "name": "c"},
            {"errors.tolerence": "all"},
            {"errors.tolerence": "errors.tolerance"},
        ),
    ],
)
def test_an_unknown_property_is_logged_and_is_not_an_error(
    config: dict[str, str], more: dict[str, str], unknown: dict[str, str | None], caplog: pytest.LogCaptureFixture
):
    errors = errors_of(validated(config, **more))
    assert not set(errors) & set(unknown)
    warned = [record.getMessage() for record in caplog.records if "has an unknown property" in record.getMessage()]
    assert warned == [
        f"Connector c has an unknown property, {name}" + (f": did you mean {nearest}?" if nearest else "")
        for name, nearest in unknown.items()
    ]


@pytest.mark.parametrize(
    ("of", "type_", "refused", "hint"),
    [
        ("transforms", "ReplaceField$Value", "blacklist", "set exclude"),
        ("transforms", "Filter", "condition", "set predicate"),
        ("transforms", "InsertField$Key", "offset.field", "no meaning for a source"),
        ("transforms", "ExtractNewRecordState", "drop.tombstones", "set delete.tombstone.handling.mode"),
    ],
)
def test_a_feature_of_only_the_java_class_is_an_error_of_its_property(of: str, type_: str, refused: str, hint: str):
    own = {"InsertField$Key": {"transforms.a.static.field": "f", "transforms.a.static.value": "v"}}.get(type_, {})
    given = {**CONFIG, **own, of: "a", f"{of}.a.type": type_, f"{of}.a.{refused}": "x"}
    infos = validated(given)
    assert errors_of(infos) == {f"{of}.a.{refused}": 1}
    # The error is also shown if another error keeps the transforms from being created.
    assert f"{of}.a.{refused}" in errors_of(validated(given, **{"tasks.max": "0"}))
    (error,) = info_of(infos, f"{of}.a.{refused}").value.errors
    assert f"The property {refused} of {type_.partition('$')[0]}" in error
    assert hint in error


@pytest.mark.parametrize(
    ("properties", "refused"),
    [
        ({"transforms.a.type": "RegexRouter", "transforms.a.regex": "a)", "transforms.a.replacement": "b"}, "regex"),
        (
            {"transforms.a.type": "RegexRouter", "transforms.a.regex": "a", "transforms.a.replacement": "$1"},
            "replacement",
        ),
        ({"transforms.a.type": "ReplaceField$Value", "transforms.a.renames": "a:x,b:x"}, "renames"),
    ],
)
def test_a_transforms_missing_feature_is_an_error_of_its_property(properties: dict[str, str], refused: str):
    assert errors_of(validated({**CONFIG, "transforms": "a", **properties})) == {f"transforms.a.{refused}": 1}


@pytest.mark.parametrize("asked", ["*", "1.x", ">=1.0", "^1"])
def test_an_invalid_version_is_reported_with_valid_ones(asked: str):
    infos = validated(CONFIG, **{"connector.plugin.version": asked})
    (error,) = info_of(infos, "connector.plugin.version").value.errors
    assert f"asks for {asked!r}, which is not a version" in error
    assert "latest for any" in error


@pytest.mark.parametrize(
    ("properties", "refused"),
    [
        ({"connector.class": "FileStreamSource", "file": "/tmp/a\0b"}, "file"),
        ({"connector.class": "FileSource", "files": "/tmp/a\0b", "format": "text"}, "files"),
        ({"connector.class": "FileSource", "files": "/tmp/a\0*", "format": "text"}, "files"),
        (
            {"connector.class": "JdbcSource", "connection.url": "jdbc:postgresql://h/d?sslrootcert=/a%00b", "mode": "bulk"},
            "connection.url",
        ),
        (
            {
                "connector.class": "JdbcSource", "connection.url": "jdbc:sqlite:/a\0b", "mode": "bulk",
                "table.whitelist": "t",
            },
            "connection.url",
        ),
        (
            {
                "connector.class": "PostgresSource", "database.hostname": "h", "database.dbname": "d",
                "database.user": "u", "topic.prefix": "p", "database.sslrootcert": "/a\0b",
            },
            "database.sslrootcert",
        ),
    ],
)  # fmt: skip
def test_the_character_nul_in_a_path_is_an_error_of_its_property(properties: dict[str, str], refused: str):
    infos = validated({"name": "c", "topic": "t", "topic.prefix": "p", **properties})
    assert errors_of(infos) == {refused: 1}
    assert "NUL" in info_of(infos, refused).value.errors[0]


@pytest.mark.parametrize("url", ["s3://bucket/key", "http://host/x", "file:///tmp/x"])
def test_a_file_to_follow_must_not_be_a_url(url: str):
    infos = validated(CONFIG, file=url)
    assert errors_of(infos) == {"file": 1}
    assert "FileSource reads objects of s3://" in info_of(infos, "file").value.errors[0]


def test_a_pattern_of_a_predicate_is_checked():
    config = {**CONFIG, "predicates": "p", "predicates.p.type": "TopicNameMatches", "predicates.p.pattern": "[a"}
    assert errors_of(validated(config)) == {"predicates.p.pattern": 1}


@pytest.mark.parametrize("role", ["key.converter", "value.converter", "header.converter"])
def test_a_feature_of_only_javas_converter_is_an_error_of_its_property(role: str):
    name = f"{role}.value.serializer.encoding"
    infos = validated(CONFIG, **{role: "StringConverter", name: "UTF-16"})
    assert errors_of(infos) == {name: 1}
    assert "set converter.encoding" in info_of(infos, name).value.errors[0]
