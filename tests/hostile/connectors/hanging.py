"""Connectors that hang in the method `where`."""

from __future__ import annotations

import threading

from good import Numbers, NumbersTask


def wait_for_ever():
    """Deadlock on a lock that is held: no signal and no exception ends this."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


class HangingTask(NumbersTask):
    """Hangs in one method, after one good poll."""

    def start(self, config):
        super().start(config)
        self.where = config["where"]
        self.polls = 0
        self.hang_in("start")

    def hang_in(self, where):
        if self.where == where:
            wait_for_ever()

    def poll(self):
        self.polls += 1
        if self.polls > 1:
            self.hang_in("poll")
        return super().poll()

    def commit(self):
        self.hang_in("commit")

    def stop(self):
        self.hang_in("stop")
        super().stop()


class Hanging(Numbers):
    """Hangs in a method of the connector, or else of its tasks."""

    def hang_in(self, where, config):
        if config.get("where") == f"connector {where}":
            wait_for_ever()

    def validate(self, config):
        self.hang_in("validate", config)
        return super().validate(config)

    def start(self, config):
        super().start(config)
        self.hang_in("start", config)

    def task_class(self):
        return HangingTask

    def task_configs(self, max_tasks):
        self.hang_in("task_configs", self.config_of_all)
        return super().task_configs(max_tasks)

    def stop(self):
        self.hang_in("stop", self.config_of_all)
