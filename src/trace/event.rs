//! The events of a trace.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::sink::TraceLevel;
use super::stamp::CatalogStamp;
use crate::catalog::{Risk, ToolId};
use crate::index::Fusion;
use crate::score::Score;
use crate::select::{
    Ineligible, IntentReport, Message, Outcome, Rejected, RuntimeContext, Thresholds,
};
use crate::text::TokenCount;
use crate::working_set::{AdmitReason, Delta, EvictReason, RefuseReason};

/// One line of a trace: its number, the turn it belongs to, and what happened.
///
/// The fields of each kind of event are in the [module's documentation](super).
///
/// # Example
/// ```
/// use toolrack::trace::{Stage, Trace, TraceBuffer};
/// use toolrack::{Catalog, Engine, SessionOptions};
///
/// let catalog = Catalog::parse(
///     r#"[{"name": "send_email", "description": "Send an e-mail to somebody."},
///         {"name": "get_weather", "description": "The weather forecast of a city."}]"#)?;
/// let engine = Engine::builder(catalog).build()?;
/// let trace = TraceBuffer::new();
/// let mut run = engine.session(SessionOptions::default().limit(1))?;
/// run.trace_to(trace.clone());
/// run.turn("will it rain in Bergen tomorrow?")?;
///
/// let trace = Trace::parse(&trace.text());
/// assert!(trace.damaged.is_empty());
/// let lists = trace.events.iter().filter_map(|event| match &event.stage {
///     Stage::List(list) => list.tools.last().map(ToString::to_string),
///     _ => None,
/// });
/// assert_eq!(lists.last().unwrap(), "default/get_weather");
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its line, from 0.
    pub seq: u64,
    /// The turn it belongs to, from 1; 0 before the first.
    pub turn: u64,
    /// What happened.
    #[serde(flatten)]
    pub stage: Stage,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stage {
    /// The trace began.
    Open(Box<Opened>),
    /// A turn began with a message.
    Turn(TurnBegun),
    /// A further step of the same turn began.
    Step,
    /// The model asked for tools.
    FindTool(Search),
    /// A call was judged.
    Authorize(Authorization),
    /// An authorised call ran.
    Used {
        /// The tool that ran.
        tool: ToolId,
    },
    /// An authorised call will not be answered.
    Abandoned {
        /// The tool that was called.
        tool: ToolId,
    },
    /// The model's words were noted.
    Reply {
        /// What it said.
        text: String,
    },
    /// The list was taken to be sent, after tools had come in within a step.
    Taken,
    /// The model was shown definitions in another way.
    Shown {
        /// Which.
        tools: Vec<ToolId>,
    },
    /// A tool was pinned.
    Pin {
        /// Which.
        tool: ToolId,
    },
    /// A tool was unpinned.
    Unpin {
        /// Which.
        tool: ToolId,
    },
    /// A tool was taken out by the runtime.
    Release {
        /// Which.
        tool: ToolId,
    },
    /// The history was compacted.
    Compaction,
    /// The caller's facts changed.
    Context {
        /// The facts of now.
        policy: PolicyStamp,
    },
    /// The session saw a refreshed catalog or another model.
    Refresh(Box<Refreshed>),
    /// What was looked for.
    Intent(Intent),
    /// Who may use what was applied.
    Filter(Filter),
    /// The dense arm's scores.
    Dense {
        /// Best first.
        scores: Vec<DenseScore>,
        /// Why the model had no or only part of a say although it should.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        degraded: Option<String>,
    },
    /// The lexical arm's scores.
    Lexical {
        /// Best first.
        scores: Vec<LexicalScore>,
    },
    /// Both arms became one.
    Fusion {
        /// How.
        rule: Fusion,
        /// What ranked in place of both arms.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scorer: Option<String>,
        /// Best first.
        scores: Vec<FusedScore>,
    },
    /// The gate judged.
    Gate(Box<Gated>),
    /// Tools came into the list, or did not.
    Admission(Admission),
    /// Tools left the list.
    Eviction(Eviction),
    /// What a search of the model came to.
    Found(Box<Found>),
    /// The list to send.
    List(Listed),
    /// A call of the runtime failed.
    Failed {
        /// Why.
        error: String,
    },
}

