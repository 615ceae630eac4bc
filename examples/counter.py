"""A connector of one's own: counts, and goes on exactly where it was, whatever happens to the worker.

fencepost standalone examples/worker.properties examples/counter.properties
"""

import time

from fencepost import SourceConnector, SourceRecord, SourceTask


class CounterTask(SourceTask):
    def start(self, config):
        committed = self.context.offset_reader.offset({"counter": 1})
        self.number = committed["number"] if committed else 0

    def poll(self):
        time.sleep(0.1)
        self.number += 1
        return [SourceRecord({"counter": 1}, {"number": self.number}, value=self.number)]


class CounterConnector(SourceConnector):
    def task_class(self):
        return CounterTask
