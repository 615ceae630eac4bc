"""Expressions come over the network: forbidden ones are refused, wherever they are in a configuration."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from fencepost import ConfigError
from fencepost.transforms.chain import apply_chain
from fencepost.transforms.sql_functions import ALLOWED, NONDETERMINISTIC, NULL_OF_NULL
from fencepost.transforms.sql_plan import check_plan
from tests.unit.transforms.support import Records, plain
from tests.unit.transforms.test_sql import condition, sql

RECORDS = Records(
    "STRUCT<id: INT, text: STRING, items: ARRAY<STRING>>", [{"value": (1, "a", ["x"]), "key": "k"}], key="STRING"
)

FUNCTIONS = [
    "reflect('java.lang.System', 'getenv', 'PATH')",
    "java_method('java.lang.System', 'getProperty', 'user.home')",
    "try_reflect('java.lang.System', 'getenv', 'PATH')",
    "input_file_name()",
    "input_file_block_start()",
    "xpath_string('<!DOCTYPE a [<!ENTITY e SYSTEM \"file:///etc/passwd\">]><a>&e;</a>', '/a')",
    "xpath('<a/>', '/a')",
    "from_xml('<a/>', 'a STRING')",
    "from_avro(value.text, '{}')",
    "from_protobuf(value.text, 'm', '/etc/passwd')",
    "current_user()",
    "user()",
    "session_user()",
    "current_catalog()",
    "current_database()",
    "current_schema()",
    "current_path()",
    "version()",
    "spark_partition_id()",
    "monotonically_increasing_id()",
    "mine(value.text)",
    "shout(value.text)",
    "spark_catalog.default.mine(value.text)",
    "system.builtin.upper(value.text)",
    "`reflect`('java.lang.System', 'getenv', 'PATH')",
    "REFLECT /* hidden */ ('java.lang.System', 'getenv', 'PATH')",
    "count(*)",
    "sum(value.id)",
    "first(key)",
    "collect_list(key)",
    "explode(value.items)",
    "posexplode(value.items)",
    "inline(array(struct(1)))",
    "stack(2, 1, 2)",
    "json_tuple(value.text, 'a')",
    "read_files('/etc/passwd')",
    "read_files(path => '/etc/passwd')",
    "lag(key)",
]
FORMS = [
    "(SELECT 1)",
    "(SELECT value FROM csv.`/etc/passwd` LIMIT 1)",
    "(SELECT first(value) FROM text.`/etc/passwd`)",
    "EXISTS (SELECT 1)",
    "key IN (SELECT 1)",
    "(key, key) IN (SELECT 1, 2)",
    "(TABLE t)",
    "(VALUES (1))",
    "sum(value.id) OVER ()",
    "row_number() OVER (ORDER BY key)",
    "count(DISTINCT key)",
    "upper(key) FILTER (WHERE EXISTS (SELECT 1))",
    "IDENTIFIER('reflect')('java.lang.System', 'getenv', 'PATH')",
    "IDENTIFIER('current_user')",
    ":parameter",
    "?",
    "value.text:a",
    "upper(str => key)",
]
NAMES = [
    "current_user", "session_user", "user", "current_catalog", "current_database", "session.secret",
    "system.session.secret", "secret", "__fencepost_row", "`__fencepost_row`", "spark_grouping_id", "grouping__id",
]  # fmt: skip
PLACES = [
    "{0}",
    "struct({0} AS a)",
    "CASE WHEN {0} IS NULL THEN 1 END",
    "coalesce(NULL, {0})",
    "transform(value.items, i -> {0})",
    "aggregate(value.items, 0, (a, i) -> 1, a -> {0})",
    "value.items[CAST({0} AS INT)]",
    "CAST({0} AS STRING)",
    "upper(concat('a', {0}))",
    "{0} LIKE 'a'",
    "{0} IN (1, 2)",
    "{0} BETWEEN 1 AND 2",
    "try_cast({0} AS INT)",
]


@pytest.fixture(scope="module", autouse=True)
def functions(spark: SparkSession) -> None:
    """The session's own functions and variables, which no expression may use."""
    spark.udf.register("shout", str.upper)
    spark.sql("DECLARE OR REPLACE VARIABLE secret STRING DEFAULT 's3cret'")


@pytest.mark.parametrize("text", [*FUNCTIONS, *FORMS, *NAMES])
def test_an_expression_that_could_do_harm_is_refused(spark: SparkSession, text: str) -> None:
    with pytest.raises(ConfigError, match=r"Sql does not accept value="):
        apply_chain(RECORDS.frame(spark), [sql(value=text)])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "text", ["reflect('java.lang.System', 'getenv', 'PATH')", "(SELECT 1)", "current_user", "secret"]
)
def test_forbidden_sql_is_refused_anywhere_in_an_expression(spark: SparkSession, text: str, place: str) -> None:
    with pytest.raises(ConfigError, match=r"Sql does not accept value="):
        apply_chain(RECORDS.frame(spark), [sql(value=place.format(text))])


@pytest.mark.parametrize(
    "property_name", ["select", "where", "explode", "key", "value", "topic", "timestamp", "partition", "headers"]
)
def test_forbidden_sql_is_refused_in_every_property(spark: SparkSession, property_name: str) -> None:
    text = "reflect('java.lang.System', 'getenv', 'PATH')"
    text = f"{text} AS value" if property_name == "select" else text
    with pytest.raises(ConfigError, match=f"Sql does not accept {property_name}=.*the function reflect is not allowed"):
        apply_chain(RECORDS.frame(spark), [sql(**{property_name: text})])


