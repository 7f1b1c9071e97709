//! What the terminal shows at the end: the findings, and the figures of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use toolrack::AdmitReason;

use super::agent::{Outcome, Step};
use super::reconcile::{Direction, Mismatch, money, thousands};
use super::report::{Style, WIDTH, cut, wrapped};
use super::task::FINDINGS;
use super::world::World;

/// What a run comes to, step by step.
#[derive(Debug, Default)]
pub struct Totals {
    /// Calls of the model.
    pub model_calls: usize,
    /// Calls of tools that ran.
    pub tool_calls: usize,
    /// Tokens of the tool lists that were sent.
    pub sent: usize,
    /// Tokens that all definitions would have taken.
    pub baseline: usize,
    /// Tokens of the conversation, which both would have sent.
    pub conversation: usize,
    /// Tools that came in through `find_tool`, in order.
    pub found: Vec<String>,
    /// Tools that were called after they had been evicted, in order.
    pub returned: Vec<String>,
    /// Requests whose list differed from the one before.
    pub changes: usize,
    /// Those among them in which the list only grew at its end.
    pub grown: usize,
    evicted: BTreeSet<String>,
    last_list: Option<String>,
}

impl Totals {
    /// Takes in a step.
    pub fn add(&mut self, step: &Step) {
        let tokens = step.visible.tokens();
        self.model_calls += 1;
        self.tool_calls +=
            step.calls.iter().filter(|done| matches!(done.outcome, Outcome::Ran(..))).count();
        self.sent += tokens.sent;
        self.baseline += tokens.naive;
        self.conversation += step.conversation;
        for (id, why) in &step.delta.admitted {
            if *why == AdmitReason::Found {
                self.found.push(id.to_string());
            }
        }
        for (id, _) in &step.delta.evicted {
            self.evicted.insert(id.to_string());
        }
        for done in &step.calls {
            if let Outcome::Ran(id, _) = &done.outcome
                && self.evicted.remove(&id.to_string())
            {
                self.returned.push(id.to_string());
            }
        }
        if let Some(last) = self.last_list.replace(step.tools.clone()).filter(|l| *l != step.tools)
        {
            self.changes += 1;
            self.grown += usize::from(step.tools.starts_with(last.trim_end_matches(']')));
        }
    }

    /// Share of the baseline that was saved, in percent.
    pub fn saved(&self) -> f64 {
        percent_saved(self.sent, self.baseline)
    }
}

/// The mismatches that the agent noted, with amounts and tickets.
pub fn findings(world: &World, style: Style) -> Result<String> {
    let mut text = format!("\n{}\n", style.bold("What does not add up"));
    let noted = noted(world);
    text += &format!(
        "  {:<20} {:<14} {:<10} {:>17} {:<7} {:<9} {}\n",
        "kind", "record", "payment", "amount", "", "ticket", "assigned to"
    );
    let mut any_before = false;
    for found in &noted.found {
        let ticket = ticket_of(world, found);
        let field = |name: &str| ticket.and_then(|ticket| ticket[name].as_str()).unwrap_or("-");
        let direction = match found.direction {
            Direction::Under => "under",
            Direction::Over => "over",
        };
        let payment = found.payment_id.as_deref().filter(|id| *id != found.record());
        let opened = world.opened.iter().any(|opened| Some(opened) == ticket);
        let before = if ticket.is_some() && !opened { "*" } else { "" };
        any_before |= !before.is_empty();
        let _ = writeln!(
            text,
            "  {:<20} {:<14} {:<10} {:>17} {:<7} {:<9} {}",
            found.kind,
            found.record(),
            payment.unwrap_or(""),
            found.amount(),
            direction,
            format!("{}{before}", field("id")),
            field("assignee_email").split('@').next().unwrap_or("-"),
        );
    }
    for line in &noted.unreadable {
        let _ = writeln!(text, "  {}", cut(&format!("not understood: {line}"), WIDTH - 2));
    }
    if noted.found.is_empty() && noted.unreadable.is_empty() {
        text += "  The model left no findings in its notes.\n";
    }
    if any_before {
        text += "  * was at work before\n";
    }
    let mut sums: BTreeMap<(&str, Direction), i64> = BTreeMap::new();
    for found in &noted.found {
        *sums.entry((&found.currency, found.direction)).or_default() += found.amount_cents;
    }
    for (direction, word) in [(Direction::Under, "Too little"), (Direction::Over, "Too much")] {
        let of: Vec<String> = sums
            .iter()
            .filter(|((_, d), _)| *d == direction)
            .map(|((currency, _), cents)| money(*cents, currency))
            .collect();
        if !of.is_empty() {
            let _ = writeln!(text, "  {word}: {}", of.join(", "));
        }
    }
    text += &wrapped(&format!("  Checked: {}", check(&noted)?), "  ", WIDTH);
    Ok(text)
}

