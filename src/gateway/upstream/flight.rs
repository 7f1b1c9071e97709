//! Requests that an upstream has not answered yet, and what it says meanwhile.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use rmcp::ErrorData;
use rmcp::model::{
    ClientResult, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken,
    ServerRequest,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Progress of requests that are not entered yet: the answer may be faster than the entry.
const MAX_EARLY: usize = 64;

/// What an upstream says while it works on a request.
pub(crate) enum Aside {
    /// How far it has come.
    Progress(ProgressNotificationParam),
    /// A message for the log.
    Log(LoggingMessageNotificationParam),
    /// A question to the client.
    Ask(Box<Question>),
}

/// A request of an upstream to the client.
pub(crate) struct Question {
    pub request: ServerRequest,
    /// Cancelled when the upstream no longer wants to know.
    pub withdrawn: CancellationToken,
    pub answer: oneshot::Sender<Result<ClientResult, ErrorData>>,
}

/// The open requests of one connection.
#[derive(Default)]
pub(super) struct Flight {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    requests: HashMap<ProgressToken, Entry>,
    early: VecDeque<ProgressNotificationParam>,
    count: u64,
}

struct Entry {
    session: u64,
    order: u64,
    asides: mpsc::UnboundedSender<Aside>,
}

impl Flight {
    /// Enters a request of `session`, to which what is said goes through `asides`.
    pub(super) fn enter(
        &self,
        token: ProgressToken,
        session: u64,
        asides: mpsc::UnboundedSender<Aside>,
    ) {
        let mut open = self.open();
        while let Some(place) = open.early.iter().position(|early| early.progress_token == token) {
            if let Some(early) = open.early.remove(place) {
                let _ = asides.send(Aside::Progress(early));
            }
        }
        open.count += 1;
        let order = open.count;
        open.requests.insert(token, Entry { session, order, asides });
    }

    pub(super) fn leave(&self, token: &ProgressToken) {
        self.open().requests.remove(token);
    }

    pub(super) fn len(&self) -> usize {
        self.open().requests.len()
    }

    pub(super) fn progress(&self, progress: ProgressNotificationParam) {
        let mut open = self.open();
        match open.requests.get(&progress.progress_token) {
            Some(entry) => {
                let _ = entry.asides.send(Aside::Progress(progress));
            }
            None => {
                if open.early.len() == MAX_EARLY {
                    open.early.pop_front();
                }
                open.early.push_back(progress);
            }
        }
    }

    /// Hands `aside` to the newest request if all open ones are of one session, else gives it back.
    ///
    /// The protocol does not say which request a question belongs to. As long as one session alone
    /// has requests here there is no doubt whose it is; with several it must reach none of them.
    pub(super) fn say(&self, aside: Aside) -> Option<Aside> {
        let open = self.open();
        let Some(newest) = open.requests.values().max_by_key(|entry| entry.order) else {
            return Some(aside);
        };
        if open.requests.values().any(|entry| entry.session != newest.session) {
            return Some(aside);
        }
        newest.asides.send(aside).err().map(|lost| lost.0)
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
