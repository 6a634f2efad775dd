//! Client sessions of the legacy era: from `initialize` to DELETE or idle expiry.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;
use manifold_link::Origin;
use manifold_protocol::{Kind, LogLevel, Method, ProtocolVersion, Raw, RequestId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    caller::Callers,
    catalog::{Fingerprints, Scope},
    server::Use,
};

/// The id of a client session: 122 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId(Uuid);

/// Whose request it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Principal {
    /// There is no authentication.
    Anonymous,
}

/// A live client session.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    principal: Principal,
    version: ProtocolVersion,
    scope: Scope,
    client_info: Raw,
    callers: Callers,
    /// The lists as the client knows them: what it saw or was told of last.
    known: Mutex<Fingerprints>,
    opened: Instant,
    /// Milliseconds from `opened` to the last use.
    last_use: AtomicU64,
    streams: AtomicUsize,
    running: Mutex<Running>,
    ended: CancellationToken,
}

/// Calls in flight by the client's id. Two calls with one id are both there.
#[derive(Debug, Default)]
struct Running {
    next: u64,
    calls: HashMap<u64, (RequestId, CancellationToken)>,
}

/// What `initialize` says of a client.
#[derive(Debug, Clone)]
pub struct ClientHello {
    /// Whose session it is.
    pub principal: Principal,
    /// The version that was agreed on.
    pub version: ProtocolVersion,
    /// The path it was opened on.
    pub scope: Scope,
    /// `clientInfo`.
    pub client_info: Raw,
    /// The lists of the path then.
    pub known: Fingerprints,
}

/// One use of a session, counted while it lasts.
#[derive(Debug)]
pub struct Activity {
    session: Arc<Session>,
    kind: ActivityKind,
}

#[derive(Debug, Clone, Copy)]
enum ActivityKind {
    Call { number: u64 },
    Stream,
}

/// The live sessions.
#[derive(Debug)]
pub struct Sessions {
    live: DashMap<SessionId, Arc<Session>>,
    max: usize,
    idle: Option<Duration>,
}

/// No session can be opened now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

// === impl SessionId ===

impl SessionId {
    /// The id in a header, if it can be one of ours.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // Only the form that is given out: an id has one spelling.
        let id = Uuid::try_parse(text).ok()?;
        (id.hyphenated().to_string() == text).then_some(Self(id))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

// === impl Sessions ===

impl Sessions {
    /// No sessions yet; at most `max`, each ended after `idle` without use (never, if none).
    #[must_use]
    pub fn new(max: usize, idle: Option<Duration>) -> Self {
        Self {
            live: DashMap::new(),
            max,
            idle,
        }
    }

    /// Opens a session, and returns the one that was ended to make room, if one was.
    pub(crate) fn open(
        &self,
        hello: ClientHello,
    ) -> Result<(Arc<Session>, Option<Arc<Session>>), Full> {
        let evicted = if self.live.len() >= self.max {
            Some(self.make_room()?)
        } else {
            None
        };
        let session = Arc::new(Session::new(SessionId(Uuid::new_v4()), hello));
        self.live.insert(session.id, session.clone());
        Ok((session, evicted))
    }

    /// The session of that id.
    #[must_use]
    pub fn get(&self, id: SessionId) -> Option<Arc<Session>> {
        self.live.get(&id).map(|session| session.clone())
    }

    /// Ends a session: its calls and streams end, its links are closed.
    pub(crate) fn end(&self, id: SessionId) -> Option<Arc<Session>> {
        let (_, session) = self.live.remove(&id)?;
        session.end();
        Some(session)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.live
            .iter()
            .map(|entry| entry.value().clone())
            .collect()
    }

    /// Ends those whose time without use is up.
    pub(crate) fn end_expired(&self, now: Instant) -> Vec<Arc<Session>> {
        let Some(limit) = self.idle else {
            return Vec::new();
        };
        let is_due = |session: &Session| session.idle_for(now).is_some_and(|idle| idle >= limit);
        let due: Vec<SessionId> = self
            .live
            .iter()
            .filter(|entry| is_due(entry.value()))
            .map(|entry| *entry.key())
            .collect();
        due.into_iter()
            .filter_map(|id| self.end_if(id, is_due))
            .collect()
    }

