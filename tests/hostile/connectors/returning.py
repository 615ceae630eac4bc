"""Connectors that return values of wrong types."""

from __future__ import annotations

import collections
import datetime
import decimal
import json

from fencepost import ConfigDef, SourceRecord

from good import Numbers, NumbersTask

NAN = float("nan")


class ReturningTask(NumbersTask):
    """Returns the value named by `how`, after one good poll."""

    def start(self, config):
        super().start(config)
        self.how = config["how"]
        self.polls = 0

    def poll(self):
        self.polls += 1
        if self.how == "an empty generator" and self.polls % 2:
            return iter(())
        good = super().poll()
        if good is None or self.polls == 1:
            return good
        return POLLS[self.how](self, good)


class Returning(Numbers):
    """Has tasks whose `poll` returns a wrong value."""

    def task_class(self):
        return ReturningTask


def changed(**fields):
    """Return the last good record with other fields."""

    def poll(task, good):
        of = good[-1]
        names = ("source_partition", "source_offset", "topic", "value", "key", "headers", "partition", "timestamp")
        return [SourceRecord(**{name: getattr(of, name) for name in names} | fields)]

    return poll


def yields_then_fails(task, good):
    yield from good[:-1]
    raise ValueError("the source broke in the middle")


class Lying(collections.UserList):
    """A sequence whose length and items do not match."""

    def __len__(self):
        return -1


class Iffy:
    """An object whose truth value raises an error."""

    def __bool__(self):
        raise ValueError("neither true nor false")


def cycle():
    ring = {}
    ring["ring"] = ring
    return ring


def nested(depth):
    value = 0
    for _ in range(depth):
        value = [value]
    return value


POLLS = {
    # The whole result.
    "a dict": lambda task, good: {"value": 1},
    "a str": lambda task, good: "records",
    "bytes": lambda task, good: b"records",
    "one record": lambda task, good: good[-1],
    "a number": lambda task, good: 5,
    "a class": lambda task, good: SourceRecord,
    "list of dicts": lambda task, good: [{"value": 1}],
    "list with None": lambda task, good: [*good, None],
    "list of lists": lambda task, good: [good],
    "lying list": lambda task, good: Lying(good),
    "neither true nor false": lambda task, good: Iffy(),
    "False": lambda task, good: False,
    "a generator": lambda task, good: (record for record in good),
    "a tuple": lambda task, good: tuple(good),
    "a deque": lambda task, good: collections.deque(good),
    "a map": lambda task, good: map(lambda record: record, good),
    "an empty generator": lambda task, good: iter(good),
    "a generator that fails": yields_then_fails,
    # Topics.
    "topic None": changed(topic=None),
    "topic empty": changed(topic=""),
    "topic with a space": changed(topic="a topic"),
    "topic dots": changed(topic=".."),
    "topic too long": changed(topic="t" * 300),
    "topic a number": changed(topic=7),
    "topic bytes": changed(topic=b"topic"),
    # Offsets.
    "offset None": changed(source_offset=None),
    "offset a str": changed(source_offset="12"),
    "offset a list": changed(source_offset=[1]),
    "offset a number": changed(source_offset=12),
    "offset of bytes": changed(source_offset={"seq": b"12"}),
    "offset of a set": changed(source_offset={"seq": {1}}),
    "offset of an object": changed(source_offset={"seq": object()}),
    "offset of a date": changed(source_offset={"seq": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)}),
    "offset cyclic": changed(source_offset=cycle()),
    "offset too deep": changed(source_offset={"seq": nested(5000)}),
    "offset huge": changed(source_offset={"seq": "x" * 3_000_000}),
    "offset NaN": changed(source_offset={"seq": NAN}),
    "offset surrogate": changed(source_offset={"seq": "\ud800"}),
    "partition None": changed(source_partition=None),
    "partition a str": changed(source_partition="file"),
    "partition of numbers": changed(source_partition={1: 2}),
    "partition of an object": changed(source_partition={"of": object()}),
    "partition huge": changed(source_partition={"of": "x" * 3_000_000}),
    # Values and keys.
    "value an object": changed(value=object()),
    "value cyclic": changed(value=cycle()),
    "value a lock": changed(value=lambda: None),
    "value surrogate": changed(value="half a \ud800 pair"),
    "value too large": changed(value="x" * 3_000_000),
    "value of the schema": changed(value={"a": 1, "b": 2}),
    "key an object": changed(key=object()),
    "key NaN": changed(key=NAN),
    "key a dict": changed(key={"b": 1, "a": [NAN, None, decimal.Decimal("1.5")]}),
    "key bytes": changed(key=b"\xff\x00"),
    "key huge number": changed(key=2**80),
    "key a date": changed(key=datetime.date(2026, 1, 1)),
    # Partitions and timestamps.
    "partition -1": changed(partition=-1),
    "partition 999": changed(partition=999),
    "partition '0'": changed(partition="0"),
    "partition 1.5": changed(partition=1.5),
    "timestamp -1": changed(timestamp=-1),
    "timestamp 2**63": changed(timestamp=2**63),
    "timestamp a str": changed(timestamp="yesterday"),
    "timestamp NaN": changed(timestamp=NAN),
    "timestamp a date": changed(timestamp=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
    "headers a dict": changed(headers={"a": 1}),
    "headers a str": changed(headers="ab"),
    "headers of None": changed(headers=[(None, 1)]),
    "headers of triples": changed(headers=[("a", 1, 2)]),
    "header an object": changed(headers=[("a", object())]),
}


