"""Executors' reports arrive unchanged; any other message is refused, and no code in it is run."""

from __future__ import annotations

import base64
import inspect
import json
import pickle
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import errors as api
from fencepost.api.errors import DataError, FencepostError, RetriableError
from fencepost.engine import errors as spark
from fencepost.engine.dead_letters import PREFIX, DeadLetter
from fencepost.engine.error_counts import ErrorCounts
from fencepost.engine.errors import RecordRefusedError, RecordWaitsError, SparkJobError
from fencepost.engine.refused_records import RefusedRecord, Stage, Tally
from fencepost.engine.reports import (
    ATTRIBUTES,
    LETTER_BYTES,
    LETTERS,
    CarriedFailureError,
    Report,
    carried_failure,
    new_mark,
    read_reports,
    report_text,
)
from fencepost.kafka import errors as kafka
from fencepost.kafka.errors import (
    BrokerRefusedError,
    DeliveryTimeoutError,
    RecordTooLargeError,
    TransactionExpiredError,
)
from fencepost.kafka.producer.sender import Ack

TALLY = Tally(
    ErrorCounts(failures=2, skipped=1, errors_logged=1),
    (RefusedRecord(Stage.VALUE_CONVERTER, "JsonConverter", None, 'no "number": \udce4\n', " row 3", "{'a': 1}"),),
    ("one", "another"),
)
FAILURES = (
    DataError("line 3: \udce4 does not fit", name="topic"),
    api.ConfigError("no such", name="topic"),
    kafka.AuthorizationError("topic orders", "WRITE"),
    BrokerRefusedError("EndTxn", 42, "INVALID_REQUEST", "detail"),
    kafka.BrokerUnavailableError("m", address="h:1"),
    DeliveryTimeoutError("t", 1, waited_ms=5, last_problem="p"),
    kafka.ProducerFencedError("tid"),
    RecordTooLargeError("t", 10, 5, "max.message.bytes"),
    TransactionExpiredError("tid", open_ms=5, timeout_ms=3),
    RecordRefusedError("refused", tally=TALLY, record="A record failed"),
    RecordWaitsError("waits", tally=TALLY, record="A record failed"),
    spark.WriteRetriedError("again"),
)


def test_a_report_arrives_as_it_was_sent():
    acks = [Ack("orders", 3, 7, 100, -1, 4096, 1_700_000_000_000), Ack("ö", 0, 0, 1, 5, 60, -1)]
    report = Report(acks, TALLY, {"orders": 4, "ö": 1})
    assert read_reports([report_text(report), report_text(Report([]))]) == [report, Report([])]


def _letter(value: bytes, number: int = 0) -> DeadLetter:
    return DeadLetter(value, None, ((PREFIX + "exception.message", f"row {number}: \udce4"),))


