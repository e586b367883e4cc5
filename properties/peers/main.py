"""`cargo xtask peers`: Rust's savers and runtime against real LangGraph."""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

import workers
from conformance import suite
from stores import Stores

STORES = ("memory", "sqlite", "postgres")
PARTS = ("conformance", "interop")
# States of values that each side makes, for each store.
STATES = 500
# Of the differences of one check, so many are shown.
SHOWN = 6


class Report:
    """One row for each part and store, and what failed."""

    def __init__(self, as_json):
        self._as_json = as_json
        self._rows = {}
        self.failed = 0

    def check(self, part, store, name, problems, again):
        row = self._rows.setdefault((part, store), [0, 0, ""])
        row[1 if problems else 0] += 1
        self.failed += bool(problems)
        if self._as_json:
            line = {"part": part, "store": store, "check": name, "ok": not problems}
            print(json.dumps(line | {"problems": problems[:SHOWN]}), flush=True)
        elif problems:
            print(f"{part} {store}: {name}: {len(problems)} problems")
            for problem in problems[:SHOWN]:
                print(f"    {problem}")
            print(f"    again: cargo xtask peers {again}", flush=True)

    def not_run(self, part, store, reason):
        self._rows[part, store] = [0, 0, f"NOT RUN: {reason}"]
        if self._as_json:
            print(json.dumps({"part": part, "store": store, "not_run": reason}), flush=True)

    def end(self):
        if self._as_json:
            passed = sum(row[0] for row in self._rows.values())
            summary = {"summary": "peers", "ok": not self.failed, "passed": passed, "failed": self.failed}
            print(json.dumps(summary))
            return
        print(f"{'':28}{'store':<10}{'passed':>8}{'failed':>8}")
        for (part, store), (passed, failed, note) in self._rows.items():
            print(f"{part:28}{store:<10}{passed:>8}{failed:>8}  {note}".rstrip())


def conformance(given, report, stores, store):
    for capability, test, problem in asyncio.run(suite(given.binary, store, stores)):
        problems = problem.strip().splitlines()[-3:] if problem else []
        again = f"--only conformance --store {store}"
        report.check("conformance suite", store, f"{capability}: {test}", problems, again)


def interop(given, report, stores, store):
    if store == "memory":
        report.not_run("interop", store, "the memory of a process is not shared")
        return
    paths = sorted(str(path) for path in Path(given.cases).glob("*.json"))
    if given.case:
        paths = [path for path in paths if Path(path).stem == given.case]
    if not paths:
        print(f"error: there is no case {given.case} in {given.cases}", file=sys.stderr)
        sys.exit(2)
    if not given.case:
        altered(given, report, stores, store)
        carried(given, report, stores, store)
    for case, results in workers.all_cases(given.pool, given.binary, store, stores, paths):
        for plan, found in results:
            problems = [f"{at}: recorded {shown(a)}, observed {shown(b)}" for at, a, b in found]
            divide = len([side for side in plan if side == plan[0]])
            name = f"{case['name']}: {plan[0]} performs {divide} of {len(plan)}, then {plan[-1]}"
            again = f"--only interop --store {store} --case {case['name']}"
            report.check(f"runs {plan[0]} to {plan[-1]}", store, name, problems, again)
    for side, case, results in workers.killed(given.pool, given.binary, store, stores, paths):
        for point, problems in results:
            name = f"{case['name']}: {side} is killed after {point} writes"
            again = f"--only interop --store {store} --case {case['name']}"
            report.check(f"{side} killed", store, name, problems, again)


def altered(given, report, stores, store):
    """The comparison itself: an altered trace must not pass."""
    path = Path(given.cases) / f"{workers.ALTERED['case']}.json"
    job = {"binary": given.binary, "store": store, "at": stores.fresh(store), "path": str(path)}
    missed = [f"altered at {place}, and it passes" for place in workers.told_apart(job)]
    again = f"--only interop --store {store}"
    report.check("altered traces", store, path.stem, missed, again)


def carried(given, report, stores, store):
    seeds = list(range(given.seed, given.seed + STATES))
    for origin, seed, problems in workers.carried(given.pool, given.binary, store, stores, seeds):
        again = f"--only interop --store {store} --seed {seed}"
        report.check(f"values made by {origin}", store, f"seed {seed}", problems, again)


def shown(value):
    return "nothing" if value is ... else json.dumps(value, ensure_ascii=False)[:200]


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--cases", required=True)
    parser.add_argument("--case")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--store", choices=STORES)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--postgres", help="URL of a database whose user may make others")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1_000_000_000)
    parser.add_argument("--no-postgres", help="why there is none")
    return parser.parse_args()


def main():
    given = arguments()
    report = Report(given.json)
    if not given.json and given.only != "conformance":
        print(f"values from seed {given.seed}; again with --seed {given.seed}")
    with tempfile.TemporaryDirectory(prefix="durasim-peers-") as folder, workers.pool() as given.pool:
        stores = Stores(folder, given.postgres)
        for part in (conformance, interop):
            if given.only not in (None, part.__name__):
                continue
            for store in STORES:
                if given.store not in (None, store):
                    continue
                if store == "postgres" and not given.postgres:
                    report.not_run(part.__name__, store, given.no_postgres)
                else:
                    part(given, report, stores, store)
    report.end()
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
