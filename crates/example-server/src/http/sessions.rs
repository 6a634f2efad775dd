//! The sessions of legacy clients.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use crate::handle::Peer;
use crate::message::Id;
use crate::process::{Questions, lock};

/// Sessions at once. One more ends the one that was used the longest time ago, of those that nobody uses now if possible.
const MAX_SESSIONS: usize = 1000;

/// A session's name: random, and so as good as a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SessionId(String);

/// One legacy client.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) peer: Mutex<Peer>,
    pub(super) questions: Arc<Questions>,
    /// Cancelled when the session ends, whoever ended it.
    pub(super) ended: CancellationToken,
    running: Mutex<HashMap<Id, CancellationToken>>,
}

/// A request in progress, under its id. Dropping it frees the id.
#[derive(Debug)]
pub(super) struct InProgress {
    session: Arc<Session>,
    id: Id,
    pub(super) cancelled: CancellationToken,
}

/// All sessions of the process.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// Counts uses: a clock that only orders.
    now: u64,
    entries: HashMap<SessionId, Entry>,
}

#[derive(Debug)]
struct Entry {
    session: Arc<Session>,
    used: u64,
}

// === impl Sessions ===

impl Sessions {
    /// Opens a session for a client that has just initialized.
    pub(super) fn open(&self, peer: Peer) -> SessionId {
        let id = SessionId(uuid::Uuid::new_v4().simple().to_string());
        let session = Arc::new(Session {
            peer: Mutex::new(peer),
            questions: Arc::default(),
            ended: CancellationToken::new(),
            running: Mutex::default(),
        });
        lock(&self.0).insert(id.clone(), session);
        id
    }

    /// The session of that name; a look counts as a use.
    pub(super) fn find(&self, id: &str) -> Option<Arc<Session>> {
        lock(&self.0).find(&SessionId(id.to_owned()))
    }

    /// Ends a session with all that is open in it. False when there is none of that name.
    pub(super) fn end(&self, id: &str) -> bool {
        let entry = lock(&self.0).entries.remove(&SessionId(id.to_owned()));
        entry
            .inspect(|entry| entry.session.ended.cancel())
            .is_some()
    }
}

impl Table {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn find(&mut self, id: &SessionId) -> Option<Arc<Session>> {
        let used = self.tick();
        let entry = self.entries.get_mut(id)?;
        entry.used = used;
        Some(Arc::clone(&entry.session))
    }

    fn insert(&mut self, id: SessionId, session: Arc<Session>) {
        if self.entries.len() >= MAX_SESSIONS {
            self.evict();
        }
        let used = self.tick();
        self.entries.insert(id, Entry { session, used });
    }

    fn evict(&mut self) {
        // Requests and streams hold the session that they are of, so a second holder means that it is in use.
        let order = |entry: &Entry| (Arc::strong_count(&entry.session) > 1, entry.used);
        let oldest = self
            .entries
            .iter()
            .min_by_key(|(_, entry)| order(entry))
            .map(|(id, _)| id.clone());
        if let Some(entry) = oldest.and_then(|id| self.entries.remove(&id)) {
            entry.session.ended.cancel();
        }
    }
}

// === impl Session, InProgress, SessionId ===

impl Session {
    /// Notes that a request is in progress; nothing when its id is taken.
    pub(super) fn enter(self: &Arc<Self>, id: Id) -> Option<InProgress> {
        let mut running = lock(&self.running);
        if running.contains_key(&id) {
            return None;
        }
        let cancelled = self.ended.child_token();
        running.insert(id.clone(), cancelled.clone());
        drop(running);
        Some(InProgress {
            session: Arc::clone(self),
            id,
            cancelled,
        })
    }

    /// Cancels the request of that id, if it is in progress.
    pub(super) fn cancel(&self, id: &Id) {
        if let Some(request) = lock(&self.running).get(id) {
            request.cancel();
        }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        lock(&self.session.running).remove(&self.id);
    }
}

impl SessionId {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_there_until_it_ends() {
        let sessions = Sessions::default();
        let id = sessions.open(Peer::default());
        let session = sessions.find(id.as_str()).unwrap();
        assert!(sessions.find("other").is_none());
        assert!(sessions.end(id.as_str()));
        assert!(session.ended.is_cancelled());
        assert!(!sessions.end(id.as_str()));
        assert!(sessions.find(id.as_str()).is_none());
    }

    #[test]
    fn the_longest_idle_session_makes_room() {
        let sessions = Sessions::default();
        let ids: Vec<_> = (0..MAX_SESSIONS)
            .map(|_| sessions.open(Peer::default()))
            .collect();
        // The first is in use, the second was used lately: the third is the one to go.
        let in_use = sessions.find(ids[0].as_str()).unwrap();
        let newest: Vec<_> = ids.iter().skip(3).chain([&ids[1]]).collect();
        for id in newest {
            sessions.find(id.as_str()).unwrap();
        }
        let one_more = sessions.open(Peer::default());
        assert!(sessions.find(ids[2].as_str()).is_none());
        assert!(!in_use.ended.is_cancelled());
        for id in [&ids[0], &ids[1], &ids[3], &one_more] {
            assert!(sessions.find(id.as_str()).is_some());
        }
    }

    #[test]
    fn an_id_is_free_again_when_its_request_is_over() {
        let sessions = Sessions::default();
        let id = sessions.open(Peer::default());
        let session = sessions.find(id.as_str()).unwrap();
        let request = || Id::Text("a".to_owned());
        let first = session.enter(request()).unwrap();
        assert!(session.enter(request()).is_none());
        session.cancel(&request());
        assert!(first.cancelled.is_cancelled());
        drop(first);
        let second = session.enter(request()).unwrap();
        assert!(!second.cancelled.is_cancelled());
        sessions.end(id.as_str());
        assert!(second.cancelled.is_cancelled());
    }
}
