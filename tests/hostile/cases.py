"""The promise for each way to misbehave, by the kind of misbehaviour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.hostile.trials import Case, Promise, delivers, lets_go, restarts, says, settles, stores
from tests.hostile.workers import JSON

_JSON = {
    "key.converter": JSON,
    "key.converter.schemas.enable": "false",
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}


def _cases(plugin: str, promises: Mapping[str, Promise], **config: str) -> dict[str, Case]:
    extra = {name.replace("_", "."): value for name, value in config.items()}
    return {how: Case({"connector.class": plugin, "how": how, **extra}, promise) for how, promise in promises.items()}


def _raising(where: str, what: str, promise: Promise) -> tuple[str, Case]:
    config = {"connector.class": "raising.Raising", "where": where, "what": what}
    return f"{what} in {where}", Case(config, promise)


def _classes(module: str, promises: Mapping[str, Promise], **config: str) -> dict[str, Case]:
    extra = {name.replace("_", "."): value for name, value in config.items()}
    return {name: Case({"connector.class": f"{module}.{name}", **extra}, promise) for name, promise in promises.items()}


WHAT_IS_RAISED: Mapping[str, Promise] = {
    "exit": says("SystemExit", "raising.py"),
    "exit quietly": says("SystemExit"),
    "exit with a text": says("SystemExit", "I quit"),
    "interrupt": says("KeyboardInterrupt"),
    "generator exit": says("GeneratorExit"),
    "base exception": says("NotAnException", "not an Exception"),
    "stop iteration": says("StopIteration"),
    "cancelled": says("CancelledError"),
    "unspeakable": says("Unspeakable"),
    "bytes": says("SpeaksBytes"),
    "surrogate": says("Surrogate"),
    "endless": says("my own cause"),
    "retort": says("Retort"),
    "recursion": says("RecursionError"),
    "memory": says("MemoryError", "all gone"),
    "system error": says("SystemError"),
    "group": says("several"),
    "timeout": says("slow source"),
    "long": says("ValueError", "xxxx"),
    "lines": says("ValueError", "three"),
    "value": says("ValueError: a plain error", "raising.py"),
    "data": says("a row that does not fit"),
    "retriable": restarts("the source is away"),
}

WHERE_A_TASK_RAISES: Mapping[str, Promise] = {
    "start": says("SystemExit"),
    "commit": settles,
    "commit_record": settles,
    "lag": delivers,
    "stop": delivers,
}

WHERE_A_CONNECTOR_RAISES: Mapping[str, Promise] = {
    "connector validate": says("SystemExit"),
    "connector start": says("SystemExit"),
    "connector task_configs": says("SystemExit"),
    "connector exactly_once_support": settles,
    "connector can_define_transaction_boundaries": settles,
    "connector partitions_follow_task_configs": settles,
    "connector alter_offsets": delivers,
    "connector stop": delivers,
}


def raised() -> dict[str, Case]:
    """Everything that `poll` can raise, and the worst exceptions in each other method."""
    return dict(
        (
            *(_raising("poll", what, promise) for what, promise in WHAT_IS_RAISED.items()),
            *(_raising(where, "exit", promise) for where, promise in WHERE_A_TASK_RAISES.items()),
            *(_raising(where, "exit", promise) for where, promise in WHERE_A_CONNECTOR_RAISES.items()),
            _raising("commit", "unspeakable", settles),
            _raising("lag", "unspeakable", delivers),
            _raising("connector task_configs", "unspeakable", says("Unspeakable")),
            _raising("connector validate", "unspeakable", says("Unspeakable")),
        )
    ) | _classes(
        "raising",
        {
            "InitExits": says("SystemExit"),
            "VersionExits": settles,
            "ConfigExits": says("SystemExit"),
            "TaskClassExits": says("SystemExit"),
            "TaskInitExits": says("SystemExit", "no task today"),
            "ValidatorExits": says("SystemExit"),
            "Abstract": says("task_class"),
        },
    )


def polled() -> dict[str, Case]:
    """Valid and invalid results of `poll`."""
    told = {
        **{how: says("poll", "dict") for how in ("a dict", "list of dicts")},
        **{how: says("poll", "SourceRecord") for how in ("one record", "a class", "a str", "a number", "bytes")},
        "list with None": says("poll", "None"),
        "list of lists": says("poll", "list"),
        "a generator that fails": says("the source broke in the middle"),
        **dict.fromkeys(("a generator", "a tuple", "a deque", "a map", "an empty generator"), delivers),
        **dict.fromkeys(("lying list", "neither true nor false"), settles),
        # False counts as no records.
        "False": lets_go,
    }
    return _cases("returning.Returning", told)


def record_fields() -> dict[str, Case]:
    """Valid and invalid fields of a record."""
    topics = ("topic with a space", "topic dots", "topic too long", "topic a number")
    offsets = ("offset a str", "offset a list", "offset a number")
    unfit = ("offset of bytes", "offset of a set", "offset of an object", "offset of a date", "offset cyclic")
    promises: dict[str, Promise] = {
        **{how: says("topic") for how in (*topics, "topic bytes")},
        **{how: says("offset") for how in (*offsets, *unfit, "offset too deep", "offset huge")},
        # These are legal in Java, or depend on the connector's other properties.
        **dict.fromkeys(("topic None", "topic empty", "offset None", "timestamp -1", "timestamp a date"), settles),
        **dict.fromkeys(("offset NaN", "partition None", "partition of numbers"), settles),
        "offset surrogate": stores("\ud800"),
        **{how: says("partition") for how in ("partition a str", "partition of an object", "partition huge")},
        **dict.fromkeys(("value an object", "value cyclic", "value a lock", "value of the schema"), settles),
        "value surrogate": settles,
        "value too large": says("max"),
        **dict.fromkeys(("key an object", "key NaN", "key a dict", "key bytes", "key huge number"), settles),
        "key a date": settles,
        **{how: says("partition") for how in ("partition -1", "partition 999", "partition '0'", "partition 1.5")},
        **{how: says("timestamp") for how in ("timestamp 2**63", "timestamp a str", "timestamp NaN")},
        **{how: says("header") for how in ("headers a dict", "headers a str", "headers of None", "headers of triples")},
        "header an object": settles,
        "field that the schema lacks": says("b"),
        "schema of nonsense": says("schema"),
        "schema a number": says("schema"),
        "value of another type": says("a"),
    }
    cases = _cases("returning.Returning", promises)
    as_json = {how: promise for how, promise in promises.items() if how.startswith(("key", "value", "field", "schema"))}
    json_cases = {f"{how}, as JSON": case for how, case in _cases("returning.Returning", as_json).items()}
    return cases | {how: Case({**case.config, **_JSON}, case.promise) for how, case in json_cases.items()}


def returned() -> dict[str, Case]:
    """Valid and invalid results of the other methods."""
    configs: dict[str, Promise] = {
        **{how: says("task_configs") for how in ("None", "a dict", "a str", "list of None", "list of str")},
        **{how: says("task_configs") for how in ("keys that are no text", "objects", "values that are no text")},
        "too many": says("tasks.max"),
        **dict.fromkeys(("huge", "surrogates", "another name"), settles),
        "generator": delivers,
    }
    task_configs = {f"task_configs: {how}": case for how, case in _cases("returning.TaskConfigs", configs).items()}
    lags = dict.fromkeys(("str", "nan", "object", "huge"), delivers)
    return (
        task_configs
        | {f"lag: {how}": case for how, case in _cases("returning.Lag", lags).items()}
        | _classes(
            "returning",
            {
                "ConfigIsADict": says("config", "dict", "ConfigDef"),
                "ConfigIsNone": says("config", "None", "ConfigDef"),
                "ValidateReturnsNone": says("validate"),
                "ValidateReturnsStrings": says("validate"),
                "VersionIsANumber": settles,
                "TaskClassIsNone": says("task_class"),
                "TaskClassIsATask": says("task_class"),
                "TaskClassIsAnother": says("task_class"),
                "SupportIsTrue": settles,
                "DefaultsAreObjects": settles,
                "Changing": delivers,
            },
        )
    )


def contexts() -> dict[str, Case]:
    """Misuse of the contexts and objects that connectors and tasks get."""
    boundary = {"transaction_boundary": "connector"}
    errors = {"none": settles, "text": settles, "class": settles, "exit": says("SystemExit"), "value": says("is gone")}
    return {
        **_cases("contexts.Asking", dict.fromkeys(("text", "None", "objects", "not a list", "bytes"), lets_go)),
        **_cases(
            "contexts.Boundaries", dict.fromkeys(("both", "stranger", "text", "other thread"), settles), **boundary
        ),
        **_cases("contexts.Boundaries", {"each": delivers}, **boundary),
        **{f"raise_error: {how}": case for how, case in _cases("contexts.Complaining", errors).items()},
        **_classes("contexts", {"Restless": delivers, "Fickle": lets_go, "Frozen": says("context")}),
        **_classes(
            "meddling", {"Signals": says("ValueError", "main thread"), "ConfigThief": settles, "Forking": delivers}
        ),
    }


# The names in connectors/meddling.py. Only workers import that module.
MILD = (
    *("time zone", "locale", "warnings are errors", "streams closed", "folder deleted", "environment cleared", "umask"),
    *("randomness seeded", "garbage kept", "threads left", "thread raises", "fork, child exits", "fork, child goes on"),
    *("fork, child raises", "fork, child exits politely", "fork by multiprocessing", "runs a program", "prints much"),
    *("own event loop", "own logging", "decimals", "except hook", "trace function"),
    *("sockets time out", "switch interval"),
)
WILD = (
    *("exits at once", "aborts", "null pointer", "SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "alarm"),
    *("json.dumps broken", "json.loads broken", "json.dumps lies", "time goes back", "monotonic clock jumps"),
    *("sleep returns at once", "threads do not start", "open is broken", "logs are gone", "files closed"),
    *("recursion limit", "search path cleared", "modules forgotten"),
)

HANGS = (
    *("start", "poll", "commit", "stop"),
    *("connector start", "connector task_configs", "connector stop"),
)


def hanging() -> dict[str, Case]:
    """Deadlocks in each method except `validate`, for which a request waits."""
    config = {"connector.class": "hanging.Hanging"}
    return {f"hangs in {where}": Case({**config, "where": where}, lets_go) for where in HANGS}


def meddling(ways: Iterable[str], folder: Path, promise: Promise) -> dict[str, Case]:
    """Connectors that change their process once; a file in `folder` records that."""
    config = {"connector.class": "meddling.Meddling"}
    return {
        how: Case({**config, "how": how, "once": str(folder / f"{number}.once")}, promise)
        for number, how in enumerate(ways)
    }


def harmless(folder: Path) -> dict[str, Case]:
    """All cases that a worker survives, by name; files in `folder` record what was done once."""
    themes: dict[str, dict[str, Case]] = {
        "raises": raised(),
        "polls": polled(),
        "sends": record_fields(),
        "returns": returned(),
        "misuses": contexts(),
        "": hanging(),
        "meddles": meddling(MILD, folder, delivers),
    }
    return {f"{theme} {name}".strip(): case for theme, cases in themes.items() for name, case in cases.items()}
