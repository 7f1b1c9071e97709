//! TREC's formats: judgements (qrels) and rankings (runs).

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;

use super::dataset::Dataset;
use super::lines::Lines;
use super::query::{GoldSlot, Query};
use crate::error::{Error, ErrorKind, Result};

/// Judgements: `query iteration tool relevance`, one a line, relevance above 0 being gold.
///
/// Tool names may have spaces, which the format cannot hold: they are written `%20` (and `%` is
/// `%25`). The second column, which TREC's programs ignore, is 0 for ordinary judgements; numbers
/// from 1 group alternatives: tools of one query with the same number fill one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Qrels {
    slots: HashMap<String, Vec<GoldSlot>>,
}

impl Qrels {
    /// The judgements in the file at `path` for the queries of `dataset`.
    pub(crate) fn read(path: &Path, dataset: &Dataset) -> Result<Self> {
        let known: HashMap<&str, &Query> =
            dataset.queries().iter().map(|query| (query.id.as_str(), query)).collect();
        let mut slots: HashMap<String, Vec<GoldSlot>> = HashMap::new();
        let mut numbered: HashMap<(String, u64), usize> = HashMap::new();
        for line in Lines::open(path)? {
            let (number, line) = line?;
            let within = |what: String| Lines::error(path, number, &what);
            let columns: Vec<&str> = line.split_whitespace().collect();
            let [id, iteration, tool, relevance] = columns[..] else {
                return Err(within(format!(
                    "has {} columns, not 4: write query, 0, tool and relevance",
                    columns.len()
                )));
            };
            let relevance: i64 = relevance.parse().map_err(|_| {
                within(format!("relevance '{relevance}' is no whole number: write 0 or 1"))
            })?;
            let id = decode(id);
            if !known.contains_key(id.as_str()) {
                return Err(within(format!(
                    "query '{id}' is not in {}: judge its queries",
                    dataset.name()
                )));
            }
            let tool = decode(tool);
            let row = dataset.row(&tool).ok_or_else(|| {
                within(format!(
                    "gold tool '{tool}' is not in the catalog: name a tool of {}",
                    dataset.name()
                ))
            })?;
            let list = slots.entry(id.clone()).or_default();
            if relevance <= 0 {
                continue;
            }
            let slot = iteration.parse::<u64>().ok().filter(|&slot| slot > 0);
            match slot.and_then(|slot| numbered.get(&(id.clone(), slot)).copied()) {
                Some(place) => list[place].alternatives.push(row),
                None => {
                    if let Some(slot) = slot {
                        numbered.insert((id, slot), list.len());
                    }
                    list.push(GoldSlot { tool: row, alternatives: Vec::new() });
                }
            }
        }
        if slots.is_empty() {
            return Err(Error::new(
                ErrorKind::Format,
                format!("{} is empty: write one judgement a line", path.display()),
            ));
        }
        Ok(Self { slots })
    }

    /// Replaces the labels of `queries` and leaves out those without a judgement.
    pub(crate) fn apply(mut self, queries: &mut Vec<Query>) {
        queries.retain_mut(|query| match self.slots.remove(&query.id) {
            Some(slots) => {
                query.slots = slots;
                true
            }
            None => false,
        });
    }
}

/// The judgements of `dataset` as a TREC qrels file.
///
/// The second column is 0, or the number of the slot from 1 in a dataset with alternatives.
///
/// # Example
/// ```
/// use toolrack::eval::{Dataset, write_qrels};
///
/// let set = Dataset::parse(
///     "demo",
///     r#"[{"name": "GET /me"}, {"name": "POST /me"}]"#,
///     r#"{"id": "q1", "query": "who am I?", "tools": ["GET /me"]}"#,
/// )?;
/// assert_eq!(write_qrels(&set), "q1 0 GET%20/me 1\n");
/// # Ok::<(), toolrack::Error>(())
/// ```
pub fn write_qrels(dataset: &Dataset) -> String {
    let slotted = |query: &Query| query.slots.iter().any(|slot| !slot.alternatives.is_empty());
    let numbered = dataset.queries().iter().any(slotted);
    let mut out = String::new();
    for query in dataset.queries() {
        for (place, slot) in query.slots.iter().enumerate() {
            let iteration = if numbered { place + 1 } else { 0 };
            for &row in std::iter::once(&slot.tool).chain(&slot.alternatives) {
                let (id, tool) = (encode(&query.id), encode(&dataset.tool_name(row)));
                // Writing to a string cannot fail.
                let _ = writeln!(out, "{id} {iteration} {tool} 1");
            }
        }
    }
    out
}

