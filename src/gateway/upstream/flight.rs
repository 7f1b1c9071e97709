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
    /// Requests on their way out: what the upstream asks may be faster than the news of their token.
    leaving: HashMap<u64, Entry>,
    early: VecDeque<ProgressNotificationParam>,
    count: u64,
}

struct Entry {
    session: u64,
    order: u64,
    asides: mpsc::UnboundedSender<Aside>,
}

impl Flight {
    /// Enters a request of `session` that is about to be made, to which what is said goes through
    /// `asides`. It is open until the entry is dropped.
    pub(super) fn enter(&self, session: u64, asides: mpsc::UnboundedSender<Aside>) -> Entered<'_> {
        let mut open = self.open();
        open.count += 1;
        let order = open.count;
        open.leaving.insert(order, Entry { session, order, asides });
        Entered { flight: self, order, token: None }
    }

    pub(super) fn len(&self) -> usize {
        let open = self.open();
        open.requests.len() + open.leaving.len()
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
        let entries = || open.requests.values().chain(open.leaving.values());
        let Some(newest) = entries().max_by_key(|entry| entry.order) else {
            return Some(aside);
        };
        if entries().any(|entry| entry.session != newest.session) {
            return Some(aside);
        }
        newest.asides.send(aside).err().map(|lost| lost.0)
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open request.
pub(super) struct Entered<'a> {
    flight: &'a Flight,
    order: u64,
    token: Option<ProgressToken>,
}

impl Entered<'_> {
    /// Notes that the request was made, with `token` for its progress.
    pub(super) fn made(&mut self, token: ProgressToken) {
        let mut open = self.flight.open();
        let Some(entry) = open.leaving.remove(&self.order) else { return };
        while let Some(place) = open.early.iter().position(|early| early.progress_token == token) {
            if let Some(early) = open.early.remove(place) {
                let _ = entry.asides.send(Aside::Progress(early));
            }
        }
        open.requests.insert(token.clone(), entry);
        self.token = Some(token);
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut open = self.flight.open();
        match &self.token {
            Some(token) => open.requests.remove(token),
            None => open.leaving.remove(&self.order),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Aside {
        let (answer, _) = oneshot::channel();
        let request = ServerRequest::ListRootsRequest(Default::default());
        Aside::Ask(Box::new(Question { request, withdrawn: CancellationToken::new(), answer }))
    }

    #[test]
    fn a_question_before_the_request_has_a_token_finds_its_client() {
        let flight = Flight::default();
        assert!(flight.say(question()).is_some(), "nobody is there");
        let (asides, mut heard) = mpsc::unbounded_channel();
        let mut one = flight.enter(1, asides.clone());
        assert!(flight.say(question()).is_none() && heard.try_recv().is_ok());
        assert_eq!(flight.len(), 1);
        one.made(ProgressToken(rmcp::model::NumberOrString::Number(7)));
        assert!(flight.say(question()).is_none() && heard.try_recv().is_ok());
        // With a request of another client on its way there is doubt.
        let two = flight.enter(2, asides);
        assert!(flight.say(question()).is_some());
        drop(two);
        assert!(flight.say(question()).is_none());
        drop(one);
        assert_eq!(flight.len(), 0);
    }
}
