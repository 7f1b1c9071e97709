//! A lock that is handed on in the order of asking.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// A value that callers use one after the other, first come, first served.
///
/// A mutex alone is not fair: a thread that embeds a catalog run after run took it again each time
/// before a waiting request had woken up, and the request waited for 300 ms.
#[derive(Debug)]
pub(super) struct Turns<T> {
    tickets: AtomicU64,
    /// The ticket whose turn it is.
    serving: Mutex<u64>,
    moved: Condvar,
    /// Never contended, as only one caller has its turn; it makes the value reachable by `&self`.
    value: Mutex<T>,
}

impl<T> Turns<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            tickets: AtomicU64::new(0),
            serving: Mutex::new(0),
            moved: Condvar::new(),
            value: Mutex::new(value),
        }
    }

    /// Runs `work` when all that asked before are done.
    pub(super) fn run<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = self.moved.wait_while(serving, |serving| *serving != ticket);
        drop(turn.unwrap_or_else(PoisonError::into_inner));
        // Passes the turn on also when `work` panics.
        let _turn = Turn(self);
        // A poisoned value is taken all the same: a run of a model leaves nothing half done.
        work(&mut self.value.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Turn<'a, T>(&'a Turns<T>);

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        *self.0.serving.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_comes_before_who_has_just_run() {
        let turns = Turns::new(Vec::new());
        std::thread::scope(|scope| {
            turns.run(|order| {
                scope.spawn(|| turns.run(|order| order.push("request")));
                while turns.tickets.load(Ordering::Relaxed) < 2 {
                    std::thread::yield_now();
                }
                order.push("catalog");
            });
            turns.run(|order| order.push("catalog again"));
        });
        assert_eq!(turns.run(|order| order.clone()), ["catalog", "request", "catalog again"]);
    }

    #[test]
    fn a_panic_passes_the_turn_on() {
        let turns = Turns::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            turns.run(|_| panic!("on purpose"));
        }));
        assert!(panicked.is_err());
        assert_eq!(turns.run(|value| *value), 1);
    }
}