/// `rankings` (rows, best first, one list a query of `dataset`) as a TREC run file called `tag`.
///
/// Scores fall by one a rank, so that programs that sort by score keep the order.
pub fn write_trec_run(dataset: &Dataset, rankings: &[Vec<usize>], tag: &str) -> String {
    let mut out = String::new();
    let tag = encode(tag);
    for (query, ranked) in dataset.queries().iter().zip(rankings) {
        for (place, &row) in ranked.iter().enumerate() {
            let (id, tool) = (encode(&query.id), encode(&dataset.tool_name(row)));
            let score = ranked.len() - place;
            let _ = writeln!(out, "{id} Q0 {tool} {} {score} {tag}", place + 1);
        }
    }
    out
}

/// Reads a ranking that some program made for `dataset`: a TREC run (ordered by score, ties as in
/// the file) or JSON lines `{"id", "ranked": [names, best first]}`.
///
/// Rows come in the order of the dataset's queries; a query without a ranking has an empty one.
///
/// # Errors
/// [`ErrorKind::Io`], or [`ErrorKind::Format`] with file and line for a line that is not understood,
/// an unknown query, an unknown tool, a tool or query that is ranked twice, or an empty file.
pub fn read_run(path: impl AsRef<Path>, dataset: &Dataset) -> Result<Vec<Vec<usize>>> {
    let path = path.as_ref();
    let places: HashMap<&str, usize> =
        dataset.queries().iter().enumerate().map(|(at, query)| (query.id.as_str(), at)).collect();
    let mut scored: BTreeMap<usize, Vec<(f64, usize)>> = BTreeMap::new();
    for line in Lines::open(path)? {
        let (number, line) = line?;
        let within = |what: String| Lines::error(path, number, &what);
        let place = |id: &str| {
            places.get(id).copied().ok_or_else(|| {
                within(format!("query '{id}' is not in {}: rank its queries", dataset.name()))
            })
        };
        let row = |tool: &str| {
            dataset.row(tool).ok_or_else(|| {
                within(format!(
                    "tool '{tool}' is not in the catalog: rank the tools of {}",
                    dataset.name()
                ))
            })
        };
        let (at, entries) = if line.trim_start().starts_with('{') {
            let ranked: RankedLine = serde_json::from_str(&line).map_err(|error| {
                let error = Lines::json_error(&error);
                within(format!("is no ranking ({error}): write an object with id and ranked"))
            })?;
            let at = place(&ranked.id)?;
            if scored.contains_key(&at) {
                return Err(within(format!("query '{}' is ranked twice: rank it once", ranked.id)));
            }
            let rows = ranked.ranked.iter().map(|tool| row(tool)).collect::<Result<Vec<_>>>()?;
            (at, rows.into_iter().enumerate().map(|(n, row)| (-(n as f64), row)).collect())
        } else {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let [id, _, tool, _, score, _] = columns[..] else {
                return Err(within(format!(
                    "has {} columns, not 6: write query, Q0, tool, rank, score and a tag",
                    columns.len()
                )));
            };
            let score = score.parse::<f64>().ok().filter(|score| score.is_finite());
            let score = score.ok_or_else(|| {
                within(format!("score '{}' is no number: write the score", columns[4]))
            })?;
            (place(&decode(id))?, vec![(score, row(&decode(tool))?)])
        };
        let list = scored.entry(at).or_default();
        for (score, row) in entries {
            if list.iter().any(|&(_, other)| other == row) {
                return Err(within(format!(
                    "tool '{}' is ranked twice for one query: rank it once",
                    dataset.tool_name(row)
                )));
            }
            list.push((score, row));
        }
    }
    if scored.is_empty() {
        return Err(Error::new(
            ErrorKind::Format,
            format!("{} is empty: write one ranking a line", path.display()),
        ));
    }
    let mut rankings = vec![Vec::new(); dataset.len()];
    for (at, mut list) in scored {
        list.sort_by(|a, b| b.0.total_cmp(&a.0));
        rankings[at] = list.into_iter().map(|(_, row)| row).collect();
    }
    Ok(rankings)
}

#[derive(serde::Deserialize)]
struct RankedLine {
    id: String,
    ranked: Vec<String>,
}

fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '%' || c.is_whitespace() {
            let mut buffer = [0; 4];
            for byte in c.encode_utf8(&mut buffer).bytes() {
                let _ = write!(out, "%{byte:02X}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Undoes [`encode`]; other uses of `%` stay as they are.
fn decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_format() {
        for name in ["GET /a b", "100%", "50%20", "tab\tand\u{a0}more", "plain", "日本 語"] {
            let encoded = encode(name);
            assert!(!encoded.contains(char::is_whitespace), "{encoded}");
            assert_eq!(decode(&encoded), name);
        }
        assert_eq!(decode("100%_of"), "100%_of");
    }
}