def with_schema(**schema):
    def poll(task, good):
        of = good[-1]
        return [SourceRecord(of.source_partition, of.source_offset, of.topic, value={"a": 1, "b": 2}, **schema)]

    return poll


POLLS |= {
    "field that the schema lacks": with_schema(value_schema="a INT"),
    "schema of nonsense": with_schema(value_schema="a NONSENSE ("),
    "schema a number": with_schema(value_schema=5),
    "value of another type": with_schema(value_schema="a STRING, b ARRAY<INT>"),
}


class BigTask(NumbersTask):
    """Returns `mb` MB in one poll, and then numbers like a good one; the large records are numbered, too."""

    def poll(self):
        if self.seq:
            return super().poll()
        filling = "x" * 900_000
        megabytes = int(self.context.configs()["mb"])
        return (self.big_record(filling) for _ in range(megabytes))

    def big_record(self, filling):
        self.seq += 1
        value = json.dumps({"task": self.id, "seq": self.seq, "filling": filling})
        return SourceRecord(self.partition, {"seq": self.seq}, self.topic, value=value)


class Big(Numbers):
    """Has a task that returns very much."""

    def task_class(self):
        return BigTask


class ChangingTask(NumbersTask):
    """Keeps the records that it returned, and changes their offsets, partitions and list while they are written."""

    def start(self, config):
        super().start(config)
        self.offset = {"seq": self.seq}
        self.returned = []
        self.polls = 0

    def poll(self):
        self.polls += 1
        self.returned.clear()
        self.offset["seq"] = self.seq + 1000
        if self.polls % 4 == 0:
            return None
        self.stopping.wait(self.pause)
        for _ in range(self.per_poll):
            self.seq += 1
            value = json.dumps({"task": self.id, "seq": self.seq})
            self.returned.append(SourceRecord(self.partition, self.offset, self.topic, value=value))
        self.offset["seq"] = self.seq
        return self.returned


class Changing(Numbers):
    """Has a task that changes the records that it returned."""

    def task_class(self):
        return ChangingTask


class LagTask(NumbersTask):
    """Returns a lag that is not a number."""

    def lag(self):
        return {"str": "many", "nan": NAN, "object": object(), "huge": 10**400}[self.context.configs()["how"]]


class Lag(Numbers):
    """Has a task whose lag is not a number."""

    def task_class(self):
        return LagTask


CONFIGS = {
    "None": lambda config: None,
    "a dict": lambda config: config,
    "a str": lambda config: "configs",
    "list of None": lambda config: [None],
    "list of str": lambda config: ["config"],
    "values that are no text": lambda config: [{**config, "number": 5, "none": None, "task.id": "0"}],
    "keys that are no text": lambda config: [{**config, 5: "five"}],
    "objects": lambda config: [{**config, "object": object()}],
    "too many": lambda config: [{**config, "task.id": str(number)} for number in range(1000)],
    "huge": lambda config: [{**config, "filling": "x" * 3_000_000}],
    "surrogates": lambda config: [{**config, "half": "\ud800"}],
    "generator": lambda config: ({**config, "task.id": str(number)} for number in range(1)),
    "another name": lambda config: [{**config, "name": "good", "connector.class": "nothing.AtAll", "task.id": "0"}],
}


class TaskConfigs(Numbers):
    """Returns wrong task configurations."""

    def task_configs(self, max_tasks):
        return CONFIGS[self.config_of_all["how"]](self.config_of_all)


class ConfigIsADict(Numbers):
    """config() returns a dict."""

    def config(self):
        return {"topic": "the topic"}


class ConfigIsNone(Numbers):
    """config() returns None."""

    def config(self):
        return None


class ValidateReturnsNone(Numbers):
    """validate() returns None."""

    def validate(self, config):
        super().validate(config)


class ValidateReturnsStrings(Numbers):
    """validate() returns messages in place of values."""

    def validate(self, config):
        return ["topic is wrong"]


class VersionIsANumber(Numbers):
    """version() returns a number."""

    def version(self):
        return 1.0


class TaskClassIsNone(Numbers):
    """task_class() returns None."""

    def task_class(self):
        return None


class TaskClassIsATask(Numbers):
    """task_class() returns a task, not its class."""

    def task_class(self):
        return NumbersTask()


class TaskClassIsAnother(Numbers):
    """task_class() returns a class that is not a task."""

    def task_class(self):
        return dict


class SupportIsTrue(Numbers):
    """exactly_once_support() returns True in place of an enum member."""

    def exactly_once_support(self, config):
        return True


class DefaultsAreObjects(Numbers):
    """Defines properties whose defaults JSON cannot represent."""

    def config(self):
        return (
            ConfigDef()
            .define("topic", ConfigDef.Type.STRING)
            .define("odd", ConfigDef.Type.DOUBLE, NAN, ConfigDef.Importance.LOW, "not a number")
            .define("how", ConfigDef.Type.STRING, "x" * 100_000, ConfigDef.Importance.LOW, "\ud800" * 10)
        )
