"""The Rust side: a process that answers one JSON object a line (properties/src/peer/mod.rs)."""

import asyncio
import json

# Whole checkpoints come on one line.
LINE_LIMIT = 1 << 30


class Refused(Exception):
    """The Rust side could not do what it was asked."""


class Rust:
    """One such process, over one store."""

    def __init__(self, process):
        self._process = process
        self._turn = asyncio.Lock()

    @classmethod
    async def start(cls, binary, store, at=None):
        arguments = ["peer", "--store", store] + (["--at", at] if at else [])
        return cls(
            await asyncio.create_subprocess_exec(
                binary,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=LINE_LIMIT,
            )
        )

    async def call(self, call, **arguments):
        line = json.dumps({"call": call} | arguments).encode() + b"\n"
        async with self._turn:
            self._process.stdin.write(line)
            await self._process.stdin.drain()
            answer = await self._process.stdout.readline()
        if not answer:
            raise Refused(f"{call}: the process is gone")
        answer = json.loads(answer)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["ok"]

    async def close(self):
        self._process.stdin.close()
        await self._process.wait()

    async def kill(self):
        """SIGKILL."""
        self._process.kill()
        await self._process.wait()
