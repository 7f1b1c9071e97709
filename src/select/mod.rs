//! From a request to ranked, judged candidates.

mod context;
mod gate;
pub(crate) mod policy;
mod rank;
mod request;
mod selection;

pub use context::RuntimeContext;
pub use gate::{Gate, GatedBy, Thresholds};
pub(crate) use policy::Eligible;
pub use policy::Ineligible;
pub(crate) use rank::Ranker;
pub(crate) use request::MAX_INTENTS;
pub use request::{DEFAULT_K, Message, Role, SelectRequest};
pub use selection::{Boost, Candidate, Outcome, Rejected, Selection};
