"""One side is killed after each durable write of a run, and the other goes on.

The kill is SIGKILL, of a process that has stood still since the write was acknowledged.
"""

import asyncio
import copy
import json
import multiprocessing
import os
import signal
from contextlib import AsyncExitStack

import varies
from handover import PythonSide, RustSide, begun_case, raised
from labels import Labels, differences, settled
from rust import Rust
from script import Forwarding, Script
from stores import indexes, python_saver

# What a checkpoint must be, whoever made it.
COMPARED = ("id", "ns", "parent", "source", "step", "channel_values", "channel_versions", "next")
# A run has fewer durable writes.
POINTS = 200
# Every kill costs two connections, which are dear in PostgreSQL.
STRIDES = {"sqlite": 1, "postgres": 3}
# What takes longer hangs.
LIMIT = 60


def expected_state(case):
    """What was recorded of the thread after the first operation, or `None` where kills say nothing."""
    ops, recorded = case["spec"]["ops"], case["expected"]
    first, graph = ops[0], case["spec"]["graph"]
    cut = ("close_after", "cancel_at_ms", "cancel_scope_at_ms", "recursion_limit", "checkpoint")
    pauses = ("interrupt_before", "interrupt_after")
    if first["op"] != "stream" or first["input"] is None or first.get("durability") == "exit":
        return None
    # Another run has another limit, and goes past a pause that the killed one had come to.
    if any(key in first for key in cut + pauses) or any(graph.get(key) for key in pauses):
        return None
    if varies.reason(case) or len(recorded["threads"]) > 1:
        return None
    # A node that has failed as often as it was to does not fail again.
    if "error" in recorded["ops"][0]:
        return None
    if len(ops) == 1:
        return recorded["threads"]["t1"]["final"]
    if ops[1]["op"] == "get_state" and "checkpoint" not in ops[1] and "subgraphs" not in ops[1]:
        return recorded["ops"][1].get("state")
    return None


def kill(job):
    """All kills of one case in one direction: a list of point and problems."""
    case = json.loads(open(job["path"]).read())
    state = expected_state(case)
    results = []
    for point in range(0, POINTS, STRIDES[job["store"]]) if state else ():
        prefix = f"{case['name']}/{job['first']}/{point}/"
        try:
            killed = KILLERS[job["first"]](job, only_first(case, prefix), point)
            if killed is None:
                return case, results
            going_on = _go_on(job, case, state, prefix, killed)
            problems = asyncio.run(asyncio.wait_for(going_on, LIMIT))
        except Exception as error:  # a kill that breaks off must not end the others
            problems = [f"broken off: {type(error).__name__}: {error}"]
        results.append((point, problems))
    return case, results


def only_first(case, prefix, raises=None):
    """The first operation on a thread of its own, each step awaited."""
    case = begun_case(case, prefix, raises or {})
    case["spec"]["ops"] = [case["spec"]["ops"][0] | {"durability": "sync"}]
    return case


def _rust_killed(job, case, point):
    """What the Rust side executed before it was killed; `None` if it came to its end."""

    async def performed():
        rust = await Rust.start(job["binary"], job["store"], job["at"])
        try:
            await rust.call("begin", case=case, freeze_after=point)
            return await asyncio.wait_for(rust.call("perform", place=0), LIMIT)
        finally:
            await rust.kill()

    killed = asyncio.run(performed())
    return killed if killed["frozen"] else None


def _python_killed(job, case, point):
    ours, theirs = multiprocessing.Pipe()
    child = os.fork()
    if not child:
        # The child must not come back into what its parent does.
        try:
            asyncio.run(_frozen_script(job, case, point, theirs))
        finally:
            os._exit(1)
    theirs.close()
    try:
        return ours.recv() if ours.poll(LIMIT) else _raise(TimeoutError("it neither froze nor ended"))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


