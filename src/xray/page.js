(() => {
// The script `dom.js` goes before.
const FORMAT = 1;
const ROW = 56;
let data;
try { data = JSON.parse($("data").textContent); }
catch (error) { data = { damaged: [{ line: 1, problem: `the page was changed after it was made: ${error.message}` }] }; }

// ---- words

const OUTCOME = { "found": "found", "ambiguous": "ambiguous", "no-match": "nothing fits", "not-needed": "no tool needed" };
const ADMIT = { "retrieved": "fits the request", "found": "found by the model", "called": "called unseen", "pinned": "pinned", "listed": "new in the catalog" };
const REFUSE = { "tool-limit": "the list is full", "token-budget": "the token budget is used up" };
const HIDDEN = { "disabled": "switched off", "namespace": "namespace not approved", "not-allowed": "not on the allow-list", "environment": "another environment", "scope": "a scope is missing", "role": "no role fits", "stage": "another stage", "tenant": "another tenant", "flag": "a flag is off" };
const VERDICT = { "run": "may run", "meta-tool": "search", "unknown": "refused: no such tool", "ambiguous": "refused: stands for several tools", "not-loaded": "refused once: not shown before", "changed": "refused once: its parameters changed", "bad-arguments": "refused: not understood", "failed": "failed" };
const FOUND = { "loaded": "loaded", "already-visible": "already visible", "ambiguous": "ambiguous", "nothing-found": "nothing found", "nothing-left": "nothing left to find", "budget-full": "no room for all", "repeated": "the same search as before" };
const word = (table, key) => Object.hasOwn(table, key) ? table[key] : String(key ?? "unknown").replaceAll("-", " ");
const evictWhy = (e) => e.why === "stale" ? `not wanted for ${e.idle} steps`
  : word({ "least-recent": "least recently wanted", "released": "released", "gone": "no longer available", "outgrown": "the catalog is too large to show" }, e.why);
const short = (id) => String(id).replace(/^default\//, "");

// ---- the run, as far as its events tell

// A run without messages, as behind a gateway, is told by its searches and calls.
const fresh = () => ({ open: null, catalog: null, model: null, policy: null, turns: [], list: null, talks: false, requests: 0, sent: 0, naive: 0, calls: 0, refused: 0, searches: 0, epochs: 0, events: 0, unknown: 0, seq: -1 });
let run = fresh();

function begin(n, message) {
  const turn = {
    n, message, step: false, did: [], log: [], rankings: [], admitted: new Map(), evicted: [], refused: [], before: run.list,
    list: run.list, policy: run.policy, calls: 0, open: [], epoch: false, change: false, words: null,
  };
  run.turns.push(turn);
  return turn;
}

function ingest(e) {
  if (!e || typeof e !== "object" || typeof e.event !== "string") { run.unknown += 1; return; }
  if (e.event === "open") { run = fresh(); run.open = e; run.catalog = e.catalog; run.model = e.model; run.policy = e.policy; }
  else if (Number(e.seq) <= run.seq) return; // a stream that connects again may repeat itself
  run.seq = Number(e.seq);
  run.events += 1;
  let turn = run.turns.at(-1);
  if (e.event === "turn") { run.talks = true; turn = begin(e.turn, String(e.message ?? "")); }
  else if (!run.talks && turn && (e.event === "find_tool" || (e.event === "authorize" && e.verdict !== "meta-tool"))) {
    turn = begin(run.turns.length, null);
    turn.step = turn.counted = true;
    // Only searches and calls tell that the model was asked; it had the list as it was before.
    run.requests += 1; run.sent += run.list?.tokens?.sent || 0; run.naive += run.list?.tokens?.naive || 0;
  }
  else if (!turn) turn = begin(Number(e.turn) || 0, null);
  turn.words = null;
  const ranking = turn.rankings.at(-1);
  const say = (kind, ...text) => turn.log.push({ kind, text });
  const tool = (id) => h("span", { class: "id" }, short(id));
  switch (e.event) {
    case "open":
      say("opened", `the trace begins${e.resume ? " in the middle of a run" : ""}${e.pass_through ? "; the catalog is small and shown whole" : ""}`);
      break;
    case "turn": run.requests += 1; turn.counted = false; break;
    case "step": if (!run.talks) break; run.requests += 1; turn.counted = false; say("step", "the model goes on after tools answered"); break;
    case "intent":
      turn.rankings.push({ report: e.report, intents: list(e.intents), k: e.k, namespace: e.namespace, search: turn.searching === true, rows: new Map() });
      break;
    case "filter": if (ranking) ranking.filter = e; break;
    case "dense":
      if (!ranking) break;
      ranking.degraded = e.degraded;
      for (const s of list(e.scores)) rowOf(ranking, s.tool).cosine = s.cosine;
      break;
    case "lexical":
      if (ranking) for (const s of list(e.scores)) Object.assign(rowOf(ranking, s.tool), { lexical: s.lexical, bm25: s.bm25, coverage: s.coverage });
      break;
    case "fusion":
      if (ranking) for (const s of list(e.scores)) Object.assign(rowOf(ranking, s.tool), { score: s.score, named: s.named, intent: s.intent });
      break;
    case "gate":
      if (!ranking) break;
      ranking.gate = e;
      for (const a of list(e.admitted)) Object.assign(rowOf(ranking, a.tool), { risk: a.risk, fits: true, reaches: a.reaches });
      for (const r of list(e.rejected)) Object.assign(rowOf(ranking, r.tool), { risk: r.risk, fits: false, reaches: r.reaches, asked: r.asked, least: r.least, why: r.why });
      if (!turn.searching) say("retrieved", `${word(OUTCOME, e.outcome)}: ${plural(list(e.admitted).length, "tool")} of ${int(e.total)} that fit`);
      break;
    case "admission":
      for (const a of list(e.admitted)) turn.admitted.set(a.tool, a.why);
      for (const r of list(e.refused)) turn.refused.push(r);
      for (const a of list(e.admitted)) if (a.why !== "retrieved" && a.why !== "found") say("in", tool(a.tool), ` ${word(ADMIT, a.why)}`);
      break;
    case "eviction":
      for (const x of list(e.evicted)) { turn.evicted.push(x); turn.admitted.delete(x.tool); }
      if (e.new_epoch) { run.epochs += 1; turn.epoch = true; say("epoch", "list rewritten before its end: the prompt cache starts anew"); }
      break;
    case "list":
      turn.list = run.list = e;
      if (turn.counted === false) { turn.counted = true; run.sent += e.tokens?.sent || 0; run.naive += e.tokens?.naive || 0; }
      break;
    case "find_tool": {
      run.searches += 1; turn.searching = true;
      const wanted = [...list(e.intents), ...list(e.names).map(short)];
      const read = list(e.describe);
      const within = e.namespace ? `in ${e.namespace}` : "";
      if (wanted.length || !read.length) {
        turn.did.push(`search: ${wanted.join(", ")}`);
        say("search", ...[...list(e.intents).map((text) => h("span", { class: "quote" }, String(text))), ...list(e.names).map(tool)].flatMap((x) => [x, " "]), within);
      }
      if (read.length) {
        turn.did.push(`look up: ${read.map(short).join(", ")}`);
        say("look up", "the definition of ", ...read.flatMap((name) => [tool(name), " "]), within);
      }
      break;
    }
    case "found":
      turn.searching = false;
      say("found", word(FOUND, e.status), list(e.loaded).length ? ": " : "", ...list(e.loaded).flatMap((id, i) => [i ? ", " : "", tool(id)]));
      for (const x of list(e.not_loaded)) say("no room", tool(x.tool), ` ${word(REFUSE, x.why)}`);
      if (list(e.ambiguous).length) say("choose", "the model is asked to choose between ", ...list(e.ambiguous).flatMap((id, i) => [i ? ", " : "", tool(id)]));
      if (list(e.near).length) say("near", "kept out by the risk class alone: ", ...list(e.near).flatMap((id, i) => [i ? ", " : "", tool(id)]));
      if (list(e.unknown_names).length) say("unknown", list(e.unknown_names).join(", "));
      break;
    case "authorize": {
      if (e.verdict === "meta-tool") break;
      turn.calls += 1; run.calls += 1;
      turn.did.push(`call: ${short(e.tool ?? e.name)}`);
      const ok = e.verdict === "run";
      if (!ok) run.refused += 1;
      const said = h("span", { class: ok ? "muted" : "out" }, word(VERDICT, e.verdict));
      say("call", h("span", { class: "id" }, ok ? short(e.tool) : String(e.name)), " ", said);
      if (ok) turn.open.push({ tool: e.tool, said });
      break;
    }
    case "used": if (!settle(turn, e.tool, "ran", "in")) say("ran", tool(e.tool)); break;
    case "abandoned": if (!settle(turn, e.tool, "dropped unanswered", "out")) say("dropped", tool(e.tool)); break;
    case "reply": say("model", h("span", { class: "quote" }, clip(e.text, 300))); break;
    case "taken": break; // of use to a replay alone
    case "shown": say("shown", "the model was given definitions by other means: ", ...list(e.tools).flatMap((id, i) => [i ? ", " : "", tool(id)])); break;
    case "pin": say("pinned", tool(e.tool)); break;
    case "unpin": say("unpinned", tool(e.tool)); break;
    case "release": say("released", tool(e.tool)); break;
    case "compaction": say("compact", "the history was compacted: what is stale leaves"); break;
    case "context":
      run.policy = turn.policy = e.policy; turn.change = true;
      say("policy", `the caller's facts changed: ${int(e.policy?.eligible)} tools may be used, ${int(e.policy?.excluded)} may not`);
      break;
    case "refresh":
      run.catalog = e.catalog; run.model = e.model; run.policy = turn.policy = e.policy; turn.change = true;
      say("catalog", `version ${e.catalog?.version}: ${int(list(e.added).length)} added, ${int(list(e.removed).length)} removed, ${int(list(e.changed).length)} changed`);
      break;
    case "failed": say("failed", h("span", { class: "out" }, String(e.error))); break;
    default: run.unknown += 1;
  }
}
/** Says at the call itself what became of it. */
function settle(turn, tool, said, cls) {
  const place = turn.open.findIndex((call) => call.tool === tool);
  if (place < 0) return false;
  const [call] = turn.open.splice(place, 1);
  call.said.textContent = said;
  call.said.className = cls;
  return true;
}
function rowOf(ranking, id) {
  if (!ranking.rows.has(id)) ranking.rows.set(id, { id });
  return ranking.rows.get(id);
}
const title = (turn) => turn.message !== null ? (turn.message.trim() || "(an empty message)")
  : turn.did.length ? turn.did.join("; ") : data.of ? "Before the first search or call" : "Before the first turn";
const named = (turn) => turn.message !== null ? `Turn ${turn.n}` : turn.step ? `Step ${turn.n}` : "Opening";

// ---- what is shown

let shown = []; // turns that pass the filter
let picked = 0; // place in run.turns
let query = "";
let stream = null; // null, "connecting", "on", "off", "ended"
let parts = null; // elements of the built page

function matches(turn) {
  if (!query) return true;
  turn.words ??= [title(turn), ...list(turn.list?.tools), ...turn.evicted.map((x) => x.tool), ...turn.rankings.flatMap((r) => [...r.intents, ...r.rows.keys()])].join("\n").toLowerCase();
  return turn.words.includes(query);
}

function render() {
  head();
  notices();
  const main = $("main");
  if (!run.turns.length) { parts = null; main.replaceChildren(empty()); return; }
  if (!parts) main.replaceChildren(build());
  picked = Math.min(picked, run.turns.length - 1);
  shown = run.turns.filter(matches);
  chart();
  rows(true);
  detail();
}

function head() {
  const badges = [];
  if (run.open?.level === "operator") badges.push(h("span", { class: "badge warn" }, "Operator's trace: shows hidden tools"));
  if (stream) badges.push(h("span", { class: `badge live ${stream}` }, { connecting: "connecting", on: "live", off: "disconnected, trying again", ended: "session over" }[stream]));
  const ground = run.catalog ? h("dl", { class: "ground" },
    fact("Catalog", `version ${run.catalog.version}, ${plural(run.catalog.tools, "tool")}`),
    fact("Digest", h("code", {}, clip(run.catalog.digest, 12))),
    fact("Policy", h("code", {}, run.policy?.version ?? "")),
    fact("Model", run.model ?? "none, words only"),
    fact("Rules", h("code", {}, run.open?.rules ?? ""))) : null;
  const turns = run.turns.filter((turn) => turn.message !== null).length;
  const tiles = run.turns.length ? h("dl", { class: "tiles" },
    run.talks ? tile("Turns", int(turns), `${plural(run.requests, "request")} to the model`) : tile("Steps", int(run.requests), "searches and calls, each taken as a request to the model"),
    tile("Tool tokens sent", int(run.sent), `instead of ${int(run.naive)}`),
    tile("Saved", percent(Math.max(0, run.naive - run.sent), run.naive), "against sending every tool"),
    tile("Calls", int(run.calls), `${int(run.refused)} refused, ${plural(run.searches, "search", "searches")}`),
    tile("List rewritten", plural(run.epochs, "time"), "the prompt cache starts anew")) : null;
  $("head").replaceChildren(h("div", { class: "title" }, data.of ? h("a", { class: "home", href: data.of.home }, "All sessions") : null, h("h1", {}, data.of ? data.of.name : "toolrack X-ray"), ...badges), ...[ground, tiles].filter(Boolean));
}

function notices() {
  const all = [];
  if (data.of?.note) all.push(h("p", { class: "notice" }, data.of.note));
  const damaged = list(data.damaged);
  if (damaged.length) all.push(h("details", { class: "notice" },
    h("summary", {}, `${plural(damaged.length, "line")} of the trace could not be read${run.events ? "; the rest is shown" : ""}.`),
    h("ul", {}, damaged.slice(0, 50).map((d) => h("li", {}, `Line ${d.line}: ${d.problem}`)), damaged.length > 50 ? h("li", {}, `and ${int(damaged.length - 50)} more`) : null)));
  if (run.open && run.open.format > FORMAT) all.push(h("p", { class: "notice" }, `The trace has format ${run.open.format}, this page knows ${FORMAT}: some of it may be missing here.`));
  if (run.events && !run.open) all.push(h("p", { class: "notice" }, "The beginning of the trace is missing: catalog, policy and model are unknown."));
  if (run.unknown) all.push(h("p", { class: "notice" }, `${plural(run.unknown, "event")} of a kind that this page does not know ${run.unknown === 1 ? "is" : "are"} not shown.`));
  $("notices").replaceChildren(...all);
}

function empty() {
  if (stream === "ended") return h("div", { class: "empty" }, h("h2", {}, "This session is over"), h("p", { class: "muted" }, "Its client has left, or the gateway was started anew since. What it did is no longer kept."));
  if (stream) return h("div", { class: "empty" }, h("h2", {}, stream === "off" ? "No connection" : "Waiting for the run to begin"),
    h("p", { class: "muted" }, stream === "off" ? "The stream of events cannot be reached. The page goes on trying." : "Events show here as soon as the session writes them."));
  const damaged = list(data.damaged).length;
  return h("div", { class: "empty" }, h("h2", {}, damaged ? "No line of this trace can be read" : "This trace holds no events"),
    h("p", { class: "muted" }, damaged ? "The file may be cut off, or be something other than a trace: a trace is one JSON object a line." : "A session writes its trace once it is given a sink, before the first turn:"),
    damaged ? null : h("pre", {}, h("code", {}, "run.trace_to(TraceWriter::create(\"run.jsonl\")?);")));
}

function build() {
  const plot = svg("svg", { role: "img", onclick: chartPick });
  const legend = h("div", { class: "legend" });
  const filter = h("input", { type: "search", placeholder: "Filter by tool or words", "aria-label": "Filter turns by tool or words", oninput: () => { query = filter.value.trim().toLowerCase(); render(); } });
  const track = h("div", { class: "rows" });
  const scroll = h("div", { class: "scroll", id: "turns", role: "listbox", tabindex: 0, "aria-label": "Turns", onscroll: () => rows(false), onkeydown: keys }, track);
  const panel = h("article", { class: "panel detail", id: "detail", tabindex: -1 });
  parts = { plot, legend, scroll, track, panel };
  return h("div", {},
    h("section", { class: "panel chart", "aria-label": "Tokens over the turns" }, legend, plot),
    h("div", { class: "split" },
      h("nav", { class: "panel timeline", "aria-label": "Timeline" },
        h("div", { class: "bar" }, filter), scroll,
        h("p", { class: "hint" }, h("kbd", {}, "j"), " ", h("kbd", {}, "k"), ` or arrow keys move between ${data.of ? "steps" : "turns"}`)),
      panel));
}

// ---- tokens over time

function chart() {
  const turns = run.turns;
  const width = Math.max(240, parts.plot.clientWidth || parts.plot.parentNode.clientWidth - 32);
  const [left, right, top, bottom] = [0, width, 16, 104];
  const most = Math.max(1, ...turns.map((t) => Math.max(t.list?.tokens?.naive || 0, t.list?.tokens?.sent || 0)));
  const x = (i) => left + (right - left) * i / turns.length;
  const y = (tokens) => bottom - (bottom - top) * tokens / most;
  const steps = (key) => turns.map((t, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(t.list?.tokens?.[key] || 0).toFixed(1)}H${x(i + 1).toFixed(1)}`).join("");
  const sent = steps("sent");
  const nodes = [
    svg("line", { class: "grid", x1: left, x2: right, y1: bottom, y2: bottom }),
    svg("path", { class: "area", d: `${sent}V${bottom}H${left}Z` }),
    svg("path", { class: "all", d: steps("naive") }),
    svg("path", { class: "sent", d: sent }),
    svg("text", { x: left, y: top - 5 }, `${int(most)} tokens`),
    svg("text", { x: left, y: bottom + 20 }, named(turns[0]).toLowerCase()),
  ];
  if (turns.length > 1) nodes.push(svg("text", { x: right, y: bottom + 20, "text-anchor": "end" }, named(turns.at(-1)).toLowerCase()));
  turns.forEach((t, i) => {
    const middle = (x(i) + x(i + 1)) / 2;
    if (t.epoch) nodes.push(svg("path", { class: "epoch", d: `M${middle} ${bottom + 3}l4 6h-8z` }));
    if (t.change) nodes.push(svg("circle", { class: "change", cx: middle, cy: bottom + (t.epoch ? 14 : 7), r: 2.5 }));
  });
  const turn = turns[picked];
  const tokens = turn.list?.tokens || {};
  const at = (x(picked) + x(picked + 1)) / 2;
  nodes.push(svg("line", { class: "now", x1: at, x2: at, y1: top, y2: bottom }), svg("circle", { class: "dot", cx: at, cy: y(tokens.sent || 0), r: 5 }));
  parts.plot.setAttribute("viewBox", `0 0 ${width} 128`);
  parts.plot.setAttribute("aria-label", `Tokens of the tool list over ${plural(turns.length, "turn")}: ${int(run.sent)} sent instead of ${int(run.naive)}`);
  parts.plot.replaceChildren(...nodes);
  parts.legend.replaceChildren(...[
    h("h2", {}, "Tokens of the tool list"),
    h("span", { class: "key sent" }, "sent"), h("span", { class: "key all" }, "every tool"),
    turns.some((t) => t.epoch) ? h("span", { class: "muted" }, h("span", { class: "rewritten" }, "▲"), " list rewritten") : null,
    turns.some((t) => t.change) ? h("span", { class: "muted" }, "● catalog or policy changed") : null,
    h("span", { class: "reading num" }, `${named(turn)}: ${int(tokens.sent)} sent, ${int(tokens.naive)} for every tool, ${percent(tokens.saved || 0, tokens.naive || 0)} saved`),
  ].filter(Boolean));
}
function chartPick(event) {
  const box = parts.plot.getBoundingClientRect();
  pick(Math.floor((event.clientX - box.left) / box.width * run.turns.length));
}

// ---- timeline; only rows in view are in the document

function rows(reveal) {
  const { scroll, track } = parts;
  track.style.height = `${Math.max(1, shown.length) * ROW}px`;
  const place = shown.indexOf(run.turns[picked]);
  const height = scroll.clientHeight || 400;
  if (reveal && place >= 0) {
    const at = place * ROW - scroll.scrollTop;
    if (at < -height || at > 2 * height) scroll.scrollTop = place * ROW - height / 2; // far away: to the middle
    else if (at < 0) scroll.scrollTop = place * ROW;
    else if (at + ROW > height) scroll.scrollTop = (place + 1) * ROW - height;
  }
  if (!shown.length) { track.replaceChildren(h("p", { class: "none" }, "No turn has these words.")); scroll.removeAttribute("aria-activedescendant"); return; }
  const first = Math.max(0, Math.floor(scroll.scrollTop / ROW) - 4);
  const last = Math.min(shown.length, Math.ceil((scroll.scrollTop + height) / ROW) + 4);
  track.replaceChildren(...shown.slice(first, last).map((turn, i) => row(turn, first + i)));
  if (place >= 0) scroll.setAttribute("aria-activedescendant", `turn-${run.turns[picked].n}`);
  else scroll.removeAttribute("aria-activedescendant");
}
function row(turn, place) {
  const outcome = turn.rankings.find((r) => r.gate)?.gate.outcome;
  return h("div", { class: "row", role: "option", id: `turn-${turn.n}`, "aria-selected": String(turn === run.turns[picked]), "aria-posinset": place + 1, "aria-setsize": shown.length, style: { top: `${place * ROW}px` }, onclick: () => pick(run.turns.indexOf(turn)) },
    h("span", { class: "n num" }, turn.message === null && !turn.step ? "" : turn.n),
    h("span", { class: "what" }, clip(title(turn), 160)),
    h("span", { class: "facts num" },
      outcome ? h("span", {}, word(OUTCOME, outcome)) : null,
      turn.admitted.size ? h("span", { class: "in" }, `+${turn.admitted.size}`) : null,
      turn.evicted.length ? h("span", { class: "out" }, `−${turn.evicted.length}`) : null,
      turn.calls ? h("span", {}, plural(turn.calls, "call")) : null,
      h("span", { class: "tokens" }, `${int(turn.list?.tokens?.sent)} tokens`)));
}
function pick(place, focus) {
  picked = Math.max(0, Math.min(run.turns.length - 1, place));
  chart(); rows(true); detail();
  if (focus) parts.scroll.focus({ preventScroll: true });
  try { history.replaceState(null, "", `#turn=${run.turns[picked].n}`); } catch { /* some hosts of a file do not allow it */ }
}
function move(by) {
  if (!parts || !shown.length) return;
  const at = shown.indexOf(run.turns[picked]);
  const to = Math.max(0, Math.min(shown.length - 1, at < 0 ? 0 : at + by));
  pick(run.turns.indexOf(shown[to]));
}
function keys(event) {
  const page = Math.max(1, Math.floor(parts.scroll.clientHeight / ROW) - 1);
  const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
  if (by === undefined) return;
  event.preventDefault();
  move(by);
}

// ---- one turn

function detail() {
  const turn = run.turns[picked];
  const at = shown.indexOf(turn);
  const message = title(turn);
  const top = h("div", { class: "top" },
    h("div", { class: "line" },
      h("span", { class: "where num" }, turn.message === null && !turn.step ? "Opening" : `${named(turn)} of ${run.turns.at(-1).n}`),
      h("button", { type: "button", disabled: at <= 0, onclick: () => move(-1) }, "Previous"),
      h("button", { type: "button", disabled: at < 0 || at >= shown.length - 1, onclick: () => move(1) }, "Next")),
    h("p", { class: `message${message.length > 500 ? " long" : ""}`, tabindex: message.length > 500 ? 0 : null }, message));
  parts.panel.setAttribute("aria-label", named(turn));
  parts.panel.replaceChildren(top, h("div", { class: "two" }, visible(turn), happened(turn)), ...[scores(turn), excluded(turn)].filter(Boolean));
}

function visible(turn) {
  const tools = list(turn.list?.tools);
  const core = turn.list?.core || 0;
  const item = (id, place) => {
    const why = turn.admitted.get(id);
    return h("li", { class: why ? "in" : null }, h("span", { class: "sign", "aria-hidden": "true" }, why ? "+" : ""),
      h("span", { class: "id" }, short(id)), h("span", { class: "why" }, why ? `new: ${word(ADMIT, why)}` : place < core ? "core" : "kept"));
  };
  const items = tools.map(item);
  if (turn.list?.meta_tool) items.splice(core, 0, h("li", {}, h("span", { class: "sign" }), h("span", { class: "id" }, turn.list.meta_tool), h("span", { class: "why" }, "meta-tool")));
  const now = new Set(tools);
  const gone = turn.evicted.filter((x) => !now.has(x.tool));
  const full = [...new Map(turn.refused.filter((x) => !now.has(x.tool)).map((x) => [x.tool, x])).values()];
  const entry = (cls, sign) => (x) => h("li", { class: cls }, h("span", { class: `sign ${cls === "gone" ? "out" : "muted"}`, "aria-hidden": "true" }, sign), h("span", { class: "id" }, short(x.tool)), h("span", { class: "why" }, cls === "gone" ? evictWhy(x) : word(REFUSE, x.why)));
  const tokens = turn.list?.tokens || {};
  return h("section", { class: "section" },
    h("h2", {}, turn.step ? "Visible after it" : "Visible at the end of the turn", h("small", { class: "num" }, `${plural(tools.length, "tool")}, ${int(tokens.sent)} of ${int(tokens.naive)} tokens`)),
    items.length ? h("ul", { class: "tools" }, items) : h("p", { class: "muted" }, "The list is empty."),
    gone.length ? [h("p", { class: "sub" }, "Left the list"), h("ul", { class: "tools" }, gone.map(entry("gone", "−")))] : null,
    full.length ? [h("p", { class: "sub" }, "Wanted, but there was no room"), h("ul", { class: "tools" }, full.map(entry("full", "!")))] : null);
}

function happened(turn) {
  return h("section", { class: "section" }, h("h2", {}, "What happened"),
    turn.log.length ? h("ol", { class: "log" }, turn.log.map((entry) => h("li", {}, h("span", { class: "kind" }, entry.kind), h("span", { class: "text" }, entry.text.map((part) => part instanceof Node ? part.cloneNode(true) : part)))))
      : h("p", { class: "muted" }, "Nothing but the message."));
}

function scores(turn) {
  if (!turn.rankings.length) return h("section", { class: "section" }, h("h2", {}, "Scores"), h("p", { class: "muted" }, turn.message === null ? "Nothing was ranked." : "Nothing was ranked in this turn: the catalog is shown whole, or names were enough."));
  return h("section", { class: "section" }, h("h2", {}, "Scores", h("small", {}, "the gate's mark is what was asked of the tool")), turn.rankings.map(ranking));
}
function ranking(r) {
  const gate = r.gate || {};
  const asked = gate.thresholds || {};
  const ordered = [...list(gate.admitted), ...list(gate.rejected)].map((x) => r.rows.get(x.tool)).filter(Boolean);
  const facts = [
    h("span", {}, word(OUTCOME, gate.outcome)),
    h("span", {}, `${int(r.filter?.eligible)} ranked, ${int(r.filter?.excluded)} excluded`),
    h("span", {}, `at most ${plural(r.k, "tool")}${r.namespace ? ` of ${r.namespace}` : ""}`),
    ["read", "write", "destructive", "coverage"].filter((key) => Number.isFinite(asked[key])).length
      ? h("span", {}, `gate by ${word({}, asked.by ?? "cosine")}: `, ["read", "write", "destructive"].filter((key) => Number.isFinite(asked[key])).map((key) => `${key} ${asked[key].toFixed(2)}`).join(", "), asked.coverage > 0 ? ` or ${Math.round(asked.coverage * 100)} % of the words` : "") : null,
    r.report ? h("span", {}, readAs(r.report)) : null,
    r.degraded ? h("span", { class: "out" }, `words only: ${r.degraded}`) : null,
  ];
  const heading = h("h3", {}, r.search ? "Search: " : "Request: ", r.intents.map((text, i) => [i ? " / " : "", h("span", { class: "quote" }, clip(text, 140))]));
  return h("div", { class: "ranking" }, heading, h("div", { class: "facts num" }, facts),
    ordered.length ? h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Tool"), h("th", { scope: "col", class: "dense" }, "Meaning (cosine)"), h("th", { scope: "col", class: "words" }, "Words (score, share)"), h("th", { scope: "col" }, "Fused"), h("th", { scope: "col", class: "gate" }, "Gate"), h("th", { scope: "col" }, ""))),
      h("tbody", {}, ordered.map((c) => candidate(c, asked))))
      : h("p", { class: "muted" }, "No tool has a word or a meaning in common with it."));
}
function readAs(report) {
  const { reading = {}, plan } = report;
  const kind = `read as ${word({}, reading.complexity)}, ${word({}, reading.intent)}: ${list(reading.reasons).join("; ")}`;
  return plan ? `${kind}; ${plan.tools === 0 ? "no tool is needed" : `at most ${plural(plan.tools, "tool")}`}, ${plural(list(report.excluded).length, "tool")} left out, ${int(report.tokens_saved)} tokens saved` : kind;
}
function candidate(c, thresholds) {
  const cosine = Number.isFinite(c.cosine);
  // A tool without a vector is judged by its words, beside others that are judged by their cosine.
  const blind = thresholds.by === "cosine" && !cosine;
  // Words are judged on a scale to 3, cosines on one to 1.
  const scale = blind || thresholds.by === "words" ? 3 : 1;
  // Of a tool that was kept out the trace says what was asked: of a list of keywords it is more than the threshold of the class.
  const asked = Number.isFinite(c.asked) ? c.asked : blind ? null : thresholds[c.risk];
  const verdict = c.fits ? h("span", { class: "in" }, c.named ? "named, let in" : "let in")
    : h("span", { class: "muted" }, word({ "below-threshold": "kept out", "below-ratio": `far behind the best${Number.isFinite(c.least) ? ` (${c.least.toFixed(2)} asked)` : ""}` }, c.why));
  return h("tr", { class: c.fits ? null : "rejected" },
    h("td", { class: "tool" }, h("span", { class: "id" }, short(c.id)), c.risk && c.risk !== "read" ? h("span", { class: "risk" }, ` ${c.risk}`) : null),
    h("td", { class: "dense" }, h("div", { class: "bar-line" }, bar(cosine ? c.cosine : 0), h("span", { class: "figure num" }, cosine ? c.cosine.toFixed(2) : "none"))),
    h("td", { class: "words" }, h("div", { class: "bar-line" }, bar(c.lexical || 0), h("span", { class: "figure num", title: `BM25 ${(c.bm25 || 0).toFixed(2)}` }, `${(c.lexical || 0).toFixed(2)}, ${Math.round(100 * (c.coverage || 0))} %`))),
    h("td", { class: "fused num" }, Number.isFinite(c.score) ? c.score.toFixed(2) : ""),
    h("td", { class: "gate" }, Number.isFinite(c.reaches) ? h("div", { class: "bar-line" }, bar(c.reaches / scale, Number.isFinite(asked) ? asked / scale : null), h("span", { class: "figure num", title: Number.isFinite(asked) ? `${asked.toFixed(2)} asked` : null }, `${c.reaches.toFixed(2)}${blind ? " by words" : ""}`)) : null),
    h("td", { class: "verdict" }, verdict));
}
function bar(share, mark) {
  const at = (v) => `${Math.max(0, Math.min(1, v)) * 100}%`;
  return h("div", { class: "track", "aria-hidden": "true" }, h("div", { class: "fill", style: { width: at(share) } }),
    Number.isFinite(mark) && mark >= 0 && mark <= 1 ? h("div", { class: "ask", style: { left: at(mark) } }) : null);
}

function excluded(turn) {
  const policy = turn.policy;
  if (!policy) return null;
  const hidden = policy.hidden;
  const head = h("h2", {}, "Excluded by policy", h("small", { class: "num" }, `${int(policy.excluded)} of ${int(policy.excluded + policy.eligible)} tools`));
  if (!policy.excluded) return h("section", { class: "section" }, head, h("p", { class: "muted" }, "The caller may use every tool."));
  if (!Array.isArray(hidden)) return h("section", { class: "section" }, head, h("p", { class: "muted" }, "A run's trace does not name them. An operator's trace does, each with the reason."));
  const groups = new Map();
  for (const x of hidden) { if (!groups.has(x.reason)) groups.set(x.reason, []); groups.get(x.reason).push(x.tool); }
  return h("section", { class: "section reasons" }, head, [...groups].map(([reason, tools]) =>
    h("details", { open: tools.length <= 30 }, h("summary", {}, `${word(HIDDEN, reason)}: `, h("span", { class: "num" }, int(tools.length))),
      h("ul", {}, tools.map((id) => h("li", { class: "id" }, short(id)))))));
}

// ---- begin

let asked = false;
/** Takes one more event, or a line of a trace. */
function append(event) {
  let e = event;
  if (typeof event === "string") { try { e = JSON.parse(event); } catch { e = null; } }
  const follow = picked >= run.turns.length - 1;
  ingest(e);
  if (follow) picked = Math.max(0, run.turns.length - 1);
  if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; render(); }); }
}
function connect(url) {
  stream ??= "connecting";
  const source = new EventSource(url);
  source.onopen = () => { stream = "on"; render(); };
  source.onerror = () => {
    stream = "off";
    render();
    // A browser tries a broken stream again by itself, but not one that was refused.
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000, url);
  };
  source.onmessage = (message) => append(message.data);
  source.addEventListener("end", () => { source.close(); stream = "ended"; render(); });
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target instanceof HTMLInputElement) return;
  if (event.key === "j") move(1);
  if (event.key === "k") move(-1);
});
let resized = 0;
addEventListener("resize", () => { cancelAnimationFrame(resized); resized = requestAnimationFrame(() => { if (parts) { chart(); rows(false); } }); });

if (data.of) document.title = plain(`${data.of.name}, toolrack X-ray`);
for (const event of list(data.events)) ingest(event);
const wanted = run.turns.findIndex((turn) => `#turn=${turn.n}` === location.hash);
picked = wanted >= 0 ? wanted : run.turns.findIndex((turn) => turn.message !== null);
picked = Math.max(0, picked);
if (data.stream) connect(data.stream);
render();
window.xray = { append };
})();
