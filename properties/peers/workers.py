"""Cases in several processes: most of their time is sleep."""

import asyncio
import json
import multiprocessing
import os
from contextlib import AsyncExitStack

import varies
from handover import Shared
from stores import Stores

# A case that takes longer hangs.
CASE_LIMIT = 120


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


def all_cases(binary, store, stores, paths):
    """Each case's results, as they come. What differs in a case that rests on time is performed once
    more with nothing beside it."""
    shared_at = stores.fresh(store) if store == "postgres" else None
    job = lambda path, **more: {
        "binary": binary,
        "store": store,
        "at": shared_at or stores.fresh(store),
        "path": path,
    } | more
    late, cores = [], os.cpu_count() or 1
    with multiprocessing.get_context("spawn").Pool(min(len(paths), cores + 2)) as pool:
        for path, (case, results) in zip(paths, pool.imap(hand_over, map(job, paths))):
            bad = [plan for plan, found in results if found]
            if bad and varies.rests_on_time(case):
                late.append((path, bad))
                results = [one for one in results if not one[1]]
            yield case, results
    for path, bad in late:
        yield hand_over(job(path, only=bad))
