"""What a stranger does to fencepost: nothing here imports it, but for the connectors, which import its public API.

`programs`, `brokers` and `workers` run its commands and talk to them by REST and by confluent-kafka. `connectors` is
a folder of `plugin.path`: `good` numbers its records, and everything else in it misbehaves. `cases` says what is
promised for each way to misbehave. `strangers` is what others do to topics and brokers.

Whatever is done, the promise is the same: the worker goes on (or, where its process was ended from within, goes on
when it is started again), the good connectors beside go on and lose and double nothing, and the status of whoever did
it says what is wrong. `python -m tests.hostile` does it all at once, for a while, on brokers of each kind.
"""
