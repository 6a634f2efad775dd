//! Where the reader of a child leaves what belongs to one exchange. It never waits for the taker.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use manifold_protocol::Outcome;
use tokio::sync::Notify;

use crate::{
    LinkError,
    exchange::{Ask, Note},
};

/// How many notes and asks wait for a taker; above it the oldest note goes.
const CAPACITY: usize = 256;
/// How many bytes of notes wait for a taker, unless it is a single one.
const BYTES: usize = 1024 * 1024;

/// A bounded ring of notes and asks, and a place for the answer.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    early: VecDeque<Early>,
    bytes: usize,
    done: Option<Result<Outcome, LinkError>>,
    dropped: u64,
    /// The answer came, and was taken or not: nothing may follow it.
    closed: bool,
}

/// What comes before the answer.
#[derive(Debug)]
pub(crate) enum Early {
    Note(Note),
    Ask(Ask),
}

/// What a taker finds.
#[derive(Debug)]
pub(crate) enum Mail {
    Early(Early),
    Done(Result<Outcome, LinkError>),
}

impl Mailbox {
    /// Leaves a note or an ask. What comes after the answer is dropped: progress must stop then.
    pub(crate) fn leave(&self, early: Early) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.bytes += early.bytes();
        state.early.push_back(early);
        while state.early.len() > CAPACITY || state.bytes > BYTES {
            if !state.drop_oldest_note() {
                break;
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Leaves the answer. Only the first counts.
    pub(crate) fn finish(&self, outcome: Result<Outcome, LinkError>) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.closed = true;
        state.done = Some(outcome);
        drop(state);
        self.changed.notify_one();
    }

    /// The next thing: notes and asks in order, then the answer. Waits for ever after the answer was
    /// taken. Dropping the future loses nothing. One taker at a time.
    pub(crate) async fn take(&self) -> Mail {
        loop {
            if let Some(mail) = self.try_take() {
                return mail;
            }
            self.changed.notified().await;
        }
    }

    /// How many notes were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    fn try_take(&self) -> Option<Mail> {
        let mut state = self.lock();
        match state.early.pop_front() {
            Some(early) => {
                state.bytes -= early.bytes();
                Some(Mail::Early(early))
            }
            None => state.done.take().map(Mail::Done),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Drops the oldest note, but not the last thing that came. Says whether there was one.
    fn drop_oldest_note(&mut self) -> bool {
        let older = self.early.len().saturating_sub(1);
        let oldest = self
            .early
            .iter()
            .take(older)
            .position(|early| matches!(early, Early::Note(_)));
        let Some(note) = oldest.and_then(|at| self.early.remove(at)) else {
            return false;
        };
        self.bytes -= note.bytes();
        self.dropped = self.dropped.saturating_add(1);
        true
    }
}

impl Early {
    fn bytes(&self) -> usize {
        match self {
            Self::Note(note) => note.params.len(),
            Self::Ask(ask) => ask.params.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use manifold_protocol::{Method, Params};

    use super::*;

    fn note() -> Early {
        Early::Note(Note {
            method: Method::Progress,
            params: Params::absent(),
        })
    }

    #[tokio::test]
    async fn a_slow_taker_loses_the_oldest_notes_but_never_the_answer() {
        let mailbox = Mailbox::default();
        for _ in 0..CAPACITY + 10 {
            mailbox.leave(note());
        }
        mailbox.finish(Err(LinkError::Closed));
        mailbox.leave(note());
        mailbox.finish(Err(LinkError::SessionLost));
        let mut notes = 0;
        loop {
            match mailbox.take().await {
                Mail::Early(_) => notes += 1,
                Mail::Done(outcome) => {
                    assert!(matches!(outcome, Err(LinkError::Closed)));
                    break;
                }
            }
        }
        assert_eq!((notes, mailbox.dropped()), (CAPACITY, 10));
    }
}
