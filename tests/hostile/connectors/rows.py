"""Connectors whose rows Spark refuses, and quotes in its errors."""

from __future__ import annotations

from fencepost import SourceBatch

from good import Numbers, NumbersTask


class CastingTask(NumbersTask):
    """Returns one row, whose text `row` is cast to a number."""

    def poll(self):
        if self.seq:
            self.stopping.wait(1)
            return None
        self.seq = 1
        row = self.context.configs()["row"]
        text = self.context.spark_session().createDataFrame([(row,)], "value STRING")
        number = text.selectExpr("CAST(value AS INT) AS value")
        return SourceBatch(dataframe=number, offsets=[(self.partition, {"seq": 1})])


class Casting(Numbers):
    """Has a task whose rows Spark refuses when it writes them."""

    def task_class(self):
        return CastingTask


class ShoutingTask(NumbersTask):
    """Raises an error with the text of the property `row`."""

    def poll(self):
        raise ValueError(self.context.configs()["row"])


class Shouting(Numbers):
    """Has a task that fails with a given text."""

    def task_class(self):
        return ShoutingTask


class SendingTask(NumbersTask):
    """Sends the property `row` in all fields of a record."""

    def poll(self):
        records = super().poll()
        row = self.context.configs()["row"]
        for record in records or ():
            object.__setattr__(record, "headers", [(row, row)])
            object.__setattr__(record, "key", row)
            object.__setattr__(record, "source_offset", {"seq": record.source_offset["seq"], row: row})
        return records


class Sending(Numbers):
    """Has a task that sends a given text."""

    def task_class(self):
        return SendingTask
