//! Calls that wait for an answer of the client.
//!
//! In the newer protocol a server does not ask in the middle of a call: it answers that it needs
//! input, and the client makes the call again with it. A server behind the gateway that asks in the
//! middle is left waiting meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::ErrorData;
use rmcp::model::{ClientResult, InputResponses};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::gateway::upstream::{Aside, Failure};
use crate::session::Authorized;

/// How long a call waits for its client.
const PATIENCE: Duration = Duration::from_secs(600);
/// The most calls that wait at once; the oldest is given up for a new one.
const MAX_PARKED: usize = 1_000;

/// A call that goes on while its client is away.
pub(crate) struct Parked {
    /// Name of the token of whoever made it.
    pub owner: Option<String>,
    pub tool: Authorized,
    pub began: Instant,
    pub asides: UnboundedReceiver<Aside>,
    pub work: JoinHandle<Result<rmcp::model::CallToolResult, Failure>>,
    pub cancelled: CancellationToken,
    /// Questions that were put to the client.
    pub waiting: BTreeMap<String, oneshot::Sender<Result<ClientResult, ErrorData>>>,
    pub asked: usize,
}

impl Parked {
    /// Hands answers to whoever asked.
    pub(crate) fn answer(&mut self, responses: InputResponses) {
        for (key, value) in responses {
            if let Some(answer) = self.waiting.remove(&key) {
                let result = serde_json::from_value(value).map_err(|_| {
                    ErrorData::invalid_params("the client answered in an unexpected form", None)
                });
                let _ = answer.send(result);
            }
        }
        // What the client left out is not answered later.
        self.waiting.clear();
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.cancelled.cancel();
    }
}

/// The calls that wait.
#[derive(Default)]
pub(crate) struct Parking {
    calls: Mutex<HashMap<String, Parked>>,
}

impl Parking {
    /// Leaves a call here; gives back the ticket for it, which cannot be guessed.
    pub(crate) fn put(&self, call: Parked) -> String {
        let ticket = uuid::Uuid::new_v4().to_string();
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.retain(|_, parked| parked.began.elapsed() < PATIENCE);
        if calls.len() >= MAX_PARKED {
            let oldest = calls.iter().min_by_key(|(_, parked)| parked.began);
            if let Some(ticket) = oldest.map(|(ticket, _)| ticket.clone()) {
                calls.remove(&ticket);
            }
        }
        calls.insert(ticket.clone(), call);
        ticket
    }

    /// The call of `ticket`, if it is of this owner.
    pub(crate) fn take(&self, ticket: &str, owner: Option<&str>) -> Option<Parked> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let parked = calls.get(ticket)?;
        (parked.owner.as_deref() == owner).then(|| calls.remove(ticket)).flatten()
    }
}
