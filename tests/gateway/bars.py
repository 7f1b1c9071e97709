"""The gateway's bars, measured in one run against calling the same server directly.

Usage: bars.py GATEWAY FAKE_SERVER NODE_MODULES. Prints one line a bar and fails when one is missed.
"""

import asyncio
import contextlib
import json
import logging
import os
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

# The client takes the answer 202 to the end of a session for a failure.
logging.disable(logging.WARNING)
GATEWAY, FAKE, MODULES = shlex.split(sys.argv[1]), sys.argv[2], sys.argv[3]
FOLDER = tempfile.mkdtemp(prefix="bars-")
missed = []


def bar(what, holds):
    print(f"{'met   ' if holds else 'MISSED'} {what}", flush=True)
    if not holds:
        missed.append(what)


def text(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


def write(servers, own=None):
    path = tempfile.mktemp(suffix=".json", dir=FOLDER)
    with open(path, "w") as file:
        json.dump({"mcpServers": servers, "toolrack": own or {}}, file)
    return path


def fake(*arguments):
    return {"command": FAKE, "args": list(arguments)}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.asynccontextmanager
async def stdio(command, arguments):
    parameters = StdioServerParameters(
        command=command, args=arguments, env={**os.environ, "TOOLRACK_LOG": "error"})
    with open(os.devnull, "w") as nowhere:
        async with stdio_client(parameters, errlog=nowhere) as (read, write_stream):
            async with ClientSession(read, write_stream) as session:
                await session.initialize()
                yield session


def gateway(config, *options):
    return stdio(GATEWAY[0], [*GATEWAY[1:], "--config", config, *options])


@contextlib.asynccontextmanager
async def served(config, *options):
    """A gateway over HTTP: its address, that of its state, and its process."""
    http, xray = free_port(), free_port()
    process = subprocess.Popen(
        [*GATEWAY, "--config", config, "--http", f"127.0.0.1:{http}",
         "--xray", f"127.0.0.1:{xray}", *options],
        env={**os.environ, "TOOLRACK_LOG": "error"},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        state = f"http://127.0.0.1:{xray}/state"
        for _ in range(400):
            with contextlib.suppress(OSError):
                look(state)
                break
            await asyncio.sleep(0.02)
        yield f"http://127.0.0.1:{http}/mcp", state, process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def look(address):
    with urllib.request.urlopen(address, timeout=10) as answer:
        return json.load(answer)


async def find(session, name, patience=30):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        reply = text(await session.call_tool("find_tool", {"names": [name]}))
        if f"- {name}" in reply:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{name} was never found: {reply}")


async def overhead(label, command, arguments, tool, payload, rounds):
    config = write({"s": {"command": command, "args": arguments}})
    async with stdio(command, arguments) as direct, gateway(config) as through:
        for _ in range(200):
            listed = [t.name for t in (await through.list_tools()).tools]
            if f"s__{tool}" in listed:
                break
            await asyncio.sleep(0.05)
        times = {"direct": [], "through": []}
        for n in range(rounds):
            for key, session, name in (("direct", direct, tool), ("through", through, f"s__{tool}")):
                began = time.perf_counter()
                result = await session.call_tool(name, payload)
                took = time.perf_counter() - began
                assert not result.is_error, text(result)
                if n >= rounds // 10:
                    times[key].append(took * 1000)
        plain, carried = (statistics.median(times[key]) for key in ("direct", "through"))
        bar(f"a call over stdio, {label}: {carried:.2f} ms through the gateway, {plain:.2f} ms direct, "
            f"ratio {carried / plain:.2f} (at most 2.5)", carried / plain <= 2.5)


async def searchable():
    servers = {f"s{n:02}": fake("--tools", "34", "--prefix", f"kind{n}",
                                "--start-after", str(n * 100)) for n in range(20)}
    async with served(write(servers)) as (url, state, _):
        async with streamable_http_client(url) as streams:
            async with ClientSession(streams[0], streams[1]) as session:
                await session.initialize()
                answered = None
                while answered is None:
                    if all(server["listings"] for server in look(state)["upstreams"]):
                        answered = time.monotonic()
                    await asyncio.sleep(0.005)
                await find(session, "s19__kind19_33")
                took = time.monotonic() - answered
                tools = look(state)["catalog"]["tools"]
    bar(f"{tools} tools of 20 servers: the last is found {took * 1000:.0f} ms after the last server "
        f"answered (at most 1,000)", took <= 1 and tools == 1000)


def memory(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


async def crowd():
    async with served(write({"s": fake("--tools", "34")})) as (url, state, process):
        while not look(state)["catalog"]["tools"]:
            await asyncio.sleep(0.05)
        before = memory(process.pid)
        failed = []
        gate = asyncio.Event()
        ready = 0

        async def visitor(number):
            nonlocal ready
            async with streamable_http_client(url) as streams:
                async with ClientSession(streams[0], streams[1]) as session:
                    await session.initialize()
                    await session.call_tool("find_tool", {"names": ["s__echo"]})
                    ready += 1
                    await gate.wait()
                    for n in range(20):
                        result = await session.call_tool("s__echo", {"text": f"{number}-{n}"})
                        if result.is_error or f"{number}-{n}" not in text(result):
                            failed.append(text(result))

        visitors = [asyncio.ensure_future(visitor(number)) for number in range(200)]
        while ready < 200 and not any(visitor.done() for visitor in visitors):
            await asyncio.sleep(0.05)
        began = time.monotonic()
        gate.set()
        outcomes = await asyncio.gather(*visitors, return_exceptions=True)
        took = time.monotonic() - began
        failed += [repr(outcome) for outcome in outcomes if outcome is not None]
        peak = memory(process.pid)
    bar(f"200 HTTP sessions with 20 calls each: {len(failed)} errors {failed[:1]}, {took:.1f} s, peak "
        f"memory {peak:.0f} MB, {before:.0f} MB before (at most 400)", not failed and peak <= 400)


async def storm():
    async with served(write({"s": fake()})) as (url, state, _):
        async with streamable_http_client(url) as streams:
            async with ClientSession(streams[0], streams[1]) as session:
                await session.initialize()
                await find(session, "s__storm")
                before = look(state)["upstreams"][0]
                await session.call_tool("s__storm", {"count": 1000, "ms": 10_000, "last": "after_it"})
                await find(session, "s__after_it")
                await asyncio.sleep(2)
                after = look(state)["upstreams"][0]
    made = after["listings"] - before["listings"]
    bar(f"1,000 announcements in 10 s: {made} listings (at most 20), the last change is there",
        1 <= made <= 20 and after["tools"] == before["tools"] + 1)


async def killing():
    own = {"restart": {"first": 0.5, "most": 5, "jitter": False}}
    async with served(write({"s": fake()}, own)) as (url, state, _):
        async with streamable_http_client(url) as streams:
            async with ClientSession(streams[0], streams[1]) as session:
                await session.initialize()
                await find(session, "s__slow")
                await find(session, "s__pid")
                pid = int(text(await session.call_tool("s__pid", {})))
                killed = None

                async def one(number):
                    result = await session.call_tool("s__slow", {"ms": 20 + number * 30})
                    return time.monotonic(), result

                calls = [asyncio.ensure_future(one(number)) for number in range(100)]
                await asyncio.sleep(1.5)
                open_calls = look(state)["upstreams"][0]["open_calls"]
                os.kill(pid, signal.SIGKILL)
                killed = time.monotonic()
                outcomes = await asyncio.gather(*calls)
                errors = [text(result) for _, result in outcomes if result.is_error]
                clear = all("server 's' went away while the call ran" in error for error in errors)
                done = [result for at, result in outcomes if not result.is_error]
                while True:
                    result = await session.call_tool("s__pid", {})
                    if not result.is_error and text(result) != str(pid):
                        break
                    await asyncio.sleep(0.02)
                back = time.monotonic() - killed
    # Some may be answered between the look and the kill.
    exact = open_calls - 5 <= len(errors) <= open_calls and len(done) + len(errors) == 100
    bar(f"killed in the middle of 100 calls: {len(done)} done, {len(errors)} of {open_calls} in flight "
        f"failed, each with a clear error: {clear}", exact and clear and errors)
    bar(f"back {back:.2f} s after it was killed (first pause 0.5 s, at most 2.5 s in all)", back <= 2.5)


async def main():
    everything = f"{MODULES}/@modelcontextprotocol/server-everything/dist/index.js"
    await overhead("server-everything", "node", [everything, "stdio"], "echo", {"message": "x"}, 300)
    await overhead("fake server", FAKE, ["--tools", "0"], "echo", {"text": "x"}, 300)
    await searchable()
    await storm()
    await killing()
    await crowd()
    if missed:
        sys.exit(f"{len(missed)} bars missed")


asyncio.run(main())
