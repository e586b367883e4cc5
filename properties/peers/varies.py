"""Where a recorded trace does not bind, and why."""

# Cases of which more than the order inside super-steps varies with the speed of the store, by the
# beginning of their names (properties/src/conformance/any_order.rs has the same list). Of these both
# sides must only see the same in the end.
VARIES = {
    "subgraph_close": "how far a graph inside gets while its run is being closed",
    "subgraph_send": "graphs inside that run side by side make their checkpoints in any order",
    "start_beside_answer": "an answer stays pending if the entry ends before a node beside it takes it",
}

# A defect of 1.2.9 that shows or not, as time will have it: a barrier hands out its live set.
ARTIFACT = "ARTIFACT of 1.2.9"


def reason(case):
    for beginning, why in VARIES.items():
        if case["name"].startswith(beginning):
            return why
    if case["spec"].get("description", "").startswith(ARTIFACT):
        return "the case calls it an artifact of 1.2.9 that depends on timing"
    return None


def excused(case, performers, at):
    """An empty command crashes inside LangGraph where it means to raise EmptyInputError, which is what
    the Rust side raises."""
    return any(
        at == f"/ops/{place}/error/class" and performer == "rust" and _is_empty(op)
        for place, (op, performer) in enumerate(zip(case["spec"]["ops"], performers, strict=True))
    )


def _is_empty(op):
    says = any(op.get(key) is not None for key in ("update", "goto", "by_index", "value"))
    return op["op"] in ("command", "resume") and not says


def rests_on_time(case):
    """May it come out otherwise on a machine that is busy?"""
    text = str(case["spec"])
    return any(word in text for word in ("'sleep'", "cancel_", "put_delay_ms", "initial_interval"))
