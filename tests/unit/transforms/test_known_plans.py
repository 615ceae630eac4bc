"""Polled batches with known columns use a cached plan, with the same results."""

from __future__ import annotations

import datetime as dt
import decimal
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.api.record import SourceRecord
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.grouping import group_records
from fencepost.engine.spark import arrow_rows, known_plans
from fencepost.engine.spark.known_plans import KnownPlans, LocalPlan
from fencepost.engine.spark.local_rows import local_rows
from fencepost.engine.spark.transform import GroupPlans, transform_group
from fencepost.transforms.base import is_planned_by_schema
from fencepost.transforms.chain import Step
from fencepost.transforms.fields import InsertField
from fencepost.transforms.sql import Sql
from tests.support.engine import pipeline
from tests.unit.transforms.support import debezium, predicate, step

_MOMENT = dt.datetime(2024, 3, 31, 1, 30, 0, 123_000, tzinfo=dt.UTC)
_HEADERS: Sequence[list[tuple[str, Any]]] = [[], [("h", 1)], [("other", "x")], [("h", 2), ("h", "x")]]
_DECLARED = (
    "n BIGINT NOT NULL, small TINYINT, money DECIMAL(20, 2), day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, raw BINARY, "
    "tags ARRAY<STRING>, sizes MAP<STRING, INT>, inner STRUCT<a: INT, b: STRUCT<c: STRING>>, text STRING, ok BOOLEAN"
)


def record(value: object, **more: Any) -> SourceRecord:
    return SourceRecord({"source": "s"}, {"position": 1}, more.pop("topic", "orders"), value, **more)


def schemaless(count: int = 5) -> list[SourceRecord]:
    """Values and keys without schemas."""
    values: list[Any] = [
        {"n": n, "text": f"\u00e9{n}", "f": n / 3, "ok": n % 2 == 0, "tags": ["a", None], "inner": {"a": n, "b": {"c": "x"}}}
        for n in range(count)
    ]  # fmt: skip
    return [
        record(value, key=f"k{n}", timestamp=1_700_000_000_123 + n, headers=_HEADERS[n % 4], partition=n % 2)
        for n, value in enumerate(values)
    ]


def declared(count: int = 4) -> list[SourceRecord]:
    """Values with a schema that has all kinds of types; some values are null."""
    full = {
        "n": 2**62, "small": -7, "money": decimal.Decimal("12345678901234567.89"), "day": _MOMENT.date(), "at": _MOMENT,
        "local": _MOMENT.replace(tzinfo=None), "raw": b"\0\xff", "tags": ["a", None], "sizes": {"x": 1, "y": None},
        "inner": {"a": 1, "b": {"c": "deep"}}, "text": "1700000000", "ok": True,
    }  # fmt: skip
    values: list[Any] = [full | {"n": n, "text": str(n)} for n in range(count)]
    values[1], values[2] = None, {"n": 3, "inner": {"a": None, "b": None}}
    return [record(value, value_schema=_DECLARED, headers=_HEADERS[n % 4]) for n, value in enumerate(values)]


def pipe(*chain: Step) -> Any:
    return pipeline(transforms=chain)


def transformed(spark: SparkSession, records: Sequence[SourceRecord], steps: Any, plans: GroupPlans) -> list[Any]:
    """Transform polled records; return Arrow batches and the types of their columns."""
    groups = group_records(records, steps, ErrorHandler(steps.errors), structured=True)
    return [transform_group(spark, group, steps, plans) for group in groups]


def sql(properties: Mapping[str, str]) -> Step:
    transform = Sql()
    transform.configure(properties)
    return Step(transform)


def rules_run(spark: SparkSession) -> int:
    """The number of rules that Spark's analyzer and optimizer have run: making a plan runs some."""
    jvm: Any = spark._jvm
    return int(jvm.org.apache.spark.sql.catalyst.rules.RuleExecutor.getCurrentMetrics().numRuns())


