//! Keys that do not exist, and the ones that were meant.

use toml::de::{DeTable, DeValue};

use super::keys::{KEYS, TABLES};
use crate::error::{Error, ErrorKind, Result};

/// How alike two keys have to be for one to be suggested (Jaro-Winkler, in [0, 1]).
const ALIKE: f64 = 0.8;

/// Refuses `text` when it is no TOML or has a key that does not exist.
pub(super) fn check(text: &str, place: &str) -> Result<()> {
    let root = DeTable::parse(text).map_err(|error| {
        let line = line_of(text, error.span().unwrap_or_default().start);
        let what = error.message().trim().replace('\n', ", ");
        Error::new(ErrorKind::Format, format!("{place}, line {line}: {what}: mend the TOML"))
    })?;
    walk(root.get_ref(), "", &|path, at| {
        let line = line_of(text, at);
        let hint = suggestion(path).map_or_else(
            || "see toolrack config for all keys".to_owned(),
            |key| format!("did you mean '{key}'?"),
        );
        Error::new(ErrorKind::Format, format!("{place}, line {line}: unknown key '{path}': {hint}"))
    })
}

fn walk(table: &DeTable<'_>, prefix: &str, error: &dyn Fn(&str, usize) -> Error) -> Result<()> {
    for (name, value) in table {
        let path = if prefix.is_empty() {
            name.get_ref().to_string()
        } else {
            format!("{prefix}.{}", name.get_ref())
        };
        if KEYS.iter().any(|key| key.path == path) {
            continue;
        }
        let is_table = TABLES.iter().any(|(table, _)| *table == path);
        match value.get_ref() {
            DeValue::Table(inner) if is_table => walk(inner, &path, error)?,
            // The type is the next check's concern.
            _ if is_table => {}
            _ => return Err(error(&path, name.span().start)),
        }
    }
    Ok(())
}

/// The name that was meant by the last part of `path`: of the same table, else with its table.
fn suggestion(path: &str) -> Option<String> {
    let (table, name) = path.rsplit_once('.').unwrap_or(("", path));
    let tables = TABLES.iter().map(|(table, _)| *table);
    let all: Vec<&str> = KEYS.iter().map(|key| key.path).chain(tables).collect();
    let split = |path: &'static str| path.rsplit_once('.').unwrap_or(("", path));
    let beside = all.iter().map(|path| split(path)).filter(|(of, _)| *of == table);
    let best = |names: &mut dyn Iterator<Item = (f64, String)>| {
        names.filter(|(score, _)| *score >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let score = |other: &str| strsim::jaro_winkler(name, other);
    let near = best(&mut beside.map(|(_, other)| (score(other), other.to_owned())));
    let far = best(&mut all.iter().map(|path| (score(split(path).1), (*path).to_owned())));
    match (near, far) {
        // The very key in another table is meant rather than a similar one in this.
        (Some((near, _)), Some((far, path))) if far >= 1.0 && near < 1.0 => Some(path),
        (Some((_, name)), _) => Some(name),
        (None, far) => far.map(|(_, path)| path),
    }
}

/// The number of the line that holds byte `at`, from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count() + 1
}
