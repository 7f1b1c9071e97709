// The live X-ray page in headless Chromium, in front of a gateway with a client at work.
//
// Usage: xray.mjs GATEWAY FAKE_SERVER NODE_MODULES [FOLDER]. Screenshots go to FOLDER if it is given.
// Ends with a line "N passed, 0 failed", or with an error.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [gateway, fake, modules, shots] = process.argv.slice(2);
const [program, ...prefix] = gateway.split(" ");
const module = (path) => import(pathToFileURL(join(modules, path)));
const { Client } = await module("@modelcontextprotocol/sdk/dist/esm/client/index.js");
const { StreamableHTTPClientTransport } = await module("@modelcontextprotocol/sdk/dist/esm/client/streamableHttp.js");
const { chromium } = await module("playwright-core/index.mjs");

let passed = 0;
const check = (what, holds, seen) => {
  assert.ok(holds, `${what}: ${JSON.stringify(seen)?.slice(0, 1500)}`);
  passed += 1;
  console.log(`ok - ${what}`);
};
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const port = () => new Promise((done) => {
  const probe = createServer().listen(0, "127.0.0.1", () => {
    const { port } = probe.address();
    probe.close(() => done(port));
  });
});

const folder = mkdtempSync(join(tmpdir(), "gateway-xray-"));
if (shots) mkdirSync(shots, { recursive: true });
const config = join(folder, "mcp.json");
writeFileSync(config, JSON.stringify({
  mcpServers: {
    mail: { command: fake, args: ["--tools", "40", "--prefix", "mail"] },
    files: { command: fake, args: ["--tools", "30", "--prefix", "files"] },
    broken: { command: "false" },
    resting: { command: fake, disabled: true },
  },
}));
const tokens = join(folder, "tokens.json");
writeFileSync(tokens, JSON.stringify({ tokens: [
  { name: "ada", token: "ada-0123456789abcdef" },
  { name: "eve", token: "eve-0123456789abcdef", operator: true },
] }));
const [http, xray] = [await port(), await port()];
const serve = () => spawn(program, [...prefix, "--config", config, "--tokens", tokens,
  "--http", `127.0.0.1:${http}`, "--xray", `127.0.0.1:${xray}`], { stdio: ["ignore", "ignore", "inherit"] });
const end = (process) => new Promise((done) => { process.once("exit", done); process.kill("SIGTERM"); });
let serving = serve();

const site = `http://127.0.0.1:${xray}`;
const status = (headers) => fetch(`${site}/state`, { headers }).then((answer) => answer.status, () => 0);
const basic = (secret) => ({ Authorization: `Basic ${Buffer.from(`anybody:${secret}`).toString("base64")}` });
for (let n = 0; await status({}) === 0; n += 1) { assert.ok(n < 600, "the port"); await pause(50); }
check("nobody watches without a token", await status({}) === 401);
check("a client's token does not open the page", await status(basic("ada-0123456789abcdef")) === 403);
check("an operator's does, as a password", await status(basic("eve-0123456789abcdef")) === 200);
check("and as a bearer's", await status({ Authorization: "Bearer eve-0123456789abcdef" }) === 200);
check("a page of another site is refused", await status({ ...basic("eve-0123456789abcdef"), Origin: "https://elsewhere.example" }) === 403);