/// The figures of the run.
pub fn totals(world: &World, totals: &Totals, style: Style) -> String {
    let mut text = format!("\n{}\n", style.bold("Totals"));
    let mut line = |name: &str, value: String| {
        text += &wrapped(&format!("  {name:<24}{value}"), &" ".repeat(26), WIDTH);
    };
    let list = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => format!("{}: {}", names.len(), names.join(", ")),
    };
    let opened: Vec<&str> =
        world.opened.iter().filter_map(|ticket| ticket["id"].as_str()).collect();
    line(
        "tickets opened",
        match opened.as_slice() {
            [first, .., last] => format!("{}: {first} to {last}", opened.len()),
            few => format!("{} {}", few.len(), few.join("")).trim_end().to_owned(),
        },
    );
    line("mails sent", world.outbox.len().to_string());
    line(
        "model calls",
        format!("{}, with {} tool calls run", totals.model_calls, totals.tool_calls),
    );
    line(
        "tokens of tool lists",
        format!(
            "{} instead of {} ({:.0} % less)",
            thousands(totals.sent),
            thousands(totals.baseline),
            totals.saved(),
        ),
    );
    let (with, without) =
        (totals.sent + totals.conversation, totals.baseline + totals.conversation);
    line(
        "with the conversation",
        format!(
            "{} instead of {} ({:.0} % less)",
            thousands(with),
            thousands(without),
            percent_saved(with, without),
        ),
    );
    line("brought by find_tool", list(&totals.found));
    line("evicted, called later", list(&totals.returned));
    line(
        "list changes",
        format!(
            "{} in {} requests, {} of them only at the end of the list",
            totals.changes, totals.model_calls, totals.grown
        ),
    );
    text
}

fn percent_saved(sent: usize, baseline: usize) -> f64 {
    if baseline == 0 { 0.0 } else { 100.0 * (1.0 - sent as f64 / baseline as f64) }
}

/// What the note of findings holds.
#[derive(Debug, Default)]
pub struct Noted {
    /// Findings in the form that the system prompt asks for.
    pub found: Vec<Mismatch>,
    /// Others.
    pub unreadable: Vec<String>,
}

/// The findings in the agent's notes.
pub fn noted(world: &World) -> Noted {
    let mut noted = Noted::default();
    match world.notes.get(FINDINGS) {
        None => {}
        Some(Value::Array(list)) => {
            for entry in list {
                match Mismatch::deserialize(entry) {
                    Ok(found) => noted.found.push(found),
                    Err(_) => noted.unreadable.push(entry.to_string()),
                }
            }
        }
        Some(other) => noted.unreadable.push(other.to_string()),
    }
    noted.found.sort();
    noted
}

/// The ticket about a mismatch: one that was opened, or one that was there.
fn ticket_of<'a>(world: &'a World, found: &Mismatch) -> Option<&'a Value> {
    let about = |ticket: &&Value| {
        let record = ticket["related_record_id"].as_str();
        record.is_some()
            && (record == found.invoice_id.as_deref() || record == found.payment_id.as_deref())
    };
    world.billing_tickets_at_work().find(about)
}

#[derive(Deserialize)]
struct Expected {
    mismatches: Vec<Mismatch>,
}

/// What should have been found, by the data's own account.
pub fn expected() -> Result<Vec<Mismatch>> {
    let expected: Expected = serde_json::from_str(include_str!("../data/expected.json"))
        .context("expected.json is not readable")?;
    let mut mismatches = expected.mismatches;
    mismatches.sort();
    Ok(mismatches)
}

fn check(noted: &Noted) -> Result<String> {
    let expected = expected()?;
    let right = noted.found.iter().filter(|found| expected.contains(found)).count();
    let wrong = noted.found.len() - right + noted.unreadable.len();
    let missed: Vec<String> = expected
        .iter()
        .filter(|wanted| !noted.found.contains(wanted))
        .map(|wanted| format!("{} {}", wanted.kind, wanted.record()))
        .collect();
    let mut text =
        format!("{right} of {} are as examples/data/expected.json has them", expected.len());
    if wrong > 0 {
        let _ = write!(text, ", {wrong} noted that are not");
    }
    if !missed.is_empty() {
        let _ = write!(text, ", missing: {}", missed.join(", "));
    }
    Ok(text + ".")
}