def test_forbidden_sql_is_refused_in_a_predicate(spark: SparkSession) -> None:
    for text in ("reflect('java.lang.System', 'getenv', 'PATH') = 'a'", "EXISTS (SELECT 1)", "current_user = 'a'"):
        with pytest.raises(ConfigError, match="SqlPredicate does not accept condition="):
            condition(text).test(RECORDS.frame(spark))


@pytest.mark.parametrize(
    "text",
    [
        "key FROM csv.`/etc/passwd`",
        "key FROM (SELECT 1 AS key)",
        "key WHERE 1 = 1",
        "DISTINCT key",
        "key ORDER BY key",
        "key LIMIT 1",
        "key GROUP BY key",
        "key UNION SELECT 1",
        "key LATERAL VIEW explode(value.items) t AS c",
        "key, LATERAL (SELECT 1)",
        "/*+ REPARTITION(3) */ key",
        "TRANSFORM(key) USING 'cat' AS (key)",
        "key |> WHERE true",
        "key; DROP TABLE t",
        "1) AS key FROM csv.`/etc/passwd` --",
        "key WINDOW w AS (ORDER BY key)",
        "key INTO t",
        "",
        "--",
    ],
)
def test_text_that_turns_a_list_into_a_query_is_refused(spark: SparkSession, text: str) -> None:
    with pytest.raises(ConfigError, match=r"does not accept select=|nothing to do"):
        apply_chain(RECORDS.frame(spark), [sql(select=text)])


def test_the_environment_of_the_worker_is_not_shown(spark: SparkSession) -> None:
    for text in ("'${env:PATH}'", "concat('${env:', 'PATH}')", "'${system:user.home}'", "'${spark.master}'"):
        frame = apply_chain(RECORDS.frame(spark), [sql(value=text)])
        assert plain(frame.collect()[0])["value"] == "".join(part for part in text.split("'") if part[:1] in "$P")
    assert "/" in spark.range(1).selectExpr("'${env:PATH}' AS path").collect()[0]["path"], "Spark itself shows it"


def test_comments_backticks_and_a_semicolon_at_the_end_are_texts_like_others(spark: SparkSession) -> None:
    for text in ("upper(key) -- a comment", "/* a */ upper(`key`)", "upper(key);"):
        frame = apply_chain(RECORDS.frame(spark), [sql(value=text)])
        assert plain(frame.collect()[0])["value"] == "K"


@pytest.mark.parametrize(
    "text",
    [
        "rand()", "randn()", "uuid()", "now()", "current_timestamp()", "current_date()", "unix_timestamp()",
        "shuffle(value.items)", "aes_encrypt('a', '0000111122223333')", "DATE 'today'", "TIMESTAMP 'now'",
        "CAST('now' AS TIMESTAMP)", "to_date('yesterday')", "timestamp(' NOW')",
        "CAST(concat('no', 'w') AS TIMESTAMP)", "date_add(replace('tXday', 'X', 'o'), 1)", "year(lower('NOW'))",
        "to_timestamp(concat('no', 'w'))",
    ],
)  # fmt: skip
def test_nondeterministic_functions_are_refused_unless_allowed(spark: SparkSession, text: str) -> None:
    with pytest.raises(ConfigError, match=r"allow\.nondeterministic=true"):
        apply_chain(RECORDS.frame(spark), [sql(value=text)])
    frame = apply_chain(RECORDS.frame(spark), [sql(value=text, allow_nondeterministic="true")])
    assert frame.count() == 1


@pytest.mark.parametrize("text", ["current_timestamp", "date_add(CURRENT_DATE, 1)"])
def test_the_present_without_parentheses_is_refused_as_such(spark: SparkSession, text: str) -> None:
    with pytest.raises(ConfigError, match=r"the function current_\w+ gives another result each time"):
        apply_chain(RECORDS.frame(spark), [sql(value=text)])
    with pytest.raises(ConfigError, match="functions need parentheses"):
        apply_chain(RECORDS.frame(spark), [sql(value=text, allow_nondeterministic="true")])


def test_a_text_that_reads_like_the_present_is_a_text(spark: SparkSession) -> None:
    frame = apply_chain(RECORDS.frame(spark), [sql(value="concat('now ', key)")])
    assert plain(frame.collect()[0])["value"] == "now k"


def test_a_function_of_the_session_does_not_take_the_place_of_an_allowed_one(spark: SparkSession) -> None:
    spark.udf.register("upper", lambda text: f"mine {text}")
    frame = apply_chain(RECORDS.frame(spark), [sql(value="upper(key)")])
    assert plain(frame.collect()[0])["value"] == "K"


def test_plans_that_do_more_than_expressions_are_refused(spark: SparkSession) -> None:
    given = RECORDS.frame(spark)
    for records in (
        given.sort("key"),
        given.groupBy("key").count(),
        given.distinct(),
        given.join(given, "key"),
        given.limit(1),
    ):
        with pytest.raises(ConfigError, match="only expressions over the columns of a single record"):
            check_plan(records, given, "Sql", deterministic=True)


def test_the_tables_of_functions_are_spark_s_own_and_disjoint(spark: SparkSession) -> None:
    known = {row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert known >= (ALLOWED | NONDETERMINISTIC | NULL_OF_NULL)
    assert not ALLOWED & NONDETERMINISTIC
    assert NULL_OF_NULL <= ALLOWED


def test_records_of_a_source_may_hold_the_present_time(spark: SparkSession) -> None:
    given = RECORDS.frame(spark).selectExpr("* EXCEPT (key)", "CAST(CAST('today' AS DATE) AS STRING) AS key")
    assert apply_chain(given, [sql(value="key", where="key IS NOT NULL")]).count() == 1