const connect = async (name) => {
  const client = new Client({ name, version: "1.2" });
  const headers = { Authorization: "Bearer ada-0123456789abcdef" };
  await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${http}/mcp`), { requestInit: { headers } }));
  return client;
};
const find = (client, intent) => client.callTool({ name: "find_tool", arguments: { query: intent } });

const browser = await chromium.launch({ executablePath: process.env.TOOLRACK_CHROMIUM ?? "/usr/bin/chromium", args: [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
] });
try {
  const context = await browser.newContext({ httpCredentials: { username: "operator", password: "eve-0123456789abcdef" }, viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(String(error)));
  const shows = async (what, ...parts) => {
    let seen = "";
    for (let n = 0; n < 400; n += 1) {
      seen = (await page.innerText("body")).replaceAll(/\s+/g, " ");
      if (parts.every((part) => part instanceof RegExp ? part.test(seen) : seen.includes(part))) break;
      await pause(50);
    }
    check(what, parts.every((part) => part instanceof RegExp ? part.test(seen) : seen.includes(part)), seen);
  };
  const shoot = async (name) => { if (shots) await page.screenshot({ path: join(shots, `${name}.png`), fullPage: true }); };

  // A page whose stream has not answered yet, and one whose gateway is not there.
  await page.route("**/events", async (route) => { await pause(1500); await route.continue().catch(() => {}); });
  await page.goto(site);
  await shows("what is still loading says so", "connecting", "Waiting for the gateway");
  await shoot("loading");
  await page.unroute("**/events");
  await page.route("**/events", (route) => route.abort());
  await page.goto(site);
  await shows("what cannot be reached says so", "disconnected, trying again", "No connection");
  await shoot("error");
  await page.unroute("**/events");

  await page.goto(site);
  await shows("servers show as they are", "live", "2 of 3", /mail fake \S+ connected/, "down, trying again", "switched off", "No client is connected");
  await shows("with what is wrong", /broken .*(ended|exited|closed|answer)/);
  await shoot("empty");

  const one = await connect("an-editor");
  await one.listTools();
  await find(one, "mail 7");
  const list = (await one.listTools()).tools.map((tool) => tool.name);
  const name = list.find((name) => /^mail__mail_?\d+$/.test(name));
  assert.ok(name, list.join());
  await one.callTool({ name, arguments: {} });
  const two = await connect("claude-ai <b>else</b>");
  await two.listTools();
  await find(two, "files 3");
  await shows("sessions show with their client, tools and tokens", "Session 1", "an-editor 1.2", "token ada", "claude-ai <b>else</b>", /[\d,]+ of [\d,]+/, /Saved \d+ %/, "bridge");
  await page.locator("summary").filter({ hasText: "tool" }).first().click();
  await shows("what is visible can be looked at", name);
  await pause(1200);
  await shows("and stays open when news comes", name);
  await shoot("overview");

  await page.getByRole("link", { name: "Session 1" }).focus();
  await page.keyboard.press("Enter");
  await page.waitForURL(`${site}/session/1`);
  await shows("a session's page tells its steps", "All sessions", "Session 1: an-editor", "live", "Operator's trace", "search: mail 7", `call: ${name.replace("__", "/")}`, "Steps 2");
  await page.keyboard.press("k");
  await shows("with the scores of a search", "Step 1 of 2", "Meaning (cosine)", "let in", "new: found by the model");
  await page.keyboard.press("j");
  await find(one, "files 3");
  await shows("and goes on as the session does", "search: files 3", "Search: files 3");
  await shows("with nothing that it cannot read", /^(?!.*does not know)/);
  await shoot("session");
  const lines = await page.evaluate(() => document.querySelectorAll(".row").length);

  // The stream breaks and comes back: nothing is lost, nothing is there twice.
  await context.setOffline(true);
  await find(one, "files 11");
  await context.setOffline(false);
  await shows("a stream that broke is taken up again", "search: files 11", "live");
  const more = await page.evaluate(() => document.querySelectorAll(".row").length);
  check("each step is there once", more === lines + 1, [lines, more]);
  await page.emulateMedia({ colorScheme: "dark" });
  await page.setViewportSize({ width: 420, height: 900 });
  await shoot("session-dark-narrow");
  await page.goto(site);
  await shows("the overview fits a narrow window", "Session 1");
  await shoot("overview-dark-narrow");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  check("nothing is cut off there", wide <= 420, wide);
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });

  await page.goto(`${site}/session/2`);
  await shows("a bridged client's page says what its list is", "This client's list never changes", "search: files 3");
  await page.goto(`${site}/session/1`);
  await shows("the session is there again", "search: files 11");
  await one.transport.terminateSession();
  await one.close();
  await shows("a client that leaves ends its page", "session over", "search: files 11");
  await shoot("session-over");
  const answer = await page.goto(`${site}/session/99`);
  check("a session that is not there is none", answer.status() === 404);
  await shows("and is told to be over", "This session is over", "All sessions");

  await page.goto(site);
  await shows("it has left the overview too", "claude-ai <b>else</b>", /Sessions 1 /);
  await end(serving);
  await shows("a gateway that ends is told of", "disconnected, trying again", "This is how it was at");
  await shoot("disconnected");
  serving = serve();
  await shows("and is found again when it is back", "live", "2 of 3", "No client is connected");
  check("no script failed", wrong.length === 0, wrong);
} finally {
  await browser.close();
  await end(serving);
}
console.log(`${passed} passed, 0 failed`);
process.exit(0);
