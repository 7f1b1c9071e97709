//! One object of the configuration, read field by field so that errors name the field.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::{Map, Value};

use super::config::{format, seconds};
use crate::error::{Error, Result};

/// The address that `text` is: `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`, `:8080` or `8080`,
/// of which the last three are this machine.
///
/// # Example
/// ```
/// assert_eq!(toolrack::gateway::address("8080"), "127.0.0.1:8080".parse().ok());
/// assert_eq!(toolrack::gateway::address("example.com:80"), None);
/// ```
pub fn address(text: &str) -> Option<SocketAddr> {
    let port = text.strip_prefix("localhost").unwrap_or(text);
    let port = port.strip_prefix(':').unwrap_or(port).parse();
    port.map_or_else(|_| text.parse().ok(), |port: u16| Some((Ipv4Addr::LOCALHOST, port).into()))
}

/// Finds environment variables.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// An object and where it stands.
pub(super) struct Section<'a> {
    object: &'a Map<String, Value>,
    file: &'a str,
    path: String,
}

impl<'a> Section<'a> {
    pub(super) fn root(object: &'a Map<String, Value>, file: &'a str) -> Self {
        Self { object, file, path: String::new() }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.object.keys().map(String::as_str)
    }

    /// An error about this section: `what` goes on after its name.
    pub(super) fn error(&self, what: &str) -> Error {
        format(format!("{}: {} {what}", self.file, self.path))
    }

    fn wrong(&self, key: &str, expected: &str) -> Error {
        format(format!("{}: {} is not {expected}: correct it", self.file, self.join(key)))
    }

    fn join(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Refuses keys that are not among `known`.
    pub(super) fn only(&self, known: &[&str]) -> Result<()> {
        let Some(key) = self.keys().find(|key| !known.contains(key)) else { return Ok(()) };
        let near = known
            .iter()
            .map(|name| (strsim::damerau_levenshtein(key, name), name))
            .filter(|(distance, name)| *distance <= 2.max(name.len() / 3))
            .min();
        let hint = match near {
            Some((_, name)) => format!("did you mean '{name}'?"),
            None => format!("known are {}", known.join(", ")),
        };
        Err(self.error(&format!("has an unknown key '{key}': {hint}")))
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn section(&self, key: &str) -> Result<Option<Section<'a>>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(object)) => {
                Ok(Some(Section { object, file: self.file, path: self.join(key) }))
            }
            Some(_) => Err(self.wrong(key, "an object")),
        }
    }

    pub(super) fn string(&self, key: &str, lookup: Lookup<'_>) -> Result<Option<String>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => self.expand(key, text, lookup).map(Some),
            Some(_) => Err(self.wrong(key, "a string")),
        }
    }

    pub(super) fn strings(&self, key: &str, lookup: Lookup<'_>) -> Result<Option<Vec<String>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let Value::Array(items) = value else {
            return Err(self.wrong(key, "a list of strings"));
        };
        let expand = |item: &Value| match item {
            Value::String(text) => self.expand(key, text, lookup),
            _ => Err(self.wrong(key, "a list of strings")),
        };
        items.iter().map(expand).collect::<Result<_>>().map(Some)
    }

    /// An object of strings; numbers and booleans are taken as they are written.
    pub(super) fn string_map(
        &self,
        key: &str,
        lookup: Lookup<'_>,
    ) -> Result<BTreeMap<String, String>> {
        let Some(section) = self.section(key)? else { return Ok(BTreeMap::new()) };
        let mut map = BTreeMap::new();
        for (name, value) in section.object {
            let text = match value {
                Value::String(text) => section.expand(name, text, lookup)?,
                Value::Number(number) => number.to_string(),
                Value::Bool(flag) => flag.to_string(),
                _ => return Err(section.wrong(name, "a string")),
            };
            map.insert(name.clone(), text);
        }
        Ok(map)
    }

    pub(super) fn boolean(&self, key: &str) -> Result<Option<bool>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.wrong(key, "true or false")),
        }
    }

    /// A whole number of at least `least`.
    pub(super) fn count(&self, key: &str, least: usize) -> Result<Option<usize>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
        match number.filter(|&number| number >= least) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(key, &format!("a whole number of at least {least}"))),
        }
    }

    /// A time in seconds, more than 0.
    pub(super) fn seconds(&self, key: &str) -> Result<Option<Duration>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_f64().and_then(seconds) {
            Some(time) => Ok(Some(time)),
            None => Err(self.wrong(key, "a number of seconds above 0")),
        }
    }

    /// An address and port; `localhost`, or nothing, before the port is this machine.
    pub(super) fn address(&self, key: &str) -> Result<Option<SocketAddr>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_str().and_then(address) {
            Some(address) => Ok(Some(address)),
            None => Err(self.wrong(key, "an address like 127.0.0.1:8080")),
        }
    }

    /// A value of a closed set of words.
    pub(super) fn word<T: serde::de::DeserializeOwned>(
        &self,
        key: &str,
        expected: &str,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        serde_json::from_value(value.clone()).map(Some).map_err(|_| self.wrong(key, expected))
    }

    /// The folder that editors mean by `name`: the user's, or that of the work, which is the one that
    /// the file is in, or in whose `.vscode` or `.cursor` it is.
    fn folder(&self, name: &str, lookup: Lookup<'_>) -> Option<String> {
        match name {
            "userHome" => lookup("HOME").or_else(|| lookup("USERPROFILE")),
            "workspaceFolder" => {
                let file = std::path::absolute(self.file).ok()?;
                let folder = file.parent()?;
                let hidden = folder.ends_with(".vscode") || folder.ends_with(".cursor");
                let folder = if hidden { folder.parent()? } else { folder };
                Some(folder.display().to_string())
            }
            _ => None,
        }
    }

    /// Puts environment variables in; a value never appears in an error.
    fn expand(&self, key: &str, text: &str, lookup: Lookup<'_>) -> Result<String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            out.push_str(&rest[..start]);
            let inside = &rest[start + 2..];
            let Some(end) = inside.find('}') else {
                return Err(self.wrong(key, "closed after '${' (add '}')"));
            };
            let (name, fallback) = match inside[..end].split_once(":-") {
                Some((name, fallback)) => (name, Some(fallback)),
                None => (&inside[..end], None),
            };
            if let Some(input) = name.strip_prefix("input:") {
                return Err(format(format!(
                    "{}: {} asks for the input '{input}', which only its editor can ask for: set an \
                     environment variable and write ${{env:NAME}}",
                    self.file,
                    self.join(key)
                )));
            }
            let name = name.strip_prefix("env:").unwrap_or(name);
            let value = lookup(name).or_else(|| self.folder(name, lookup));
            match value.or_else(|| fallback.map(str::to_owned)) {
                Some(value) => out.push_str(&value),
                None => {
                    return Err(format(format!(
                        "{}: {} needs the environment variable '{name}', which is not set: set it \
                         or write ${{{name}:-fallback}}",
                        self.file,
                        self.join(key)
                    )));
                }
            }
            rest = &inside[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }
}
