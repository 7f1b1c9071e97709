//! The configuration: the `mcpServers` JSON that MCP clients read, and a section of our own.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use super::section::{Lookup, Section};
use super::settings::{ServerSettings, Settings};
use crate::error::{Error, ErrorKind, Result};

/// Which servers there are and how the gateway treats them.
///
/// The file is the one that MCP clients use: an object `mcpServers` (or `servers`) with one entry a
/// server, either `command`, `args`, `env`, `cwd`, or `url`, `headers`, `type`; `disabled` leaves an
/// entry out. `${NAME}`, `${NAME:-fallback}` and `${env:NAME}` stand for environment variables. Keys
/// that other clients have put there are passed over. What only the gateway knows stands in a
/// section `toolrack` ([`Settings`]), where an unknown key is an error.
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
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot read {place}: give a readable file"))
                .with_source(error)
        })?;
        Self::parse(&text, &place)
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
        let root: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
            format(format!("{place} is not a JSON object: {error}; write {{\"mcpServers\": {{}}}}"))
        })?;
        let root = Section::root(&root, place);
        let own = match root.section("toolrack")? {
            Some(section) => Settings::read(&section)?,
            None => Settings::default(),
        };
        let listed = match root.section("mcpServers")? {
            Some(section) => Some(section),
            None => root.section("servers")?,
        };
        let Some(listed) = listed else {
            return Err(format(format!(
                "{place} has no 'mcpServers': add the object that your MCP client uses"
            )));
        };
        let mut servers = Vec::new();
        for name in listed.keys() {
            let Some(entry) = listed.section(name)? else { continue };
            servers.push(server(name, &entry, &own, lookup)?);
        }
        if let Some(name) =
            own.servers.keys().find(|name| servers.iter().all(|server| server.name != **name))
        {
            return Err(format(format!(
                "{place}: toolrack.servers names '{name}', which is no server: name one of \
                 'mcpServers'"
            )));
        }
        Ok(Self { servers, settings: own })
    }
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
    let kind = entry.string("type", lookup)?;
    let command = entry.string("command", lookup)?;
    let url = entry.string("url", lookup)?;
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
            env: entry.string_map("env", lookup)?,
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
    Ok(ServerConfig {
        name: name.to_owned(),
        target,
        disabled: entry.boolean("disabled")?.unwrap_or(false),
        settings: own.of_server(name),
    })
}

pub(super) fn format(message: String) -> Error {
    Error::new(ErrorKind::Format, message)
}

/// Seconds, as the configuration writes times.
pub(super) fn seconds(number: f64) -> Option<Duration> {
    (number > 0.0).then(|| Duration::try_from_secs_f64(number).ok()).flatten()
}
