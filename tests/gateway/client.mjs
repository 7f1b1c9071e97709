// Real servers behind the gateway, driven by the official TypeScript SDK over stdio and HTTP.
//
// Usage: client.mjs GATEWAY NODE_MODULES. Ends with a line "N passed, 0 failed", or with an error.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [gateway, modules] = process.argv.slice(2);
const [program, ...prefix] = gateway.split(" ");
const sdk = (path) => import(pathToFileURL(join(modules, "@modelcontextprotocol/sdk/dist/esm", path)));
const { Client } = await sdk("client/index.js");
const { StdioClientTransport } = await sdk("client/stdio.js");
const { StreamableHTTPClientTransport } = await sdk("client/streamableHttp.js");
const { ToolListChangedNotificationSchema } = await sdk("types.js");

let passed = 0;
const check = (what, holds, seen) => {
  assert.ok(holds, `${what}: ${JSON.stringify(seen)?.slice(0, 400)}`);
  passed += 1;
  console.log(`ok - ${what}`);
};
const text = (result) => result.content.filter((b) => b.type === "text").map((b) => b.text).join("\n");
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const until = async (holds, what) => {
  for (let n = 0; n < 1200; n += 1) {
    if (await holds()) return;
    await pause(50);
  }
  throw new Error(`never came: ${what}`);
};

const folder = mkdtempSync(join(tmpdir(), "gateway-ts-"));
const config = join(folder, "mcp.json");
const at = (name) => join(modules, "@modelcontextprotocol", `server-${name}`, "dist/index.js");
writeFileSync(config, JSON.stringify({
  mcpServers: {
    everything: { command: "node", args: [at("everything"), "stdio"] },
    files: { command: "node", args: [at("filesystem"), folder] },
    memory: { command: "node", args: [at("memory")], env: { MEMORY_FILE_PATH: join(folder, "m.json") } },
    thinking: { command: "node", args: [at("sequential-thinking")] },
  },
}));

const scenario = async (transport, where) => {
  const client = new Client({ name: "ts-client", version: "1" });
  let changes = 0;
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => { changes += 1; });
  await client.connect(transport);
  const names = ["everything__echo", "everything__get-sum", "files__write_file"];
  await until(async () => {
    const found = text(await client.callTool({ name: "find_tool", arguments: { names } }));
    return names.every((name) => found.includes(`- ${name}`));
  }, "the tools of all servers");
  const first = await client.listTools();
  check(`${where}: the list holds what was found`,
    names.every((name) => first.tools.some((tool) => tool.name === name)), first.tools.map((t) => t.name));
  await client.callTool({ name: "find_tool", arguments: { names: ["thinking__sequentialthinking"] } });
  await until(() => changes > 0, "an announcement");
  check(`${where}: a change is announced`, true);
  const again = await client.listTools();
  check(`${where}: and shows in the list`,
    again.tools.some((tool) => tool.name === "thinking__sequentialthinking"));

  const sum = await client.callTool({ name: "everything__get-sum", arguments: { a: 19, b: 23 } });
  check(`${where}: a call is answered`, text(sum).includes("42"), sum);
  const echo = await client.callTool({ name: "call_tool",
    arguments: { name: "everything__echo", arguments: { message: "naïve 東京 🦀" } } });
  check(`${where}: unicode arrives through call_tool`, text(echo) === "Echo: naïve 東京 🦀", echo);
  const path = join(folder, `${where}.txt`);
  const large = "é".repeat(2_500_000);
  await client.callTool({ name: "files__write_file", arguments: { path, content: large } });
  await client.callTool({ name: "find_tool", arguments: { names: ["files__read_text_file"] } });
  const read = await client.callTool({ name: "files__read_text_file", arguments: { path } });
  check(`${where}: a result of 5 MB arrives whole`, text(read) === large, text(read).length);
  const denied = await client.callTool({ name: "files__read_text_file", arguments: { path: "/etc/passwd" } });
  check(`${where}: an error of a tool stays one`, denied.isError === true, denied);

  await client.callTool({ name: "find_tool",
    arguments: { names: ["everything__trigger-long-running-operation"] } });
  const steps = [];
  await client.callTool(
    { name: "everything__trigger-long-running-operation", arguments: { duration: 1, steps: 3 } },
    undefined, { onprogress: (progress) => steps.push(progress.progress) });
  check(`${where}: progress arrives in order`, steps.join() === "1,2,3", steps);
  const stop = new AbortController();
  const call = client.callTool(
    { name: "everything__trigger-long-running-operation", arguments: { duration: 30, steps: 3 } },
    undefined, { signal: stop.signal });
  setTimeout(() => stop.abort("enough"), 300);
  await assert.rejects(call);
  const after = await client.callTool({ name: "everything__echo", arguments: { message: "after" } });
  check(`${where}: a cancelled call leaves the way free`, text(after) === "Echo: after", after);
  const { resources } = await client.listResources();
  const contents = await client.readResource({ uri: resources[0].uri });
  check(`${where}: resources are read`, contents.contents[0].uri === resources[0].uri, contents);
  const { prompts } = await client.listPrompts();
  check(`${where}: prompts are listed`, prompts.some((p) => p.name === "everything__simple-prompt"), prompts);
  await client.close();
};

await scenario(new StdioClientTransport({
  command: program, args: [...prefix, "--config", config], env: process.env, stderr: "ignore",
}), "stdio");

const port = await new Promise((done) => {
  const probe = createServer().listen(0, "127.0.0.1", () => {
    const { port } = probe.address();
    probe.close(() => done(port));
  });
});
const tokens = join(folder, "tokens.json");
writeFileSync(tokens, JSON.stringify({ tokens: [{ name: "ts", token: "a-token-of-some-length" }] }));
const serving = spawn(program,
  [...prefix, "--config", config, "--http", `127.0.0.1:${port}`, "--tokens", tokens], { stdio: "ignore" });
try {
  const url = new URL(`http://127.0.0.1:${port}/mcp`);
  await until(() => fetch(url, { method: "POST" }).then((r) => r.status === 401, () => false), "the port");
  check("http: nobody comes in without a token", true);
  const headers = { Authorization: "Bearer a-token-of-some-length" };
  await scenario(new StreamableHTTPClientTransport(url, { requestInit: { headers } }), "http");
} finally {
  const left = new Promise((done) => serving.once("exit", done));
  serving.kill("SIGTERM");
  await left;
}
console.log(`${passed} passed, 0 failed`);
process.exit(0);