impl Stage {
    /// The name of the stage, as `event` has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Turn(_) => "turn",
            Self::Step => "step",
            Self::FindTool(_) => "find_tool",
            Self::Authorize(_) => "authorize",
            Self::Used { .. } => "used",
            Self::Abandoned { .. } => "abandoned",
            Self::Reply { .. } => "reply",
            Self::Taken => "taken",
            Self::Shown { .. } => "shown",
            Self::Pin { .. } => "pin",
            Self::Unpin { .. } => "unpin",
            Self::Release { .. } => "release",
            Self::Compaction => "compaction",
            Self::Context { .. } => "context",
            Self::Refresh(_) => "refresh",
            Self::Intent(_) => "intent",
            Self::Filter(_) => "filter",
            Self::Dense { .. } => "dense",
            Self::Lexical { .. } => "lexical",
            Self::Fusion { .. } => "fusion",
            Self::Gate(_) => "gate",
            Self::Admission(_) => "admission",
            Self::Eviction(_) => "eviction",
            Self::Found(_) => "found",
            Self::List(_) => "list",
            Self::Failed { .. } => "failed",
        }
    }
}

/// On what ground a trace stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Opened {
    /// Version of the form.
    pub format: u32,
    /// Who may read it.
    pub level: TraceLevel,
    /// Release of this crate that wrote it.
    pub release: String,
    /// The catalog.
    pub catalog: CatalogStamp,
    /// Who may use what.
    pub policy: PolicyStamp,
    /// The model's fingerprint; `None` when the engine ranks by words alone.
    pub model: Option<String>,
    /// Digest of the engine's fusion, weights and gate.
    pub rules: String,
    /// The session's options without the context.
    pub options: Value,
    /// Whether the catalog is shown whole.
    pub pass_through: bool,
    /// Where the run stood, when it had begun before its trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
}

/// Where a run stood when its trace began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Resume {
    /// The session's state.
    pub state: Value,
    /// Tools that were used since the last step.
    pub used: Vec<ToolId>,
    /// Changes of the list that the next turn reports.
    pub pending: Delta,
}

/// Who may use what: the caller's facts and what they come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PolicyStamp {
    /// Digest over the facts, the tools' policies and the session's options.
    pub version: String,
    /// The caller's facts; at [`TraceLevel::Run`] an allow-list as far as its tools may be used.
    pub context: RuntimeContext,
    /// Tools that the caller may use.
    pub eligible: usize,
    /// Tools that it may not use.
    pub excluded: usize,
    /// Those tools and the first reason against each; at [`TraceLevel::Operator`] only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<Vec<Hidden>>,
}

/// A tool that is hidden from the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Hidden {
    /// Which tool.
    pub tool: ToolId,
    /// The first reason against it.
    pub reason: Ineligible,
}

/// The message that began a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TurnBegun {
    /// The message.
    pub message: String,
    /// Earlier messages, when the runtime gave them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<Vec<Message>>,
}

/// What the model asked `find_tool` for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Search {
    /// Things to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intents: Vec<String>,
    /// Tools by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Whether these are whole names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
    /// Tools whose definition is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub describe: Vec<String>,
    /// Only tools of this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// How many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// A call and what was said to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Authorization {
    /// The name that was called.
    pub name: String,
    /// The provider's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// `run`, `meta-tool`, or the kind of refusal.
    pub verdict: String,
    /// The tool that the name stands for, when the caller may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolId>,
    /// Arguments of the meta-tool. Those of other calls are not recorded: they may hold secrets and
    /// decide nothing here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
}

/// A refreshed catalog as the caller sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Refreshed {
    /// The catalog of now.
    pub catalog: CatalogStamp,
    /// Who may use what of it.
    pub policy: PolicyStamp,
    /// The model of now.
    pub model: Option<String>,
    /// Tools that the caller may use and could not before.
    pub added: Vec<ToolId>,
    /// Tools that the caller could use and may no longer.
    pub removed: Vec<ToolId>,
    /// Tools whose definition differs.
    pub changed: Vec<ToolId>,
}

/// What was looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Intent {
    /// What is wanted.
    pub intents: Vec<String>,
    /// Earlier messages that were given along.
    pub recent: usize,
    /// How many tools at most.
    pub k: usize,
    /// Only tools of this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What intent rules made of the request, when there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Box<IntentReport>>,
}

