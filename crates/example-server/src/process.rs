//! What all calls of one process share: counters, the bound on calls in progress, and the open questions.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::eras::Eras;
use crate::jobs::Job;

/// Calls in progress at once, listen streams included; one more is refused.
const MAX_JOBS: usize = 1024;

/// `requestState` strings given out and not yet used; one more makes the oldest useless.
const MAX_TICKETS: usize = 1000;

/// One server process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) eras: Eras,
    counters: Counters,
    slots: Arc<Semaphore>,
    tickets: Mutex<Tickets>,
}

/// What `whoami` tells of the process, so that a test can see from outside whether a call or a cancellation arrived.
#[derive(Debug, Default)]
struct Counters {
    calls: AtomicU64,
    running: AtomicU64,
    cancelled: AtomicU64,
}

/// A reading of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Calls of known tools since the process started.
    pub(crate) calls: u64,
    /// Tool calls that take time and are still at it.
    pub(crate) running: u64,
    /// Those that ended because nobody wanted the answer any more.
    pub(crate) cancelled: u64,
}

/// Held while a job runs. Dropping it without [`Running::finish`] counts the call as cancelled.
#[derive(Debug)]
pub(crate) struct Running {
    counted: Option<Arc<Process>>,
    _slot: OwnedSemaphorePermit,
}

/// The `requestState` strings that `ask` has given out in the modern era: random, each good for one retry.
#[derive(Debug, Default)]
struct Tickets(VecDeque<String>);

/// The questions that one legacy peer has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    open: HashMap<u64, oneshot::Sender<Answer>>,
}

/// A client's answer: its result, or nothing when it answered with an error.
pub(crate) type Answer = Option<Box<RawValue>>;

/// One question on its way. Dropping it forgets the question; a later answer is then ignored.
#[derive(Debug)]
pub(crate) struct OpenQuestion<'a> {
    pub(crate) id: u64,
    answer: oneshot::Receiver<Answer>,
    questions: &'a Questions,
}

// === impl Process ===

impl Process {
    pub(crate) fn new(eras: Eras) -> Arc<Self> {
        Arc::new(Self {
            eras,
            counters: Counters::default(),
            slots: Arc::new(Semaphore::new(MAX_JOBS)),
            tickets: Mutex::default(),
        })
    }

    /// Counts a call of a known tool.
    pub(crate) fn count_call(&self) {
        self.counters.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            calls: self.counters.calls.load(Ordering::Relaxed),
            running: self.counters.running.load(Ordering::Relaxed),
            cancelled: self.counters.cancelled.load(Ordering::Relaxed),
        }
    }

    /// Takes a place for a job; nothing when all are taken.
    pub(crate) fn begin(self: &Arc<Self>, job: &Job) -> Option<Running> {
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        let counted = job.is_tool_call().then(|| {
            self.counters.running.fetch_add(1, Ordering::Relaxed);
            Arc::clone(self)
        });
        Some(Running {
            counted,
            _slot: slot,
        })
    }

    /// A new `requestState`.
    pub(crate) fn issue_ticket(&self) -> String {
        let ticket = uuid::Uuid::new_v4().simple().to_string();
        lock(&self.tickets).keep(ticket.clone());
        ticket
    }

    /// Whether `ticket` was given out by this process and not used since. It is used up now.
    pub(crate) fn redeem_ticket(&self, ticket: &str) -> bool {
        lock(&self.tickets).redeem(ticket)
    }
}

// === impl Tickets ===

impl Tickets {
    fn keep(&mut self, ticket: String) {
        if self.0.len() == MAX_TICKETS {
            self.0.pop_front();
        }
        self.0.push_back(ticket);
    }

    fn redeem(&mut self, ticket: &str) -> bool {
        let Some(place) = self.0.iter().position(|known| known == ticket) else {
            return false;
        };
        self.0.remove(place).is_some()
    }
}

// === impl Running ===

impl Running {
    /// The job came to its end and has its answer.
    pub(crate) fn finish(mut self) {
        if let Some(process) = self.counted.take() {
            process.counters.running.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(process) = self.counted.take() {
            process.counters.running.fetch_sub(1, Ordering::Relaxed);
            process.counters.cancelled.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// === impl Questions, OpenQuestion ===

impl Questions {
    /// Opens a question under an id that this peer has not seen.
    pub(crate) fn open(&self) -> OpenQuestion<'_> {
        let (sender, answer) = oneshot::channel();
        let mut waiting = lock(&self.0);
        waiting.last += 1;
        let id = waiting.last;
        waiting.open.insert(id, sender);
        drop(waiting);
        OpenQuestion {
            id,
            answer,
            questions: self,
        }
    }

    /// Hands over an answer. False when nobody waits for it: answered, given up or never asked.
    pub(crate) fn deliver(&self, id: u64, answer: Answer) -> bool {
        let sender = lock(&self.0).open.remove(&id);
        sender.is_some_and(|sender| sender.send(answer).is_ok())
    }
}

impl OpenQuestion<'_> {
    /// Waits for the answer. Dropping the future keeps the question open until `self` is dropped.
    pub(crate) async fn answer(&mut self) -> Answer {
        (&mut self.answer).await.ok().flatten()
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        lock(&self.questions.0).open.remove(&self.id);
    }
}

/// Locks; a panic elsewhere leaves these maps and counters whole, so poison is no reason to stop.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once() {
        let process = Process::new(Eras::Both);
        let (first, second) = (process.issue_ticket(), process.issue_ticket());
        assert_ne!(first, second);
        assert!(process.redeem_ticket(&second));
        assert!(!process.redeem_ticket(&second));
        assert!(process.redeem_ticket(&first));
        assert!(!process.redeem_ticket("forged"));
    }

    #[test]
    fn the_oldest_ticket_goes_first() {
        let mut tickets = Tickets::default();
        for number in 0..=MAX_TICKETS {
            tickets.keep(number.to_string());
        }
        assert_eq!(tickets.0.len(), MAX_TICKETS);
        assert!(!tickets.redeem("0"));
        assert!(tickets.redeem("1"));
    }

    #[tokio::test]
    async fn an_answer_finds_its_question_and_a_dropped_question_is_forgotten() {
        let questions = Questions::default();
        let mut first = questions.open();
        let second = questions.open();
        let (first_id, second_id) = (first.id, second.id);
        assert_ne!(first_id, second_id);
        drop(second);
        assert!(!questions.deliver(second_id, None));
        assert!(questions.deliver(
            first_id,
            Some(RawValue::from_string("{}".to_owned()).unwrap())
        ));
        assert!(!questions.deliver(first_id, None));
        assert_eq!(first.answer().await.unwrap().get(), "{}");
    }
}
