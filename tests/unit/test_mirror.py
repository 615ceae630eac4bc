"""Each module has a test in the corresponding folder of tests/unit, tests/broker or tests/cluster.

A module's test is in that folder or the one above it, and has the module's name, imports it, or uses one of its public
names. A module that only other modules of its folder use is tested through them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import fencepost

PACKAGE = Path(fencepost.__file__).parent
TESTS = Path(__file__).parent.parent
KINDS = ("unit", "broker", "cluster")

_DECLARATIONS = "declares what authors implement or call: no logic"
_WHOLE_WORKERS = "is tested through whole workers, in tests/cluster, tests/broker/herder and tests/sim"
_CONFORMANCE = "is tested by tests/conformance, whose faulty connectors each rule must find"
_COMMANDS = "is tested by the commands that use it, in their process"
_THROUGH_THE_TASK = "is tested through the task of its connector, on real files or a real PostgreSQL"
_THROUGH_THE_QUERY = "is tested through queries of real Spark sessions"

_IN_TRANSFORMS = "is tested beside the transforms, which share a Java with Spark (unit/transforms/test_java_regex)"

EXCEPTIONS: dict[str, str] = {
    **dict.fromkeys(
        [
            "api/abandonable.py",
            "api/config_provider.py",
            "api/context.py",
            "api/plugin.py",
            "api/plugin_metrics.py",
            "api/source.py",
            "herder/interface.py",
        ],
        _DECLARATIONS,
    ),
    **dict.fromkeys(
        [
            "cli/common/registry_option.py",
            "cli/common/url_option.py",
            "cli/demo/cdc.py",
            "cli/demo/outbox.py",
            "embedded/registry.py",
            "kafka/consumer/transaction_markers.py",
        ],
        _COMMANDS,
    ),
    "config/spark_patterns.py": _IN_TRANSFORMS,
    **dict.fromkeys(
        [
            "connectors/jdbc/postgres/column_reader.py",
            "connectors/jdbc/postgres/task.py",
            "connectors/postgres/changes/slot/slot_wait.py",
            "connectors/postgres/changes/snapshot/chunk_reader.py",
            "connectors/postgres/changes/snapshot/first_snapshot.py",
            "connectors/postgres/changes/snapshot/incremental_snapshots.py",
            "connectors/postgres/changes/stream/stream.py",
            "connectors/files/formats/jsonl_reader.py",
        ],
        _THROUGH_THE_TASK,
    ),
    **dict.fromkeys(
        [
            "engine/spark/frame_preparation.py",
            "spark/frame/frame_write.py",
            "spark/frame/jobs.py",
            "spark/query/same_rows.py",
            "kafka/admin/topic_creator.py",
        ],
        _THROUGH_THE_QUERY,
    ),
    **dict.fromkeys(
        [
            "herder/requests/connector_requests.py",
            "herder/requests/logger_requests.py",
            "herder/requests/observing.py",
            "herder/requests/offset_requests.py",
            "herder/requests/plugin_requests.py",
            "herder/work/connector_work.py",
            "herder/work/fencing_round.py",
            "herder/work/local_work.py",
            "herder/work/task_work.py",
            "kafka/consumer/topic_follower.py",
            "storage/offsets/partition_guard.py",
        ],
        _WHOLE_WORKERS,
    ),
    **dict.fromkeys(
        [
            "testing/conformance/check_commits.py",
            "testing/conformance/check_config.py",
            "testing/conformance/check_reading.py",
            "testing/conformance/check_transform.py",
            "testing/conformance/creations.py",
            "testing/conformance/kills.py",
            "testing/conformance/other_process.py",
            "testing/conformance/own_topics.py",
            "testing/conformance/subject.py",
            "testing/conformance/suite.py",
            "testing/conformance/tested_worker.py",
        ],
        _CONFORMANCE,
    ),
}


@dataclass(frozen=True)
class _Module:
    path: Path
    names: frozenset[str]
    imports: frozenset[str]

    @property
    def rooms(self) -> tuple[str, ...]:
        """The folders where the module's tests may be, below each kind of tests."""
        parts = self.path.parent.parts
        return tuple("/".join((*place, "")) for place in ((parts, parts[:-1]) if len(parts) > 1 else (parts,)))


@dataclass(frozen=True)
class _Tests:
    path: str
    words: frozenset[str]
    imports: frozenset[str]


def _imports(tree: ast.Module) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def _public(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def _imported(text: str) -> Iterator[str]:
    """The modules that a text imports, and the imported names.

    A regular expression is used, as parsing all tests is slow.
    """
    for module, names in re.findall(r"^\s*(?:from|import) (fencepost[\w.]*)(?: import (.*))?", text, re.MULTILINE):
        yield module
        yield from (f"{module}.{name}" for name in re.findall(r"\w+", names))


@cache
def _modules() -> dict[str, _Module]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name in {"__init__.py", "__main__.py"}:
            continue
        relative, tree = path.relative_to(PACKAGE), ast.parse(path.read_text(encoding="utf-8"))
        names = frozenset(name for name in _public(tree) if not name.startswith("_"))
        dotted = ".".join((PACKAGE.name, *relative.with_suffix("").parts))
        found[dotted] = _Module(relative, names, _imports(tree))
    return found


@cache
def _tests() -> list[_Tests]:
    found = []
    for path in (path for kind in KINDS for path in (TESTS / kind).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        below = path.relative_to(TESTS)
        found.append(_Tests("/".join(below.parts[1:]), frozenset(re.findall(r"\w+", text)), frozenset(_imported(text))))
    return found


def _has_test(dotted: str, module: _Module) -> bool:
    name = f"/test_{module.path.name}"
    return any(
        dotted in test.imports or module.names & test.words or test.path.endswith(name)
        for test in _tests()
        if test.path.startswith(module.rooms)
    )


@cache
def _untested() -> frozenset[str]:
    modules = _modules()
    tested = {dotted for dotted, module in modules.items() if _has_test(dotted, module)}
    waiting = list(tested)
    while waiting:
        user = modules[waiting.pop()]
        served = {
            dotted
            for dotted in user.imports & modules.keys()
            if dotted not in tested and modules[dotted].path.parent == user.path.parent
        }
        tested |= served
        waiting += served
    return frozenset(modules[dotted].path.as_posix() for dotted in modules.keys() - tested)


def test_every_module_has_a_test_where_its_room_is() -> None:
    assert sorted(_untested() - EXCEPTIONS.keys()) == []


def test_exceptions_are_modules_without_a_test() -> None:
    """The list may only shrink: a module with a new test is removed from it."""
    assert sorted(EXCEPTIONS.keys() - _untested()) == []
