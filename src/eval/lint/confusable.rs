//! Findings on pairs of tools.

use std::collections::{BTreeMap, HashMap};

use super::{Add, Rule};
use crate::catalog::{Snapshot, Tool};
use crate::engine::Engine;
use crate::error::Result;
use crate::text::stems;

/// Share of common words from which two tools say nearly the same.
const DUPLICATE: f64 = 0.9;
/// Sentences of a description that are asked with.
const SENTENCES: usize = 3;
/// Words of a sentence from which it is worth asking with.
const LEAST_WORDS: usize = 3;
/// Share of its own requests for which another tool comes first.
const CONFUSED: f64 = 0.5;

pub(super) fn check(
    engine: &Engine,
    snapshot: &Snapshot,
    add: &mut Add<'_>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<()> {
    let duplicates = near_duplicates(snapshot);
    for &(a, b, share) in &duplicates {
        let other = snapshot.tool(a).id();
        let message = if share >= 1.0 {
            format!("it has the very words of {other}")
        } else {
            format!("it shares {:.0} % of its words with {other}", share * 100.0)
        };
        add(Rule::NearDuplicate, b, Some(a), share, message);
    }
    let is_duplicate =
        |a: usize, b: usize| duplicates.iter().any(|&(x, y, _)| (x, y) == (a.min(b), a.max(b)));
    for (row, tool) in snapshot.tools().enumerate() {
        progress(row, snapshot.len());
        let requests = own_words(tool);
        let mut above: BTreeMap<usize, usize> = BTreeMap::new();
        for request in &requests {
            let ranked = engine.rank(request, 2)?;
            let Some(first) = ranked.first().and_then(|c| snapshot.row(&c.id)) else { continue };
            if first != row {
                *above.entry(first).or_default() += 1;
            }
        }
        let worst =
            above.into_iter().max_by_key(|&(other, times)| (times, std::cmp::Reverse(other)));
        let Some((other, times)) = worst else { continue };
        let share = times as f64 / requests.len() as f64;
        if share >= CONFUSED && !is_duplicate(row, other) {
            let message = format!(
                "{} comes first for {times} of {} requests in its own words",
                snapshot.tool(other).id(),
                requests.len()
            );
            // More requests make the same share weightier.
            add(Rule::Confusable, row, Some(other), share + times as f64 / 100.0, message);
        }
    }
    Ok(())
}

/// What somebody who knows the tool would ask for: the name in words and the first sentences.
fn own_words(tool: &Tool) -> Vec<String> {
    let name = tool.name().replace(['_', '-', '.', '/'], " ");
    let sentences = tool
        .description()
        .split_inclusive(['.', '\n', ';'])
        .map(|sentence| sentence.trim().trim_end_matches(['.', ';']).to_owned())
        .filter(|sentence| stems(sentence).len() >= LEAST_WORDS)
        .take(SENTENCES);
    std::iter::once(name).filter(|name| !stems(name).is_empty()).chain(sentences).collect()
}

/// Pairs of rows whose words (name and description) are nearly the same, with the share.
fn near_duplicates(snapshot: &Snapshot) -> Vec<(usize, usize, f64)> {
    let mut numbers: HashMap<String, u32> = HashMap::new();
    let mut sets: Vec<(Vec<u32>, usize)> = Vec::with_capacity(snapshot.len());
    for (row, tool) in snapshot.tools().enumerate() {
        let mut set: Vec<u32> = [stems(tool.name()), stems(tool.description())]
            .concat()
            .into_iter()
            .map(|term| {
                let next = numbers.len() as u32;
                *numbers.entry(term).or_insert(next)
            })
            .collect();
        set.sort_unstable();
        set.dedup();
        sets.push((set, row));
    }
    // Sets of very different size cannot be alike, so that each is compared with few.
    sets.sort_by_key(|(set, row)| (set.len(), *row));
    let mut pairs = Vec::new();
    for (at, (set, row)) in sets.iter().enumerate() {
        if set.len() < LEAST_WORDS || snapshot.tool(*row).description().trim().is_empty() {
            continue;
        }
        let most = (set.len() as f64 / DUPLICATE).floor() as usize;
        for (other, other_row) in sets[at + 1..].iter().take_while(|(set, _)| set.len() <= most) {
            let common = common(set, other);
            let share = common as f64 / (set.len() + other.len() - common) as f64;
            if share >= DUPLICATE {
                pairs.push((*row.min(other_row), *row.max(other_row), share));
            }
        }
    }
    pairs.sort_by(|a, b| b.2.total_cmp(&a.2).then((a.0, a.1).cmp(&(b.0, b.1))));
    // One finding a tool is enough: its likest.
    let mut seen = std::collections::HashSet::new();
    pairs.retain(|&(_, b, _)| seen.insert(b));
    pairs
}

/// How many numbers two sorted lists share.
fn common(a: &[u32], b: &[u32]) -> usize {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                count += 1;
                i += 1;
                j += 1;
            }
        }
    }
    count
}
