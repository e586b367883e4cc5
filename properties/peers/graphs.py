"""Real LangGraph graphs from the descriptions of recorded cases (properties/conformance/README.md)."""

import asyncio
import builtins
import operator
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, RetryPolicy, Send, interrupt

# The names of START and END are written out in descriptions.
NAMES = {"START": START, "END": END, "INPUT": "__input__"}
KINDS = {
    "last_value": Any,
    "append": Annotated[list, operator.add],
    "add": Annotated[int, operator.add],
}


def node_name(name):
    return NAMES.get(name, name)


def many(one_or_many):
    return one_or_many if isinstance(one_or_many, list) else [one_or_many]


def target(direction):
    """A node's name, or a Send."""
    if isinstance(direction, dict):
        return Send(direction["node"], direction.get("arg"))
    return node_name(direction)


class Log:
    """What nodes did to the outside, and how often each failed on purpose, by its path."""

    def __init__(self):
        self.executions = []
        self.raises = {}

    def effect(self, node, label, config):
        self.executions.append([node, label, config["configurable"]["__pregel_task_id"]])

    def raises_again(self, path, times):
        count = self.raises.setdefault(path, 0)
        again = times is None or count < times
        self.raises[path] += again
        return again


def build(spec, log, place=""):
    """The graph, not compiled. `place` is the path of the node that it is in, with a slash."""
    channels = {name: KINDS[channel["reducer"]] for name, channel in spec["channels"].items()}
    graph = StateGraph(TypedDict("State", channels, total=False))
    for name, node in spec["nodes"].items():
        path = f"{place}{name}"
        if "subgraph" in node:
            inside = node["subgraph"]
            runnable = build(inside, log, f"{path}/").compile(**pauses(inside))
        else:
            runnable = program(name, path, node["actions"], log)
        graph.add_node(
            name, runnable, defer=node.get("defer", False), retry_policy=retry(node.get("retry"))
        )
    for start, end in spec.get("edges", []):
        if isinstance(start, list):
            graph.add_edge([node_name(one) for one in start], node_name(end))
        else:
            graph.add_edge(node_name(start), node_name(end))
    for conditional in spec.get("conditional_edges", []):
        graph.add_conditional_edges(node_name(conditional["from"]), router(conditional))
    return graph


def pauses(spec):
    """Static interrupts, as arguments of `compile`."""
    named = {key: spec.get(key) for key in ("interrupt_before", "interrupt_after")}
    return {key: _all_or_names(names) for key, names in named.items() if names is not None}


def _all_or_names(names):
    return names if names == "*" else many(names)


def retry(spec):
    if spec is None:
        return None
    given = {"backoff_factor": 1.0, "jitter": False, "max_attempts": spec["max_attempts"]}
    if "initial_interval" in spec:
        given["initial_interval"] = spec["initial_interval"]
    if spec.get("retry_on") is not None:
        given["retry_on"] = tuple(error_class(name) for name in spec["retry_on"])
    return RetryPolicy(**given)


def error_class(name):
    return getattr(builtins, name)


def router(spec):
    otherwise = [node_name(name) for name in many(spec.get("default", []))]
    if sends := spec.get("sends"):

        def route(state):
            items = state.get(sends["channel"]) or []
            return [Send(sends["node"], {sends["arg_key"]: item}) for item in items] or otherwise

    else:
        table = spec.get("table", {})

        def route(state):
            names = table.get(str(state.get(spec["channel"])))
            return otherwise if names is None else [node_name(name) for name in many(names)]

    return route


def program(name, path, actions, log):
    """A node that does these things."""

    async def run(state, config: RunnableConfig):
        writes, answers, command = {}, [], None
        todo = list(actions)

        def value(expression):
            return evaluate(expression, name, state, answers)

        while todo:
            action = todo.pop(0)
            match action["do"]:
                case "sleep":
                    await asyncio.sleep(action["ms"] / 1000)
                case "emit":
                    get_stream_writer()(value(action["value"]))
                case "effect":
                    log.effect(name, action["label"], config)
                case "write":
                    writes.update({key: value(item) for key, item in action["values"].items()})
                case "interrupt":
                    answers.append(interrupt(value(action["payload"])))
                case "raise":
                    if log.raises_again(path, action.get("times")):
                        raise error_class(action["error"])(action.get("message", "boom"))
                case "if":
                    chosen = state.get(action["channel"]) == action["eq"]
                    todo[:0] = action["then"] if chosen else action.get("else", [])
                case "goto":
                    command = action
        if command is None:
            return writes
        where = {"graph": Command.PARENT} if command.get("graph") == "parent" else {}
        return Command(update=writes, goto=[target(to) for to in many(command["to"])], **where)

    return run


def evaluate(expression, name, state, answers):
    """A value, or how to work one out when the node runs."""
    if not isinstance(expression, dict) or len(expression) != 1:
        return expression
    ((kind, of),) = expression.items()
    match kind:
        case "$node":
            return name
        case "$list_node":
            return [name]
        case "$get":
            return state.get(of)
        case "$add":
            return (state.get(of[0]) or 0) + of[1]
        case "$resume":
            return answers[of] if of < len(answers) else None
        case "$list":
            return [evaluate(item, name, state, answers) for item in of]
    return expression