    fn make_room(&self) -> Result<Arc<Session>, Full> {
        let now = Instant::now();
        let longest = self
            .live
            .iter()
            .filter_map(|entry| Some((entry.value().idle_for(now)?, *entry.key())))
            .max_by_key(|(idle, _)| *idle);
        let (_, id) = longest.ok_or(Full)?;
        self.end_if(id, |session| session.idle_for(now).is_some())
            .ok_or(Full)
    }

    /// Ends a session unless it has just come into use again.
    fn end_if(&self, id: SessionId, condition: impl Fn(&Session) -> bool) -> Option<Arc<Session>> {
        let (_, session) = self.live.remove_if(&id, |_, session| condition(session))?;
        session.end();
        Some(session)
    }
}

// === impl Session ===

impl Session {
    fn new(id: SessionId, hello: ClientHello) -> Self {
        Self {
            id,
            principal: hello.principal,
            version: hello.version,
            scope: hello.scope,
            client_info: hello.client_info,
            callers: Callers::new(Use::Session),
            known: Mutex::new(hello.known),
            opened: Instant::now(),
            last_use: AtomicU64::new(0),
            streams: AtomicUsize::new(0),
            running: Mutex::default(),
            ended: CancellationToken::new(),
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Whose it is.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The version agreed on.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// The path it belongs to.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// `clientInfo` of its `initialize`.
    #[must_use]
    pub fn client_info(&self) -> &Raw {
        &self.client_info
    }

    /// What servers are told of its client. What the client can do is not offered to them: their asks are
    /// declined.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin {
            client_info: self.client_info.clone(),
            log_level: self.callers.replay().log_level().map(LogLevel::to_raw),
            ..Origin::manifold()
        }
    }

    /// Whoever calls in it: one caller for each set of forwarded headers.
    #[must_use]
    pub fn callers(&self) -> &Callers {
        &self.callers
    }

    /// The client is being shown the list of a kind.
    pub fn shown(&self, kind: Kind, lists: Fingerprints) {
        lock(&self.known).take(kind, lists);
    }

    /// What the client must be told of, now that the lists are `now`. Each change is told once, however many streams
    /// ask (2025-11-25 transports, "Multiple Connections").
    pub fn tell(&self, now: Fingerprints) -> Vec<Method> {
        let mut known = lock(&self.known);
        let changes = known.changes(now);
        *known = now;
        changes
    }

    /// How long ago it was opened.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// How many GET streams are open.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    /// Cancelled when the session ends.
    #[must_use]
    pub fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Marks it as used now.
    pub fn touch(&self) {
        let millis = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_use.store(millis, Ordering::Relaxed);
    }

    /// How long nothing has used it; `None` while a call runs or a stream is open.
    #[must_use]
    pub fn idle_for(&self, now: Instant) -> Option<Duration> {
        if self.streams() > 0 || !self.running().calls.is_empty() {
            return None;
        }
        let last = self.opened + Duration::from_millis(self.last_use.load(Ordering::Relaxed));
        Some(now.saturating_duration_since(last))
    }

    /// Counts a call while the returned value lives; the token is cancelled by the client's cancel and by the
    /// session's end. `None` when `limit` calls are in flight.
    pub fn call(
        self: &Arc<Self>,
        id: &RequestId,
        limit: usize,
    ) -> Option<(Activity, CancellationToken)> {
        let mut running = self.running();
        if running.calls.len() >= limit {
            return None;
        }
        let token = self.ended.child_token();
        let number = running.next;
        running.next = running.next.wrapping_add(1);
        running.calls.insert(number, (id.clone(), token.clone()));
        drop(running);
        let activity = Activity {
            session: self.clone(),
            kind: ActivityKind::Call { number },
        };
        Some((activity, token))
    }

