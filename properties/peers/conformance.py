"""LangGraph's own conformance suite for savers, against Rust's."""

from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.report import ProgressCallbacks

from rust_saver import RustSaver

# In the pinned release of the suite.
TESTS = 81


async def suite(binary, store, places):
    """Runs the whole suite, each capability on a fresh store; gives one result for each test.

    A capability that the suite does not find in the saver counts as failed: there is none that
    Rust's savers lack.
    """
    results = []

    @checkpointer_test(name=f"durasim-{store}")
    async def saver():
        async with RustSaver.open(binary, store, places.fresh(store)) as opened:
            yield opened

    def begun(capability, detected):
        if not detected:
            results.append((capability, "detected", "the suite did not find it in the saver"))

    def tested(capability, test, passed, error):
        results.append((capability, test, None if passed else error))

    progress = ProgressCallbacks(on_capability_start=begun, on_test_result=tested)
    await validate(saver, progress=progress)
    if len(results) < TESTS:
        results.append(("suite", "whole", f"{len(results)} of {TESTS} tests ran"))
    return results
