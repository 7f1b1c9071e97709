//! The configuration: the `mcpServers` JSON that MCP clients read, and a section of our own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use super::jsonc;
use super::section::{Lookup, Section};
use super::settings::{Form, ServerSettings, Settings};
use crate::error::{Error, ErrorKind, Result};

/// Which servers there are and how the gateway treats them.
///
/// The file is the one that MCP clients use: an object `mcpServers` (or `servers`) with one entry a
/// server, either `command`, `args`, `env`, `cwd`, or `url`, `headers`, `type`; `disabled` leaves an
/// entry out. `${NAME}`, `${NAME:-fallback}` and `${env:NAME}` stand for environment variables,
/// `${userHome}` and `${workspaceFolder}` for folders. Comments and a comma after the last entry are
/// fine. Of what single clients have of their own, `envFile` is read, `serverUrl` and `httpUrl` are
/// taken for `url`, and `includeTools`, `excludeTools` and `disabledTools` hold here, too; other keys
/// are passed over.
/// What only the gateway knows stands in a section `toolrack` ([`Settings`]), where an unknown key is
/// an error.
///
/// # Example
/// ```
/// use toolrack::gateway::Config;
///
/// let config = Config::parse(
///     r#"{"mcpServers": {"files": {"command": "server-files", "args": ["/data"]}},
///         "toolrack": {"limit": 12}}"#,
///     "mcp.json",
/// )?;
/// assert_eq!(config.servers[0].name, "files");
///
/// let wrong = r#"{"mcpServers": {}, "toolrack": {"limits": 12}}"#;
/// assert_eq!(
///     Config::parse(wrong, "mcp.json").unwrap_err().to_string(),
///     "mcp.json: toolrack has an unknown key 'limits': did you mean 'limit'?",
/// );
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Config {
    /// The servers, in the order of their names.
    pub servers: Vec<ServerConfig>,
    /// The section `toolrack`.
    pub settings: Settings,
}

/// One server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Its name, which is the namespace of its tools.
    pub name: String,
    /// How it is reached.
    pub target: Target,
    /// Whether it is left out.
    pub disabled: bool,
    /// What the section `toolrack` says of it, the general settings included.
    pub settings: ServerSettings,
    /// Environment variables that stand in the entry, with their values.
    pub(super) variables: Variables,
}

/// Names and values of environment variables, which may be secret.
#[derive(Clone, Default)]
pub(super) struct Variables(pub(super) Vec<(String, String)>);

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// How a server is reached.
#[derive(Clone)]
#[non_exhaustive]
pub enum Target {
    /// A process that speaks over its standard streams.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Environment variables besides the gateway's own.
        env: BTreeMap<String, String>,
        /// Its working directory; the gateway's by default.
        cwd: Option<PathBuf>,
    },
    /// A streamable HTTP endpoint.
    Http {
        /// The address.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
}

/// What clients call the address of a server.
const URL_KEYS: [&str; 3] = ["url", "serverUrl", "httpUrl"];

impl fmt::Debug for Target {
    /// Values of variables and headers, and what follows an address's host, may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, env, cwd, .. } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("env", &env.keys().collect::<Vec<_>>())
                .field("cwd", cwd)
                .finish_non_exhaustive(),
            Self::Http { headers, .. } => f
                .debug_struct("Http")
                .field("headers", &headers.keys().collect::<Vec<_>>())
                .finish_non_exhaustive(),
        }
    }
}

