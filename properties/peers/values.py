"""Values made from a seed, and what it means that two are the same."""

import collections
import datetime
import decimal
import ipaddress
import math
import pathlib
import random
import re
import struct
import uuid
import zoneinfo

import numpy
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Interrupt, Send

from classes import Colour, Item, Order, Point

CHANNELS = 12
DEPTH = 4
# As deep as a channel's value may be inside a checkpoint.
STRAIGHT_DOWN = 250
TEXTS = ["", "a", "é", "\0", "\x7f", "漢字", "\U0001f9ea", '"\\', "\r\n", "e\u0301", "\ufeff"]
FLOATS = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, 5e-324, 1e16, 1e22, 1e308, 0.1]


def named(seed, scalars_are_json):
    """Values by channel."""
    chance = random.Random(seed)
    names = ["Kanäle \U0001f300"] + [f"channel-{n}" for n in range(1, CHANNELS)]
    values = {name: value(chance, DEPTH) for name in names}
    if scalars_are_json:
        values = {name: item if _fits_json(item) else [item] for name, item in values.items()}
    return values


def _fits_json(item):
    """Does PostgreSQL's JSONB take a scalar at the top? Not U+0000, no NaN or infinity."""
    match item:
        case str():
            return "\0" not in item
        case float():
            return math.isfinite(item)
    return True


def value(chance, depth):
    makers = [scalar, scalar, instance, instance]
    if depth:
        makers += [container, container, holder]
    return chance.choice(makers)(chance, depth)


def scalar(chance, _):
    bits = chance.getrandbits(64)
    return chance.choice([
        None, True, False, 0, -1, 2**64 - 1, -(2**63), bits >> chance.randrange(64),
        -(bits >> 1 >> chance.randrange(64)), chance.choice(FLOATS), chance.uniform(-1e6, 1e6),
        struct.unpack("<d", struct.pack("<Q", bits))[0],
        "".join(chance.choices(TEXTS, k=chance.choice([0, 1, 2, 8, 31, 32, 300]))),
        chance.randbytes(chance.choice([0, 1, 2, 4, 16, 255, 256])),
    ])


def container(chance, depth):
    inside = [value(chance, depth - 1) for _ in range(chance.randrange(6))]
    keys = ["a", "é", "", "x" * 40, 7, -7, 0.5, None, False]
    match chance.randrange(7):
        case 0:
            return inside
        case 1:
            return tuple(inside)
        case 2:
            return collections.deque(inside)
        case 3:
            return [chance.getrandbits(chance.randrange(1, 64)) for _ in range(chance.randrange(40))]
        case 4 if depth == DEPTH and not chance.randrange(4):
            for _ in range(STRAIGHT_DOWN):
                inside = [inside] if inside else []
            return inside if _levels(inside) <= STRAIGHT_DOWN else [value(chance, 0)]
    return dict(zip(chance.sample(keys, len(inside)), inside))


def _levels(nested):
    levels = 0
    while isinstance(nested, list) and nested:
        nested, levels = nested[0], levels + 1
    return levels


def instance(chance, _):
    """Of a class that holds no other value."""
    number = chance.randrange
    text = chance.choice(TEXTS)
    utc = datetime.timezone(datetime.timedelta(minutes=number(-720, 720)))
    moment = datetime.datetime(number(1, 9999), number(1, 13), number(1, 29), number(24), number(60))
    shape = (number(1, 4), number(4))
    array = numpy.array(
        [number(100) for _ in range(shape[0] * shape[1])],
        dtype=chance.choice(["int8", "int64", "float32", "float64", "bool", "complex128"]),
    ).reshape(shape, order="C")
    return chance.choice([
        {number(9) for _ in range(number(5))}, frozenset(chance.choices(TEXTS, k=number(4))),
        uuid.UUID(int=chance.getrandbits(128)), decimal.Decimal(number(10**12)).scaleb(-number(9)),
        decimal.Decimal("-Infinity"), moment, moment.replace(tzinfo=utc, microsecond=number(10**6)),
        moment.replace(tzinfo=datetime.timezone.utc), moment.date(), moment.time(),
        datetime.timedelta(number(999), number(86400), number(10**6)), utc,
        zoneinfo.ZoneInfo("UTC"), pathlib.PosixPath("a", f"b{number(9)}"),
        re.compile(f"a{number(9)}+", re.IGNORECASE), ipaddress.ip_address(number(2**32)),
        ipaddress.ip_network("10.0.0.0/8"), chance.choice(list(Colour)), array,
        numpy.asfortranarray(array), Order(number=number(99), lines=[text]),
        HumanMessage(content=text, id=str(number(9))), SystemMessage(content=[{"type": "text", "text": text}]),
        AIMessage(content="", tool_calls=[{"name": "look", "args": {"at": text}, "id": f"c{number(9)}"}]),
        ToolMessage(content=text, tool_call_id="c1", artifact={"raw": number(99)}),
    ])


def holder(chance, depth):
    """An instance that holds other values."""
    inside = value(chance, depth - 1)
    return chance.choice([
        Item(chance.choice(TEXTS), inside), Point(chance.uniform(-9, 9), inside),
        Interrupt(value=inside, id="ab" * 16), Send("worker", inside), _DeltaSnapshot(inside),
        Command(resume=inside, goto=[Send("worker", inside)], update={"a": inside}),
    ])


def described(kind, of):
    """The value of a description by the Rust side (properties/src/peer/values/make.rs)."""
    match kind:
        case "nil" | "bool" | "str":
            return of
        case "int":
            return int(of)
        case "float":
            return struct.unpack(">d", bytes.fromhex(of))[0]
        case "bytes":
            return bytes.fromhex(of)
        case "list":
            return [described(*item) for item in of]
        case "map":
            return {described(*key): described(*item) for key, item in of}
        case "uuid":
            return uuid.UUID(hex=of)
        case "decimal":
            return decimal.Decimal(of)
        case "date":
            return datetime.date(*of)
        case "timedelta":
            return datetime.timedelta(*of)
        case "datetime":
            return datetime.datetime.fromisoformat(of)
        case "set":
            return set(of)
        case "path":
            return pathlib.PosixPath(of)
        case "deque":
            return collections.deque(described(*item) for item in [of])
        case "interrupt":
            return Interrupt(value=described(*of[0]), id=of[1])
        case "send":
            return Send("worker", described(*of))
        case "snapshot":
            return _DeltaSnapshot(described(*of))
    raise ValueError(f"no kind of value: {kind}")


def same(a, b):
    """The same value of the same type, to the last bit and in the same order."""
    if type(a) is not type(b):
        return False
    match a:
        case float():
            return struct.pack("<d", a) == struct.pack("<d", b) or math.isnan(a) and math.isnan(b)
        case dict():
            return same(list(a.items()), list(b.items()))
        case list() | tuple() | collections.deque():
            return len(a) == len(b) and all(map(same, a, b))
        case numpy.ndarray():
            flags = a.flags.f_contiguous, b.flags.f_contiguous
            return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()) and len(set(flags)) == 1
        case Item():
            return a.name == b.name and same(a.inside, b.inside)
        case Interrupt():
            return a.id == b.id and same(a.value, b.value)
        case Send():
            return a.node == b.node and same(a.arg, b.arg)
        case Command():
            parts = lambda command: [command.graph, command.update, command.resume, command.goto]
            return same(parts(a), parts(b))
    return a == b