async def _frozen_script(job, case, point, pipe):
    async with python_saver(job["store"], job["at"]) as saver:
        frozen = asyncio.Event()
        script = Script(case, Freezing(saver, point, frozen))
        run = asyncio.create_task(script.perform(0))
        stands = asyncio.create_task(frozen.wait())
        await asyncio.wait({run, stands}, return_when=asyncio.FIRST_COMPLETED)
        log = {"executions": script.log.executions, "raises": script.log.raises}
        pipe.send(None if run.done() and run.result() else log)
        await asyncio.sleep(3600)


def _raise(error):
    raise error


KILLERS = {"rust": _rust_killed, "python": _python_killed}


class Freezing(Forwarding):
    """After so many durable writes nothing of this process lasts any more."""

    def __init__(self, saver, point, frozen):
        super().__init__(saver)
        self._left, self._frozen = point, frozen

    async def aput(self, *arguments):
        return await self._write(super().aput, *arguments)

    async def aput_writes(self, *arguments):
        return await self._write(super().aput_writes, *arguments)

    async def _write(self, call, *arguments):
        await self._stand_still_if(self._left <= 0)
        result = await call(*arguments)
        self._left -= 1
        await self._stand_still_if(self._left <= 0)
        return result

    async def _stand_still_if(self, is_over):
        if is_over:
            self._frozen.set()
            await asyncio.Event().wait()


async def _go_on(job, case, state, prefix, killed):
    """The other side continues; gives what is wrong with what the thread becomes."""
    thread = f"{prefix}t1"
    async with AsyncExitStack() as stack:
        saver = await stack.enter_async_context(python_saver(job["store"], job["at"]))
        side = PythonSide(saver)
        if job["first"] == "python":
            rust = await Rust.start(job["binary"], job["store"], job["at"])
            stack.push_async_callback(rust.close)
            side = RustSide(rust)
        config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        head = await saver.aget_tuple(config)
        stored = [one async for one in saver.alist(config)]
        rest = only_first(case, prefix, killed["raises"])
        if head:
            rest["spec"]["ops"][0]["input"] = None
        await side.begin(rest)
        gone_on = await side.perform(0)
        await side.quiet()
        seen = await side.look()
    finished = {task for one in stored for task, channel, _ in one.pending_writes if _is_regular(channel)}
    again = [one for one in gone_on["executions"] if one[2] in finished]
    problems = [f"{node}:{label} was stored, and executed again" for node, label, _ in again]
    executed = [f"{node}:{label}" for node, label, _ in killed["executions"] + gone_on["executions"]]
    missed = set(case["expected"]["ops"][0]["effects"]) - set(executed)
    problems += [f"{effect} was never executed" for effect in missed]
    return problems + _thread_problems(job, case, state, thread, seen)


def _is_regular(channel):
    return channel not in ("__error__", "__scheduled__", "__interrupt__", "__resume__")


def _thread_problems(job, case, state, thread, seen):
    """Compares the thread with the recorded one as it was after the first operation."""
    rows = indexes(job["store"], job["at"], thread)
    trace = copy.deepcopy(seen[thread])
    for checkpoint in trace["checkpoints"]:
        for write, place in zip(checkpoint["writes"], rows.get((checkpoint["ns"], checkpoint["id"]), [])):
            write["idx"] = place
    labels = Labels({"t1": trace})
    own = raised(case["spec"]["graph"])
    number = int((state["checkpoint"] or "c-1")[1:])
    recorded = case["expected"]["threads"]["t1"]["checkpoints"]
    observed = labels.thread(trace)
    pairs = {
        "recorded": (_root(recorded)[: number + 1], state),
        "observed": (_root(observed["checkpoints"]), observed["final"]),
    }
    forms = {
        side: settled({"threads": {"t1": {"checkpoints": [], "chain": chain, "final": final}}}, own)
        for side, (chain, final) in pairs.items()
    }
    found = differences(forms["recorded"], forms["observed"])
    return [f"{at}: recorded {_text(a)}, observed {_text(b)}" for at, a, b in found]


def _root(checkpoints):
    """Graphs inside begin anew where a kill hit them, so theirs may be more."""
    return [{key: one[key] for key in COMPARED} for one in checkpoints if not one["ns"]]


def _text(of):
    return "nothing" if of is ... else json.dumps(of)[:200]
