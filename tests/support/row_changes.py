"""A table in a real database that changes all the time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Change = tuple[str, int, str | None]
"""Debezium's letter for the operation, the row's id and its new name."""


class RowChanges:
    """Inserts, updates and deletes rows. `execute` runs a statement, on one thread at a time."""

    def __init__(self, execute: Callable[[str], object], rows: int, *, together: bool = True) -> None:
        """Create the table `items` with some rows. `together` also makes transactions of several rows."""
        self._execute = execute
        self._rows = rows
        self._together = together
        self._next = rows
        execute("create table items (id bigint primary key, name varchar(40), price numeric(10,2))")
        execute("insert into items values " + ", ".join(f"({n}, 'item {n}', 1.5)" for n in range(rows)))  # noqa: S608 - numbers
        self.made: list[Change] = []
        """The changes so far, in the order of the commits."""

    @property
    def expected(self) -> list[Change]:
        """All events that a connector must deliver if it started before any change."""
        return [("r", number, f"item {number}") for number in range(self._rows)] + self.made

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Change rows within the block."""
        done = threading.Event()
        thread = threading.Thread(target=self._change, args=[done])
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _change(self, done: threading.Event) -> None:
        while not done.wait(0.005):
            number, self._next = self._next, self._next + 1
            self._make(f"insert into items values ({number}, 'item {number}', 1.5)", ("c", number, f"item {number}"))  # noqa: S608 - numbers
            self._make(f"update items set name = 'new {number}' where id = {number}", ("u", number, f"new {number}"))  # noqa: S608 - numbers
            if number % 3 == 0:
                self._make(f"delete from items where id = {number}", ("d", number, None))  # noqa: S608 - numbers
            if self._together:
                self._change_together()

    def _change_together(self) -> None:
        one, two, self._next = self._next, self._next + 1, self._next + 2
        statements = (
            "begin",
            f"insert into items values ({one}, 'item {one}', 1.5), ({two}, 'item {two}', 1.5)",  # noqa: S608 - numbers
            f"update items set name = 'new' where id in ({one}, {two})",  # noqa: S608 - numbers
            f"delete from items where id = {one}",  # noqa: S608 - numbers
            "commit",
        )
        created = [("c", one, f"item {one}"), ("c", two, f"item {two}")]
        self._make("; ".join(statements), *created, ("u", one, "new"), ("u", two, "new"), ("d", one, None))

    def _make(self, statements: str, *changes: Change) -> None:
        self._execute(statements)
        self.made += changes
