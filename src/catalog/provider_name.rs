//! Names that every provider takes: `^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`.

use std::borrow::Cow;

use super::tool::{DEFAULT_NAMESPACE, ToolId};
use crate::digest::sha256_hex;

/// The longest name that OpenAI and Anthropic take.
pub const MAX_PROVIDER_NAME: usize = 64;

/// Hexadecimal digits in a hash tail: 40 bits, one collision expected among a million names.
const TAIL: usize = 10;

/// What stands between namespace and name.
const SEPARATOR: &str = "__";

/// The provider name that follows from `id` alone.
///
/// A tool of the default namespace keeps its name, any other is `namespace__name`. What begins with
/// a digit or a hyphen gets a `_` in front, since Gemini takes neither there. When a character has
/// to be replaced or the whole is too long, the end becomes `_` and a hash of the id, so that names
/// that differ only in what was cut or replaced stay distinct.
pub(crate) fn provider_name(id: &ToolId) -> String {
    let whole = whole(id);
    let fits = whole.len() <= MAX_PROVIDER_NAME && whole.bytes().all(is_safe);
    if fits { whole } else { hashed(id) }
}

/// What a provider's name keeps of `id` when no hash tells it apart: safe characters, cut to the limit.
pub(crate) fn readable(id: &ToolId) -> String {
    let mut safe = safe(id);
    if safe.len() > MAX_PROVIDER_NAME {
        safe.truncate(MAX_PROVIDER_NAME - TAIL - 1);
    }
    safe
}

/// The form with a hash tail, for an id whose plain form another id already has.
pub(crate) fn hashed(id: &ToolId) -> String {
    with_tail(id, &id.to_string())
}

/// A further form with a hash tail, for an id whose first one another id already has.
pub(crate) fn rehashed(id: &ToolId, attempt: u64) -> String {
    with_tail(id, &format!("{id}\0{attempt}"))
}

fn with_tail(id: &ToolId, hashed: &str) -> String {
    let mut safe = safe(id);
    safe.truncate(MAX_PROVIDER_NAME - TAIL - 1);
    // A name of nothing but replaced characters says nothing: begin it with a word.
    let stem = safe.trim_matches('_');
    let stem = if stem.is_empty() { "tool" } else { stem };
    format!("{}_{}", begun(stem), &sha256_hex(hashed)[..TAIL])
}

/// `name` with a beginning that Gemini takes.
fn begun(name: &str) -> Cow<'_, str> {
    if name.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        Cow::Owned(format!("_{name}"))
    } else {
        Cow::Borrowed(name)
    }
}

fn whole(id: &ToolId) -> String {
    if id.namespace() == DEFAULT_NAMESPACE {
        begun(id.name()).into_owned()
    } else {
        begun(&format!("{}{SEPARATOR}{}", id.namespace(), id.name())).into_owned()
    }
}

/// The whole with `_` for every character that providers refuse.
fn safe(id: &ToolId) -> String {
    whole(id).chars().map(|c| if c.is_ascii() && is_safe(c as u8) { c } else { '_' }).collect()
}

fn is_safe(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(namespace: &str, name: &str) -> String {
        provider_name(&ToolId::new(namespace, name).unwrap())
    }

    #[test]
    fn safe_names_stay_as_they_are() {
        assert_eq!(name("default", "read_file"), "read_file");
        assert_eq!(name("github", "create-issue"), "github__create-issue");
    }

    #[test]
    fn replaced_characters_leave_a_tail() {
        insta::assert_snapshot!(name("default", "GET /search/person"), @"GET__search_person_c2e25b4b99");
        insta::assert_snapshot!(name("law", "法令検索"), @"law_ff7a74716d");
        insta::assert_snapshot!(name("default", "法令検索"), @"tool_5dda4e23be");
    }

    proptest! {
        #[test]
        fn always_valid_and_distinct(
            a in "[a-z0-9-]{1,4}", b in ".{1,90}", c in "[a-z0-9-]{1,4}|default", d in ".{1,90}",
        ) {
            prop_assume!(!b.trim().is_empty() && !d.trim().is_empty());
            let (first, second) = (name(&a, &b), name(&c, &d));
            for name in [&first, &second] {
                prop_assert!(name.len() <= MAX_PROVIDER_NAME && !name.is_empty());
                prop_assert!(name.bytes().all(is_safe));
                prop_assert!(name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'));
            }
            // Plain forms may meet (`a__b` in another namespace); the snapshot parts those.
            if (a, b) != (c, d) && first.rsplit('_').next().is_some_and(|tail| tail.len() == TAIL) {
                prop_assert_ne!(first, second);
            }
        }
    }
}
