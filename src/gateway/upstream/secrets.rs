//! What must not be in a log, whoever says it.

use std::fmt;
use std::sync::Arc;

use crate::gateway::config::{Target, Variables};

/// Shorter values of variables are flags and numbers, and would be found inside of other words.
const LEAST: usize = 8;

/// Words in the names of variables and options whose values are secret.
const NAMES: [&str; 6] = ["key", "token", "secret", "pass", "auth", "cred"];

/// Values of variables, options and headers, and the address of a server: what the configuration
/// gives it and nobody else.
#[derive(Clone)]
pub(super) struct Secrets {
    /// Longest first, so that one inside of another leaves nothing of the longer one.
    hidden: Arc<[(String, &'static str)]>,
}

impl Secrets {
    pub(super) fn of(target: &Target, variables: &Variables) -> Self {
        let mut hidden: Vec<(String, &'static str)> = Vec::new();
        let named = variables.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        match target {
            Target::Stdio { args, env, .. } => {
                let env = env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                let all = named.chain(env).filter(|(name, value)| may_be_secret(name, value));
                hidden.extend(all.map(|(_, value)| (value.to_owned(), "***")));
                hidden.extend(in_arguments(args).map(|value| (value.to_owned(), "***")));
            }
            Target::Http { url, headers } => {
                let all = named.filter(|(name, value)| may_be_secret(name, value));
                hidden.extend(all.map(|(_, value)| (value.to_owned(), "***")));
                let plain = url.split(['?', '#']).next().unwrap_or(url);
                hidden.extend([url.as_str(), plain].map(|url| (url.to_owned(), "its address")));
                hidden.extend(in_address(url).map(|part| (part.to_owned(), "***")));
                for value in headers.values().filter(|value| !value.is_empty()) {
                    let secret = value.split_once(' ').map_or(value.as_str(), |(_, secret)| secret);
                    hidden.extend([value.as_str(), secret].map(|text| (text.to_owned(), "***")));
                }
            }
        }
        hidden.retain(|(text, _)| !text.is_empty());
        hidden.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Self { hidden: hidden.into() }
    }

    /// `text` without them.
    pub(super) fn hide(&self, text: &str) -> String {
        let hide = |text: String, (secret, shown): &(String, &str)| text.replace(secret, shown);
        self.hidden.iter().fold(text.to_owned(), hide)
    }
}

fn sounds_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    NAMES.iter().any(|word| name.contains(word))
}

/// A path is no secret, and says much in an error; but a key may begin like one.
fn may_be_secret(name: &str, value: &str) -> bool {
    value.len() >= LEAST && (!value.starts_with('/') || sounds_secret(name))
}

/// Values of options like `--api-key VALUE` and `--token=VALUE`, and of a bearer's header.
fn in_arguments(args: &[String]) -> impl Iterator<Item = &str> {
    let before = std::iter::once("").chain(args.iter().map(String::as_str));
    let pairs = before.zip(args.iter().map(String::as_str));
    pairs.filter_map(|(before, arg)| option_value(before, arg)).filter(|value| value.len() >= LEAST)
}

/// Of an address: who calls, what follows the host, and what its parameters are.
fn in_address(url: &str) -> impl Iterator<Item = &str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let caller = authority.rsplit_once('@').map(|(caller, _)| caller);
    let parameters = path.split_once('?').map_or("", |(_, parameters)| parameters);
    let values = parameters.split(['&', '#']).filter_map(|pair| Some(pair.split_once('=')?.1));
    let password = caller.and_then(|caller| Some(caller.split_once(':')?.1));
    let parts = [Some(path), caller, password].into_iter().flatten();
    parts.chain(values).filter(|part| part.len() >= LEAST)
}

fn option_value<'a>(before: &str, arg: &'a str) -> Option<&'a str> {
    if let Some((_, secret)) = arg.split_once("Bearer ") {
        return Some(secret.trim());
    }
    let is_option = |text: &str| text.starts_with('-') && sounds_secret(text);
    match arg.split_once('=') {
        Some((name, value)) if is_option(name) => Some(value),
        _ => (is_option(before) && !before.contains('=') && !arg.starts_with('-')).then_some(arg),
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_addresses_are_hidden_and_paths_are_not() {
        let env = [("KEY", "s3cr3t-value"), ("DEBUG", "1"), ("HOME", "/home/ada/x")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let (command, args) = ("x".to_owned(), Vec::new());
        let target = Target::Stdio { command, args, env, cwd: None };
        let secrets = Secrets::of(&target, &Variables::default());
        assert_eq!(secrets.hide("1: s3cr3t-value in /home/ada/x"), "1: *** in /home/ada/x");

        let headers = [("Authorization".to_owned(), "Bearer abc".to_owned())].into();
        let url = "https://h/mcp?key=1".to_owned();
        let secrets = Secrets::of(&Target::Http { url, headers }, &Variables::default());
        assert_eq!(secrets.hide("abc at https://h/mcp?key=1"), "*** at its address");

        let url = "https://ada:s3cr3t-pass@h/s/s3cr3t-path?key=s3cr3t-value&x=1".to_owned();
        let target = Target::Http { url, headers: [].into() };
        let secrets = Secrets::of(&target, &Variables::default());
        let said = "POST /s/s3cr3t-path?key=s3cr3t-value&x=1 by s3cr3t-pass: bad s3cr3t-value";
        assert_eq!(secrets.hide(said), "POST *** by ***: bad ***");
    }
    #[test]
    fn options_and_variables_are_hidden() {
        let args = [
            "--root",
            "/srv/data",
            "--api-key",
            "s3cr3t-one",
            "--token=s3cr3t-two",
            "--header",
            "Authorization: Bearer s3cr3t-three",
            "--passive",
            "--verbose-output",
            "plain-words",
        ];
        let args = args.map(str::to_owned).to_vec();
        let target = Target::Stdio { command: "x".to_owned(), args, env: [].into(), cwd: None };
        let variables =
            [("WHERE", "/home/ada/x"), ("KEY", "/s3cr3t-four"), ("SUBDOMAIN", "s3cr3t-five")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let secrets = Secrets::of(&target, &Variables(variables.to_vec()));
        let said = "s3cr3t-one s3cr3t-two s3cr3t-three /s3cr3t-four s3cr3t-five";
        assert_eq!(secrets.hide(said), "*** *** *** *** ***");
        let plain = "/srv/data /home/ada/x --verbose-output plain-words";
        assert_eq!(secrets.hide(plain), plain);
    }
}
