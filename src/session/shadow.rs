//! What a working set would have done, while the caller keeps its own list.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Call, FindRequest, Session, Turn, TurnInput, Verdict};
use crate::catalog::ToolId;
use crate::error::Result;
use crate::text::TokenCount;

/// A session that runs beside a caller who sends a list of its own.
///
/// Tell it each turn's message, the list that was sent and the calls that the model made. It keeps
/// the working set that a session would have had and counts what the model would have missed.
///
/// A call of a tool that the working set does not show is counted as rescued when one `find_tool`
/// with the turn's message would have brought the tool in, and as missed otherwise. A model that asks
/// in its own words for what it lacks finds more than that, so that the misses are an upper bound.
/// What was missed is then loaded, as a session loads what is called unseen.
///
/// # Example
/// ```
/// use toolrack::{Catalog, Engine, SessionOptions, Shadow};
///
/// let catalog = Catalog::parse(
///     r#"[{"name": "list_invoices", "description": "List the invoices of a month."},
///         {"name": "list_payments", "description": "List payments in the ledger."},
///         {"name": "create_ticket", "description": "Open a helpdesk ticket."}]"#)?;
/// let engine = Engine::builder(catalog).build()?;
/// let mut shadow = Shadow::new(engine.session(SessionOptions::default().limit(1).retrieve(1))?);
///
/// let own = ["list_invoices", "list_payments", "create_ticket"];
/// shadow.turn("which invoices did we send last month?", own)?;
/// shadow.call("list_invoices")?;
/// shadow.call("create_ticket")?;
///
/// let report = shadow.report();
/// assert_eq!((report.calls, report.shown, report.missed.len()), (2, 1, 1));
/// assert_eq!(report.missed[0].tool.name(), "create_ticket");
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug)]
pub struct Shadow {
    session: Session,
    report: ShadowReport,
    /// The message of this turn.
    message: String,
    /// Tokens of the caller's list.
    own: TokenCount,
    /// Whether this turn's message was searched for already.
    searched: bool,
}

/// What a working set would have shown, beside the caller's own list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ShadowReport {
    /// Turns that were told.
    pub turns: u64,
    /// Requests to the model: turns and steps.
    pub requests: u64,
    /// Calls of tools that the caller may use.
    pub calls: u64,
    /// Calls whose tool the working set showed.
    pub shown: u64,
    /// Calls whose tool one `find_tool` with the turn's message would have brought in.
    pub rescued: u64,
    /// Calls whose tool would have been neither, in order.
    pub missed: Vec<MissedCall>,
    /// Calls of names that stand for no tool, or for several.
    pub unknown_calls: u64,
    /// Requests that searches and refused calls would have cost on top.
    pub extra_requests: u64,
    /// Tokens of the caller's lists, over all requests, as far as the catalog has their tools.
    pub own_tokens: TokenCount,
    /// Tokens of the working set's lists over the same requests and the extra ones.
    pub shadow_tokens: TokenCount,
    /// Tokens of every tool that the caller may use, over the same requests without the extra ones.
    pub naive_tokens: TokenCount,
    /// Names in the caller's lists that stand for no tool of the catalog; their tokens are not
    /// counted.
    pub unpriced: BTreeSet<String>,
}

/// A call whose tool the working set would not have shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MissedCall {
    /// The turn, from 1.
    pub turn: u64,
    /// The tool.
    pub tool: ToolId,
}

impl Shadow {
    /// A shadow that keeps the working set of `session`.
    pub fn new(session: Session) -> Self {
        Self {
            session,
            report: ShadowReport::default(),
            message: String::new(),
            own: 0,
            searched: false,
        }
    }

    /// A turn began with a message, and the caller sent `own_list`: ids, names, or provider names.
    /// Gives the turn that the session would have taken.
    ///
    /// # Errors
    /// As [`Session::turn`]; the turn is not counted then.
    pub fn turn<S: AsRef<str>>(
        &mut self,
        input: impl Into<TurnInput>,
        own_list: impl IntoIterator<Item = S>,
    ) -> Result<Turn> {
        let input = input.into();
        let message = input.message.clone();
        let turn = self.session.turn(input)?;
        self.message = message;
        self.searched = false;
        self.price(own_list);
        self.report.turns += 1;
        self.count_request(&turn);
        Ok(turn)
    }

    /// A further request of the same turn, with the same list of the caller.
    pub fn step(&mut self) -> Turn {
        let turn = self.session.step();
        self.count_request(&turn);
        turn
    }

