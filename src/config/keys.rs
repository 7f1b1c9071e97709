//! Every key of the configuration with its default and what it does.

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    /// Tables and name, joined by dots.
    pub path: &'static str,
    /// The default as TOML; `None` when the key is unset by default.
    pub default: Option<&'static str>,
    /// A value to show when there is no default.
    pub example: &'static str,
    /// What it does, in a line.
    pub doc: &'static str,
    /// Whether it is a table with names of the user's own.
    pub is_map: bool,
}

/// A key with a default.
const fn key(path: &'static str, default: &'static str, doc: &'static str) -> Key {
    Key { path, default: Some(default), example: "", doc, is_map: false }
}

/// A key that is unset by default.
const fn unset(path: &'static str, example: &'static str, doc: &'static str) -> Key {
    Key { path, default: None, example, doc, is_map: false }
}

/// A table with names of the user's own.
const fn map(path: &'static str, example: &'static str, doc: &'static str) -> Key {
    Key { path, default: None, example, doc, is_map: true }
}

/// What each table is about.
pub(crate) const TABLES: [(&str, &str); 11] = [
    ("", "Which tools there are."),
    ("engine", "How tools are ranked."),
    ("engine.fields", "How much the parts of a tool's text weigh in the lexical arm, 0 to 20."),
    ("engine.gate", "Which ranked tools are admitted."),
    ("policy", "Trusted facts of the caller, which decide what it may use."),
    ("session", "How a run is set up."),
    ("session.working_set", "Limits and timing of what is visible."),
    ("gateway", "The MCP gateway; its other settings are those of [session] and [policy]."),
    ("gateway.timeouts", "How long the gateway waits for a server, in seconds."),
    ("gateway.restart", "How a server that stopped is started again."),
    ("fitted", "Written by toolrack tune and calibrate: what the settings were fitted on."),
];

