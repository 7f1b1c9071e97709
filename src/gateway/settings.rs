//! The section `toolrack` of the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use globset::{Glob, GlobMatcher};
use serde::{Deserialize, Serialize};

use super::Options;
use super::section::Section;
use crate::catalog::{Risk, ToolId, TrustPolicy};
use crate::error::Result;
use crate::session::SessionOptions;

/// How tools are offered to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// `tools/list` shows core tools, working set, `find_tool` and `call_tool`; changes are
    /// announced. The default.
    #[default]
    List,
    /// `tools/list` is always `find_tool`, `describe_tool` and `call_tool`: the client's prompt
    /// cache is never broken.
    Bridge,
}

/// The section `toolrack`. Every field is optional.
///
/// Patterns are globs: `*`, `?`, `[a-z]`, `{a,b}`. In the section itself they are matched against
/// `server/tool`, in `servers.NAME` against the tool's name. What is denied is denied whatever is
/// allowed; an `allow` that is there and empty allows nothing. The risk of a tool is what the first
/// matching pattern of `risk` says, the server's patterns before the general ones and each in the
/// order of the alphabet, else what the server's own annotations say.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Settings {
    /// `mode`: `list`, `bridge`, or `auto`, the default: by the client's name. `http`, `xray`,
    /// `metrics`: addresses. `state`, `tokens`: files, looked for beside the configuration's.
    pub options: Options,
    /// `core`, `limit`, `budget` (tokens), `find` (tools a search loads), `whole` (catalogs up to
    /// this many tools are shown whole).
    pub session: SessionOptions,
    /// `idle`: seconds after which an HTTP session that says nothing is closed. Default 1,800.
    pub idle: Option<Duration>,
    /// `hosts`: names besides loopback under which HTTP clients may call.
    pub hosts: Vec<String>,
    /// `origins`: web origins besides loopback that may call.
    pub origins: Vec<String>,
    /// `quarantine`: whether a tool whose definition changes after it was first seen is withheld
    /// until its new hash stands in `pinned`. With a state file that holds over restarts.
    /// `flagged`: whether tools with hidden or instructing text are withheld alike. `pinned`: hashes
    /// of accepted definitions by `server/tool`. Both are off by default.
    pub trust: TrustPolicy,
    /// `servers`: settings of single servers.
    pub servers: BTreeMap<String, ServerSettings>,
    /// `allow`, `deny`, `risk`, `timeouts`, `restart` for all servers.
    pub general: ServerSettings,
}

/// What the gateway is told of one server.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ServerSettings {
    /// `timeouts`: how long to wait.
    pub timeouts: Timeouts,
    /// `restart`: how a server that stopped is started again.
    pub restart: Restart,
    rules: Vec<Rules>,
}

/// How long to wait for a server, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// `connect`: until it has answered the handshake. Default 30.
    pub connect: Duration,
    /// `list`: for one page of a listing. Default 30.
    pub list: Duration,
    /// `call`: for a call that shows no progress. Default 300.
    pub call: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(30), list: seconds(30), call: seconds(300) }
    }
}

/// How a server that stopped is started again: after `first`, then after twice as long each time
/// up to `most`. A server that stayed up for longer than `most` begins anew.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Restart {
    /// `first`: seconds before the first attempt. Default 0.5.
    pub first: Duration,
    /// `most`: seconds at most between attempts. Default 30.
    pub most: Duration,
    /// `jitter`: whether up to a quarter is taken off at random, so that many servers do not come
    /// back in one instant. Default true.
    pub jitter: bool,
}

impl Default for Restart {
    fn default() -> Self {
        Self { first: Duration::from_millis(500), most: Duration::from_secs(30), jitter: true }
    }
}

/// Allow, deny and risk of one level.
#[derive(Debug, Clone, Default)]
struct Rules {
    /// Whether patterns are of `server/tool`.
    qualified: bool,
    allow: Option<Vec<GlobMatcher>>,
    deny: Vec<GlobMatcher>,
    risk: Vec<(GlobMatcher, Risk)>,
}

