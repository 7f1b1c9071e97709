//! Runs out of what a session's trace wrote.

use std::path::Path;

use serde::Serialize;

use super::lines::Lines;
use crate::error::{Error, ErrorKind, Result};
use crate::trace::{Event, Stage};

/// A run as a line of `queries.jsonl` has it.
#[derive(Serialize)]
struct Run {
    id: String,
    turns: Vec<Turn>,
}

#[derive(Serialize)]
struct Turn {
    query: String,
    steps: Vec<String>,
}

/// The verdict of a call that was let through.
const RUN: &str = "run";

/// `lines` as they are, or, when they are a trace's, a line for each of its runs. A run stands in the
/// line of its first event.
pub(super) fn runs(path: &Path, lines: Vec<(usize, String)>) -> Result<Vec<(usize, String)>> {
    let is_trace = |line: &str| {
        serde_json::from_str::<Event>(line).is_ok_and(|event| matches!(event.stage, Stage::Open(_)))
    };
    if !lines.first().is_some_and(|(_, line)| is_trace(line)) {
        return Ok(lines);
    }
    let mut runs: Vec<(usize, Run)> = Vec::new();
    for (number, line) in &lines {
        let event: Event = serde_json::from_str(line).map_err(|error| {
            let error = Lines::json_error(&error);
            let what = format!("is no event of a trace ({error}): give the whole trace");
            Lines::error(path, *number, &what)
        })?;
        match event.stage {
            Stage::Open(_) => {
                let id = format!("run {}", runs.len() + 1);
                runs.push((*number, Run { id, turns: Vec::new() }));
            }
            Stage::Turn(turn) => {
                if let Some((_, run)) = runs.last_mut() {
                    run.turns.push(Turn { query: turn.message, steps: Vec::new() });
                }
            }
            Stage::Authorize(call) if call.verdict == RUN => {
                let turn = runs.last_mut().and_then(|(_, run)| run.turns.last_mut());
                if let (Some(turn), Some(tool)) = (turn, call.tool) {
                    turn.steps.push(tool.to_string());
                }
            }
            _ => {}
        }
    }
    // A session that was opened and never spoken to is no run.
    runs.retain(|(_, run)| run.turns.iter().any(|turn| !turn.steps.is_empty()));
    if runs.is_empty() {
        let what = "no call was let through in this trace: give the trace of a run that used tools";
        return Err(Error::new(ErrorKind::Format, format!("{}: {what}", path.display())));
    }
    runs.into_iter()
        .map(|(number, run)| {
            let line = serde_json::to_string(&run)
                .map_err(|error| Lines::error(path, number, &error.to_string()))?;
            Ok((number, line))
        })
        .collect()
}