def projection_classes(plans: GroupPlans) -> set[str]:
    """The Java classes that evaluate rows for the cached plans."""
    parts = [part for kept in plans._plans.values() if isinstance(kept, tuple) for part in kept[0].parts]
    return {projection.getClass().getSimpleName() for part in parts for projection in part.projections}


INSERT = {"topic.field": "t", "partition.field": "p", "timestamp.field": "at", "static.field": "s", "static.value": "x"}
CHAINS: Mapping[str, tuple[Step, ...]] = {
    "InsertField": (step("InsertField$Value", INSERT),),
    "InsertField of keys": (step("HoistField$Key", {"field": "id"}), step("InsertField$Key", INSERT)),
    "fields within structs": (
        step("MaskField$Value", {"fields": "inner.b.c", "field.syntax.version": "V2"}),
        step("InsertField$Value", {"static.field": "inner.s!", "static.value": "x", "field.syntax.version": "V2"}),
    ),
    "ReplaceField": (step("ReplaceField$Value", {"exclude": "ok", "renames": "n:number"}),),
    "ExtractField": (step("ExtractField$Value", {"field": "inner"}),),
    "MaskField": (step("MaskField$Value", {"fields": "n,text"}),),
    "Flatten": (step("Flatten$Value", {"delimiter": "_"}),),
    "Cast": (step("Cast$Value", {"spec": "n:string,ok:int8"}),),
    "HeaderFrom": (step("HeaderFrom$Value", {"fields": "n,inner", "headers": "hn,hi", "operation": "move"}),),
    "headers": (step("InsertHeader", {"header": "h", "value.literal": "v"}), step("DropHeaders", {"headers": "other"})),
    "RegexRouter": (step("RegexRouter", {"regex": "ord(.*)", "replacement": "new-$1"}),),
    "ValueToKey": (
        step("HoistField$Value", {"field": "row"}),
        step("ValueToKey", {"fields": "row"}),
        step("ExtractField$Key", {"field": "row"}),
    ),
    "TimestampConverter": (
        step("TimestampConverter$Value", {"field": "n", "target.type": "string", "format": "yyyy-MM-dd HH:mm"}),
    ),
    "Filter": (Step(step("Filter").transform, predicate("RecordIsTombstone")), step("Flatten$Value")),
    "negated Filter": (Step(step("Filter").transform, predicate("HasHeaderKey", {"name": "h"}), negate=True),),
    "predicate": (
        Step(step("MaskField$Value", {"fields": "n"}).transform, predicate("TopicNameMatches", {"pattern": "o.*"})),
    ),
    "explode": (sql({"explode": "transform(sequence(0, value.n % 3), i -> named_struct('i', i, 't', value.text))", "value": "struct(value.n, item)"}),),
    "explode, some without items": (
        sql({"explode": "value.tags", "where": "value.n <> 0 AND item IS NOT NULL", "value": "item", "key": "concat(item, 'k')"}),
    ),
    "explode twice": (
        sql({"explode": "array(value, value)", "value": "item", "where": "value.n > 0"}),
        sql({"explode": "value.tags", "value": "struct(value.n, item)"}),
        step("InsertField$Value", {"static.field": "s", "static.value": "x"}),
    ),
    "explode what a predicate selects": (
        Step(sql({"explode": "array(1, 2)", "topic": "concat(topic, item)"}).transform, predicate("HasHeaderKey", {"name": "h"})),
    ),
    "Filter and predicate": (
        Step(step("Filter").transform, predicate("HasHeaderKey", {"name": "other"})),
        Step(step("MaskField$Value", {"fields": "n"}).transform, predicate("TopicNameMatches", {"pattern": "o.*"})),
        Step(step("MaskField$Value", {"fields": "ok"}).transform, predicate("HasHeaderKey", {"name": "h"})),
    ),
}  # fmt: skip