/// Where a section stands, which decides what it holds beside what all do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Beside `mcpServers`, where nothing else says what a run is like.
    Json,
    /// In toolrack's own configuration, where nothing else says which servers there are.
    Toml,
}

const KEYS: [&str; 13] = [
    "mode",
    "http",
    "xray",
    "metrics",
    "state",
    "tokens",
    "idle",
    "hosts",
    "origins",
    "quarantine",
    "flagged",
    "pinned",
    "servers",
];
const JSON_KEYS: [&str; 5] = ["core", "limit", "budget", "find", "whole"];
const TOML_KEYS: [&str; 2] = ["config", "mcp_servers"];
const SERVER_KEYS: [&str; 5] = ["allow", "deny", "risk", "timeouts", "restart"];

impl Settings {
    pub(super) fn read(section: &Section<'_>, form: Form) -> Result<Self> {
        let more: &[&str] = match form {
            Form::Json => &JSON_KEYS,
            Form::Toml => &TOML_KEYS,
        };
        section.only(&[&KEYS[..], more, &SERVER_KEYS[..]].concat())?;
        let plain = |_: &str| None;

        let core = section.strings("core", &plain)?.unwrap_or_default();
        let mut session = SessionOptions::default().core(core);
        if let Some(limit) = section.count("limit", 1)? {
            session.working_set.limit = limit;
        }
        session.working_set.token_budget = section.count("budget", 1)?;
        if let Some(limit) = section.count("find", 1)? {
            session.find_limit = limit;
        }
        session.pass_through = section.count("whole", 0)?;

        let mut trust = TrustPolicy {
            pin_new: section.boolean("quarantine")?.unwrap_or(false),
            withhold_flagged: section.boolean("flagged")?.unwrap_or(false),
            ..TrustPolicy::default()
        };
        for (tool, hash) in section.string_map("pinned", &plain)? {
            let tool: ToolId = tool.parse().map_err(|_| {
                section.error(&format!("pins '{tool}', which is no tool: write server/tool"))
            })?;
            trust.pins.insert(tool, hash);
        }

        let general = ServerSettings::read(section, &ServerSettings::default(), true)?;
        let mut servers = BTreeMap::new();
        if let Some(listed) = section.section("servers")? {
            for name in listed.keys() {
                if let Some(entry) = listed.section(name)? {
                    entry.only(&SERVER_KEYS)?;
                    servers.insert(name.to_owned(), ServerSettings::read(&entry, &general, false)?);
                }
            }
        }
        Ok(Self {
            options: Options {
                mode: mode(section)?,
                http: section.address("http")?,
                xray: section.address("xray")?,
                metrics: section.address("metrics")?,
                state: section.string("state", &plain)?.map(PathBuf::from),
                tokens: section.string("tokens", &plain)?.map(PathBuf::from),
            },
            session,
            idle: section.seconds("idle")?,
            hosts: section.strings("hosts", &plain)?.unwrap_or_default(),
            origins: section.strings("origins", &plain)?.unwrap_or_default(),
            trust,
            servers,
            general,
        })
    }

    /// What holds for the server called `name`.
    pub(super) fn of_server(&self, name: &str) -> ServerSettings {
        self.servers.get(name).unwrap_or(&self.general).clone()
    }
}

