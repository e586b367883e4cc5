"""The stores that both sides share, and what their tables show beside the savers."""

import sqlite3
import uuid
from contextlib import asynccontextmanager

import psycopg
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from psycopg.rows import tuple_row


class Stores:
    """Where fresh stores are made: a folder for files, and a PostgreSQL server if there is one."""

    def __init__(self, folder, postgres=None):
        self._folder = folder
        self._postgres = postgres

    def fresh(self, store):
        """Where a fresh store of this kind is; `None` for the memory of a process."""
        name = f"peers_{uuid.uuid4().hex}"
        match store:
            case "sqlite":
                return f"{self._folder}/{name}.sqlite"
            case "postgres":
                with psycopg.connect(self._postgres, autocommit=True) as connection:
                    connection.execute(f"CREATE DATABASE {name}")
                return f"{self._postgres.rsplit('/', 1)[0]}/{name}"


@asynccontextmanager
async def python_saver(store, at):
    """LangGraph's own saver."""
    kind = {"sqlite": AsyncSqliteSaver, "postgres": AsyncPostgresSaver}[store]
    async with kind.from_conn_string(at) as saver:
        await saver.setup()
        yield saver


def indexes(store, at, thread):
    """The indexes of a thread's pending writes by namespace and checkpoint, in the savers' order."""
    if store == "sqlite":
        connection, table, mark = sqlite3.connect(at), "writes", "?"
    else:
        connection, table, mark = psycopg.connect(at, row_factory=tuple_row), "checkpoint_writes", "%s"
    try:
        rows = connection.execute(
            f"SELECT checkpoint_ns, checkpoint_id, idx FROM {table} WHERE thread_id = {mark} "
            "ORDER BY checkpoint_ns, checkpoint_id, task_id, idx",
            (thread,),
        )
        found = {}
        for ns, checkpoint, index in rows.fetchall():
            found.setdefault((ns, checkpoint), []).append(index)
        return found
    finally:
        connection.close()
