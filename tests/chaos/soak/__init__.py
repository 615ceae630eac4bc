"""A soak: a group of workers at work while everything around them is killed, frozen, cut off and reconfigured.

    python -m tests.chaos.soak --minutes 10 --seed 7

`schedule` says what is done, `cluster` is what it is done to, `storm` does it, and `verdict` judges what is left: with
`fencepost verify`, which reads the topics with another client. `databases` is what is at work in a PostgreSQL server:
writers (`clerks`, and the tellers of a `bank`), and the connectors whose topics are compared with its tables (`bank`,
`ledger`, `audit`). A seed gives the same actions in the same order with the same pauses; how far the group is at each of
them is the machine's affair.

`instances` brings about two instances of a task of a database: the worker that has it stands still until another says
that it runs the task, and then goes on with what it had in hand. The report counts how often there were two, and how often
Kafka refused what the former one still wrote.

Left out is what ends with a connector that is FAILED, as that cannot be told from a fault: clocks of workers that are
further apart than signatures are valid (`cluster/test_wrong_clock`), slots that were invalidated, tables and columns
that are dropped, and publications that are changed (`broker/connectors/postgres/own_postgres`). PostgreSQL's clock is never ahead of the
machine's, see `clocked_programs`; `broker/connectors/postgres/test_postgres_machine` moves it there. The disk of PostgreSQL's log is filled
only where this user may mount a file system.
"""
