//! From a request to ranked, judged candidates.

mod context;
mod explanation;
mod fallback;
mod gate;
mod intent;
mod outline;
mod phrase;
pub(crate) mod planned;
pub(crate) mod policy;
mod rank;
pub(crate) mod refine;
mod request;
mod scorer;
mod selection;

pub use context::RuntimeContext;
pub use explanation::Explanation;
pub use fallback::Fallback;
pub use gate::{Gate, GatedBy, Thresholds};
pub(crate) use intent::table_or_name;
pub use intent::{
    Complexity, ComplexityRule, CourtesyRule, IntentPlan, IntentReading, IntentReport, IntentRule,
    IntentRules, QueryIntent,
};
pub use outline::{Budget, Detail, Outline};
pub(crate) use outline::{first_line, groups};
pub(crate) use policy::Eligible;
pub use policy::Ineligible;
pub(crate) use rank::Ranker;
pub use request::{DEFAULT_K, Message, Role, SelectRequest};
pub(crate) use request::{MAX_INTENTS, check_ratio};
pub use scorer::{Jaccard, Scorer};
pub use selection::{Boost, Candidate, Outcome, Rejected, Selection, TokenFigures};
