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

/// A client that reads the list anew when told gets `list`; one that reads it once gets `bridge`,
/// because what it is not shown at the beginning it is never shown.
///
/// Who does what is from the index of clients `mcp-client-capabilities` 0.0.14, by the names that
/// they send; that Claude Code and Codex do not follow is also in their issues (claude-code 79826,
/// codex 10105).
const CLIENTS: &[KnownClient] = &[
    known("cline", Mode::List, true),
    known("cursor", Mode::List, true),
    known("kilo-code", Mode::List, true),
    known("opencode", Mode::List, true),
    known("visual studio code", Mode::List, true),
    known("visual-studio-code", Mode::List, true),
    known("windsurf", Mode::List, true),
    known("@librechat", Mode::Bridge, false),
    known("amp-mcp-client", Mode::Bridge, false),
    known("antigravity-client", Mode::Bridge, false),
    known("chatgpt", Mode::Bridge, false),
    known("cherry studio", Mode::Bridge, false),
    known("claude-ai", Mode::Bridge, false),
    known("claude-code", Mode::Bridge, false),
    known("codex", Mode::Bridge, false),
    known("continue", Mode::Bridge, false),
    known("crush", Mode::Bridge, false),
    known("gemini-cli", Mode::Bridge, false),
    known("github-copilot", Mode::Bridge, false),
    known("goose", Mode::Bridge, false),
    known("q-dev-cli", Mode::Bridge, false),
    known("roo-code", Mode::Bridge, false),
    known("zed", Mode::Bridge, false),
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