impl Config {
    /// The configuration in the file at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the file cannot be read, else as [`parse`](Self::parse).
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let place = path.display().to_string();
        let text = text(path)?;
        let mut config = Self::parse(&text, &place)?;
        config.settings.options.look_in(path.parent().unwrap_or(Path::new("")));
        Ok(config)
    }

    /// The table `[gateway]` of toolrack's own configuration, which errors call `place`; `[session]`
    /// and `[policy]` say what a client's run is like. Its servers are those of the file that
    /// `gateway.config` names, or of `gateway.mcp_servers`; none when it has neither.
    ///
    /// # Errors
    /// As [`read`](Self::read); [`ErrorKind::Format`] when the servers or the settings are in two
    /// places.
    ///
    /// # Example
    /// ```
    /// let text = "[gateway.mcp_servers.files]\ncommand = \"server-files\"\n[session]\ncore = [\"read\"]";
    /// let settings = toolrack::Config::parse(text, "toolrack.toml")?;
    /// let config = toolrack::gateway::Config::of(&settings, "toolrack.toml")?;
    /// assert_eq!(config.servers[0].name, "files");
    /// assert_eq!(config.settings.session.core, ["read"]);
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    pub fn of(config: &crate::Config, place: &str) -> Result<Self> {
        let lookup: Lookup<'_> = &|name| std::env::var(name).ok();
        let dated = |_| format(format!("{place}: the table 'gateway' holds a date: remove it"));
        let table = serde_json::to_value(&config.gateway).map_err(dated)?;
        let root = Map::from_iter([("gateway".to_owned(), table)]);
        let Some(section) = Section::root(&root, place).section("gateway")? else {
            return Ok(Self::default());
        };
        let mut own = Settings::read(&section, Form::Toml)?;
        own.session = config.session_options();
        // A pin may be of a tool whose server answers late, which only core tools may.
        let pinned = std::mem::take(&mut own.session.pinned);
        own.session.core.extend(pinned);
        own.options.look_in(config.folder());
        let listed = section.section("mcp_servers")?;
        let Some(file) = section.string("config", lookup)? else {
            return Self::with_servers(listed, own, place, lookup);
        };
        if listed.is_some() {
            return Err(section.error("has both 'config' and 'mcp_servers': keep one"));
        }
        let path = config.folder().join(file);
        let shown = path.display().to_string();
        let root = object(&text(&path)?, &shown)?;
        let root = Section::root(&root, &shown);
        if root.section("toolrack")?.is_some() {
            return Err(format(format!(
                "{shown} has a section 'toolrack' beside the table 'gateway' of {place}: keep one"
            )));
        }
        Self::with_servers(Some(listed_servers(&root, &shown)?), own, &shown, lookup)
    }

    /// The configuration in `text`, which errors call `place`.
    ///
    /// # Errors
    /// [`ErrorKind::Format`], naming the place, the server and the field.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        Self::parse_with(text, place, &|name| std::env::var(name).ok())
    }

    /// Like [`parse`](Self::parse); environment variables are looked up by `lookup`.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_with(text: &str, place: &str, lookup: Lookup<'_>) -> Result<Self> {
        let root = object(text, place)?;
        let root = Section::root(&root, place);
        let own = match root.section("toolrack")? {
            Some(section) => Settings::read(&section, Form::Json)?,
            None => Settings::default(),
        };
        Self::with_servers(Some(listed_servers(&root, place)?), own, place, lookup)
    }

    fn with_servers(
        listed: Option<Section<'_>>,
        own: Settings,
        place: &str,
        lookup: Lookup<'_>,
    ) -> Result<Self> {
        let mut servers = Vec::new();
        if let Some(listed) = listed {
            for name in listed.keys() {
                let Some(entry) = listed.section(name)? else { continue };
                servers.push(server(name, &entry, &own, lookup)?);
            }
        }
        if let Some(name) =
            own.servers.keys().find(|name| servers.iter().all(|server| server.name != **name))
        {
            return Err(format(format!(
                "{place} has no server '{name}', for which there are settings: name one that is there"
            )));
        }
        // JSON keeps no order that means anything.
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { servers, settings: own })
    }
}

fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        let text = format!("cannot read {}: give a readable file", path.display());
        Error::new(ErrorKind::Io, text).with_source(error)
    })
}

fn object(text: &str, place: &str) -> Result<Map<String, Value>> {
    serde_json::from_str(&jsonc::plain(text)).map_err(|error| {
        format(format!("{place} is not a JSON object: {error}; write {{\"mcpServers\": {{}}}}"))
    })
}

