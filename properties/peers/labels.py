"""From traces with ids to the form in which traces are recorded: ids become labels.

Both sides' observations of one case are put together before, so that a label means the same in all
of it. What LangGraph says of its own errors is left out, as the Rust runner does
(properties/conformance/README.md, "What is not compared").
"""

import json

NULL_TASK = "00000000-0000-0000-0000-000000000000"


class Labels:
    def __init__(self, threads):
        """`threads`: the stored checkpoints of each, oldest first, with ids."""
        self._checkpoints, self._tasks = {}, {NULL_TASK: "__null__"}
        per_node = {}
        for name, thread in threads.items():
            prefix = f"{name}." if len(threads) > 1 else ""
            numbers = {"c": 0, "s": 0}
            for checkpoint in thread["checkpoints"]:
                letter = "s" if checkpoint["ns"] else "c"
                self._checkpoints[checkpoint["id"]] = f"{prefix}{letter}{numbers[letter]}"
                numbers[letter] += 1
            self._tasks |= thread["inside"]
            for checkpoint in thread["checkpoints"]:
                for task in checkpoint.get("tasks", []):
                    if task["id"] not in self._tasks:
                        number = per_node.setdefault(task["name"], 0)
                        self._tasks[task["id"]] = f"{task['name']}#{number}"
                        per_node[task["name"]] += 1

    def operation(self, trace):
        return self._labelled(trace)

    def thread(self, trace):
        labelled = {key: self._labelled(trace[key]) for key in ("checkpoints", "final")}
        for checkpoint in labelled["checkpoints"]:
            checkpoint["ns"] = self._namespace(checkpoint["ns"])
            parents = checkpoint["metadata_parents"].items()
            checkpoint["metadata_parents"] = {
                self._namespace(ns): self._checkpoint(id) for ns, id in parents
            }
            for write in checkpoint["writes"]:
                write["task"] = self._tasks.get(write["task"], "__other__")
        return labelled

    def _labelled(self, of):
        match of:
            case dict():
                # The ids of tasks are not recorded; they were for numbering.
                of = {key: item for key, item in of.items() if not ("path" in of and key == "id")}
                return {key: self._under(key, item) for key, item in of.items()}
            case list():
                return [self._labelled(item) for item in of]
        return of

    def _under(self, key, item):
        if key in ("id", "checkpoint", "parent") and isinstance(item, str):
            return self._checkpoint(item)
        return self._labelled(item)

    def _checkpoint(self, id):
        """One that was never stored has no number."""
        return self._checkpoints.get(id, "unsaved")

    def _namespace(self, ns):
        parts = [part.partition(":") for part in ns.split("|")]
        named = ((node, self._tasks.get(task, "__other__") if task else "") for node, _, task in parts)
        return "|".join(f"{node}:{task}" if task else node for node, task in named)


def settled(trace, raised):
    """Brings what has no order of its own, or no rule, into one form. For both sides of a comparison.

    `raised`: the classes of errors that nodes raise themselves.
    """
    trace = _without_own_text(json.loads(json.dumps(trace)), raised)
    for thread in trace["threads"].values():
        for checkpoint in thread["checkpoints"]:
            checkpoint["writes"] = _ordered(checkpoint["writes"])
    return _numbered_interrupts(trace, {})


def _numbered_interrupts(of, known):
    """Interrupts are numbered anew, in an order that depends on the trace alone."""
    match of:
        case dict():
            shown = {key: _numbered_interrupts(of[key], known) for key in sorted(of)}
            if "$interrupt" in of:
                shown["$interrupt"] = known.setdefault(of["$interrupt"], f"i{len(known)}")
            return shown
        case list():
            return [_numbered_interrupts(item, known) for item in of]
    return of


def _without_own_text(of, raised):
    match of:
        case dict():
            is_error_row = of.get("channel") == "__error__"
            for key, item in of.items():
                if isinstance(item, str) and (key == "error" or is_error_row and key == "value"):
                    name = item.split("(")[0]
                    of[key] = item if name in raised else name
                elif key == "error" and isinstance(item, dict):
                    if item["class"] not in raised:
                        item.pop("message", None)
                else:
                    _without_own_text(item, raised)
        case list():
            for item in of:
                _without_own_text(item, raised)
    return of


def _ordered(rows):
    """Several edges out of one node come from a Python set there: their places mean nothing, and are
    given out by channel name. Rows of tasks that no label tells apart come by what they say."""
    edges = [row for row in rows if row["channel"].startswith(("branch:to:", "join:"))]
    places = {}
    for row in edges:
        places.setdefault(row["task"], []).append(row["idx"])
    for row in sorted(edges, key=lambda row: row["channel"]):
        places[row["task"]].sort()
        row["idx"] = places[row["task"]].pop(0)
    key = lambda row: (row["task"], row["idx"], row["channel"], json.dumps(row["value"]))
    return sorted(rows, key=key)


def differences(recorded, observed, path=""):
    """Places at which two traces differ, each with what stands there."""
    if recorded == observed:
        return []
    match recorded, observed:
        case dict(), dict():
            steps = sorted(recorded.keys() | observed.keys())
            pairs = [(step, recorded.get(step, ...), observed.get(step, ...)) for step in steps]
        case list(), list():
            longer = range(max(len(recorded), len(observed)))
            of = lambda items, place: items[place] if place < len(items) else ...
            pairs = [(place, of(recorded, place), of(observed, place)) for place in longer]
        case _:
            return [(path, recorded, observed)]
    return [found for step, *two in pairs for found in differences(*two, f"{path}/{step}")]
