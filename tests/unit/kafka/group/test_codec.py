"""The messages of Connect's group protocol, byte by byte."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.config.ids import ConnectorTaskId
from fencepost.kafka.errors import GroupProtocolError
from fencepost.kafka.group.codec import decode_assignment, decode_metadata, encode_assignment, encode_metadata
from fencepost.kafka.group.protocol import (
    Assignment,
    AssignmentError,
    ConnectProtocol,
    WorkerFiles,
    WorkerMetadata,
    WorkerTopics,
)

URL = "http://w:8083/"
ASSIGNMENT = Assignment(
    leader="m-1",
    leader_url=URL,
    config_offset=5,
    connectors=("a",),
    tasks=(ConnectorTaskId("a", 0), ConnectorTaskId("b", 2)),
    revoked_connectors=("c",),
    delay_ms=10_000,
)
HEAD = "0000 0003 6d2d31 000e 687474703a2f2f773a383038332f 0000000000000005"
WORK = "00000002 0001 61 00000002 ffffffff 00000000 0001 62 00000001 00000002"
REVOKED = "00000001 0001 63 00000001 ffffffff"
DELAY = "00002710"


def test_metadata_of_the_eager_protocol_is_a_url_and_an_offset():
    metadata = WorkerMetadata(url=URL, config_offset=7, assignment=ASSIGNMENT)
    encoded = bytes.fromhex("0000 000e 687474703a2f2f773a383038332f 0000000000000007")
    assert encode_metadata(metadata, ConnectProtocol.EAGER) == encoded
    assert decode_metadata(encoded) == WorkerMetadata(url=URL, config_offset=7)


@pytest.mark.parametrize(
    ("protocol", "version"), [(ConnectProtocol.COMPATIBLE, "0001"), (ConnectProtocol.SESSIONED, "0002")]
)
def test_a_worker_that_runs_nothing_joins_with_a_null_allocation(protocol: ConnectProtocol, version: str):
    metadata = WorkerMetadata(url=URL, config_offset=-1)
    encoded = bytes.fromhex(version + "000e 687474703a2f2f773a383038332f ffffffffffffffff ffffffff")
    assert encode_metadata(metadata, protocol) == encoded
    assert decode_metadata(encoded) == metadata


def test_a_worker_joins_with_its_running_work():
    running = Assignment(leader="m-1", leader_url=URL, config_offset=5, connectors=("a",))
    allocation = bytes.fromhex("0002" + HEAD + "00000001 0001 61 00000001 ffffffff" + "00000000" + "00000000")
    head = bytes.fromhex("0002 000e 687474703a2f2f773a383038332f 0000000000000005")
    encoded = head + len(allocation).to_bytes(4, "big") + allocation
    metadata = WorkerMetadata(url=URL, config_offset=5, assignment=running)
    assert encode_metadata(metadata, ConnectProtocol.SESSIONED) == encoded
    assert decode_metadata(encoded) == metadata


def test_an_assignment_of_the_eager_protocol_has_neither_revocations_nor_delay():
    encoded = encode_assignment(ASSIGNMENT, ConnectProtocol.EAGER)
    assert encoded == bytes.fromhex("0000" + HEAD + WORK)
    assert not decode_assignment(encoded).revokes
    assert decode_assignment(encoded).tasks == ASSIGNMENT.tasks


@pytest.mark.parametrize(
    ("protocol", "version"), [(ConnectProtocol.COMPATIBLE, "0001"), (ConnectProtocol.SESSIONED, "0002")]
)
def test_an_assignment_of_the_cooperative_protocols_is_a_change(protocol: ConnectProtocol, version: str):
    encoded = encode_assignment(ASSIGNMENT, protocol)
    assert encoded == bytes.fromhex(version + HEAD + WORK + REVOKED + DELAY)
    assert decode_assignment(encoded) == ASSIGNMENT


# Recorded from Kafka Connect 4.1.1 with connect.protocol=compatible: its leader's assignment, and its own metadata,
# with which it joins without work and under another leader.
_LEADER = "003c" + b"connect-127.0.0.1:18983-b8ecfaaf-72e1-42fb-a37c-c3c2f1bd2a48".hex()
_JAVA_URL = "0017" + b"http://127.0.0.1:18983/".hex()
_OTHER_LEADER = "002b" + b"python-d6e6fd18-37e3-4964-a1e8-4b210a60ec76".hex() + "0013" + b"http://python:8083/".hex()
_OFFSET = "000000000000000c"
JAVA_ASSIGNMENT = (
    "0001 0000" + _LEADER + _JAVA_URL + _OFFSET + "00000002 0002 6333 00000002 ffffffff 00000000"
    "0002 6330 00000002 ffffffff 00000000 00000000 00000000"
)
JAVA_JOINS_WITH_NOTHING = "0001" + _JAVA_URL + _OFFSET + "ffffffff"
JAVA_JOINS_AGAIN = (
    "0001" + _JAVA_URL + _OFFSET + "0000005a 0001 0000" + _OTHER_LEADER + _OFFSET + "00000000 00000000 00000000"
)


def test_an_assignment_by_a_java_worker_is_read_and_would_be_written_the_same():
    data = bytes.fromhex(JAVA_ASSIGNMENT)
    assignment = decode_assignment(data)
    assert assignment.connectors == ("c3", "c0")
    assert assignment.tasks == (ConnectorTaskId("c3", 0), ConnectorTaskId("c0", 0))
    assert encode_assignment(assignment, ConnectProtocol.COMPATIBLE) == data


@pytest.mark.parametrize("encoded", [JAVA_JOINS_WITH_NOTHING, JAVA_JOINS_AGAIN])
def test_metadata_of_a_java_worker_is_read_and_would_be_written_the_same(encoded: str):
    data = bytes.fromhex(encoded)
    metadata = decode_metadata(data)
    assert (metadata.url, metadata.config_offset) == ("http://127.0.0.1:18983/", 12)
    assert encode_metadata(metadata, ConnectProtocol.COMPATIBLE) == data


def test_absent_arrays_read_as_empty():
    decoded = decode_assignment(bytes.fromhex("0001" + HEAD + "ffffffff ffffffff" + DELAY))
    assert (decoded.connectors, decoded.tasks, decoded.revokes) == ((), (), False)
    assert decoded.delay_ms == 10_000


def test_a_config_mismatch_is_reported():
    mismatch = Assignment(error=AssignmentError.CONFIG_MISMATCH, leader="m", config_offset=9)
    assert decode_assignment(encode_assignment(mismatch, ConnectProtocol.SESSIONED)).failed
    assert not ASSIGNMENT.failed


@pytest.mark.parametrize("protocol", ConnectProtocol)
def test_bytes_of_later_versions_are_ignored(protocol: ConnectProtocol):
    encoded = encode_assignment(ASSIGNMENT, protocol)
    assert decode_assignment(encoded + b"more") == decode_assignment(encoded)
    metadata = WorkerMetadata(url=URL, config_offset=5)
    assert decode_metadata(encode_metadata(metadata, protocol) + b"more") == metadata


@pytest.mark.parametrize("protocol", ConnectProtocol)
def test_a_members_setting_follows_the_fields_of_connect(protocol: ConnectProtocol):
    metadata = WorkerMetadata(url=URL, config_offset=5, support="preparing")
    plain = encode_metadata(WorkerMetadata(url=URL, config_offset=5), protocol)
    encoded = encode_metadata(metadata, protocol)
    # If bytes follow, Apache's worker reads an allocation in the eager protocol as well, so a null one is written.
    no_allocation = b"\xff\xff\xff\xff" if protocol is ConnectProtocol.EAGER else b""
    assert encoded == plain + no_allocation + b"FNCP\x00\x09preparing"
    assert decode_metadata(encoded) == metadata


def test_members_settings_are_written_where_java_stops_reading():
    """If bytes follow, Apache's worker reads `revoked` and `delay` behind an assignment of the eager protocol."""
    told = replace(ASSIGNMENT, supports=((URL, "enabled"),))
    pairs = "464e4350 00000001 000e 687474703a2f2f773a383038332f 0007 656e61626c6564"
    encoded = encode_assignment(told, ConnectProtocol.EAGER)
    assert encoded == bytes.fromhex("0000" + HEAD + WORK + "00000000" + "00000000" + pairs)
    assert decode_assignment(encoded).supports == told.supports
    cooperative = encode_assignment(told, ConnectProtocol.SESSIONED)
    assert cooperative == encode_assignment(ASSIGNMENT, ConnectProtocol.SESSIONED) + bytes.fromhex(pairs)


