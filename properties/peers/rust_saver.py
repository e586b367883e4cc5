"""Rust's saver as a `BaseCheckpointSaver`: every call is forwarded.

Values cross as the type and bytes that the serializer makes of them, and Rust reads and writes those
with its own codec: no Python object gets past it.
"""

import json
from contextlib import asynccontextmanager

from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from rust import Rust


class RustSaver(BaseCheckpointSaver):
    def __init__(self, rust):
        super().__init__()
        self._rust = rust

    @classmethod
    @asynccontextmanager
    async def open(cls, *arguments):
        rust = await Rust.start(*arguments)
        try:
            yield cls(rust)
        finally:
            await rust.close()

    async def aget_tuple(self, config):
        thread, ns = _place(config)
        found = await self._call("get", thread=thread, ns=ns, id=get_checkpoint_id(config))
        return found and self._tuple(found)

    async def alist(self, config, *, filter=None, before=None, limit=None):
        found = await self._call(
            "list",
            thread=str(config["configurable"]["thread_id"]),
            ns=config["configurable"].get("checkpoint_ns"),
            before=before and get_checkpoint_id(before),
            limit=limit,
            metadata=filter or {},
        )
        for one in found:
            yield self._tuple(one)

    async def aput(self, config, checkpoint, metadata, new_versions):
        thread, ns = _place(config)
        await self._call(
            "put",
            thread=thread,
            ns=ns,
            parent=get_checkpoint_id(config),
            checkpoint=self._typed(_with_text_versions(checkpoint)),
            metadata=json.dumps(get_checkpoint_metadata(config, metadata)),
            new_versions=list(_text(new_versions).items()),
        )
        return _config(thread, ns, checkpoint["id"])

    async def aput_writes(self, config, writes, task_id, task_path=""):
        thread, ns = _place(config)
        await self._call(
            "put_writes",
            thread=thread,
            ns=ns,
            checkpoint=get_checkpoint_id(config),
            task=task_id,
            path=task_path,
            writes=[(channel, *self._typed(value)) for channel, value in writes],
        )

    async def adelete_thread(self, thread_id):
        await self._call("delete_thread", thread=str(thread_id))

    async def acopy_thread(self, source_thread_id, target_thread_id):
        await self._call("copy_thread", **{"from": source_thread_id, "to": target_thread_id})

    async def aprune(self, thread_ids, *, strategy="keep_latest"):
        await self._call("prune", threads=list(thread_ids), latest=strategy == "keep_latest")

    async def adelete_for_runs(self, run_ids):
        await self._call("delete_for_runs", runs=list(run_ids))

    def get_next_version(self, current, channel):
        """As langgraph-checkpoint-sqlite counts."""
        number = int(str(current).split(".")[0]) if current is not None else 0
        return f"{number + 1:032}.{0.5:016}"

    async def _call(self, do, **arguments):
        return await self._rust.call("saver", do=do, **arguments)

    def _typed(self, value):
        kind, data = self.serde.dumps_typed(value)
        return kind, data.hex()

    def _value(self, kind, data):
        return self.serde.loads_typed((kind, bytes.fromhex(data)))

    def _tuple(self, found):
        checkpoint = self._value(*found["checkpoint"])
        thread, ns, parent = found["thread"], found["ns"], found["parent"]
        return CheckpointTuple(
            config=_config(thread, ns, checkpoint["id"]),
            checkpoint=checkpoint,
            metadata=json.loads(found["metadata"]),
            parent_config=_config(thread, ns, parent) if parent else None,
            pending_writes=[(task, name, self._value(*typed)) for task, name, *typed in found["writes"]],
        )


def _place(config):
    configurable = config["configurable"]
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns", "")


def _config(thread, ns, checkpoint):
    names = ("thread_id", "checkpoint_ns", "checkpoint_id")
    return {"configurable": dict(zip(names, (thread, ns, checkpoint)))}


def _text(versions):
    """The suite counts with integers, every saver of LangGraph's and Rust's with text."""
    return {channel: str(version) for channel, version in versions.items()}


def _with_text_versions(checkpoint):
    seen = checkpoint["versions_seen"].items()
    return checkpoint | {
        "channel_versions": _text(checkpoint["channel_versions"]),
        "versions_seen": {node: _text(versions) for node, versions in seen},
    }
