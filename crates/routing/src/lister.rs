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
/// The same for a server that announces changes when there are none.
const GATHER_LONGEST: Duration = Duration::from_secs(10);
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
    gather: Duration,
    /// When what was announced is looked at.
    look_at: Option<Instant>,
    retry: Duration,
}

type Running = Pin<Box<dyn Future<Output = (Kind, Result<List, LinkError>)> + Send>>;

impl Lister {
    /// Asks for everything that the server declares. Nothing is sent before [`Lister::next`].
    pub(crate) fn start(server: &Arc<Server>, link: &Arc<Link>) -> Self {
        let mut lister = Self {
            server: server.clone(),
            notices: link.notices(),
            link: link.clone(),
            seen: HashMap::new(),
            running: FuturesUnordered::new(),
            busy: Vec::new(),
            gather: GATHER,
            look_at: None,
            retry: RETRY,
        };
        lister.ask_again();
        lister
    }

    /// Whether nothing was asked for that has no answer yet.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
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

    /// The next list that is known anew, or could not be had. One that
    /// could not is asked for again by itself. Waits for ever on a link that announces nothing.
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> (Kind, Result<List, LinkError>) {
        loop {
            let look = self.look_at;
            tokio::select! {
                Some((kind, fetched)) = self.running.next() => {
                    self.busy.retain(|busy| *busy != kind);
                    // It may have been announced again meanwhile.
                    self.look_at.get_or_insert(Instant::now() + self.gather);
                    return (kind, self.fetched(kind, fetched));
                }
                Ok(()) = self.notices.changed() => {
                    self.look_at.get_or_insert(Instant::now() + self.gather);
                }
                () = sleep_until(look), if look.is_some() => {
                    self.look_at = None;
                    self.look();
                }
                else => std::future::pending().await,
            }
        }
    }

    /// Says whether the last list that was known anew was a change, so that a server which announces changes that
    /// are none is asked less often: being asked may be what makes it announce.
    pub(crate) fn was_change(&mut self, changed: bool) {
        self.gather = if changed {
            GATHER
        } else {
            (self.gather * 2).min(GATHER_LONGEST)
        };
    }

    /// Asks for what was announced since it was last asked for.
    fn look(&mut self) {
        let now = *self.notices.borrow_and_update();
        for kind in Kind::ALL {
            let seen = self.seen.get(&kind);
            if seen.is_some_and(|seen| *seen != announced(kind, now)) {
                self.ask(kind, Duration::ZERO);
            }
        }
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