/// All keys, table by table.
pub(crate) const KEYS: &[Key] = &[
    key(
        "catalog",
        "[]",
        "Files or folders of tool listings that commands use when given none; looked for beside this file.",
    ),
    key(
        "engine.embedder",
        "\"static\"",
        "The model: \"static\" (bundled), \"static:128\" (its first dimensions), \"none\", or a \
         model's folder.",
    ),
    key(
        "engine.fusion",
        "\"agreement\"",
        "How both arms' scores become one: agreement, weighted, rrf, dense-only or lexical-only.",
    ),
    unset(
        "engine.lexical_weight",
        "0.5",
        "Weight of the lexical arm in agreement (the model's by default) and weighted (1 by default).",
    ),
    key("engine.rank_constant", "60.0", "The k of rrf."),
    key("engine.fields.name", "3", "Name, title and aliases."),
    key("engine.fields.parameters", "1", "Names, descriptions and values of parameters."),
    key("engine.fields.namespace", "1", "Namespace and tags."),
    key("engine.fields.description", "1", "Description and example requests."),
    unset("engine.gate.read", "0.25", "Cosine for read-only tools; the model's by default."),
    unset("engine.gate.write", "0.3", "Cosine for writing tools; the model's by default."),
    unset(
        "engine.gate.destructive",
        "0.4",
        "Cosine for destructive tools; the model's by default.",
    ),
    key(
        "engine.gate.handicap",
        "0.05",
        "Taken off when the request has no word of the name's end.",
    ),
    key(
        "engine.gate.coverage",
        "0.5",
        "Share of the request's words that admits what destroys nothing.",
    ),
    key("engine.gate.read_words", "0.256", "Words for read-only tools when there is no model."),
    key("engine.gate.write_words", "0.5", "Words for writing tools when there is no model."),
    key(
        "engine.gate.destructive_words",
        "0.8",
        "Words for destructive tools when there is no model.",
    ),
    key("engine.gate.margin", "0.1", "Share of the best score within which tools are ambiguous."),
    key("policy.scopes", "[]", "Granted scopes."),
    key("policy.roles", "[]", "Roles of the caller."),
    unset("policy.stage", "\"review\"", "Stage of the run."),
    unset("policy.environment", "\"staging\"", "Environment the run acts upon."),
    unset("policy.tenant", "\"acme\"", "Tenant the caller belongs to."),
    key("policy.flags", "[]", "Feature flags that are on."),
    unset("policy.namespaces", "[\"github\"]", "Approved namespaces; unset approves all, [] none."),
    unset("policy.tools", "[\"github/list_issues\"]", "Allowed tools; unset allows all, [] none."),
    key("session.core", "[]", "Tools that are always visible, in this order."),
    key("session.pinned", "[]", "Tools that are pinned from the start."),
    key("session.retrieve", "8", "Tools that each turn's message may bring in; 0 for none."),
    key("session.find_limit", "5", "Tools that one find_tool call brings in."),
    unset(
        "session.pass_through",
        "20",
        "Catalogs of at most this many tools are shown whole; the limit by default, 0 never.",
    ),
    key(
        "session.pin_found",
        "false",
        "Whether what find_tool finds stays for the rest of the run.",
    ),
    key(
        "session.min_score_ratio",
        "0.0",
        "Share of the best score below which a tool is left out.",
    ),
    unset(
        "session.compressed",
        "2000",
        "Tokens for a list of all tools, by name and first sentence.",
    ),
    key(
        "session.fallback",
        "\"words\"",
        "What counts when no tool is near enough: words or aliases.",
    ),
    map(
        "session.intent",
        "language = \"en\"\ncomplexity = { moderate_words = 15, complex_words = 40, moderate_joints = 1, \
         complex_joints = 3 }",
        "Rules that say how many tools a message brings in: \"english\", or a table as IntentRules has \
         it; unset for none.",
    ),
    key("session.meta_tool", "\"find_tool\"", "Name of the meta-tool."),
    key("session.working_set.limit", "20", "The most tools that are visible at once."),
    unset("session.working_set.token_budget", "8000", "The most tokens that definitions take."),
    key(
        "session.working_set.timing",
        "\"epoch\"",
        "When tools leave: epoch (keeps the prompt cache) or immediate.",
    ),
    key("session.working_set.order", "\"admission\"", "Order of the list: admission or name."),
    key("session.working_set.stale_after", "6", "Steps for which a tool may go unwanted."),
    unset(
        "gateway.config",
        "\"mcp.json\"",
        "File with the servers, as MCP clients have it; looked for beside this one.",
    ),
    map(
        "gateway.mcp_servers",
        "files = { command = \"server-files\", args = [\"/data\"] }",
        "The servers themselves, in place of such a file.",
    ),
    key("gateway.mode", "\"auto\"", "list, bridge, or auto: by the client's name."),
    unset(
        "gateway.http",
        "\"127.0.0.1:8080\"",
        "Where to serve HTTP; standard streams when unset.",
    ),
    unset("gateway.xray", "\"127.0.0.1:7777\"", "Where to serve the live X-ray page."),
    unset("gateway.metrics", "\"127.0.0.1:9090\"", "Where to serve figures for Prometheus."),
    unset("gateway.state", "\"sessions.json\"", "File that keeps sessions over a restart."),
    unset("gateway.tokens", "\"tokens.json\"", "File of bearer tokens, needed beyond loopback."),
    key("gateway.quarantine", "false", "Whether tools whose definition changes are withheld."),
    key("gateway.flagged", "false", "Whether tools with hidden or instructing text are withheld."),
    map(
        "gateway.pinned",
        "\"github/create_issue\" = \"9f86d0...\"",
        "Accepted definitions by hash.",
    ),
    key("gateway.idle", "1800", "Seconds after which an idle HTTP session is closed."),
    key("gateway.hosts", "[]", "Names besides loopback under which HTTP clients may call."),
    key("gateway.origins", "[]", "Web origins besides loopback that may call."),
    unset("gateway.allow", "[\"github/*\"]", "Patterns of tools that are offered; [] for none."),
    key("gateway.deny", "[]", "Patterns of tools that are never offered."),
    map("gateway.risk", "\"github/delete_*\" = \"destructive\"", "Risk by pattern."),
    map("gateway.servers", "github = { deny = [\"delete_*\"] }", "Settings of single servers."),
    key("gateway.timeouts.connect", "30", "Until the handshake is answered."),
    key("gateway.timeouts.list", "30", "For one page of a listing."),
    key("gateway.timeouts.call", "300", "For a call that shows no progress."),
    key("gateway.restart.first", "0.5", "Seconds before the first attempt."),
    key("gateway.restart.most", "30", "Seconds at most between attempts."),
    key("gateway.restart.jitter", "true", "Whether attempts are spread a little at random."),
    unset("fitted.dataset", "\"orders\"", "Name of the dataset."),
    unset("fitted.fingerprint", "\"\"", "SHA-256 of its queries."),
    unset("fitted.seed", "17", "Seed of the halves."),
];

/// The configuration with every key, its default and what it does; all commented out.
pub(crate) fn template() -> String {
    let mut out = String::from(
        "# Configuration of toolrack. Every key is optional; what is commented out shows the default,\n\
         # or an example where there is none.\n",
    );
    for (table, about) in TABLES {
        out += &match table {
            "" => format!("\n# {about}\n"),
            // Not for people to write: all of it or nothing.
            "fitted" => format!("\n# {about}\n# [fitted]\n"),
            table => format!("\n# {about}\n[{table}]\n"),
        };
        for key in KEYS {
            let (in_table, name) = key.path.rsplit_once('.').unwrap_or(("", key.path));
            if in_table != table {
                continue;
            }
            out += &format!("# {}\n", key.doc);
            out += &match (key.default, key.is_map) {
                (Some(default), _) => format!("# {name} = {default}\n"),
                (None, true) => {
                    let lines = key.example.lines();
                    lines.map(|line| format!("# {name}.{line}  (an example)\n")).collect()
                }
                (None, false) => format!("# {name} = {}  (an example)\n", key.example),
            };
        }
    }
    out
}