@pytest.mark.parametrize("protocol", ConnectProtocol)
@pytest.mark.parametrize("paths", [None, (), ("/data", "/more")])
def test_files_follow_the_topics_where_older_versions_stop_reading(
    protocol: ConnectProtocol, paths: tuple[str, ...] | None
):
    files = WorkerFiles("/home", paths)
    metadata = WorkerMetadata(
        url=URL, config_offset=5, support="enabled", topics=WorkerTopics(offset="o", config="c", status="s")
    )
    encoded = encode_metadata(replace(metadata, files=files), protocol)
    assert encoded.startswith(encode_metadata(metadata, protocol) + b"FNCF" + b"\x00\x05/home")
    assert decode_metadata(encoded) == replace(metadata, files=files)

    told = replace(ASSIGNMENT, supports=((URL, "enabled"),))
    members = ((URL, files), ("http://x/", WorkerFiles("/x", ("/x",))))
    for topics in ((), WorkerTopics(offset="o", config="c", status="s")):
        announced = replace(told, leader_topics=topics) if topics else told
        encoded = encode_assignment(replace(announced, files=members), protocol)
        assert encoded.startswith(encode_assignment(announced, protocol) + b"FNCF" + b"\x00\x00\x00\x02")
        assert decode_assignment(encoded).files == members


