//! Keeps the lists of one link known: asks for all of them at first, and again for those that the server says have
//! changed.

use std::{collections::HashMap, pin::Pin, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use manifold_link::{Link, LinkError, Notices};
use manifold_protocol::{Kind, code};
use tokio::{sync::watch, time::Instant};
use tracing::warn;

use crate::{
    listing,
    lists::{Hello, List},
    server::Server,
};

/// How long changes are gathered before a list is asked for again: servers announce in bursts.
const GATHER: Duration = Duration::from_millis(100);
/// The longest time between two times that a list is asked for which is announced again and again and never changes.
const GATHER_LONGEST: Duration = Duration::from_secs(10);
/// After so long without being asked for, a list is new.
const QUIET: Duration = Duration::from_secs(20);
/// How long after a failure a list is asked for again; twice as long after each more.
const RETRY: Duration = Duration::from_secs(5);
const RETRY_LONGEST: Duration = Duration::from_secs(300);

/// The lists of one link.
pub(crate) struct Lister {
    server: Arc<Server>,
    link: Arc<Link>,
    notices: watch::Receiver<Notices>,
    /// How often each list had been announced when it was last asked for.
    seen: HashMap<Kind, u64>,
    running: FuturesUnordered<Running>,
    busy: Vec<Kind>,
    paces: HashMap<Kind, Pace>,
    /// When what was announced is looked at.
    look_at: Option<Instant>,
    retry: Duration,
}

type Running = Pin<Box<dyn Future<Output = (Kind, Result<List, LinkError>)> + Send>>;

impl Lister {
    /// Asks for everything that the server declares. Nothing is sent before [`Lister::next`].
    pub(crate) fn start(server: &Arc<Server>, link: &Arc<Link>) -> Self {
        link.listen();
        let mut lister = Self {
            server: server.clone(),
            notices: link.notices(),
            link: link.clone(),
            seen: HashMap::new(),
            running: FuturesUnordered::new(),
            busy: Vec::new(),
            paces: HashMap::new(),
            look_at: None,
            retry: RETRY,
        };
        lister.ask_again();
        lister
    }

    /// How many lists were asked for and have no answer yet.
    pub(crate) fn asked(&self) -> usize {
        self.running.len()
    }

    /// Asks again for everything.
    pub(crate) fn ask_again(&mut self) {
        let hello = Hello::of(self.link.peer());
        for kind in Kind::ALL.into_iter().filter(|kind| hello.lists(*kind)) {
            self.ask(kind, Duration::ZERO);
        }
    }

    /// The next list that is known anew, or could not be had. One that could not is asked for again by itself. Waits for
    /// ever on a link that announces nothing.
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> (Kind, Result<List, LinkError>) {
        loop {
            let look = self.look_at;
            tokio::select! {
                Some((kind, fetched)) = self.running.next() => {
                    self.busy.retain(|busy| *busy != kind);
                    let now = Instant::now();
                    self.paces.entry(kind).or_default().asked(now);
                    // It may have been announced again meanwhile.
                    self.look_at.get_or_insert(now + GATHER);
                    return (kind, self.fetched(kind, fetched));
                }
                Ok(()) = self.notices.changed() => {
                    self.look_at.get_or_insert(Instant::now() + GATHER);
                }
                () = sleep_until(look), if look.is_some() => {
                    self.look_at = None;
                    self.look();
                }
                else => std::future::pending().await,
            }
        }
    }

    /// Says whether a list that was known anew was a change.
    pub(crate) fn was_change(&mut self, kind: Kind, changed: bool) {
        self.paces.entry(kind).or_default().was_change(changed);
    }

    /// Asks for what was announced since it was last asked for.
    fn look(&mut self) {
        let now = *self.notices.borrow_and_update();
        let moment = Instant::now();
        let mut later: Option<Instant> = None;
        for kind in Kind::ALL {
            let seen = self.seen.get(&kind);
            if seen.is_none_or(|seen| *seen == announced(kind, now)) || self.busy.contains(&kind) {
                continue;
            }
            let free = self.paces.entry(kind).or_default().free_at(moment);
            if free <= moment {
                self.ask(kind, Duration::ZERO);
            } else {
                later = Some(later.map_or(free, |later| later.min(free)));
            }
        }
        self.look_at = later;
    }

    fn ask(&mut self, kind: Kind, after: Duration) {
        if self.busy.contains(&kind) {
            return;
        }
        self.busy.push(kind);
        let now = *self.notices.borrow();
        self.seen.insert(kind, announced(kind, now));
        let (server, link) = (self.server.clone(), self.link.clone());
        self.running.push(Box::pin(async move {
            tokio::time::sleep(after).await;
            let patience = server.settings().patience;
            let fetched = listing::fetch(server.name(), &link, kind, patience).await;
            (kind, fetched)
        }));
    }

    fn fetched(&mut self, kind: Kind, fetched: Result<List, LinkError>) -> Result<List, LinkError> {
        match fetched {
            Ok(list) => {
                self.retry = RETRY;
                Ok(list)
            }
            // Many servers have resources and know nothing of templates.
            Err(LinkError::Refused(error)) if error.code == code::METHOD_NOT_FOUND => {
                Ok(List::new(kind, Vec::new(), None))
            }
            Err(error) => {
                if !self.link.is_ended() {
                    let server = self.server.name();
                    warn!(%server, list = kind.word(), %error, "a server's list can't be had: it is asked for again");
                    self.ask(kind, self.retry);
                    self.retry = (self.retry * 2).min(RETRY_LONGEST);
                }
                Err(error)
            }
        }
    }
}

/// How often a list may be asked for. A server that announces changes which are none is asked more and more rarely:
/// being asked may be what makes it announce. One that was quiet for long is asked at once.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    last: Option<Instant>,
    gap: Duration,
}

impl Pace {
    fn asked(&mut self, now: Instant) {
        if self
            .last
            .is_some_and(|last| now.saturating_duration_since(last) > QUIET)
        {
            self.gap = Duration::ZERO;
        }
        self.last = Some(now);
    }

    fn was_change(&mut self, changed: bool) {
        self.gap = if changed {
            Duration::ZERO
        } else {
            (self.gap * 2).clamp(GATHER, GATHER_LONGEST)
        };
    }

    /// From when on it may be asked for again.
    fn free_at(&self, now: Instant) -> Instant {
        self.last.map_or(now, |last| last + self.gap)
    }
}

/// How often a list was announced. Resources and templates have one notification.
fn announced(kind: Kind, notices: Notices) -> u64 {
    match kind {
        Kind::Tool => notices.tools,
        Kind::Prompt => notices.prompts,
        Kind::Resource | Kind::Template => notices.resources,
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_announced_in_vain_is_asked_for_more_and_more_rarely() {
        let start = Instant::now();
        let mut pace = Pace::default();
        assert_eq!(pace.free_at(start), start);
        let mut now = start;
        let mut gaps = Vec::new();
        for _ in 0..10 {
            pace.asked(now);
            pace.was_change(false);
            let free = pace.free_at(now);
            gaps.push(free - now);
            now = free;
        }
        assert_eq!(gaps.first(), Some(&GATHER));
        assert_eq!(gaps.last(), Some(&GATHER_LONGEST));
        // A change, or a long quiet, and it is asked for at once.
        pace.asked(now);
        pace.was_change(true);
        assert_eq!(pace.free_at(now), now);
        pace.was_change(false);
        let later = now + QUIET + GATHER;
        assert!(pace.free_at(later) < later);
        pace.asked(later);
        pace.was_change(false);
        assert_eq!(pace.free_at(later), later + GATHER);
    }
}
