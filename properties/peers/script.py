"""Performs the operations of a recorded case on real LangGraph.

What it observes keeps its ids, in the form that the Rust side gives (labels.py makes labels of them).
"""

import asyncio

import anyio
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command, Interrupt, Send, StateSnapshot

from graphs import Log, _all_or_names, build, many, node_name, pauses, target


class Script:
    """A case under way in this process."""

    def __init__(self, case, saver):
        self.log = Log()
        self._ops = case["spec"]["ops"]
        self._saver = saver
        spec = case["spec"]["graph"]
        if slow := case["spec"].get("saver"):
            saver = Slow(saver, slow["put_delay_ms"] / 1000)
        self._graph = build(spec, self.log).compile(checkpointer=saver, **pauses(spec))

    async def perform(self, place):
        op = self._ops[place]
        before = len(self.log.executions)
        trace = {"op": op["op"]}
        trace |= await getattr(self, f"_{op['op']}")(op)
        trace["effects"] = [f"{node}:{label}" for node, label, _ in self.log.executions[before:]]
        return {
            "trace": trace,
            "raises": dict(self.log.raises),
            "executions": list(self.log.executions),
        }

    async def look(self):
        """What has become of the case's threads."""
        threads = dict.fromkeys(op.get("thread", "t1") for op in self._ops if op["op"] != "sleep")
        return {thread: await self._thread(thread) for thread in threads}

    # Operations.

    async def _stream(self, op):
        return await self._run(op, op["input"])

    async def _resume(self, op):
        return await self._run(op, await self._answer(op))

    _command = _resume

    async def _sleep(self, op):
        await asyncio.sleep(op["ms"] / 1000)
        return {}

    async def _update_state(self, op):
        as_node = op.get("as_node")
        config = await self._config(op)
        return await _caught(
            self._graph.aupdate_state(config, op["values"], as_node and node_name(as_node))
        )

    async def _get_state(self, op):
        config, subgraphs = await self._config(op), op.get("subgraphs", False)
        return await _caught(self._graph.aget_state(config, subgraphs=subgraphs), state=state)

    async def _history(self, op):
        async def listed():
            found = self._graph.aget_state_history(await self._config(op))
            return [state(one) async for one in found]

        return await _caught(listed(), history=list)

    async def _answer(self, op):
        given = {}
        if "by_index" in op:
            waiting = (await self._graph.aget_state(await self._config(op))).interrupts
            answers = op["by_index"].items()
            given["resume"] = {waiting[int(index)].id: answer for index, answer in answers}
        elif "value" in op:
            given["resume"] = op["value"]
        if "update" in op:
            given["update"] = op["update"]
        if "goto" in op:
            given["goto"] = [target(to) for to in many(op["goto"])]
        return Command(**given)

    async def _run(self, op, given):
        config = await self._config(op)
        if "recursion_limit" in op:
            config["recursion_limit"] = op["recursion_limit"]
        named = {key: op[key] for key in ("interrupt_before", "interrupt_after") if key in op}
        arguments = {key: _all_or_names(names) for key, names in named.items()}
        if op.get("durability", "default") != "default":
            arguments["durability"] = op["durability"]
        subgraphs = op.get("subgraphs", False)
        stream = self._graph.astream(
            given, config, stream_mode=op["modes"], subgraphs=subgraphs, **arguments
        )
        seen = Seen(op.get("close_after"), subgraphs)
        if "cancel_at_ms" in op:
            await _cancelled_once(seen, stream, op["cancel_at_ms"])
        elif "cancel_scope_at_ms" in op:
            await _cancelled_by_scope(seen, stream, op["cancel_scope_at_ms"])
            await asyncio.sleep(op["then_wait_ms"] / 1000)
        else:
            await seen.all_of(stream)
        return seen.trace

    async def _config(self, op):
        configurable = {"thread_id": op.get("thread", "t1")}
        if label := op.get("checkpoint"):
            # cN is the N-th checkpoint of the thread's root, by id.
            stored = self._saver.alist({"configurable": configurable | {"checkpoint_ns": ""}})
            ids = sorted([one.checkpoint["id"] async for one in stored])
            configurable |= {"checkpoint_ns": ""}
            configurable["checkpoint_id"] = ids[int(label.rsplit(".", 1)[-1][1:])]
        return {"configurable": configurable}

    # A thread in the end.

    async def _thread(self, thread):
        config = {"configurable": {"thread_id": thread}}
        stored = [one async for one in self._saver.alist(config)]
        history = [one async for one in self._graph.aget_state_history(config)]
        states = {_id(one.config): state(one) for one in history}
        namespaces = {one.config["configurable"]["checkpoint_ns"] for one in stored} - {""}
        inside = {}
        for ns in sorted(namespaces):
            of = {"configurable": {"thread_id": thread, "checkpoint_ns": ns}}
            async for one in self._graph.aget_state_history(of):
                inside |= {task.id: task.name for task in one.tasks}
        final = await _caught(self._graph.aget_state(config), state=state)
        return {
            "checkpoints": [_stored(one, states) for one in reversed(stored)],
            "final": final.get("state", final),
            "inside": inside,
        }


class Forwarding(BaseCheckpointSaver):
    """A saver in front of another."""

    def __init__(self, saver):
        super().__init__(serde=saver.serde)
        self._saver = saver
        self.aget_tuple, self.alist = saver.aget_tuple, saver.alist
        self.get_next_version = saver.get_next_version

    async def aput(self, *arguments):
        return await self._saver.aput(*arguments)

    async def aput_writes(self, *arguments):
        return await self._saver.aput_writes(*arguments)