@pytest.mark.parametrize("protocol", ConnectProtocol)
def test_topics_follow_the_settings_where_older_versions_stop_reading(protocol: ConnectProtocol):
    topics = WorkerTopics(offset="o", config="c", status="s")
    named = b"FNCT" + b"\x00\x01o\x00\x01c\x00\x01s"
    metadata = WorkerMetadata(url=URL, config_offset=5, support="enabled")
    encoded = encode_metadata(replace(metadata, topics=topics), protocol)
    assert encoded == encode_metadata(metadata, protocol) + named
    assert decode_metadata(encoded) == replace(metadata, topics=topics)

    told = replace(ASSIGNMENT, supports=((URL, "enabled"),))
    others = (("http://x/", WorkerTopics(offset="p", config="c", status="s")), ("http://y/", WorkerTopics()))
    encoded = encode_assignment(replace(told, leader_topics=topics, other_topics=others), protocol)
    assert encoded.startswith(encode_assignment(told, protocol) + named + b"\x00\x00\x00\x02\x00\x09http://x/")
    decoded = decode_assignment(encoded)
    assert (decoded.supports, decoded.leader_topics, decoded.other_topics) == (told.supports, topics, others)


def test_the_work_of_a_member_is_read_without_a_list_of_members():
    bomb = zlib.compress(b"FNCP" + (4_000_000).to_bytes(4, "big") + bytes(16_000_000), 9)
    work = encode_assignment(ASSIGNMENT, ConnectProtocol.SESSIONED)
    work += b"FNCZ" + len(bomb).to_bytes(4, "big") + bomb
    head = encode_metadata(WorkerMetadata(url=URL, config_offset=5), ConnectProtocol.SESSIONED)[:-4]
    found = decode_metadata(head + len(work).to_bytes(4, "big") + work)
    assert found.assignment == ASSIGNMENT
    with pytest.raises(GroupProtocolError, match="has more than"):
        decode_assignment(work)


def of_group(workers: int) -> Assignment:
    """An assignment in a group of Kubernetes pods."""
    urls = [f"http://fencepost-{number:03}.fencepost.data.svc:8083/" for number in range(workers)]
    topics = WorkerTopics(offset="fencepost-offsets", config="fencepost-configs", status="fencepost-statuses")
    return replace(ASSIGNMENT, supports=tuple((url, "enabled") for url in urls), leader_topics=topics)


