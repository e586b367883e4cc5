"""Values that go through both savers and must come back as they were."""

import asyncio
from contextlib import AsyncExitStack

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import values
from rust import Rust
from stores import Stores, python_saver

TASK = "11111111-2222-3333-4444-555555555555"


def carry(job):
    """The problems of each seed: a list of direction, seed and problems."""
    return asyncio.run(_carry(**job))


async def _carry(binary, store, at, seeds):
    results = []
    async with AsyncExitStack() as stack:
        saver = await stack.enter_async_context(python_saver(store, at))
        rust = await Rust.start(binary, store, at)
        stack.push_async_callback(rust.close)
        for seed in seeds:
            for direction, way in (("rust", from_rust), ("python", from_python)):
                try:
                    problems = await way(rust, saver, seed, store == "postgres")
                except Exception as error:  # whatever breaks off belongs to its seed
                    problems = [f"broken off: {type(error).__name__}: {error}"]
                results.append((direction, seed, problems))
    return results


async def from_rust(rust, saver, seed, _):
    """Rust makes and stores values, Python reads them and stores them again, Rust reads those."""
    thread = f"rust-{seed}"
    made = await rust.call("values", do="write", thread=thread, seed=seed)
    expected = {name: values.described(*said) for name, said in made}
    found = await saver.aget_tuple(_config(thread))
    problems = differences(expected, expected, found)
    await store_again(saver, found)
    differing = await rust.call("values", do="compare", thread=thread, seed=seed)
    problems += [f"back in Rust: {one}" for one in differing]
    if not await rust.call("values", do="compare", thread=thread, seed=seed + 1):
        problems.append("Rust takes them for the values of another seed")
    return problems


async def from_python(rust, saver, seed, scalars_are_json):
    """Python makes and stores values, Rust reads them and stores them again, Python reads those."""
    thread = f"python-{seed}"
    made = values.named(seed, scalars_are_json)
    # What the serializer itself changes (a tuple becomes a list) is none of the savers' doing.
    serde = JsonPlusSerializer()
    written = {name: serde.loads_typed(serde.dumps_typed(item)) for name, item in made.items()}
    await store(saver, _config(thread), made)
    held = written
    if scalars_are_json:
        # Nor is what PostgreSQL's JSONB makes of a float: 1e22 is an integer then, and -0.0 is 0.0.
        held = (await saver.aget_tuple(_config(thread))).checkpoint["channel_values"]
        held = {name: held[name] if isinstance(item, float) else item for name, item in written.items()}
    await rust.call("values", do="carry", thread=thread)
    found = await saver.aget_tuple(_config(thread))
    problems = differences(held, written, found)
    if found.parent_config is None:
        problems.append("it is not what Rust stored")
    others = values.named(seed + 1, scalars_are_json)
    if not differences(others, others, found):
        problems.append("they pass for the values of another seed")
    return problems


def differences(held, written, found):
    """Of what the checkpoint must hold, and of what must be written beside it."""
    writes = {name: item for task, name, item in found.pending_writes if task == TASK}
    places = [("channel", held, found.checkpoint["channel_values"]), ("write", written, writes)]
    return [
        f"{place} {name!r}: {shown(item)} became {shown(there.get(name, 'nothing'))}"
        for place, expected, there in places
        for name, item in expected.items()
        if not values.same(item, there.get(name, ...))
    ]


def shown(item):
    try:
        text = repr(item)
    except ValueError:  # a command with an array in it cannot be shown
        text = "(not to be shown)"
    return f"{type(item).__name__} {text[:300]}{'...' if len(text) > 300 else ''}"


async def store(saver, config, made, version=1):
    versions = {name: f"{version:032}.{0.5:016}" for name in made}
    checkpoint = empty_checkpoint() | {
        "id": str(uuid6(clock_seq=0)),
        "channel_values": made,
        "channel_versions": versions,
        "updated_channels": None,
    }
    metadata = {"source": "loop", "step": version, "parents": {}}
    stored = await saver.aput(config, checkpoint, metadata, versions)
    await saver.aput_writes(stored, list(made.items()), TASK)


async def store_again(saver, found):
    """The same values under a new id, as a child."""
    await store(saver, found.config, found.checkpoint["channel_values"], 2)


def _config(thread):
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
