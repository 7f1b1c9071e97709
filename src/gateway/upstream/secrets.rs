//! What must not be in a log, whoever says it.

use std::fmt;
use std::sync::Arc;

use crate::gateway::config::Target;

/// Shorter values of variables are flags and numbers, and would be found inside of other words.
const LEAST: usize = 8;

/// Values of variables and headers, and the address of a server: what the configuration gives it and
/// nobody else.
#[derive(Clone)]
pub(super) struct Secrets {
    /// Longest first, so that one inside of another leaves nothing of the longer one.
    hidden: Arc<[(String, &'static str)]>,
}

impl Secrets {
    pub(super) fn of(target: &Target) -> Self {
        let mut hidden: Vec<(String, &'static str)> = Vec::new();
        match target {
            // A path is none, and says much in an error.
            Target::Stdio { env, .. } => hidden.extend(
                env.values()
                    .filter(|value| value.len() >= LEAST && !value.starts_with('/'))
                    .map(|value| (value.clone(), "***")),
            ),
            Target::Http { url, headers } => {
                let plain = url.split(['?', '#']).next().unwrap_or(url);
                hidden.extend([url.as_str(), plain].map(|url| (url.to_owned(), "its address")));
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
        let secrets = Secrets::of(&Target::Stdio { command, args, env, cwd: None });
        assert_eq!(secrets.hide("1: s3cr3t-value in /home/ada/x"), "1: *** in /home/ada/x");

        let headers = [("Authorization".to_owned(), "Bearer abc".to_owned())].into();
        let url = "https://h/mcp?key=1".to_owned();
        let secrets = Secrets::of(&Target::Http { url, headers });
        assert_eq!(secrets.hide("abc at https://h/mcp?key=1"), "*** at its address");
    }
}