/// Who may use what was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Filter {
    /// Version of the policy.
    pub policy: String,
    /// Tools that were ranked.
    pub eligible: usize,
    /// Tools that were not: by policy, or of another namespace than asked.
    pub excluded: usize,
}

/// A tool's score in the dense arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DenseScore {
    /// Which tool.
    pub tool: ToolId,
    /// Cosine in [-1, 1].
    pub cosine: Score,
}

/// A tool's scores in the lexical arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LexicalScore {
    /// Which tool.
    pub tool: ToolId,
    /// BM25, at least 0.
    pub bm25: Score,
    /// BM25 and name coverage in one, in [0, 1]: what is fused.
    pub lexical: Score,
    /// Share of the request's words that it has, in [0, 1].
    pub coverage: Score,
    /// Share of the words at the end of its name that the request has, in [0, 1].
    pub name_coverage: Score,
}

/// A tool's fused score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FusedScore {
    /// Which tool.
    pub tool: ToolId,
    /// Comparable within one event only.
    pub score: Score,
    /// Whether the request names it.
    pub named: bool,
    /// The intent, by number, that it was ranked for.
    pub intent: usize,
}

/// What the gate said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Gated {
    /// What the selection came to.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The numbers that were asked for.
    pub thresholds: Thresholds,
    /// Tools that fit, before the cut to k.
    pub total: usize,
    /// Tools that were let in, best first.
    pub admitted: Vec<Judged>,
    /// The best tools that were not, best first.
    pub rejected: Vec<NotAdmitted>,
}

/// A tool that the gate let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Judged {
    /// Which tool.
    pub tool: ToolId,
    /// By what class it was judged.
    pub risk: Risk,
    /// What was compared with the threshold of that class.
    pub reaches: Score,
}

/// A tool that the gate kept out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NotAdmitted {
    /// Which tool.
    pub tool: ToolId,
    /// By what class it was judged.
    pub risk: Risk,
    /// Why.
    #[serde(flatten)]
    pub why: Rejected,
}

/// What came into the list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Admission {
    /// Tools that came in, in the order of the list.
    pub admitted: Vec<Admitted>,
    /// Tools that would have come in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedTool>,
    /// Tools that were there and were wanted again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub touched: Vec<ToolId>,
}

/// A tool that came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Admitted {
    /// Which tool.
    pub tool: ToolId,
    /// Why.
    pub why: AdmitReason,
}

/// A tool that there was no room for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RefusedTool {
    /// Which tool.
    pub tool: ToolId,
    /// Which limit was in the way.
    pub why: RefuseReason,
}

/// What left the list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Eviction {
    /// Tools that went out, in the order they went.
    pub evicted: Vec<Evicted>,
    /// Whether the list changed other than at its end.
    pub new_epoch: bool,
}

/// A tool that went out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Evicted {
    /// Which tool.
    pub tool: ToolId,
    /// Why.
    #[serde(flatten)]
    pub why: EvictReason,
}

/// What a search of the model came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Found {
    /// As [`FindStatus`](crate::FindStatus) is written.
    pub status: String,
    /// Tools that are new in the list.
    pub loaded: Vec<ToolId>,
    /// Tools that were there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub visible: Vec<ToolId>,
    /// Tools that there was no room for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_loaded: Vec<RefusedTool>,
    /// Tools between which the model should choose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ambiguous: Vec<ToolId>,
    /// Tools that come near and that the gate of their risk class keeps out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub near: Vec<ToolId>,
    /// Names that stand for no tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_names: Vec<String>,
    /// Tools named in the reply.
    pub shown: usize,
    /// Tools that fit in all.
    pub total: usize,
    /// Why the search ran on words alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
}

/// The list to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Listed {
    /// Tools in order, the meta-tool left out.
    pub tools: Vec<ToolId>,
    /// How many of them, from the start, are core.
    pub core: usize,
    /// Name of the meta-tool, which stands behind the core; `None` when nothing is left to find.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_tool: Option<String>,
    /// The epoch.
    pub epoch: u64,
    /// What the list takes and saves.
    pub tokens: TokenLine,
}

/// Tokens of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TokenLine {
    /// Tokens of all definitions that the caller may use.
    pub naive: TokenCount,
    /// Tokens of the list.
    pub sent: TokenCount,
    /// The difference; 0 when the list takes more.
    pub saved: TokenCount,
}
