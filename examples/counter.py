"""A connector of one's own: counts, and goes on exactly where it was, whatever happens to the worker.

fencepost standalone examples/worker.properties examples/counter.properties
"""

import time

from fencepost import ConfigDef, ExactlyOnceSupport, SourceConnector, SourceRecord, SourceTask


class CounterTask(SourceTask):
    def start(self, config):
        self.topic = config["topic"]
        offset = self.context.offset_reader.offset({"counter": 1})  # what the last transaction committed
        self.number = offset["number"] if offset else 0

    def poll(self):
        time.sleep(0.1)
        self.number += 1
        return [SourceRecord({"counter": 1}, {"number": self.number}, self.topic, value=self.number)]


class CounterConnector(SourceConnector):
    def version(self):
        return "1.0"

    def config(self):
        return ConfigDef().define("topic", ConfigDef.Type.STRING)

    def start(self, config):
        self.properties = dict(config)

    def task_class(self):
        return CounterTask

    def task_configs(self, max_tasks):
        return [self.properties]

    def exactly_once_support(self, config):
        return ExactlyOnceSupport.SUPPORTED