@pytest.mark.parametrize("protocol", ConnectProtocol)
def test_the_list_of_a_large_groups_members_is_compressed(protocol: ConnectProtocol):
    told = replace(of_group(300), files=((URL, WorkerFiles("/home", ("/data",))),))
    encoded = encode_assignment(told, protocol)
    plain = encode_assignment(ASSIGNMENT, protocol)
    assert encoded.startswith(plain + (bytes(8) if protocol is ConnectProtocol.EAGER else b"") + b"FNCZ")
    # Earlier versions needed 56 bytes for each member.
    assert len(encoded) - len(plain) < 8 * 300
    decoded = decode_assignment(encoded)
    assert (decoded.supports, decoded.leader_topics) == (told.supports, told.leader_topics)
    assert decoded.files == told.files


def test_the_list_of_a_small_groups_members_is_readable_for_earlier_versions():
    encoded = encode_assignment(of_group(10), ConnectProtocol.SESSIONED)
    assert b"FNCZ" not in encoded
    assert b"FNCP" + struct.pack(">i", 10) in encoded


def test_a_list_of_members_that_does_not_decompress_is_refused():
    plain = encode_assignment(ASSIGNMENT, ConnectProtocol.SESSIONED)
    whole = zlib.compress(b"FNCP" + bytes(2_000))
    bomb = zlib.compress(bytes(200_000_000))
    for deflated, reason in ((b"no zlib", "cannot be decompressed"), (whole[:-5], "cut off"), (bomb, "more than")):
        encoded = plain + b"FNCZ" + struct.pack(">i", len(deflated)) + deflated
        with pytest.raises(GroupProtocolError, match=reason):
            decode_assignment(encoded)
    with pytest.raises(GroupProtocolError, match="do not follow"):
        decode_assignment(plain + b"FNCZ" + struct.pack(">i", len(whole)) + whole[:-1])


@pytest.mark.parametrize("protocol", ConnectProtocol)
def test_truncated_data_is_refused(protocol: ConnectProtocol):
    encoded = encode_assignment(ASSIGNMENT, protocol)
    for end in range(len(encoded)):
        with pytest.raises(GroupProtocolError, match="an assignment"):
            decode_assignment(encoded[:end])


@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_read_or_refused(data: bytes):
    for decode in (decode_metadata, decode_assignment):
        try:
            decode(data)
        except GroupProtocolError as error:
            assert "group.id" in str(error)  # noqa: PT017 - both outcomes are right


_names = st.text(min_size=1, max_size=5)
_tasks = st.lists(st.builds(ConnectorTaskId, _names, st.integers(0, 2**31 - 1)), max_size=6, unique=True)


@given(
    st.builds(
        Assignment,
        error=st.integers(0, 1),
        leader=_names,
        leader_url=_names,
        config_offset=st.integers(-1, 2**63 - 1),
        connectors=st.lists(_names, max_size=4, unique=True).map(tuple),
        tasks=_tasks.map(tuple),
        revoked_connectors=st.lists(_names, max_size=4, unique=True).map(tuple),
        revoked_tasks=_tasks.map(tuple),
        delay_ms=st.integers(0, 2**31 - 1),
        supports=st.lists(st.tuples(_names, st.text(max_size=9)), max_size=3).map(tuple),
    )
)
def test_every_assignment_survives_the_way_over_the_wire(assignment: Assignment):
    decoded = decode_assignment(encode_assignment(assignment, ConnectProtocol.SESSIONED))
    for field in ("connectors", "tasks", "revoked_connectors", "revoked_tasks"):
        assert sorted(getattr(decoded, field)) == sorted(getattr(assignment, field))
    assert decoded.leader_url == assignment.leader_url
    assert (decoded.error, decoded.delay_ms) == (assignment.error, assignment.delay_ms)
    assert decoded.supports == assignment.supports