fn listed_servers<'a>(root: &Section<'a>, place: &str) -> Result<Section<'a>> {
    let listed = match root.section("mcpServers")? {
        None => root.section("servers")?,
        listed => listed,
    };
    listed.ok_or_else(|| {
        let what = "has no 'mcpServers': add the object that your MCP client uses";
        format(format!("{place} {what}"))
    })
}

fn server(
    name: &str,
    entry: &Section<'_>,
    own: &Settings,
    lookup: Lookup<'_>,
) -> Result<ServerConfig> {
    if name.is_empty() || name.contains('/') {
        return Err(entry.error("needs a name without '/': rename it"));
    }
    let seen = RefCell::new(Vec::new());
    let lookup: Lookup<'_> = &|variable| {
        let value = lookup(variable)?;
        seen.borrow_mut().push((variable.to_owned(), value.clone()));
        Some(value)
    };
    let kind = entry.string("type", lookup)?;
    let command = entry.string("command", lookup)?;
    let mut url = None;
    for key in URL_KEYS {
        url = url.or(entry.string(key, lookup)?);
    }
    let target = match (kind.as_deref(), command, url) {
        (Some("sse"), ..) => {
            return Err(entry.error(
                "has type 'sse', which MCP has given up: use the server's streamable HTTP address \
                 and type 'http'",
            ));
        }
        (None | Some("stdio"), Some(command), None) => Target::Stdio {
            command,
            args: entry.strings("args", lookup)?.unwrap_or_default(),
            env: environment(entry, lookup)?,
            cwd: entry.string("cwd", lookup)?.map(PathBuf::from),
        },
        (None | Some("http" | "streamable-http" | "streamableHttp"), None, Some(url)) => {
            if !(url.starts_with("http://") || url.starts_with("https://")) {
                return Err(
                    entry.error("has a 'url' that begins with neither http:// nor https://")
                );
            }
            Target::Http { url, headers: entry.string_map("headers", lookup)? }
        }
        (_, Some(_), Some(_)) => {
            return Err(entry.error("has both 'command' and 'url': keep one"));
        }
        (Some(kind @ ("stdio" | "http" | "streamable-http" | "streamableHttp")), ..) => {
            let needs = if kind == "stdio" { "command" } else { "url" };
            return Err(entry.error(&format!("has type '{kind}' but no '{needs}': add it")));
        }
        (Some(kind), ..) => {
            return Err(
                entry.error(&format!("has the unknown type '{kind}': use 'stdio' or 'http'"))
            );
        }
        (None, None, None) => {
            return Err(entry.error("has neither 'command' nor 'url': add one"));
        }
    };
    let mut settings = own.of_server(name);
    settings.narrow(entry)?;
    let off =
        entry.boolean("disabled")?.unwrap_or(false) || entry.boolean("enabled")? == Some(false);
    Ok(ServerConfig {
        name: name.to_owned(),
        target,
        disabled: off,
        settings,
        variables: Variables(seen.take()),
    })
}

/// The variables in the file `envFile`, and those in `env`, which go before them.
fn environment(entry: &Section<'_>, lookup: Lookup<'_>) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    if let Some(path) = entry.string("envFile", lookup)? {
        for line in text(Path::new(&path))?.lines() {
            let line = line.trim();
            let line = line.strip_prefix("export ").unwrap_or(line);
            let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#'))
            else {
                continue;
            };
            let value = value.trim();
            let quoted = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
            let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
            all.insert(name.trim().to_owned(), value.to_owned());
        }
    }
    all.extend(entry.string_map("env", lookup)?);
    Ok(all)
}

pub(super) fn format(message: String) -> Error {
    Error::new(ErrorKind::Format, message)
}

/// Seconds, as the configuration writes times.
pub(super) fn seconds(number: f64) -> Option<Duration> {
    (number > 0.0).then(|| Duration::try_from_secs_f64(number).ok()).flatten()
}
