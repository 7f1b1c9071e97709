"""Real servers behind the gateway, driven by the official Python client.

Usage: client.py GATEWAY NODE_MODULES, where GATEWAY is the program (and arguments, in one string) that
takes --config. Ends with a line "N passed, 0 failed", or with a traceback.
"""

import asyncio
import json
import os
import shlex
import sys
import tempfile

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client

GATEWAY = shlex.split(sys.argv[1])
MODULES = sys.argv[2]
passed = 0


def server(name, *arguments, **more):
    path = f"{MODULES}/@modelcontextprotocol/server-{name}/dist/index.js"
    return {"command": "node", "args": [path, *arguments], **more}


def check(what, holds, seen=None):
    global passed
    assert holds, f"{what}: {seen}"
    passed += 1
    print(f"ok - {what}", flush=True)


def text(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


class Heard:
    """What the client is told, and how it answers when it is asked."""

    def __init__(self, root):
        self.root = root
        self.notes = []
        self.logs = []

    async def message(self, message):
        note = getattr(message, "root", message)
        self.notes.append(type(note).__name__)

    async def log(self, params):
        self.logs.append(params)

    async def sample(self, context, params):
        return types.CreateMessageResult(
            role="assistant", model="a-model",
            content=types.TextContent(type="text", text="sampled words"))

    async def elicit(self, context, params):
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def roots(self, context):
        return types.ListRootsResult(roots=[types.Root(uri=f"file://{self.root}", name="work")])


async def session(parameters, heard, work):
    async with stdio_client(parameters) as (read, write):
        async with ClientSession(
            read, write, sampling_callback=heard.sample, elicitation_callback=heard.elicit,
            list_roots_callback=heard.roots, logging_callback=heard.log,
            message_handler=heard.message,
        ) as opened:
            await opened.initialize()
            return await work(opened)


def gateway(config, *options):
    arguments = [*GATEWAY[1:], "--config", config, *options]
    return StdioServerParameters(command=GATEWAY[0], args=arguments, env=dict(os.environ))


async def until(holds, what, patience=60):
    for _ in range(patience * 20):
        seen = holds()
        if asyncio.iscoroutine(seen):
            seen = await seen
        if seen:
            return seen
        await asyncio.sleep(0.05)
    raise AssertionError(f"never came: {what}")


async def all_indexed(opened, names):
    """Tools appear as servers answer: wait for one of each."""
    for name in names:
        async def found():
            reply = await opened.call_tool("find_tool", {"names": [name]})
            return name in text(reply) and "no tool called" not in text(reply)
        await until(found, name)


async def in_list_mode(folder, config):
    heard = Heard(folder)

    async def work(opened):
        await all_indexed(opened, ["files__write_file", "memory__create_entities",
                                   "thinking__sequentialthinking", "everything__echo"])
        await until(lambda: heard.notes.count("ToolListChangedNotification") > 0, "an announcement")
        names = [tool.name for tool in (await opened.list_tools()).tools]
        check("the list is short and has the gateway's tools",
              len(names) <= 22 and {"find_tool", "call_tool"} <= set(names), names)

        reply = await opened.call_tool("find_tool", {"intent": "add two numbers together"})
        check("a search finds by meaning", "everything__get-sum" in text(reply), text(reply))
        result = await opened.call_tool(
            "call_tool", {"name": "everything__get-sum", "arguments": {"a": 2, "b": 40}})
        check("what was found can be called at once", "42" in text(result), text(result))
        result = await opened.call_tool("everything__echo", {"message": "naïve 東京 🦀"})
        check("unicode arrives", text(result) == "Echo: naïve 東京 🦀", text(result))

        path = os.path.join(folder, "naïve 東京.txt")
        result = await opened.call_tool("files__write_file", {"path": path, "content": "x" * 5_000_000})
        check("a large argument arrives",
              not result.is_error and os.path.getsize(path) == 5_000_000, text(result)[:200])
        await opened.call_tool("find_tool", {"names": ["files__read_text_file"]})
        result = await opened.call_tool("files__read_text_file", {"path": path})
        check("a result of 5 MB arrives whole", text(result) == "x" * 5_000_000, len(text(result)))
        result = await opened.call_tool("files__read_text_file", {"path": "/etc/passwd"})
        check("an error of a tool stays one", result.is_error and "denied" in text(result), text(result))

        await opened.call_tool("memory__create_entities", {"entities": [
            {"name": "Ada", "entityType": "person", "observations": ["likes 数学"]}]})
        await opened.call_tool("find_tool", {"names": ["memory__read_graph"]})
        result = await opened.call_tool("memory__read_graph", {})
        check("a server keeps its state", "likes 数学" in text(result), text(result))
        check("structured content arrives",
              result.structured_content and result.structured_content["entities"], result)

        await opened.call_tool("find_tool", {"names": [
            "everything__trigger-long-running-operation", "everything__get-tiny-image",
            "everything__get-structured-content", "everything__get-resource-links",
            "everything__trigger-sampling-request", "everything__trigger-elicitation-request",
            "everything__get-roots-list", "everything__get-annotated-message"]})
        steps = []

        async def progress(done, total, message):
            steps.append(done)
        result = await opened.call_tool("everything__trigger-long-running-operation",
                                        {"duration": 1, "steps": 4}, progress_callback=progress)
        await until(lambda: len(steps) == 4, f"four steps of progress, not {steps}")
        check("progress arrives in order", steps == [1, 2, 3, 4], steps)
        result = await opened.call_tool("everything__get-tiny-image", {})
        check("images arrive", any(b.type == "image" and len(b.data) > 100 for b in result.content))
        result = await opened.call_tool("everything__get-structured-content", {"location": "Chicago"})
        check("structured results arrive", "temperature" in (result.structured_content or {}), result)
        result = await opened.call_tool("everything__get-annotated-message", {"messageType": "error"})
        check("annotations arrive", result.content[0].annotations.priority == 1, result)
        result = await opened.call_tool("everything__trigger-sampling-request", {"prompt": "hi"})
        check("servers sample the client", "sampled words" in text(result), text(result))
        result = await opened.call_tool("everything__trigger-elicitation-request", {})
        check("servers ask the user", "Ada" in text(result), text(result))
        result = await opened.call_tool("everything__get-roots-list", {})
        check("servers see the roots", f"file://{folder}" in text(result), text(result))

        call = asyncio.ensure_future(opened.call_tool(
            "everything__trigger-long-running-operation", {"duration": 30, "steps": 3}))
        await asyncio.sleep(0.5)
        call.cancel()
        try:
            await call
        except asyncio.CancelledError:
            pass
        result = await opened.call_tool("everything__echo", {"message": "after"})
        check("a cancelled call leaves the way free", text(result) == "Echo: after", text(result))

        result = await opened.call_tool("no_such_tool", {})
        check("an unknown tool is refused in words",
              result.is_error and "There is no tool called" in text(result), text(result))

        resources = (await opened.list_resources()).resources
        resources.sort(key=lambda resource: not str(resource.uri).startswith("everything+"))
        check("resources are listed under their server",
              resources and all("+" in str(r.uri).split(":")[0] for r in resources), resources)
        read = await opened.read_resource(resources[0].uri)
        check("resources are read", read.contents and str(read.contents[0].uri) == str(resources[0].uri))
        templates = (await opened.list_resource_templates()).resource_templates
        check("templates are listed",
              any(t.uri_template.startswith("everything+") for t in templates), templates)
        links = await opened.call_tool("everything__get-resource-links", {"count": 1})
        link = next(b for b in links.content if b.type == "resource_link")
        read = await opened.read_resource(link.uri)
        check("a link in a result can be followed", len(read.contents) == 1, read)
        await opened.subscribe_resource(resources[0].uri)
        await opened.unsubscribe_resource(resources[0].uri)
        check("resources can be subscribed to", True)
        prompts = (await opened.list_prompts()).prompts
        simple = next(p.name for p in prompts if p.name == "everything__simple-prompt")
        prompt = await opened.get_prompt(simple)
        check("prompts are got", prompt.messages[0].role == "user", prompt)
        reference = types.PromptReference(type="ref/prompt", name="everything__completable-prompt")
        completion = await opened.complete(reference, {"name": "department", "value": "E"})
        check("arguments are completed", completion.completion.values == ["Engineering"], completion)
        await opened.set_logging_level("debug")
        check("the log level is set", True)

    await session(gateway(config), heard, work)


async def in_bridge_mode(folder, config):
    heard = Heard(folder)

    async def work(opened):
        before = [tool.name for tool in (await opened.list_tools()).tools]
        check("the bridge has three tools", before == ["find_tool", "describe_tool", "call_tool"], before)

        async def found():
            reply = await opened.call_tool("find_tool", {"intent": "echo back a message"})
            return "everything__echo" in text(reply) and "inputSchema" in text(reply)
        await until(found, "the definition in a reply")
        result = await opened.call_tool(
            "call_tool", {"name": "everything__echo", "arguments": {"message": "over the bridge"}})
        check("the bridge carries a call", text(result) == "Echo: over the bridge", text(result))
        shown = await opened.call_tool("describe_tool", {"name": "everything__get-sum"})
        check("the bridge describes", '"name":"everything__get-sum"' in text(shown), text(shown))
        after = [tool.name for tool in (await opened.list_tools()).tools]
        check("the bridge does not change", before == after
              and "ToolListChangedNotification" not in heard.notes, heard.notes)

    await session(gateway(config, "--mode", "bridge"), heard, work)


def left(folder):
    """Processes that have the folder among their arguments."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line:
                words = line.read().decode(errors="replace")
        except OSError:
            continue
        if folder in words and int(pid) != os.getpid():
            found.append(words)
    return found


async def main():
    folder = os.path.realpath(tempfile.mkdtemp(prefix="gateway-"))
    config = os.path.join(folder, "mcp.json")
    with open(config, "w") as file:
        json.dump({"mcpServers": {
            "everything": server("everything", "stdio"),
            "files": server("filesystem", folder),
            "memory": server("memory", env={"MEMORY_FILE_PATH": os.path.join(folder, "memory.json")}),
            "thinking": server("sequential-thinking"),
            "broken": {"command": "/no/such/program"},
        }}, file)
    await in_list_mode(folder, config)
    await in_bridge_mode(folder, config)
    await until(lambda: not left(folder), "the end of all processes", 20)
    check("no process is left", True)
    print(f"{passed} passed, 0 failed")


asyncio.run(main())
