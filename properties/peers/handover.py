"""One side performs the first part of a recorded case, the other goes on on the same database."""

import asyncio
import copy

import varies
from labels import Labels, differences, settled
from rust import Rust
from script import Script
from stores import indexes, python_saver


# How long the rows that a run leaves behind its end may take to land.
QUIET_LIMIT = 10


class PythonSide:
    name = "python"

    def __init__(self, saver):
        self._saver = saver
        self._script = None
        # What the connections run for themselves.
        self._lasting = asyncio.all_tasks()

    async def begin(self, case):
        self._script = Script(case, self._saver)

    async def perform(self, place):
        return await self._script.perform(place)

    async def quiet(self):
        """Waits for what goes on behind the end of a run, such as writes of cancelled nodes."""
        left = asyncio.all_tasks() - self._lasting - {asyncio.current_task()}
        if left:
            await asyncio.wait(left, timeout=QUIET_LIMIT)

    async def look(self):
        return await self._script.look()


class RustSide:
    name = "rust"

    def __init__(self, rust):
        self._rust = rust

    async def begin(self, case):
        await self._rust.call("begin", case=case)

    async def perform(self, place):
        return await self._rust.call("perform", place=place)

    async def quiet(self):
        """The Rust side answers when all has landed."""

    async def look(self):
        return await self._rust.call("look")


class Shared:
    """A store that both sides have open."""

    def __init__(self, store, at, python, rust):
        self._store, self._at = store, at
        self.sides = {"python": python, "rust": rust}
        self._count = 0

    @classmethod
    async def open(cls, stack, binary, store, at):
        saver = await stack.enter_async_context(python_saver(store, at))
        rust = await Rust.start(binary, store, at)
        stack.push_async_callback(rust.close)
        return cls(store, at, PythonSide(saver), RustSide(rust))

    async def differences(self, case, performers):
        """Performs a case, and compares all of it with what was recorded."""
        return judge(case, performers, await self.observe(case, performers))

    async def observe(self, case, performers):
        """Performs a case, operation by operation on the side that `performers` names. Gives the whole
        trace as each side sees it: both look at all of the threads in the end."""
        self._count += 1
        prefix = f"{case['name']}/{self._count}/"
        performed, raises, begun, operations = None, {}, {}, []
        for place, performer in enumerate(performers):
            side = self.sides[performer]
            if performer != performed:
                _count_together(raises, begun.get("raises", {}))
                await side.begin(begun_case(case, prefix, raises))
                performed, begun = performer, {}
            begun = await side.perform(place)
            await side.quiet()
            operations.append(begun["trace"])
        seen = {}
        for side in self.sides.values():
            if side.name not in performers:
                await side.begin(begun_case(case, prefix, {}))
            observed = self._trace(operations, await side.look(), prefix)
            seen[side.name] = settled(observed, raised(case["spec"]["graph"]))
        return seen

    def _trace(self, operations, threads, prefix):
        for thread, trace in threads.items():
            rows = indexes(self._store, self._at, thread)
            for checkpoint in trace["checkpoints"]:
                writes = checkpoint["writes"]
                places = rows.get((checkpoint["ns"], checkpoint["id"]), [])
                for write, place in zip(writes, places, strict=True):
                    write["idx"] = place
        threads = {name.removeprefix(prefix): trace for name, trace in threads.items()}
        labels = Labels(threads)
        return {
            "effects": [effect for trace in operations for effect in trace["effects"]],
            "ops": [labels.operation(trace) for trace in operations],
            "threads": {name: labels.thread(trace) for name, trace in threads.items()},
        }


def judge(case, performers, seen):
    """Where the trace is another than the recorded one, by the side that saw it so."""
    expected = settled(case["expected"], raised(case["spec"]["graph"]))
    if varies.reason(case):
        # Both see the same, whatever it is.
        expected = seen["python"]
    return [
        (f"seen by {name}: {at}", *two)
        for name, observed in seen.items()
        for at, *two in differences(expected, observed)
        if not varies.excused(case, performers, at)
    ]


def _count_together(raises, more):
    for path, count in more.items():
        raises[path] = raises.get(path, 0) + count


def begun_case(case, prefix, raises):
    """The case on threads of its own. Its nodes have raised so many times already."""
    spec = copy.deepcopy(case["spec"])
    for op in spec["ops"]:
        if op["op"] != "sleep":
            op["thread"] = prefix + op.get("thread", "t1")
    for path, action in actions(spec["graph"]):
        if action["do"] == "raise" and "times" in action:
            action["times"] = max(0, action["times"] - raises.get(path, 0))
    return {"name": case["name"], "spec": spec, "expected": {}}


def actions(graph, place=""):
    """Every action with the path of its node, also inside branches and subgraphs."""
    for name, node in graph["nodes"].items():
        if "subgraph" in node:
            yield from actions(node["subgraph"], f"{place}{name}/")
        todo = list(node.get("actions", []))
        while todo:
            action = todo.pop(0)
            todo += action.get("then", []) + action.get("else", [])
            yield f"{place}{name}", action


def raised(graph):
    return {action["error"] for _, action in actions(graph) if action["do"] == "raise"}