    /// Counts a stream while the returned value lives. `None` when `limit` are open.
    pub fn stream(self: &Arc<Self>, limit: usize) -> Option<Activity> {
        self.streams
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
                (open < limit).then_some(open + 1)
            })
            .ok()?;
        Some(Activity {
            session: self.clone(),
            kind: ActivityKind::Stream,
        })
    }

    /// Cancels the calls with that id. Unknown ids are nothing: the answer may have crossed.
    pub fn cancel(&self, id: &RequestId) {
        for (running, token) in self.running().calls.values() {
            if running == id {
                token.cancel();
            }
        }
    }

    fn end(&self) {
        self.ended.cancel();
        self.callers.end();
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        lock(&self.running)
    }
}

impl Activity {
    /// The session that is used.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        match self.kind {
            ActivityKind::Call { number } => {
                self.session.running().calls.remove(&number);
            }
            ActivityKind::Stream => {
                self.session.streams.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.session.touch();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> ClientHello {
        ClientHello {
            principal: Principal::Anonymous,
            version: ProtocolVersion::LATEST_LEGACY,
            scope: Scope::Merged,
            client_info: Raw::of("test"),
            known: Fingerprints::default(),
        }
    }

    #[test]
    fn an_id_has_one_spelling() {
        let sessions = Sessions::new(10, None);
        let id = sessions.open(hello()).unwrap().0.id().to_string();
        assert!(SessionId::parse(&id).is_some());
        for other in [
            id.to_uppercase(),
            id.replace('-', ""),
            format!("{{{id}}}"),
            format!("urn:uuid:{id}"),
            format!(" {id}"),
            String::new(),
            "x".repeat(10_000),
        ] {
            assert!(SessionId::parse(&other).is_none(), "{other}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_expires_only_when_nothing_uses_it() {
        let sessions = Sessions::new(10, Some(Duration::from_secs(60)));
        let (session, _) = sessions.open(hello()).unwrap();
        let (call, _token) = session.call(&RequestId::from("1"), 64).unwrap();
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(sessions.end_expired(Instant::now()).is_empty());
        drop(call);
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(sessions.end_expired(Instant::now()).is_empty());
        let stream = session.stream(1).unwrap();
        assert!(session.stream(1).is_none());
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(sessions.end_expired(Instant::now()).is_empty());
        drop(stream);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(sessions.end_expired(Instant::now()).len(), 1);
        assert!(sessions.get(session.id()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_cap_the_longest_idle_one_makes_room() {
        let sessions = Sessions::new(2, None);
        let (first, _) = sessions.open(hello()).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        let (second, _) = sessions.open(hello()).unwrap();
        let _busy = first.call(&RequestId::from("1"), 64).unwrap();
        let (third, evicted) = sessions.open(hello()).unwrap();
        assert_eq!(evicted.unwrap().id(), second.id());
        assert!(sessions.get(second.id()).is_none());
        assert!(second.ended().is_cancelled());
        let _also_busy = third.call(&RequestId::from("1"), 64).unwrap();
        assert_eq!(sessions.open(hello()).unwrap_err(), Full);
        assert_eq!(sessions.len(), 2);
    }

    #[test]
    fn calls_of_a_session_are_bounded() {
        let sessions = Sessions::new(10, None);
        let (session, _) = sessions.open(hello()).unwrap();
        let first = session.call(&RequestId::from("1"), 1);
        assert!(session.call(&RequestId::from("2"), 1).is_none());
        drop(first);
        assert!(session.call(&RequestId::from("2"), 1).is_some());
    }

    #[test]
    fn a_cancel_reaches_the_calls_of_that_id_and_no_other() {
        let sessions = Sessions::new(10, None);
        let (session, _) = sessions.open(hello()).unwrap();
        let (_a, one) = session.call(&RequestId::from("1"), 64).unwrap();
        let (_b, also_one) = session.call(&RequestId::from("1"), 64).unwrap();
        let (_c, text) = session.call(&RequestId::from("\"1\""), 64).unwrap();
        session.cancel(&RequestId::from("1"));
        session.cancel(&RequestId::from("7"));
        assert!(one.is_cancelled() && also_one.is_cancelled() && !text.is_cancelled());
    }
}
