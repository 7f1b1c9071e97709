//! Clients that are known by the name they give.

use super::settings::Mode;

/// What is known of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownClient {
    /// How its name begins, in lower case.
    prefix: &'static str,
    /// The mode that suits it.
    pub mode: Mode,
    /// Whether it reads the list anew when a change is announced.
    pub follows: bool,
}

const fn known(prefix: &'static str, mode: Mode, follows: bool) -> KnownClient {
    KnownClient { prefix, mode, follows }
}

/// A client that reads the list anew gets `list`, one that reads it once gets `bridge`: its list is
/// then constant anyway. The longer prefix comes first.
const CLIENTS: &[KnownClient] = &[
    known("claude-code", Mode::List, true),
    known("claude-ai", Mode::Bridge, false),
    known("visual studio code", Mode::List, true),
    known("cursor", Mode::List, true),
    known("codex", Mode::Bridge, false),
    known("gemini-cli", Mode::List, true),
    known("cline", Mode::Bridge, false),
    known("windsurf", Mode::Bridge, false),
    known("zed", Mode::List, true),
    known("mcp-inspector", Mode::List, false),
    known("inspector-client", Mode::List, false),
];

/// What is known of the client called `name`; `list`, and nothing taken for granted, for others.
pub(crate) fn client(name: &str) -> KnownClient {
    let name = name.to_lowercase();
    let found = CLIENTS.iter().find(|known| name.starts_with(known.prefix));
    found.copied().unwrap_or(KnownClient { prefix: "", mode: Mode::List, follows: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_known_by_the_beginning_of_their_name() {
        assert_eq!(client("claude-ai").mode, Mode::Bridge);
        assert!(client("Visual Studio Code - Insiders").follows);
        assert_eq!(client("something else"), client(""));
        assert_eq!(client("something else").mode, Mode::List);
    }
}