@pytest.mark.parametrize("records", [schemaless(), declared()], ids=["schemaless", "declared"])
@pytest.mark.parametrize("name", CHAINS)
def test_a_known_plan_gives_the_same_as_a_new_one(spark: SparkSession, name: str, records: list[SourceRecord]):
    steps, plans = pipe(*CHAINS[name]), GroupPlans()
    expected = transformed(spark, records, steps, plans)
    assert transformed(spark, records, steps, plans) == expected
    before = rules_run(spark)
    assert transformed(spark, records, steps, plans) == expected
    assert rules_run(spark) == before
    assert any(batch.num_rows for batches, _ in expected for batch in batches)


@pytest.mark.parametrize("records", [schemaless(), declared()], ids=["schemaless", "declared"])
@pytest.mark.parametrize("name", CHAINS)
def test_a_compiled_plan_gives_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str, records: list[SourceRecord]
):
    session, steps, plans = spark.newSession(), pipe(*CHAINS[name]), GroupPlans()
    session.conf.set("spark.sql.codegen.factoryMode", "CODEGEN_ONLY")
    found = [transformed(session, records, steps, plans) for _ in range(2)]
    monkeypatch.setattr(known_plans, "_COMPILED_AFTER", 1)
    found += [transformed(session, records, steps, plans) for _ in range(2)]
    assert found == [found[0]] * 4
    assert projection_classes(plans) == {"SpecificUnsafeProjection"}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_null_structs_with_required_fields_go_through_a_job_in_any_zone(spark: SparkSession, zone: str):
    # Arrow can cast a struct to another time zone, but refuses to cast it to its own type.
    session, name = spark.newSession(), "explode what a predicate selects"
    session.conf.set("spark.sql.session.timeZone", zone)
    ((batches, _),) = transformed(session, declared(), pipe(*CHAINS[name]), GroupPlans())
    values = [value and value["n"] for batch in batches for value in batch["value"].to_pylist()]
    assert values == [0, None, None, 3, 3, 3]


def test_a_known_plan_keeps_the_name_of_a_schema(spark: SparkSession):
    steps, plans = pipe(step("SetSchemaMetadata$Value", {"schema.name": "org.N"})), GroupPlans()
    found = [transformed(spark, declared(), steps, plans) for _ in range(3)]
    assert found[0] == found[1] == found[2]
    assert found[2][0][1].value.identity == {"name": "org.N"}


def test_a_known_plan_is_used_for_other_rows_and_topics(spark: SparkSession):
    steps, plans = pipe(*CHAINS["InsertField"]), GroupPlans()
    for _ in range(2):
        transformed(spark, schemaless(), steps, plans)
    before = rules_run(spark)
    rows = schemaless(50)
    ((batches, _),) = transformed(spark, [replace(one, topic="other") for one in rows], steps, plans)
    assert rules_run(spark) == before
    assert [row["topic"] for batch in batches for row in batch.to_pylist()] == ["other"] * 50


def test_other_columns_are_planned_again(spark: SparkSession):
    steps, plans = pipe(step("Flatten$Value")), GroupPlans()
    for _ in range(3):
        transformed(spark, [record({"a": {"b": 1}})], steps, plans)
    ((batches, _),) = transformed(spark, [record({"a": {"b": "text"}, "c": None})], steps, plans)
    assert batches[0]["value"].storage.to_pylist() == ['{"a.b":"text","c":null}']


class Counting(InsertField):
    """An author's transform that also depends on the number of earlier batches, not only on the columns."""

    batches = 0

    def apply(self, records: DataFrame) -> DataFrame:
        self.batches += 1
        return super().apply(records).withColumn("topic", F.lit(f"batch-{self.batches}"))


