"""fencepost under misuse, from outside: only the hostile connectors import fencepost, and only its public API.

`programs`, `brokers` and `workers` run its commands and talk to them by REST and by confluent-kafka. `connectors` is a
folder of `plugin.path`: `good` numbers its records, and all others misbehave. `cases` has the promise for each way to
misbehave. `strangers` changes topics and brokers.

The promise is always the same: the worker goes on (or, if its process was ended from within, goes on after a restart),
the good connectors go on without a lost or doubled record, and the status of the misbehaving connector says what is
wrong. `python -m tests.hostile` does everything at once for a while, on brokers of each kind.
"""
