//! What a run did, one JSON object a line, so that it can be read, shown and replayed.
//!
//! [`Session::trace_to`](crate::Session::trace_to) turns a trace on;
//! [`Engine::replay`](crate::Engine::replay) runs it again; [`xray`](crate::xray) shows it. Each
//! line is an [`Event`].
//!
//! # Format, version 1
//! One JSON object a line. Every object has `seq` (from 0, by 1), `turn` (0 before the first) and
//! `event`, which says what the other fields are. Fields that do not apply are left out. There is
//! no time and nothing random: the same run gives the same bytes. Tools are ids
//! (`namespace/name`). A reader has to skip fields that it does not know; whatever would break a
//! reader counts `format` up.
//!
//! What the runtime did to the session (a replay feeds these to a new one):
//!
//! | `event` | fields |
//! |---|---|
//! | `open` | `format`; `level` (`run`, `operator`); `release`; `catalog` {`version`, `digest`, `tools`}; `policy` (below); `model`: fingerprint or null; `rules`: digest of fusion, weights, gate and scorer; `options`: session options without the context; `pass_through`; `resume` {`state`, `used`, `unseen`, `told`, `pending`} when the run had begun before its trace: the session's state, tools used since the last step, tools in the list that were not sent yet, [`tool`, digest of its parameters] told in a reply, and changes that the next turn reports |
//! | `turn` | `message`; `recent`: [{`role`, `text`}] when the runtime gave it |
//! | `step` | |
//! | `find_tool` | `intents`, `names`, `describe`, `namespace`, `limit` as asked |
//! | `authorize` | `name` as called; `call`: provider's id; `verdict` (`meta-tool`, `run`, `unknown`, `ambiguous`, `not-loaded`, `changed`, `bad-arguments`); `tool`; `arguments` for the meta-tool only |
//! | `used`, `abandoned`, `pin`, `unpin`, `release` | `tool` |
//! | `reply` | `text` of the model |
//! | `taken` | the list was read to be sent, after tools had come in within a step |
//! | `shown` | `tools` whose definitions the model was given otherwise |
//! | `compaction` | |
//! | `context` | `policy` |
//!
//! What it came to:
//!
//! | `event` | fields |
//! |---|---|
//! | `refresh` | `catalog`, `policy`, `model`; `added`, `removed`, `changed`: tools as this caller sees them |
//! | `intent` | `intents`; `recent`: messages looked at; `k`; `namespace`; `report` of intent rules: {`reading`, `plan`, `excluded`, `fallback`, `tokens_saved`} |
//! | `filter` | `policy`: its version; `eligible`; `excluded`: counts |
//! | `dense` | `scores`: [{`tool`, `cosine`}], best first; `degraded`: why the model had no say |
//! | `lexical` | `scores`: [{`tool`, `bm25`, `lexical`, `coverage`, `name_coverage`}], best first |
//! | `fusion` | `rule`; `scorer` in place of both arms; `scores`: [{`tool`, `score`, `named`, `intent`}], best first |
//! | `gate` | `outcome` (`found`, `ambiguous` with `tools`, `no-match`, `not-needed`); `thresholds` {`by` (`cosine`, `words`, `scorer`), `read`, `write`, `destructive`, `coverage`, `margin`}; `total`: tools that fit; `admitted`: [{`tool`, `risk`, `reaches`}]; `rejected`: [{`tool`, `risk`, `why`, and `reaches`, `asked` of `below-threshold` or `least` of `below-ratio`}] |
//! | `admission` | `admitted`: [{`tool`, `why`}]; `refused`: [{`tool`, `why`}]; `touched`: `[tool]` |
//! | `eviction` | `evicted`: [{`tool`, `why`, ...}]; `new_epoch`: whether the cached prefix ended |
//! | `found` | `status`; `loaded`, `visible`, `ambiguous`, `near` (kept out by their risk class alone): `[tool]`; `not_loaded`: [{`tool`, `why`}]; `unknown_names`; `shown`; `total`; `degraded` |
//! | `list` | `tools` in order; `core`: how many of them are; `meta_tool`; `epoch`; `tokens` {`naive`, `sent`, `saved`} |
//! | `failed` | `error` |
//!
//! `policy` is {`version`, `context`, `eligible`, `excluded`} and, at the operator's level, `hidden`:
//! [{`tool`, `reason`}]. Its version is a digest over the caller's facts, every tool's policy and the
//! session's options. At the run's level an allow-list is written as far as its tools may be used, so
//! that such a trace names no tool that is hidden from the caller, but where the caller or the model
//! did.

mod event;
mod read;
mod recorder;
mod sink;
mod stages;
mod stamp;

pub use event::{
    Admission, Admitted, Authorization, DenseScore, Event, Evicted, Eviction, Filter, Found,
    FusedScore, Gated, Hidden, Intent, Judged, LexicalScore, Listed, NotAdmitted, Opened,
    PolicyStamp, Refreshed, RefusedTool, Resume, Search, Stage, TokenLine, TurnBegun,
};
pub use read::{DamagedLine, Trace};
pub(crate) use recorder::{Provenance, Recorder, World};
pub use sink::{TraceBuffer, TraceLevel, TraceSink, TraceWriter};
pub(crate) use stages::of_selection;
pub use stamp::CatalogStamp;
pub(crate) use stamp::{policy_stamp, sorted};

/// Version of the trace's form that this release writes and reads.
pub const TRACE_FORMAT: u32 = 1;