    /// The model called `name` from the caller's list.
    ///
    /// # Errors
    /// As [`Session::authorize`].
    pub fn call(&mut self, name: &str) -> Result<()> {
        let Some(id) = self.resolve(name) else {
            self.report.unknown_calls += 1;
            return Ok(());
        };
        self.report.calls += 1;
        let shown = self.shows(&id);
        if shown {
            self.report.shown += 1;
        } else if self.search(&id)? {
            self.report.rescued += 1;
        } else {
            let turn = self.report.turns;
            self.report.missed.push(MissedCall { turn, tool: id.clone() });
        }
        // Where a caller knows a tool by the end of its name, the gate knows it by all of it.
        let names = self.session.index.snapshot.names();
        let row = self.session.index.snapshot.row(&id);
        let called = row.map_or(name, |row| names.provider_name(row)).to_owned();
        let call = Call::new(called, Value::Null);
        let mut verdict = self.session.authorize(&call)?;
        if matches!(verdict, Verdict::Refused(_)) {
            // Called unseen: refused once, loaded, and called again with the list sent anew.
            self.count_extra();
            verdict = self.session.authorize(&call)?;
        }
        if let Verdict::Run(tool) = verdict {
            self.session.record_use(&tool);
        }
        Ok(())
    }

    /// What was counted so far.
    pub fn report(&self) -> &ShadowReport {
        &self.report
    }

    /// The session in the shadow, to trace it or to tell it of a change.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// The session, to go on with it in earnest.
    pub fn into_session(self) -> Session {
        self.session
    }

    fn count_request(&mut self, turn: &Turn) {
        let tokens = turn.visible.tokens();
        self.report.requests += 1;
        self.report.own_tokens += self.own;
        self.report.shadow_tokens += tokens.sent;
        self.report.naive_tokens += tokens.naive;
    }

    fn price<S: AsRef<str>>(&mut self, own_list: impl IntoIterator<Item = S>) {
        self.own = 0;
        for name in own_list {
            let name = name.as_ref();
            let row = self.resolve(name).and_then(|id| self.session.index.snapshot.row(&id));
            match row {
                Some(row) => self.own += self.session.index.costs[row],
                None => {
                    self.report.unpriced.insert(name.to_owned());
                }
            }
        }
    }

    /// The one tool that `name` stands for, among those that the caller may use.
    fn resolve(&self, name: &str) -> Option<ToolId> {
        let snapshot = &self.session.index.snapshot;
        let may = |row: usize| self.session.eligible.contains(row);
        let row = match snapshot.names().by_provider(name).filter(|&row| may(row)) {
            Some(row) => row,
            None => match snapshot.names().resolve(name, &may).as_slice() {
                [row] => *row,
                _ => return None,
            },
        };
        Some(snapshot.tool(row).id().clone())
    }

    fn shows(&self, id: &ToolId) -> bool {
        self.session.is_visible(id) || self.session.briefed.contains(id)
    }

    /// Whether one search with the turn's message brings the tool in.
    fn search(&mut self, id: &ToolId) -> Result<bool> {
        if self.searched || self.message.trim().is_empty() {
            return Ok(false);
        }
        self.searched = true;
        self.session.find_tool(&FindRequest::new(self.message.as_str()))?;
        self.count_extra();
        Ok(self.shows(id))
    }

    fn count_extra(&mut self) {
        self.report.extra_requests += 1;
        self.report.shadow_tokens += self.session.visible().tokens().sent;
    }
}

impl ShadowReport {
    /// Share of calls whose tool the working set showed, in [0, 1]; 1 without calls.
    pub fn shown_share(&self) -> f64 {
        share(self.shown, self.calls)
    }

    /// Share of calls whose tool was shown or rescued, in [0, 1]; 1 without calls.
    pub fn reached_share(&self) -> f64 {
        share(self.shown + self.rescued, self.calls)
    }

    /// The tools that were missed, each once, with how often; the most frequent first, ties by id.
    pub fn missed_tools(&self) -> Vec<(&ToolId, u64)> {
        let mut tools: Vec<(&ToolId, u64)> = Vec::new();
        for missed in &self.missed {
            match tools.iter_mut().find(|(tool, _)| *tool == &missed.tool) {
                Some((_, times)) => *times += 1,
                None => tools.push((&missed.tool, 1)),
            }
        }
        tools.sort_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
        tools
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

impl fmt::Display for ShadowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} turns, {} requests, {} calls", self.turns, self.requests, self.calls)?;
        writeln!(
            f,
            "shown {} ({:.1} %), rescued by find_tool {}, missed {}",
            self.shown,
            self.shown_share() * 100.0,
            self.rescued,
            self.missed.len()
        )?;
        writeln!(
            f,
            "tokens of the tool lists: {} own, {} in the shadow ({} extra requests), {} for all tools",
            self.own_tokens, self.shadow_tokens, self.extra_requests, self.naive_tokens
        )?;
        for (tool, times) in self.missed_tools() {
            writeln!(f, "missed {tool}, {times} times")?;
        }
        if self.unknown_calls > 0 {
            writeln!(f, "{} calls of names that stand for no tool", self.unknown_calls)?;
        }
        if !self.unpriced.is_empty() {
            let names: Vec<&str> = self.unpriced.iter().map(String::as_str).collect();
            writeln!(f, "not in the catalog, tokens unknown: {}", names.join(", "))?;
        }
        Ok(())
    }
}