impl ServerSettings {
    fn read(section: &Section<'_>, general: &Self, qualified: bool) -> Result<Self> {
        let mut timeouts = general.timeouts;
        if let Some(times) = section.section("timeouts")? {
            times.only(&["connect", "list", "call"])?;
            timeouts.connect = times.seconds("connect")?.unwrap_or(timeouts.connect);
            timeouts.list = times.seconds("list")?.unwrap_or(timeouts.list);
            timeouts.call = times.seconds("call")?.unwrap_or(timeouts.call);
        }
        let mut restart = general.restart;
        if let Some(times) = section.section("restart")? {
            times.only(&["first", "most", "jitter"])?;
            restart.first = times.seconds("first")?.unwrap_or(restart.first);
            restart.most = times.seconds("most")?.unwrap_or(restart.most).max(restart.first);
            restart.jitter = times.boolean("jitter")?.unwrap_or(restart.jitter);
        }
        let mut rules = Rules {
            qualified,
            allow: globs(section, "allow")?,
            deny: globs(section, "deny")?.unwrap_or_default(),
            risk: Vec::new(),
        };
        if let Some(risks) = section.section("risk")? {
            for pattern in risks.keys() {
                let risk = risks.word(pattern, "'read', 'write' or 'destructive'")?;
                if let Some(risk) = risk {
                    rules.risk.push((glob(&risks, pattern)?, risk));
                }
            }
        }
        let mut all = vec![rules];
        all.extend(general.rules.iter().cloned());
        Ok(Self { timeouts, restart, rules: all })
    }

    /// Takes in the lists of tools that other clients keep in a server's own entry: what their user
    /// switched off there is off here, too. The names are no patterns.
    pub(super) fn narrow(&mut self, entry: &Section<'_>) -> Result<()> {
        let names = |key: &str| -> Result<Option<Vec<GlobMatcher>>> {
            let Some(names) = entry.strings(key, &|_| None)? else { return Ok(None) };
            let exact = |name: &String| glob(entry, &globset::escape(name));
            names.iter().map(exact).collect::<Result<_>>().map(Some)
        };
        let allow = names("includeTools")?;
        let mut deny = names("excludeTools")?.unwrap_or_default();
        deny.extend(names("disabledTools")?.unwrap_or_default());
        if allow.is_some() || !deny.is_empty() {
            self.rules.push(Rules { qualified: false, allow, deny, risk: Vec::new() });
        }
        Ok(())
    }

    /// Whether clients may know of the tool at all.
    pub fn allows(&self, server: &str, tool: &str) -> bool {
        let whole = format!("{server}/{tool}");
        self.rules.iter().all(|rules| {
            let name = rules.name(&whole, tool);
            let matches = |glob: &GlobMatcher| glob.is_match(name);
            !rules.deny.iter().any(matches)
                && rules.allow.as_ref().is_none_or(|allow| allow.iter().any(matches))
        })
    }

    /// The risk that the operator gave the tool, `None` when it is as the server says.
    pub fn risk(&self, server: &str, tool: &str) -> Option<Risk> {
        let whole = format!("{server}/{tool}");
        self.rules.iter().find_map(|rules| {
            let name = rules.name(&whole, tool);
            rules.risk.iter().find(|(glob, _)| glob.is_match(name)).map(|(_, risk)| *risk)
        })
    }
}

impl Rules {
    fn name<'a>(&self, whole: &'a str, tool: &'a str) -> &'a str {
        if self.qualified { whole } else { tool }
    }
}

fn mode(section: &Section<'_>) -> Result<Option<Mode>> {
    match section.string("mode", &|_| None)?.as_deref() {
        None | Some("auto") => Ok(None),
        Some(_) => section.word("mode", "'list', 'bridge' or 'auto'"),
    }
}

fn globs(section: &Section<'_>, key: &str) -> Result<Option<Vec<GlobMatcher>>> {
    let Some(patterns) = section.strings(key, &|_| None)? else { return Ok(None) };
    patterns.iter().map(|pattern| glob(section, pattern)).collect::<Result<_>>().map(Some)
}

fn glob(section: &Section<'_>, pattern: &str) -> Result<GlobMatcher> {
    Glob::new(pattern).map(|glob| glob.compile_matcher()).map_err(|_| {
        section.error(&format!("holds '{pattern}', which is no pattern: use *, ? and [..]"))
    })
}
