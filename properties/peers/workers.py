"""Cases, kills and values in several processes."""

import asyncio
import copy
import functools
import json
import logging
import multiprocessing
import operator
import os
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import carrying
import kills
import varies
from handover import Shared, judge
from rust import Rust
from stores import python_saver

# A case that takes longer hangs.
CASE_LIMIT = 120

# Places of one case that say something each.
ALTERED = {
    "case": "fail_with_ok_sibling_async",
    "places": [
        ("effects", 1),
        ("ops", 0, "effects", 0),
        ("ops", 0, "events", 1, "data"),
        ("ops", 0, "error", "class"),
        ("ops", 0, "error", "message"),
        ("ops", 1, "state", "next", 0),
        ("ops", 1, "state", "tasks", 1, "error"),
        ("ops", 3, "history", 2, "step"),
        ("threads", "t1", "checkpoints", 2, "parent"),
        ("threads", "t1", "checkpoints", 2, "channel_versions", "steps"),
        ("threads", "t1", "checkpoints", 3, "versions_seen", "a", "branch:to:a"),
        ("threads", "t1", "checkpoints", 3, "updated_channels"),
        ("threads", "t1", "checkpoints", 2, "writes", 1, "value"),
        ("threads", "t1", "final", "values", "n"),
    ],
}


def plans(count):
    """Who performs which of so many operations: each side the first ones, for each way to divide."""
    sides = ("python", "rust")
    return [
        [first] * divide + [second] * (count - divide)
        for divide in range(1, count)
        for first, second in (sides, sides[::-1])
    ]


def hand_over(job):
    """All ways of one case on one store: a list of plan and differences."""
    return asyncio.run(_hand_over(**job))


async def _hand_over(binary, store, at, path, only=None):
    case = json.loads(open(path).read())
    results = []
    async with AsyncExitStack() as stack:
        shared = await Shared.open(stack, binary, store, at)
        for plan in only or plans(len(case["spec"]["ops"])):
            try:
                found = await asyncio.wait_for(shared.differences(case, plan), CASE_LIMIT)
            except Exception as error:  # a case that breaks off must not end the others
                found = [(f"broken off: {type(error).__name__}: {error}", None, None)]
            results.append((plan, found))
    return case, results


def _once_more(job, path, plans):
    """With nothing beside it, and up to three times: the sleeps of a case are tens of milliseconds."""
    passed = []
    for _ in range(3):
        case, results = hand_over(job(path, only=plans))
        passed += [one for one in results if not one[1]]
        failed = [one for one in results if one[1]]
        plans = [plan for plan, _ in failed]
        if not plans:
            break
    return case, passed + failed


def told_apart(job):
    """Traces that were altered must not pass: gives the places at which one did."""
    return asyncio.run(_told_apart(**job))


async def _told_apart(binary, store, at, path):
    case = json.loads(open(path).read())
    plan = ["python"] + ["rust"] * (len(case["spec"]["ops"]) - 1)
    async with AsyncExitStack() as stack:
        shared = await Shared.open(stack, binary, store, at)
        seen = await shared.observe(case, plan)
    missed = []
    for place in ALTERED["places"]:
        altered = copy.deepcopy(case)
        *outer, last = place
        functools.reduce(operator.getitem, outer, altered["expected"])[last] = "something else"
        if not judge(altered, plan, seen):
            missed.append(place)
    return missed


def carried(pool, binary, store, stores, seeds):
    """Values of these seeds, a few in one process each."""
    # The tables are Rust's, and Python finds nothing to make.
    at = stores.fresh(store)
    asyncio.run(_open_once(Rust.start(binary, store, at)))
    parts = [seeds[start : start + 25] for start in range(0, len(seeds), 25)]
    job = lambda part: {"binary": binary, "store": store, "at": at, "seeds": part}
    for results in pool.imap(carrying.carry, map(job, parts)):
        yield from results


def killed(pool, binary, store, stores, paths):
    """Each case's kills, of either side: side, case and results."""
    shared_at = _made_by_python(store, stores)
    jobs = [
        {"binary": binary, "store": store, "path": path, "first": side}
        | {"at": shared_at or stores.fresh(store)}
        for path in paths
        for side in kills.KILLERS
    ]
    for job, (case, results) in zip(jobs, pool.imap(kills.kill, jobs)):
        yield job["first"], case, results


def _made_by_python(store, stores):
    """A database with tables, as several cannot make them at the same time; files are each one's own."""
    if store != "postgres":
        return None
    at = stores.fresh(store)
    asyncio.run(_open_once(python_saver(store, at)))
    return at


async def _open_once(opening):
    """Several that open a fresh database at the same time would be in each other's way."""
    if isinstance(opening, AbstractAsyncContextManager):
        async with opening:
            return
    await (await opening).close()


def pool():
    """More processes than cores: most of a case's time is sleep."""
    count = (os.cpu_count() or 1) + 2
    return multiprocessing.get_context("spawn").Pool(count, initializer=_quiet)


def _quiet():
    """Classes of a user are new to LangGraph, and are meant to be."""
    logging.getLogger("langgraph").setLevel(logging.ERROR)


def all_cases(pool, binary, store, stores, paths):
    """Each case's results, as they come. What differs in a case that rests on time is performed again
    at the end."""
    # The tables are Python's, and Rust finds nothing to make.
    shared_at = _made_by_python(store, stores)
    job = lambda path, **more: {
        "binary": binary,
        "store": store,
        "at": shared_at or stores.fresh(store),
        "path": path,
    } | more
    late = []
    for path, (case, results) in zip(paths, pool.imap(hand_over, map(job, paths))):
        bad = [plan for plan, found in results if found]
        if bad and varies.rests_on_time(case):
            late.append((path, bad))
            results = [one for one in results if not one[1]]
        yield case, results
    for path, bad in late:
        yield _once_more(job, path, bad)