class Slow(Forwarding):
    """Every put waits before it begins."""

    def __init__(self, saver, delay):
        super().__init__(saver)
        self._delay = delay

    async def aput(self, *arguments):
        await asyncio.sleep(self._delay)
        return await super().aput(*arguments)


class Seen:
    """Events of one stream, and how it ended."""

    def __init__(self, close_after, subgraphs):
        self._close_after = close_after
        self._subgraphs = subgraphs
        self._events = []
        self.trace = {"events": self._events}

    async def all_of(self, stream):
        try:
            async for chunk in stream:
                ns, mode, data = chunk if self._subgraphs else ((), *chunk)
                self._events.append(event(ns, mode, data))
                if self._closes():
                    self.trace["closed"] = True
                    await stream.aclose()
                    break
        except Exception as error:  # whatever a run ends with is part of what is observed
            self.trace["error"] = _error(error)

    def _closes(self):
        if not self._close_after:
            return False
        received = [one for one in self._events if one["mode"] == self._close_after["mode"]]
        return len(received) == self._close_after["count"]


async def _cancelled_once(seen, stream, ms):
    run = asyncio.create_task(seen.all_of(stream))
    asyncio.get_running_loop().call_later(ms / 1000, run.cancel)
    try:
        await run
    except asyncio.CancelledError:
        seen.trace["cancelled"] = True


async def _cancelled_by_scope(seen, stream, ms):
    """What Starlette does on a disconnect: a scope that cancels again on every turn of the loop."""
    with anyio.CancelScope() as scope:
        asyncio.get_running_loop().call_later(ms / 1000, scope.cancel)
        await seen.all_of(stream)
    if scope.cancelled_caught:
        seen.trace["cancelled"] = True


async def _caught(awaitable, **named):
    """The result under its name, in the form that `named` makes of it; or the error."""
    try:
        result = await awaitable
    except Exception as error:
        return {"error": _error(error)}
    return {name: form(result) for name, form in named.items()}


def _error(error):
    return {"class": type(error).__name__, "message": (str(error).splitlines() or [""])[0]}


# The forms of traces.


def event(ns, mode, data):
    match mode:
        case "tasks" if "triggers" in data:
            shown = {"kind": "start"}
            shown |= {key: value(data[key]) for key in ("name", "input", "triggers")}
        case "tasks":
            shown = {"kind": "result", "error": _error_text(data["error"])}
            shown |= {key: value(data[key]) for key in ("name", "result")}
            shown["interrupts"] = [value(_interrupt(one)) for one in data["interrupts"]]
        case "checkpoints":
            metadata = data["metadata"]
            shown = {
                "checkpoint": _id(data["config"]),
                "parent": _id(data.get("parent_config")),
                "source": metadata.get("source"),
                "step": metadata["step"],
                "values": value(data["values"]),
                "next": list(data["next"]),
            }
        case _:
            shown = {"data": value(data)}
    shown["mode"] = mode
    if ns:
        shown["ns"] = [part.split(":")[0] for part in ns]
    return shown


def state(snapshot):
    metadata = snapshot.metadata or {}
    return {
        "checkpoint": _id(snapshot.config),
        "parent": _id(snapshot.parent_config),
        "source": metadata.get("source"),
        "step": metadata.get("step"),
        "values": value(snapshot.values),
        "next": list(snapshot.next),
        "tasks": [_task(task) for task in snapshot.tasks],
    }


def _task(task):
    shown = {
        "id": task.id,
        "name": task.name,
        "path": list(task.path),
        "error": _error_text(task.error),
        "interrupts": [value(one) for one in task.interrupts],
        "result": value(task.result),
    }
    if isinstance(task.state, StateSnapshot):
        shown["state"] = state(task.state)
    return shown


def _stored(one, states):
    checkpoint, metadata = one.checkpoint, one.metadata
    ns = one.config["configurable"]["checkpoint_ns"]
    versions = checkpoint["channel_versions"]
    seen = checkpoint["versions_seen"].items()
    shown = {
        "id": checkpoint["id"],
        "ns": ns,
        "parent": _id(one.parent_config),
        "source": metadata.get("source"),
        "step": metadata["step"],
        "metadata_parents": metadata["parents"],
        "channel_values": {name: value(v) for name, v in checkpoint["channel_values"].items()},
        "channel_versions": _numbers(versions),
        "versions_seen": {node: _numbers(versions) for node, versions in seen},
        "updated_channels": checkpoint["updated_channels"],
        "writes": [
            {"task": task, "channel": channel, "value": value(written)}
            for task, channel, written in one.pending_writes
        ],
    }
    if not ns:
        shown |= {key: states[checkpoint["id"]][key] for key in ("next", "tasks")}
    return shown


def _numbers(versions):
    """Without the random tails."""
    return {channel: int(version.split(".")[0]) for channel, version in versions.items()}


def _id(config):
    return config and config["configurable"].get("checkpoint_id")


def _error_text(error):
    return repr(error) if isinstance(error, BaseException) else error


def _interrupt(one):
    return one if isinstance(one, Interrupt) else Interrupt(**one)


def value(of):
    match of:
        case Interrupt():
            return {"$interrupt": of.id, "value": value(of.value)}
        case Send():
            return {"$send": of.node, "arg": value(of.arg)}
        case Command():
            return repr(of)
        case set() | frozenset():
            return {"$set": sorted((value(one) for one in of), key=str)}
        case dict():
            return {str(key): value(item) for key, item in of.items()}
        case list() | tuple():
            return [value(item) for item in of]
    return of
