"""Classes of a user, whose instances stand in states. Rust knows none of them."""

import dataclasses
import enum
from typing import Any, NamedTuple

from pydantic import BaseModel


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Item:
    name: str
    inside: Any


class Point(NamedTuple):
    x: float
    inside: Any


class Order(BaseModel):
    number: int
    lines: list[str]
