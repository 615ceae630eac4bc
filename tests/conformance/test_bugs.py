"""The conformance suite finds authors' bugs, and reports none in correct connectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost import SourceConnector
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.content import growing as growing_file
from fencepost.connectors.files.stream_source import FileStreamSourceConnector
from fencepost.testing import CHECKS, Check, Limits, Violation
from tests.conformance.bug_list import BUGS, RELEASED
from tests.conformance.bugs_of_connectors import BatchConnector
from tests.conformance.bugs_of_tasks import PollBlocks, StopIsIgnored
from tests.conformance.streams import CONFIG, LENGTH, STREAMS, StreamsConnector
from tests.support.numbers import NumbersConnector
from tests.support.table_files import WRITE

BY_NAME = {check.name: check for check in CHECKS}

# Long enough for any machine; correct connectors return at once anyway.
PATIENT = Limits(call_s=120, stop_s=120)
LIMITS = {
    PollBlocks.__name__: Limits(call_s=2),
    # The poll at the end of the source must not be awaited, as it would take long.
    StopIsIgnored.__name__: Limits(call_s=120, stop_s=0.5),
}


@pytest.fixture(autouse=True)
def _blocked_polls_end() -> Iterator[None]:
    RELEASED.clear()
    yield
    RELEASED.set()


@pytest.mark.parametrize("connector", BUGS, ids=lambda connector: connector.__name__)
def test_a_bug_is_found_with_its_line(connector: type[SourceConnector]) -> None:
    check = BY_NAME[BUGS[connector]]

    with pytest.raises(Violation) as found:
        check(connector, CONFIG, LIMITS.get(connector.__name__, PATIENT))

    assert found.value.where is not None, found.value
    assert Path(found.value.where.rpartition(":")[0]).parent == Path(__file__).parent, found.value


def test_each_bug_names_an_existing_check() -> None:
    assert len(BUGS) >= 20
    assert set(BUGS.values()) <= set(BY_NAME)


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("connector", [StreamsConnector, BatchConnector, NumbersConnector])
def test_correct_connectors_pass(check: Check, connector: type[SourceConnector]) -> None:
    config = CONFIG if connector is not NumbersConnector else {"topic": "numbers", "end": "40"}
    check(connector, config, PATIENT)


@pytest.fixture
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the wait of a file source for its file to grow: the checks often wait for it."""
    monkeypatch.setattr(growing_file, "WAIT_SECONDS", 0.1)


@pytest.mark.usefixtures("_short_waits")
@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_the_file_stream_source_passes(check: Check, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {number}\n" for number in range(12)))
    check(FileStreamSourceConnector, {"topic": "lines", "file": str(tmp_path / "a.txt"), "batch.size": "5"}, PATIENT)


@pytest.mark.usefixtures("_short_waits")
@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_the_file_source_passes(check: Check, tmp_path: Path) -> None:
    for name in STREAMS:
        rows = "".join(f"{number},{name}{number}\n" for number in range(LENGTH))
        (tmp_path / f"{name}.csv").write_text(f"id,name\n{rows}")
    config = {"files": str(tmp_path / "*.csv"), "format": "csv", "header": "true", "schema": "id INT, name STRING"}
    check(FileSourceConnector, config | {"topic": "rows", "key.columns": "id", "batch.bytes": "40"}, PATIENT)


@pytest.mark.usefixtures("_short_waits")
@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_the_file_source_passes_with_groups_of_rows(check: Check, form: str, tmp_path: Path) -> None:
    for name in STREAMS:
        rows = [{"n": number, "t": f"{name}{number}"} for number in range(LENGTH)]
        (tmp_path / f"{name}.{form}").write_bytes(WRITE[form](rows))
    config = {"files": str(tmp_path / f"*.{form}"), "format": form, "topic": "rows", "key.columns": "n"}
    check(FileSourceConnector, config | {"batch.bytes": "40"}, PATIENT)
