(() => {
const STATE = { disabled: "switched off", connecting: "connecting", connected: "connected", waiting: "down, trying again", stopped: "stopped" };
const { stream: url } = JSON.parse($("data").textContent);
let link = "connecting"; // "on", "off"
let gateway = null; // what was heard last
let heard = null; // when
let damaged = null; // why the last message could not be read

const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString();
function ago(seconds) {
  const past = Math.max(0, Date.now() / 1000 - seconds);
  if (past < 5) return "just now";
  if (past < 60) return `${Math.round(past)} s ago`;
  return past < 3600 ? `${Math.round(past / 60)} min ago` : `${Math.round(past / 3600)} h ago`;
}

function render() {
  head();
  const notices = [];
  if (link === "off" && gateway) notices.push(`The gateway does not answer. This is how it was at ${heard.toLocaleTimeString()}; the page goes on trying.`);
  if (damaged) notices.push(`The gateway sent something that this page cannot read (${damaged}). Load the page anew.`);
  $("notices").replaceChildren(...notices.map((text) => h("p", { class: "notice" }, text)));
  const main = $("main");
  main.className = link === "off" ? "old" : "";
  main.replaceChildren(...(gateway ? [servers(), sessions()] : [waiting()]));
}

function head() {
  const said = { connecting: "connecting", on: "live", off: "disconnected, trying again" }[link];
  const nodes = [h("div", { class: "title" }, h("h1", {}, "toolrack gateway"), h("span", { class: `badge live ${link}` }, said))];
  if (gateway) {
    const up = gateway.upstreams.filter((server) => server.state === "connected").length;
    const wanted = gateway.upstreams.filter((server) => server.state !== "disabled").length;
    const open = gateway.sessions.map((session) => session.run?.tokens).filter(Boolean);
    const [sent, naive] = ["sent", "naive"].map((key) => open.reduce((sum, tokens) => sum + tokens[key], 0));
    nodes.push(h("dl", { class: "tiles four" },
      tile("Servers", `${up} of ${wanted}`, "connected"),
      tile("Tools", int(gateway.catalog.tools), `catalog version ${gateway.catalog.version}`),
      tile("Sessions", int(gateway.sessions.length), "of connected clients"),
      tile("Saved", percent(Math.max(0, naive - sent), naive), open.length ? `lists of ${int(sent)} instead of ${int(naive)} tokens` : "no list was read yet")));
  }
  $("head").replaceChildren(...nodes);
}

function waiting() {
  const off = link === "off";
  return h("div", { class: "empty" }, h("h2", {}, off ? "No connection" : "Waiting for the gateway"),
    h("p", { class: "muted" }, off ? "The gateway cannot be reached: it may have ended with its client. The page goes on trying." : "Servers and sessions show here as soon as it answers."));
}

function table(columns, rows) {
  return h("table", {}, h("thead", {}, h("tr", {}, columns.map(([name, cls]) => h("th", { scope: "col", class: cls }, name)))), h("tbody", {}, rows));
}

function servers() {
  const all = gateway.upstreams;
  const row = (server) => h("tr", {},
    h("td", {}, h("span", { class: "id" }, server.server), server.implementation ? h("div", { class: "muted risk" }, server.implementation) : null),
    h("td", { "data-name": "state" }, h("span", { class: `state ${server.state}` }, STATE[server.state] ?? server.state)),
    h("td", { class: "num", "data-name": "tools" }, int(server.tools), server.hidden ? h("div", { class: "muted risk" }, `${int(server.hidden)} hidden`) : null),
    h("td", { class: "num", "data-name": "can be found" }, int(server.indexed)),
    h("td", { class: "num", "data-name": "open calls" }, int(server.open_calls)),
    h("td", { class: "num", "data-name": "connected" }, plural(server.connections, "time")),
    h("td", { class: "problem", "data-name": "what is wrong" }, problems(server)));
  return h("section", { class: "panel overview", "aria-label": "Servers" }, h("h2", {}, "Servers"),
    all.length ? table([["Server"], ["State"], ["Tools", "num"], ["Can be found", "num"], ["Open calls", "num"], ["Connected", "num"], ["What is wrong"]], all.map(row))
      : h("p", { class: "nothing" }, "No server is configured: add one under mcpServers and start the gateway anew."));
}
function problems(server) {
  const said = [];
  if (server.last_error) said.push(h("p", { class: "out" }, server.last_error));
  if (server.stale_since) said.push(h("p", {}, server.tools ? `Its tools are those of an earlier listing, since ${clock(server.stale_since)}.` : `Down since ${clock(server.stale_since)}.`));
  for (const [one, many, what] of [["tool is withheld", "tools are withheld", list(server.withheld)], ["definition was left out", "definitions were left out", list(server.problems)]]) {
    if (what.length) said.push(h("details", { open: opened.has(server.server + one), ontoggle: (event) => remember(event, server.server + one) }, h("summary", {}, plural(what.length, one, many)), h("ul", {}, what.map((text) => h("li", {}, text)))));
  }
  return said.length ? said : h("span", { class: "muted" }, server.state === "connected" ? "nothing" : "");
}

// What the reader has opened stays open when news comes.
const opened = new Set();
function remember(event, key) { if (event.target.open) opened.add(key); else opened.delete(key); }

function sessions() {
  const most = Math.max(1, ...gateway.sessions.map((session) => session.run?.tokens?.naive ?? 0));
  const row = (session) => {
    const { run } = session;
    const key = `session ${session.number}`;
    const link = h("a", { href: `/session/${session.number}` }, `Session ${session.number}`);
    return h("tr", {},
      h("td", {}, link, session.owner ? h("div", { class: "muted risk" }, `token ${session.owner}`) : null),
      h("td", { "data-name": "client" }, session.client, " ", h("span", { class: "muted" }, session.version)),
      h("td", { "data-name": "mode" }, session.mode),
      h("td", { "data-name": "tools" }, run ? h("details", { class: "seen", open: opened.has(key), ontoggle: (event) => remember(event, key) },
        h("summary", {}, run.pass_through ? `all ${int(run.visible.length)}: few enough to show` : session.mode === "bridge" ? plural(run.visible.length, "tool found", "tools found") : plural(run.visible.length, "tool")), h("ul", {}, run.visible.map((name) => h("li", { class: "id" }, name)))) : h("span", { class: "muted" }, "has not asked yet")),
      h("td", { class: "tokens", "data-name": "tokens of the list" }, run ? h("div", { class: "bar-line" }, h("div", { class: "track", "aria-hidden": "true" }, h("div", { class: "fill", style: { width: `${100 * Math.min(1, run.tokens.sent / most)}%` } })),
        h("span", { class: "figure num" }, `${int(run.tokens.sent)} of ${int(run.tokens.naive)}`)) : null),
      h("td", { "data-name": "last used" }, ago(session.last_used)));
  };
  const none = [h("p", { class: "nothing" }, "No client is connected. A session begins here when an MCP client connects, and ends when it leaves.")];
  return h("section", { class: "panel overview", id: "sessions", tabindex: -1, "aria-label": "Sessions" }, h("h2", {}, "Sessions"),
    gateway.sessions.length ? table([["Session"], ["Client"], ["Mode"], ["Tools it sees"], ["Tokens of its list, of all"], ["Last used"]], gateway.sessions.map(row)) : none);
}

function take(text) {
  try {
    const news = JSON.parse(text);
    if (!Array.isArray(news.upstreams) || !Array.isArray(news.sessions) || !news.catalog) throw new Error("parts are missing");
    gateway = news;
    heard = new Date();
    damaged = null;
  } catch (error) { damaged = error.message; }
  // A reader in the middle of the tables keeps the place.
  const at = document.activeElement?.getAttribute?.("href");
  render();
  if (at?.startsWith("/session/")) document.querySelector(`a[href="${CSS.escape(at)}"]`)?.focus({ preventScroll: true });
}

function connect() {
  const source = new EventSource(url);
  source.onopen = () => { link = "on"; render(); };
  source.onerror = () => {
    link = "off";
    render();
    // A browser tries a broken stream again by itself, but not one that was refused.
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
  };
  source.onmessage = (message) => take(message.data);
}
document.title = "toolrack gateway";
render();
connect();
// So that "12 s ago" stays true.
setInterval(() => { if (gateway) render(); }, 5000);
window.gateway = { take };
})();
