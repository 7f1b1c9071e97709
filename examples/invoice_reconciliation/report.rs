//! What the terminal shows of each call.

use serde_json::Value;
use toolrack::{AdmitReason, Entry, EvictReason, FoundTool, RefuseReason};

use super::agent::{Done, Outcome, Step};
use super::reconcile::{money, thousands};

/// Columns of the terminal that the output is made for.
pub const WIDTH: usize = 100;

/// Colours, or none when the output is no terminal.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Whether to colour.
    pub colour: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// `text` in bold.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }
}

/// What is printed before the first call.
pub fn opening(tools: usize, namespaces: usize, limit: usize, model: &str, style: Style) -> String {
    let mut text = style.bold("Invoice reconciliation with a working set of tools");
    text += "\n";
    text += &wrapped(
        &format!(
            "The catalog has {tools} tools of {namespaces} integrations. The model sees at most {limit} \
             of them, and find_tool. Below, + marks what came into the list and - what went out."
        ),
        "",
        WIDTH,
    );
    text += &format!("Model: {model}\n");
    text
}

/// One call of the model.
pub fn step(step: &Step, style: Style) -> String {
    let mut text = String::new();
    if let Some(message) = &step.message {
        text += "\n";
        text += &style.bold(wrapped(&format!("User: {message}"), "      ", WIDTH).trim_end());
        text += "\n";
    }
    let tokens = step.visible.tokens();
    text += &format!(
        "\nCall {}: {} tools, {} tokens instead of {} ({:.0} % less)\n",
        step.number,
        step.visible.names().count(),
        thousands(tokens.sent),
        thousands(tokens.naive),
        tokens.saved_share() * 100.0,
    );
    for line in changes(step) {
        let code = if line.starts_with('+') { "32" } else { "31" };
        let lines = wrapped(&format!("  {line}"), "    ", WIDTH);
        text += &style.paint(code, lines.trim_end());
        text += "\n";
    }
    let list = format!("  sees  {}", names(step));
    text += &style.dim(wrapped(&list, "        ", WIDTH).trim_end());
    text += "\n";
    for line in calls(&step.calls) {
        text += &wrapped(&cut(&format!("  calls {line}"), 2 * WIDTH - 20), "        ", WIDTH);
    }
    if !step.text.is_empty() {
        text += &wrapped(&format!("  says  {}", step.text), "        ", WIDTH);
    }
    text
}

/// The list as it was sent, new tools marked; a namespace is written once for neighbours.
fn names(step: &Step) -> String {
    let mut text = String::new();
    let mut last = "";
    for entry in step.visible.entries() {
        let (namespace, name, new) = match entry {
            Entry::Meta(meta) => ("", meta.name.as_str(), false),
            Entry::Tool(tool) => {
                let id = tool.tool.id();
                let new = step.delta.admitted.iter().any(|(admitted, _)| admitted == id);
                (tool.tool.namespace(), tool.tool.name(), new)
            }
        };
        if !text.is_empty() {
            text += if namespace == last { ", " } else { "; " };
        }
        if new {
            text += "+";
        }
        if namespace != last && !namespace.is_empty() {
            text += namespace;
            text += "/";
        }
        text += name;
        last = namespace;
    }
    text
}

/// What went out and came in, tools with the same reason on one line; those that came in are named
/// in the list.
fn changes(step: &Step) -> Vec<String> {
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    for (id, why) in &step.delta.evicted {
        let why = match why {
            EvictReason::Stale { idle } => format!("not wanted for {idle} steps"),
            EvictReason::LeastRecent => "room was needed, least recently wanted".to_owned(),
            EvictReason::Released => "released".to_owned(),
            EvictReason::Gone => "no longer in the catalog".to_owned(),
            other => format!("{other:?}"),
        };
        group(&mut out, why, id.to_string());
    }
    let mut lines: Vec<String> =
        out.into_iter().map(|(why, ids)| format!("- {} ({why})", ids.join(", "))).collect();

    let mut came: Vec<(String, Vec<String>)> = Vec::new();
    for (id, why) in &step.delta.admitted {
        let why = match why {
            AdmitReason::Retrieved => "fit the user's message".to_owned(),
            AdmitReason::Found => "asked for through find_tool".to_owned(),
            AdmitReason::Called => "called without having been shown".to_owned(),
            AdmitReason::Pinned => "pinned".to_owned(),
            other => format!("{other:?}"),
        };
        group(&mut came, why, id.to_string());
    }
    let several = came.len() > 1;
    lines.extend(came.into_iter().map(|(why, ids)| match several {
        true => format!("+ {} ({why})", ids.join(", ")),
        false => format!("+ {} {why}", ids.len()),
    }));

    let mut refused: Vec<(String, Vec<String>)> = Vec::new();
    for (id, why) in &step.delta.refused {
        let why = match why {
            RefuseReason::ToolLimit => "no room: the list is full of tools in use".to_owned(),
            RefuseReason::TokenBudget => "no room in the token budget".to_owned(),
            other => format!("{other:?}"),
        };
        group(&mut refused, why, id.to_string());
    }
    lines.extend(refused.into_iter().map(|(why, ids)| format!("! {} ({why})", ids.join(", "))));
    lines
}

fn group(groups: &mut Vec<(String, Vec<String>)>, why: String, id: String) {
    match groups.iter_mut().find(|(other, _)| *other == why) {
        Some((_, ids)) => ids.push(id),
        None => groups.push((why, vec![id])),
    }
}

