"""A connector as its author should write it: it numbers its records, and resumes at its committed offset."""

from __future__ import annotations

import json
import threading

from fencepost import ExactlyOnceSupport, SourceConnector, SourceRecord, SourceTask


class NumbersTask(SourceTask):
    """Returns `per.poll` records every `poll.ms`: `{"task": ..., "seq": ...}`, from 1 on."""

    def start(self, config):
        self.id = config["task.id"]
        self.topic = config["topic"]
        self.per_poll = int(config.get("per.poll", "5"))
        self.pause = int(config.get("poll.ms", "100")) / 1000
        self.partition = {"task": self.id}
        self.stopping = threading.Event()
        self.seq = (self.context.offset_reader.offset(self.partition) or {"seq": 0})["seq"]

    def poll(self):
        if self.stopping.wait(self.pause):
            return None
        return [self.next_record() for _ in range(self.per_poll)]

    def next_record(self):
        self.seq += 1
        value = json.dumps({"task": self.id, "seq": self.seq})
        return SourceRecord(self.partition, {"seq": self.seq}, self.topic, value=value, key=f"{self.id}-{self.seq}")

    def stop(self):
        self.stopping.set()


class Numbers(SourceConnector):
    """One source partition for each task, and always tasks.max tasks."""

    def start(self, config):
        self.config_of_all = dict(config)

    def task_class(self):
        return NumbersTask

    def task_configs(self, max_tasks):
        return [{**self.config_of_all, "task.id": str(number)} for number in range(max_tasks)]

    def exactly_once_support(self, config):
        return ExactlyOnceSupport.SUPPORTED
