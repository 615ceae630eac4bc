"""Connectors that misuse the contexts and objects that they get."""

from __future__ import annotations

import threading
import time

from fencepost import ConnectorTransactionBoundaries

from good import Numbers, NumbersTask


class Restless(Numbers):
    """Requests a reconfiguration of its tasks all the time."""

    def start(self, config):
        super().start(config)
        self.over = threading.Event()
        threading.Thread(target=self.ask, daemon=True).start()

    def ask(self):
        while not self.over.wait(0.005):
            self.context.request_task_reconfiguration()

    def stop(self):
        self.over.set()


class Fickle(Restless):
    """Returns different task configurations at each call."""

    def task_configs(self, max_tasks):
        return [{**config, "now": str(time.time_ns())} for config in super().task_configs(max_tasks)]


ERRORS = {
    "none": lambda: None,
    "text": lambda: "not an error",
    "class": lambda: ValueError,
    "exit": lambda: SystemExit(5),
    "value": lambda: ValueError("the source is gone"),
}


class Complaining(Numbers):
    """Reports things that are not errors as errors, from its own threads."""

    def start(self, config):
        super().start(config)
        for _ in range(3):
            threading.Timer(0.1, self.complain).start()

    def complain(self):
        self.context.raise_error(ERRORS[self.config_of_all["how"]]())


class AskingTask(NumbersTask):
    """Requests offsets in wrong ways."""

    ASKS = {
        "text": lambda reader: reader.offset("partition"),
        "None": lambda reader: reader.offset(None),
        "objects": lambda reader: reader.offset({"a": object()}),
        "not a list": lambda reader: reader.offsets(5),
        "bytes": lambda reader: reader.offsets([{"a": b"b"}]),
    }

    def start(self, config):
        super().start(config)
        self.ASKS[config["how"]](self.context.offset_reader)


class Asking(Numbers):
    """Has a task that requests offsets for invalid source partitions."""

    def task_class(self):
        return AskingTask


class BoundaryTask(NumbersTask):
    """Defines transaction boundaries in wrong ways."""

    def poll(self):
        records = super().poll()
        if not records:
            return records
        transactions = self.context.transaction_context
        match self.context.configs()["how"]:
            case "both":
                transactions.commit_transaction(records[0])
                transactions.abort_transaction(records[0])
            case "stranger":
                transactions.commit_transaction(self.next_record())
                self.seq -= 1
                transactions.commit_transaction()
            case "text":
                transactions.commit_transaction("now")
            case "other thread":
                thread = threading.Thread(target=transactions.commit_transaction, args=(records[-1],))
                thread.start()
                thread.join()
            case "each":
                for record in records:
                    transactions.commit_transaction(record)
        return records


class Boundaries(Numbers):
    """Has a task that defines transaction boundaries."""

    def task_class(self):
        return BoundaryTask

    def can_define_transaction_boundaries(self, config):
        return ConnectorTransactionBoundaries.SUPPORTED


class FrozenTask(NumbersTask):
    """Refuses to have its context set."""

    def __setattr__(self, name, value):
        if name == "context":
            raise AttributeError("I take no context")
        super().__setattr__(name, value)


class Frozen(Numbers):
    """Has a task whose attributes cannot be set."""

    def task_class(self):
        return FrozenTask