/// Calls and results; many calls of one tool in a row become one line.
fn calls(calls: &[Done]) -> Vec<String> {
    let mut lines = Vec::new();
    for run in calls.chunk_by(|a, b| a.call.name == b.call.name) {
        let name = |done: &Done| match &done.outcome {
            Outcome::Ran(id, _) => id.to_string(),
            Outcome::Found(_) | Outcome::Refused(_) => done.call.name.clone(),
        };
        match run {
            [first, .., last] if run.len() > 4 => lines.push(format!(
                "{} x {} -> {} ... {}",
                name(first),
                run.len(),
                result(&first.outcome),
                result(&last.outcome)
            )),
            run => lines.extend(run.iter().map(|done| {
                let most = if matches!(done.outcome, Outcome::Found(_)) { 90 } else { 44 };
                let arguments = arguments(&done.call.arguments, most);
                let gap = if arguments.is_empty() { "" } else { " " };
                format!("{}{gap}{arguments} -> {}", name(done), result(&done.outcome))
            })),
        }
    }
    lines
}

fn arguments(arguments: &Value, most: usize) -> String {
    let Some(fields) = arguments.as_object() else { return short(arguments, most) };
    let parts: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}={}", short(value, most))).collect();
    parts.join(", ")
}

/// A result in a few words.
fn result(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ran(_, Ok(value)) => digest(value),
        Outcome::Ran(_, Err(why)) => format!("error: {why}"),
        Outcome::Found(reply) => {
            let names = |list: &[FoundTool]| {
                list.iter().map(|tool| tool.id.to_string()).collect::<Vec<_>>().join(", ")
            };
            match (reply.loaded.as_slice(), reply.visible.as_slice()) {
                ([], []) if reply.not_loaded.is_empty() => "no tool fits".to_owned(),
                ([], []) => "nothing could be loaded, the list is full of tools in use".to_owned(),
                ([], visible) => format!("already there: {}", names(visible)),
                (loaded, _) => format!("loaded {}", names(loaded)),
            }
        }
        Outcome::Refused(why) => format!("refused: {}", why.text()),
    }
}

/// The fields of a record that say most, or how many records there are.
fn digest(value: &Value) -> String {
    let Some(fields) = value.as_object() else { return short(value, 60) };
    if fields.is_empty() {
        return "nothing noted yet".to_owned();
    }
    if let Some((name, list)) = fields.iter().find_map(|(name, v)| Some((name, v.as_array()?)))
        && !fields.contains_key("id")
    {
        if let [one] = list.as_slice() {
            return format!("1 {}: {}", name.trim_end_matches('s').replace('_', " "), digest(one));
        }
        let total = fields.get("total").and_then(Value::as_u64).unwrap_or(list.len() as u64);
        let shown =
            if list.len() as u64 == total { String::new() } else { format!("{} of ", list.len()) };
        return format!("{shown}{total} {}", name.replace('_', " "));
    }
    let mut parts = Vec::new();
    for name in ["id", "date", "name"] {
        parts.extend(fields.get(name).and_then(Value::as_str).map(str::to_owned));
    }
    if let Some(key) = fields.get("saved").and_then(Value::as_str) {
        parts.push(format!("saved {key}"));
    }
    for name in ["total_cents", "amount_cents"] {
        if let (Some(cents), Some(currency)) = (
            fields.get(name).and_then(Value::as_i64),
            fields.get("currency").and_then(Value::as_str),
        ) {
            parts.push(money(cents, currency));
        }
    }
    if let (Some(up), Some(down)) = (fields.get("numerator"), fields.get("denominator")) {
        parts.push(format!("{up} / {down}"));
    }
    match fields.get("early_payment_discount") {
        Some(Value::Null) => parts.push("no early-payment discount".to_owned()),
        Some(discount) => parts.push(format!(
            "{} % within {} days",
            discount["percent_bp"].as_f64().unwrap_or_default() / 100.0,
            discount["days"]
        )),
        None => {}
    }
    if let Some(email) = fields.get("assignee_email").and_then(Value::as_str) {
        parts.push(format!("for {}", email.split('@').next().unwrap_or(email)));
    }
    if let Some(owner) = fields.get("account_owner") {
        parts.push(format!("owner {}", owner["name"].as_str().unwrap_or("unknown")));
    }
    if parts.is_empty() { short(value, 60) } else { parts.join(", ") }
}

fn short(value: &Value, most: usize) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(list) if list.iter().all(Value::is_string) => {
            list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("/")
        }
        Value::Array(list) => format!("[{} entries]", list.len()),
        other => other.to_string(),
    };
    cut(&text.replace('\n', " "), most)
}

/// `text` in lines of at most `width` characters; lines after the first begin with `indent`.
pub fn wrapped(text: &str, indent: &str, width: usize) -> String {
    let mut lines = String::new();
    for paragraph in text.split('\n') {
        let start = paragraph.len() - paragraph.trim_start().len();
        let mut line = paragraph[..start].to_owned();
        let mut empty = true;
        // Runs of blanks inside the text are columns: they stay.
        for word in paragraph[start..].split_inclusive(' ') {
            if !empty && line.chars().count() + word.trim_end().chars().count() > width {
                lines += line.trim_end();
                lines += "\n";
                line = indent.to_owned();
            }
            line += word;
            empty = false;
        }
        lines += line.trim_end();
        lines += "\n";
    }
    lines
}

/// `text` in at most `most` characters.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(3)).collect();
    format!("{}...", kept.trim_end())
}