@pytest.mark.parametrize(
    ("letters", "pieces"),
    [
        ([], 1),
        ([_letter(b"", number) for number in range(2 * LETTERS + 1)], 3),
        ([_letter(bytes(LETTER_BYTES // 3), number) for number in range(6)], 3),
        ([_letter(bytes(2 * LETTER_BYTES)), _letter(b"a"), _letter(b"b")], 2),
    ],
)
def test_dead_letters_are_cut_by_their_number_and_their_bytes(letters: list[DeadLetter], pieces: int):
    report = Report([], TALLY, {"orders": 4}, tuple(letters))
    texts = [report_text(piece) for piece in report.pieces()]
    assert len(texts) == pieces
    first, *others = read_reports(texts)
    assert [letter for found in (first, *others) for letter in found.letters] == letters
    assert replace(first, letters=()) == replace(report, letters=())
    assert Report().pieces() == [Report()]


def test_similar_dead_letters_take_little_memory_of_the_driver():
    letters = tuple(_letter(f"{number},x,2026-11-24,not a number".encode(), number) for number in range(LETTERS))
    assert len(report_text(Report(letters=letters))) < sum(letter.size for letter in letters) / 3


@pytest.mark.parametrize("letters", ["", "AAAA", base64.b64encode(zlib.compress(b"[[1]]")).decode(), [], None])
def test_damaged_dead_letters_are_refused(letters: object):
    content = json.loads(report_text(Report())) | {"letters": letters}
    with pytest.raises(SparkJobError, match="not a report of a writer"):
        read_reports([json.dumps(content)])


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_a_failure_arrives_as_it_was_raised(failure: FencepostError):
    with pytest.raises(FencepostError) as caught:
        read_reports([report_text(failure)])
    assert type(caught.value) is type(failure)
    assert str(caught.value) == str(failure)
    assert vars(caught.value) == vars(failure)


def test_every_failure_that_an_executor_can_have_is_sent_as_itself():
    listed = set(ATTRIBUTES)
    for module in (api, kafka, spark):
        own = {kind for _, kind in inspect.getmembers(module, inspect.isclass) if kind.__module__ == module.__name__}
        assert {kind for kind in own if issubclass(kind, FencepostError)} <= listed


def test_a_failure_of_a_connectors_own_class_arrives_as_the_nearest_known_one():
    class RegistryAwayError(RetriableError):
        pass

    with pytest.raises(RetriableError, match="the registry is away") as caught:
        read_reports([report_text(RegistryAwayError("the registry is away"))])
    assert type(caught.value) is RetriableError


class Touch:
    """An object that touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def refused(kind: str, message: str = "m", **attributes: object) -> str:
    return json.dumps({"class": kind, "message": message, "attributes": attributes})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '"DataError"',
        "{}",
        '{"acks":[["t",0]],"tally":{"counts":[],"listed":[]},"partitions":{}}',
        '{"acks":[["t","0",0,0,0,0,0]],"tally":{"counts":[],"listed":[]},"partitions":{}}',
        '{"acks":[],"tally":{"counts":[0],"listed":[{"stage":"OTHER","plugin":"p","topic":null,"cause":"c"}]},"partitions":{}}',
        '{"acks":[],"tally":{"counts":[0],"listed":[{"stage":"TRANSFORMATION","cause":["c"]}]},"partitions":{}}',
        '{"acks":[],"tally":{"counts":[],"listed":[]},"partitions":{"t":"4"}}',
        '{"acks":[],"tally":{"counts":[],"listed":[]},"partitions":["t"]}',
        refused("SystemExit"),
        refused("builtins.eval"),
        refused("ConfigError"),
        refused("ConfigError", name={"a": 1}),
        '{"class":"DataError","message":["m"],"attributes":{}}',
        '{"class":["DataError"],"message":"m","attributes":{}}',
    ],
)
def test_an_invalid_report_fails_the_job(text: str):
    with pytest.raises(SparkJobError, match="sent something that is not a report of a writer"):
        read_reports([text])


def test_a_pickle_is_not_a_report_and_is_not_loaded(tmp_path: Path):
    touched = tmp_path / "touched"
    payload = base64.b64encode(pickle.dumps(Touch(touched))).decode()
    for text in (payload, refused(payload, payload)):
        with pytest.raises(SparkJobError, match="not a report"):
            read_reports([text])
    assert not touched.exists()


def test_a_failure_is_found_in_sparks_error_text_by_the_mark_of_its_job():
    mark, sent = new_mark(), RecordTooLargeError("orders", 5, 4, "max.request.size")
    error = Exception(f"Job aborted:\n\tat java\n{CarriedFailureError(sent, mark)}\n\tat java")
    found = carried_failure(error, mark)
    assert isinstance(found, RecordTooLargeError)
    assert (found.topic, found.size, str(found)) == ("orders", 5, str(sent))
    assert carried_failure(error, new_mark()) is None


def test_text_that_imitates_a_failure_is_not_a_failure(tmp_path: Path):
    touched = tmp_path / "touched"
    payload = base64.b64encode(pickle.dumps(Touch(touched))).decode()
    forged = base64.b64encode(refused("DataError").encode()).decode()
    texts = [
        f"fencepost-failure:{payload}:",
        f"fencepost-failure::{forged}:",
        f"fencepost-failure:{'0' * 32}:{forged}:",
    ]
    for text in texts:
        assert carried_failure(Exception(f"[CAST_INVALID_INPUT] The value '{text}'"), new_mark()) is None
    assert not touched.exists()
