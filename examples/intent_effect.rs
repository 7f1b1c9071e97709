//! What the English intent rules do to labelled conversations, those that need no tool included.
//!
//! `cargo run --release --example intent_effect <folder with tools.jsonl and queries.jsonl>...`
//!
//! Every user turn counts as one request: by its `steps` when the dataset has turns, else by its
//! `tools`. A request without either needs no tool.

use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use toolrack::{Catalog, Engine, IntentRules, Outcome, SelectRequest, Selection};

#[derive(Deserialize)]
struct Query {
    query: String,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    turns: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    query: String,
    #[serde(default)]
    steps: Vec<String>,
}

#[derive(Default)]
struct Tally {
    /// Requests, and those read as needing no tool.
    requests: usize,
    not_needed: usize,
    /// Tools sent, their tokens, and the share of right tools among them.
    tools: usize,
    tokens: usize,
    recall: f64,
}

impl Tally {
    fn count(&mut self, selection: &Selection, right: &[String]) {
        self.requests += 1;
        self.not_needed += usize::from(selection.outcome == Outcome::NotNeeded);
        self.tools += selection.candidates.len();
        self.tokens += selection.tokens.sent;
        let has = |name: &&String| selection.candidates.iter().any(|c| c.id.name() == *name);
        let hits = right.iter().filter(has).count();
        self.recall += hits as f64 / right.len().max(1) as f64;
    }

    fn line(&self) -> String {
        let n = self.requests.max(1) as f64;
        format!(
            "{:>5} requests  not needed {:>5.1} %  tools {:>5.2}  tokens {:>6.0}  recall {:.3}",
            self.requests,
            100.0 * self.not_needed as f64 / n,
            self.tools as f64 / n,
            self.tokens as f64 / n,
            self.recall / n,
        )
    }
}

fn main() -> anyhow::Result<()> {
    let verbose = std::env::args().any(|arg| arg == "--list");
    for folder in std::env::args().skip(1).filter(|arg| arg != "--list") {
        let folder = Path::new(&folder);
        let engine = Engine::builder(Catalog::read(folder.join("tools.jsonl"))?).build()?;
        let text = std::fs::read_to_string(folder.join("queries.jsonl"))?;
        let mut requests: Vec<(String, Vec<String>)> = Vec::new();
        for line in text.lines() {
            let query: Query = serde_json::from_str(line).context("a line of queries.jsonl")?;
            if query.turns.is_empty() {
                requests.push((query.query, query.tools));
            }
            requests.extend(query.turns.into_iter().map(|turn| (turn.query, turn.steps)));
        }
        let rules = std::sync::Arc::new(IntentRules::english());
        // [needs a tool][with rules]
        let mut tallies: [[Tally; 2]; 2] = Default::default();
        for (text, tools) in &requests {
            let plain = SelectRequest::new(text.as_str()).k(8);
            let ruled = plain.clone().intent_rules(rules.clone());
            for (place, request) in [plain, ruled].iter().enumerate() {
                let selection = engine.select(request)?;
                let read = selection.intent.as_ref().map(|intent| &intent.reading);
                if let (true, Some(reading)) = (verbose, read)
                    && (selection.outcome == Outcome::NotNeeded) == tools.is_empty()
                {
                    println!("  right: {reading}: {text}");
                } else if let (true, Some(reading)) = (verbose, read) {
                    println!("  wrong: {reading}: {text}");
                }
                tallies[usize::from(!tools.is_empty())][place].count(&selection, tools);
            }
        }
        println!("{}", folder.file_name().unwrap_or_default().display());
        for (tally, what) in tallies.iter().zip(["needs no tool", "needs a tool "]) {
            for (tally, rules) in tally.iter().zip(["without rules", "with rules   "]) {
                if tally.requests > 0 {
                    println!("  {what}  {rules}  {}", tally.line());
                }
            }
        }
    }
    Ok(())
}
