"""Makes msgpack.json and python_mid_run.sqlite with the real thing.

Needs Python 3.11, langgraph 1.2.9, langgraph-checkpoint 4.3.2, langgraph-checkpoint-sqlite 3.1.0.
Run in this folder. The database differs from run to run (ids, times, version tails), so the tests
state what a checked-in one holds; make it again only together with them.

ids_and_tables.json was recorded from stored rows of the same versions: each entry of `task_ids`
is a row of `writes` with what its task id was hashed from.
"""

import asyncio
import dataclasses
import datetime
import decimal
import enum
import ipaddress
import json
import operator
import os
import pathlib
import re
import uuid
from collections import deque
from typing import Annotated, TypedDict

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, Send, interrupt


@dataclasses.dataclass
class Item:
    a: int


class Kind(enum.Enum):
    A = "a"


def deep(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


VALUES = [
    None, True, False,
    0, 1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63 - 1, 2**64 - 1,
    -1, -32, -33, -128, -129, -32768, -32769, -(2**31), -(2**31) - 1, -(2**63),
    0.0, 1.5, -0.1, 1e300, float("inf"), float("nan"),
    "", "a", "\u00e9", "\x00", "x" * 31, "x" * 32, "x" * 255, "x" * 256, "x" * 65536,
    b"", b"ab", bytearray(b"ab"),
    [], [1, 2], (1, 2), list(range(16)), [0] * 65536, deep(255),
    {}, {"a": 1}, {1: "x"}, {"b": 1, "a": 2}, {str(i): i for i in range(16)},
    [b"inner"], [b"x" * 256], {"n": None},
    set(), {"a"}, frozenset({"a"}), deque([1]),
    uuid.UUID(int=5), decimal.Decimal("1.20"),
    datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
    datetime.datetime(2026, 1, 2), datetime.date(2026, 1, 2),
    datetime.timedelta(days=1, seconds=2, microseconds=3), datetime.time(1, 2, 3),
    datetime.timezone.utc, pathlib.PosixPath("a/b"), re.compile("a+"),
    ipaddress.ip_address("127.0.0.1"), Item(1), Kind.A,
    Send("w", {"item": 1}), Interrupt(value={"q": 1}, id="ab" * 16), ValueError("boom"),
    Command(resume=1),
]


def pairs():
    serde = JsonPlusSerializer()
    for value in VALUES:
        type_name, data = serde.dumps_typed(value)
        shown = repr(value)
        yield {
            "py": shown if len(shown) < 70 else shown[:60] + "...",
            "type": type_name,
            "hex": data.hex() if len(data) < 1024 else None,
            # Long ones: the first bytes, then the last byte over and over.
            "head": data[:8].hex() if len(data) >= 1024 else None,
            "length": len(data),
        }


class State(TypedDict, total=False):
    order: str
    steps: Annotated[list, operator.add]
    charge: dict
    receipt: bytes
    paid_at: datetime.datetime
    tags: set


def plan(state):
    return {"steps": ["plan"], "order": "A-1"}


def charge(state):
    return {
        "steps": ["charge"],
        "charge": {"amount": 1250, "ok": True, "rate": 0.25},
        "receipt": b"\x00\xff",
        "paid_at": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
        "tags": {"paid"},
    }


def failing(state):
    raise RuntimeError("smtp is down")


def asking(state):
    return {"steps": [interrupt({"question": "send it?"})]}


def chain(notify):
    graph = StateGraph(State)
    graph.add_node("plan", plan)
    graph.add_node("charge", charge)
    graph.add_node("notify", notify)
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "charge")
    graph.add_edge("charge", "notify")
    return graph


def join():
    """`c` waits for `a` and `b2`; `b2` fails, so the barrier is left holding `a` alone."""
    graph = StateGraph(State)
    for name in ("a", "b1", "c"):
        graph.add_node(name, lambda state, name=name: {"steps": [name]})
    graph.add_node("b2", failing)
    graph.add_edge(START, "a")
    graph.add_edge(START, "b1")
    graph.add_edge("b1", "b2")
    graph.add_edge(["a", "b2"], "c")
    return graph


async def database(path):
    async with AsyncSqliteSaver.from_conn_string(path) as saver:
        for thread, graph in (
            ("failed", chain(failing)),
            ("asked", chain(asking)),
            ("joining", join()),
        ):
            config = {"configurable": {"thread_id": thread, "request": f"r-{thread}"}}
            app = graph.compile(checkpointer=saver)
            try:
                await app.ainvoke({"steps": ["in"]}, config, durability="sync")
            except RuntimeError:
                pass


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(pair) for pair in pairs())
    pathlib.Path("msgpack.json").write_text(f"[\n{lines}\n]\n")
    path = "python_mid_run.sqlite"
    if os.path.exists(path):
        os.remove(path)
    asyncio.run(database(path))
