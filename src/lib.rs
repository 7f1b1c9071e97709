//! Tool retrieval with a working set: give an LLM agent the few tools that it needs, out of
//! hundreds.
//!
//! An agent with 200 tool schemas pays for all of them on every request and picks the wrong one
//! more often. toolrack embeds each tool once, ranks the catalog against what the run wants now,
//! keeps a small *working set* visible, and gives the model one meta-tool, `find_tool`, to ask for
//! what it cannot see.
//!
//! ```
//! use serde_json::json;
//! use toolrack::{Call, Catalog, Engine, SessionOptions, Verdict, openai};
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/tools.json");
//! let catalog = Catalog::read(path)?; // MCP, OpenAI, Anthropic, Gemini, JSONL: recognised
//! let engine = Engine::builder(catalog).build()?; // bundled model: no download, no native library
//! let options = SessionOptions::default().core(["agent/read_state"]).limit(12);
//! let mut run = engine.session(options)?;
//!
//! let turn = run.turn("reconcile last month's invoices and flag the mismatches")?;
//! let request_tools = openai::tools(&turn); // byte-stable: at most 12 schemas, not 200
//! assert!(request_tools.len() <= 13);
//!
//! // ... the model answers with calls ...
//! let call = Call::new("find_tool", json!({"intent": "open a helpdesk ticket"}));
//! match run.authorize(&call)? {
//!     Verdict::MetaTool(search) => println!("{}", run.find_tool(&search)?.text()),
//!     Verdict::Run(tool) => run.record_use(&tool), // after running it
//!     Verdict::Refused(why) => println!("{}", why.text()),
//!     _ => {}
//! }
//! let request_tools = openai::tools(run.visible()); // read the list again
//! println!("{}", turn.explain()); // why each tool is there, what it saved
//! # assert!(request_tools.json().contains("helpdesk__create_ticket"));
//! # Ok::<(), toolrack::Error>(())
//! ```
//!
//! # Concepts
//! - A [`Tool`] is a name, a description and a JSON schema, kept byte for byte, under a [`ToolId`].
//! - A [`Catalog`] publishes immutable, versioned [`Snapshot`]s of tools; a [`Reader`] fills it.
//! - An [`Embedder`] turns text into vectors: [`StaticEmbedder`] is bundled, others are one line
//!   away.
//! - An [`Engine`] ranks requests over one snapshot: cosine blended with BM25 ([`Fusion`]), after the
//!   caller's [`RuntimeContext`] has filtered and before a [`Gate`] has judged. A [`Selection`] says
//!   what fits, why, and whether anything does.
//! - A [`Scorer`] may rank in place of both arms; [`IntentRules`] may say how many tools a request
//!   gets; a [`TrustPolicy`] says what is taken from sources at all.
//! - A [`Selector`] picks tools in one call, without a session; [`Handlers`] run those that have an
//!   executor; a [`Calibration`] fits the gate to a model.
//! - A [`Session`] is one run: its [`WorkingSet`], its turns, `find_tool`, and the gate before
//!   execution.
//! - A [`trace`] tells what a run did, stage by stage; [`Engine::replay`] runs it again to the same
//!   bytes, [`xray`] shows it, and a [`Shadow`] keeps a working set beside a list of the caller's own.
//! - The adapters [`openai`], [`anthropic`], [`mcp`] and [`gemini`] render what is visible as a
//!   [`ToolList`] and read the model's calls; `rig` (a feature) puts it all behind a rig agent.
//!
//! # Flow of data
//! catalog → text → embed | lexical → index → select → working set → trace → session → adapters |
//! xray. Imports point that way only.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod adapters;
mod calibration;
mod catalog;
mod config;
mod digest;
mod embed;
mod engine;
mod error;
pub mod eval;
#[cfg(feature = "gateway")]
pub mod gateway;
mod handlers;
mod index;
mod lexical;
mod score;
mod select;
mod selector;
mod session;
mod text;
pub mod trace;
mod working_set;
pub mod xray;

#[cfg(feature = "rig")]
pub use adapters::rig;
pub use adapters::{Answer, LeftOut, ToolList, anthropic, gemini, mcp, openai};
pub use calibration::{Calibrated, Calibration, Fit};
pub use catalog::{
    Builtin, Catalog, CatalogDiff, DEFAULT_NAMESPACE, Finding, FindingKind, Listing,
    MAX_PROVIDER_NAME, Problem, Reader, Risk, Shape, Snapshot, SourceStatus, SourceUpdate, Tool,
    ToolBuilder, ToolId, ToolPolicy, TrustPolicy, VisibleTool, Withheld, WithheldReason,
};
pub use config::{Config, EngineConfig, Fitted};
#[cfg(feature = "onnx-hub")]
pub use embed::HubModel;
pub use embed::{Embedder, EmbedderProfile, Progress, StaticEmbedder};
#[cfg(feature = "onnx")]
pub use embed::{OnnxEmbedder, OnnxOptions, Pooling};
pub use engine::{Engine, EngineBuilder};
pub use error::{Error, ErrorKind, Result};
pub use handlers::{
    AsyncHandler, Dispatch, Handler, HandlerError, HandlerFuture, HandlerResult, Handlers,
};
pub use index::{BuildReport, Fusion, VectorCache};
pub use lexical::FieldWeights;
pub use score::Score;
pub use select::{
    Boost, Budget, Candidate, Complexity, ComplexityRule, CourtesyRule, DEFAULT_K, Detail,
    Explanation, Fallback, Gate, GatedBy, Ineligible, IntentPlan, IntentReading, IntentReport,
    IntentRule, IntentRules, Jaccard, Message, Outcome, Outline, QueryIntent, Rejected, Role,
    RuntimeContext, Scorer, SelectRequest, Selection, Thresholds, TokenFigures,
};
pub use selector::{
    LabelledQuery, PickReason, Picked, PickedTool, Pins, RecallRow, RecallTable, Selector,
};
pub use session::{
    AsyncSession, Authorized, Call, CrowdedName, Definition, Difference, Entry, FIND_TOOL,
    FindReply, FindRequest, FindStatus, FoundTool, MetaTool, MissedCall, Refusal, RefusalKind,
    Replay, ReplayReport, RestoreReport, Session, SessionOptions, SessionState, Shadow,
    ShadowReport, Turn, TurnInput, Verdict, Visible,
};
#[cfg(feature = "tiktoken")]
pub use text::TiktokenCounter;
pub use text::{EstimatedTokens, TokenCount, TokenCounter};
pub use working_set::{
    AdmitReason, Delta, EvictReason, ListOrder, RefuseReason, Slot, Timing, WorkingSet,
    WorkingSetOptions, WorkingSetState,
};

/// The README's programs, run as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
