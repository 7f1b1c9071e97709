//! Names of prompts and addresses of resources, made distinct by their server.

use std::collections::BTreeSet;

/// Between a server's name and a prompt's.
const SEPARATOR: &str = "__";

/// The name of a prompt for clients.
pub(crate) fn prompt(server: &str, name: &str) -> String {
    format!("{server}{SEPARATOR}{name}")
}

/// The name of a prompt at `server`, if `shown` is one of it.
pub(crate) fn prompt_at<'a>(server: &str, shown: &'a str) -> Option<&'a str> {
    shown.strip_prefix(server)?.strip_prefix(SEPARATOR)
}

/// Prefixes of addresses, one a server: `slug+` before the scheme is a scheme again, so that an
/// address stays one and a template stays one.
#[derive(Debug, Default)]
pub(crate) struct Slugs {
    /// Slug and server.
    slugs: Vec<(String, String)>,
}

impl Slugs {
    pub(crate) fn of<'a>(servers: impl Iterator<Item = &'a str>) -> Self {
        let mut taken = BTreeSet::new();
        let slugs = servers.map(|server| {
            let stem = slug(server);
            let mut unique = stem.clone();
            let mut count = 1;
            while !taken.insert(unique.clone()) {
                count += 1;
                unique = format!("{stem}-{count}");
            }
            (unique, server.to_owned())
        });
        Self { slugs: slugs.collect() }
    }

    /// The address for clients.
    pub(crate) fn join(&self, server: &str, uri: &str) -> String {
        match self.slugs.iter().find(|(_, name)| name == server) {
            Some((slug, _)) => format!("{slug}+{uri}"),
            None => uri.to_owned(),
        }
    }

    /// Server and address there, if `shown` has the prefix of one.
    pub(crate) fn split<'a>(&self, shown: &'a str) -> Option<(&str, &'a str)> {
        let (slug, uri) = shown.split_once('+')?;
        let slug = slug.to_ascii_lowercase();
        let (_, server) = self.slugs.iter().find(|(other, _)| *other == slug)?;
        Some((server, uri))
    }
}

/// Lower case, because readers of addresses make schemes so, and a letter first.
fn slug(server: &str) -> String {
    let plain: String = server
        .chars()
        .map(|c| match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9' | '.') => c,
            _ => '-',
        })
        .collect();
    if plain.starts_with(|c: char| c.is_ascii_alphabetic()) { plain } else { format!("s{plain}") }
}

/// Whether `uri` may come from `template`: what stands before the first variable is the same.
pub(crate) fn fits(template: &str, uri: &str) -> bool {
    let literal = template.split('{').next().unwrap_or_default();
    literal.contains(':') && uri.starts_with(literal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_come_back() {
        assert_eq!(prompt("git hub", "review"), "git hub__review");
        assert_eq!(prompt_at("git hub", "git hub__review"), Some("review"));
        assert_eq!(prompt_at("git", "github__review"), None);
    }

    #[test]
    fn addresses_come_back_and_are_distinct() {
        let slugs = Slugs::of(["Files", "files", "7up", "ä b"].into_iter());
        let shown = slugs.join("files", "file:///a{?b}");
        assert_eq!(shown, "files-2+file:///a{?b}");
        assert_eq!(slugs.split(&shown), Some(("files", "file:///a{?b}")));
        assert_eq!(slugs.join("7up", "x:y"), "s7up+x:y");
        assert_eq!(slugs.split("FILES+x:y"), Some(("Files", "x:y")));
        assert_eq!(slugs.split("git+ssh://host"), None);
    }

    #[test]
    fn a_template_without_a_literal_scheme_fits_nothing() {
        assert!(fits("demo://text/{id}", "demo://text/7"));
        assert!(!fits("{+uri}", "demo://text/7"));
    }
}
