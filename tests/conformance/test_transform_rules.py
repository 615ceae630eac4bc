"""`fencepost test` with a transform."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fencepost.api.errors import ConfigError
from fencepost.cli.main import cli

_HEAD = "import pyarrow as pa\nimport pyarrow.compute as pc\nfrom fencepost import transform\n\nSEEN = []\n\n"
_TRANSFORMS = {
    "correct": "    return pa.RecordBatch.from_pydict({'n': pc.multiply(rows['n'], 2)})\n",
    "dropping": "    return rows.filter(pc.greater(rows['n'], 1)).select(['n', '__row'])\n",
    "counting": "    SEEN.append(1)\n    return pa.RecordBatch.from_pydict({'n': pa.array([len(SEEN)] * len(rows))})\n",
    "summing": "    return pa.RecordBatch.from_pydict({'n': pa.array([pc.sum(rows['n']).as_py()] * len(rows))})\n",
    "failing": "    raise KeyError('price')\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("transforms")
    for name, body in _TRANSFORMS.items():
        (found / f"tried_{name}.py").write_text(
            f"{_HEAD}@transform(schema='n BIGINT')\ndef it(rows: pa.RecordBatch) -> pa.RecordBatch:\n{body}"
        )
    (found / "rows.jsonl").write_text('{"n": 1}\n{"n": 2}\nnull\n\n{"n": 3}\n')
    return found


def tried(folder: Path, name: str, *more: str) -> Result:
    rows = str(folder / "rows.jsonl")
    return CliRunner().invoke(cli, ["test", f"tried_{name}.it", "--rows", rows, "--plugin-path", str(folder), *more])


@pytest.mark.parametrize("name", ["correct", "dropping"])
def test_a_correct_transform_passes(folder: Path, name: str):
    result = tried(folder, name)
    assert result.exit_code == 0, result.output
    assert "4 passed in" in result.output


@pytest.mark.parametrize(
    ("name", "check", "message"),
    [
        ("counting", "gives_the_same_again", "The rows, transformed again, give SourceRecord("),
        ("summing", "gives_the_same_in_parts", "The rows, transformed in parts of 1, give SourceRecord("),
        ("failing", "transforms_the_rows", "The transform of the rows raised an error: KeyError: 'price'"),
    ],
)
def test_a_broken_rule_is_named(folder: Path, name: str, check: str, message: str):
    result = tried(folder, name)
    assert result.exit_code == 1, result.output
    assert any(line.startswith(check) and "FAILED" in line for line in result.output.splitlines()), result.output
    assert message in result.output


def test_an_error_is_reported_with_its_line(folder: Path):
    assert f"{folder}/tried_failing.py:9" in tried(folder, "failing", "-k", "transforms").output


def test_unknown_properties_are_named_with_the_one_that_may_be_meant(folder: Path, tmp_path: Path):
    config = tmp_path / "sql.properties"
    config.write_text("where=value.n > 1\nshema.name=a\nplugin.version=1\n")
    tried_sql = ["test", "Sql", "--rows", str(folder / "rows.jsonl"), "--config", str(config), "-k", "pickled"]
    result = CliRunner().invoke(cli, tried_sql)
    assert result.exit_code == 0, result.output
    assert "The property shema.name is unknown: did you mean schema.name?\n" in result.output
    assert result.output.count("unknown") == 1


@pytest.mark.parametrize(("content", "message"), [("", "has no rows"), ('{"n": 1}\n{"n"', "line 2, is not JSON")])
def test_input_that_is_not_rows_is_refused(folder: Path, tmp_path: Path, content: str, message: str):
    (tmp_path / "bad.jsonl").write_text(content)
    result = tried(folder, "correct", "--rows", str(tmp_path / "bad.jsonl"))
    assert isinstance(result.exception, ConfigError)
    assert message in str(result.exception)


def test_a_connector_needs_its_configuration():
    result = CliRunner().invoke(cli, ["test", "tests.conformance.streams.StreamsConnector"])
    assert result.exit_code == 2
    assert "A connector needs --config FILE" in result.output