def test_a_transform_that_is_not_marked_is_applied_to_each_batch(spark: SparkSession):
    """This also holds for an unmarked subclass of a marked transform."""
    transform = Counting()
    transform.configure({"static.field": "s", "static.value": "x"})
    steps, plans = pipe(Step(transform)), GroupPlans()
    found = [transformed(spark, schemaless(), steps, plans)[0][0][0]["topic"][0].as_py() for _ in range(4)]
    assert found == ["batch-1", "batch-2", "batch-3", "batch-4"]


def test_the_router_that_looks_at_the_clock_is_planned_for_each_batch():
    assert not is_planned_by_schema(step("TimestampRouter").transform)


@pytest.fixture
def lenient(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose casts wrap numbers around on overflow."""
    spark.conf.set("spark.sql.ansi.enabled", "false")
    yield spark
    spark.conf.unset("spark.sql.ansi.enabled")


def test_a_setting_that_changes_counts_for_the_next_batch(lenient: SparkSession):
    steps, plans = pipe(step("Cast$Value", {"spec": "n:int8"})), GroupPlans()
    for _ in range(3):
        ((batches, _),) = transformed(lenient, [record({"n": 300})], steps, plans)
        assert batches[0]["value"].storage.to_pylist() == ['{"n":44}']
    lenient.conf.set("spark.sql.ansi.enabled", "true")
    with pytest.raises(PySparkException, match="CAST_OVERFLOW"):
        transformed(lenient, [record({"n": 300})], steps, plans)


def arrow_memory(spark: SparkSession) -> int:
    jvm: Any = spark._jvm
    return int(jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator().getAllocatedMemory())


def test_a_row_that_is_refused_fails_as_with_a_new_plan_and_leaks_nothing(spark: SparkSession):
    steps, plans = pipe(step("Cast$Value", {"spec": "n:int32"})), GroupPlans()
    good, bad = [record({"n": str(n)}) for n in range(9)], record({"n": "x"})
    expected = [transformed(spark, good, steps, plans) for _ in range(3)][-1]
    memory = arrow_memory(spark)
    for _ in range(4):
        with pytest.raises(PySparkException, match="CAST_INVALID_INPUT"):
            transformed(spark, [*good[:5], bad, *good[5:]], steps, plans)
        assert transformed(spark, good, steps, plans) == expected
    assert arrow_memory(spark) == memory


def test_a_known_plan_leaves_out_rows_that_another_step_would_refuse(spark: SparkSession):
    drop = Step(step("Filter").transform, predicate("HasHeaderKey", {"name": "bad"}))
    steps, plans = pipe(drop, step("Cast$Value", {"spec": "n:int32"})), GroupPlans()
    records = [record({"n": n}, headers=[("bad" if n == "x" else "good", 1)]) for n in ("1", "x", "2")]
    found = [transformed(spark, records, steps, plans) for _ in range(3)]
    assert found[0] == found[1] == found[2]
    assert found[2][0][0][0]["value"].storage.to_pylist() == ['{"n":1}', '{"n":2}']


def test_a_known_plan_serves_an_outbox_whose_rows_are_deleted(spark: SparkSession):
    row = "STRUCT<id: STRING, aggregatetype: STRING, aggregateid: STRING, payload: STRING>"
    schema = f"before {row}, after {row}, source STRUCT<t: STRING>, op STRING, ts_ms BIGINT"
    sent = {"id": "e1", "aggregatetype": "order", "aggregateid": "42", "payload": "x"}
    events = [{"before": None, "after": sent, "op": "c"}, {"before": sent, "after": None, "op": "d"}, None]
    records = [record(value, value_schema=schema) for value in events]
    steps, plans = pipe(debezium("outbox.EventRouter")), GroupPlans()
    found = [transformed(spark, records, steps, plans) for _ in range(2)]
    before = rules_run(spark)
    found.append(transformed(spark, records, steps, plans))
    assert rules_run(spark) == before
    assert found == [found[0]] * 3
    assert [topic for batch in found[2][0][0] for topic in batch["topic"].to_pylist()] == ["outbox.event.order"]


def test_a_batch_above_spark_s_limit_is_not_evaluated_in_the_driver(spark: SparkSession):
    spark.conf.set("spark.sql.execution.arrow.localRelationThreshold", "100b")
    steps, plans = pipe(step("Flatten$Value")), GroupPlans()
    try:
        found = []
        for _ in range(3):
            before = rules_run(spark)
            found.append(transformed(spark, schemaless(), steps, plans))
            assert rules_run(spark) > before
    finally:
        spark.conf.unset("spark.sql.execution.arrow.localRelationThreshold")
    assert found[0] == found[1] == found[2]


def test_spark_s_limit_may_have_any_unit(spark: SparkSession):
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.localRelationThreshold", "3k")
    table = session.createDataFrame(session.sparkContext.emptyRDD(), "n INT")
    plan = LocalPlan.of(table, table.selectExpr("n + 1 AS n"))
    assert plan is not None
    assert plan.limit == 3 * 1024


def test_rows_that_spark_puts_into_several_batches_are_all_there(spark: SparkSession, monkeypatch: pytest.MonkeyPatch):
    frame = spark.sql("SELECT * FROM VALUES (1), (2), (3) AS rows(n)")
    monkeypatch.setattr(arrow_rows, "_ONE_BATCH", 1)
    table = local_rows(frame)
    assert table is not None
    assert table["n"].to_pylist() == [1, 2, 3]


def test_no_rows_are_in_files_if_spark_encrypts_its_output(spark: SparkSession, monkeypatch: pytest.MonkeyPatch):
    frame = spark.sql("SELECT * FROM VALUES (1), (2) AS rows(n)")
    table = spark.createDataFrame(spark.sparkContext.emptyRDD(), "n INT")
    assert local_rows(frame) is not None
    assert LocalPlan.of(table, table.selectExpr("n + 1 AS n")) is not None
    monkeypatch.setattr(spark.sparkContext, "_encryption_enabled", True)
    assert local_rows(frame) is None
    assert LocalPlan.of(table, table.selectExpr("n + 1 AS n")) is None


def test_a_plan_is_made_at_the_second_use_and_kept():
    plans, made = KnownPlans[str](), iter(["first", "second"])
    found = []
    for _ in range(4):
        with plans.borrowed("key", lambda: next(made)) as plan:
            found.append(plan)
    assert found == [None, "first", "first", "first"]


def test_a_plan_has_one_user_at_a_time():
    plans = KnownPlans[str]()
    for _ in range(2):
        with plans.borrowed("key", lambda: "plan"):
            pass
    others: list[str | None] = []

    def use() -> None:
        with plans.borrowed("key", lambda: "another") as plan:
            others.append(plan)

    with plans.borrowed("key", lambda: "none") as plan:
        other = threading.Thread(target=use)
        other.start()
        other.join()
    assert (plan, others) == ("plan", [None])


def test_a_plan_is_dropped_after_an_error():
    """Its expressions may have stopped half-way, with an inconsistent state."""
    plans, made = KnownPlans[str](), iter(["first", "second"])
    for _ in range(2):
        with plans.borrowed("key", lambda: next(made)):
            pass
    with pytest.raises(ValueError, match="half"), plans.borrowed("key", lambda: next(made)):
        raise ValueError("half a value")
    found = []
    for _ in range(2):
        with plans.borrowed("key", lambda: next(made)) as plan:
            found.append(plan)
    assert found == [None, "second"]


def test_the_plan_that_was_not_used_for_longest_is_dropped():
    plans = KnownPlans[str]()

    def use(key: Any) -> str | None:
        with plans.borrowed(key, lambda: f"plan of {key}") as plan:
            return plan

    for key in ("old", "old", "used", "used"):
        use(key)
    for number in range(62):
        use(number)
    assert use("used") == "plan of used"
    use("one more")
    assert use("used") == "plan of used"
    assert use("old") is None
