//! What a caller has asked of servers that must hold on every link of it, also on those that come later.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use manifold_link::{Call, Link, Patience};
use manifold_protocol::{Era, LogLevel, Method, Params, Raw, ServerName};
use tracing::warn;

/// How long a server may take for each.
const PATIENCE: Patience = Patience {
    silence: Duration::from_secs(10),
    max: Duration::from_secs(10),
};

/// What is told to a fresh link before anything else.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    log_level: Mutex<Option<LogLevel>>,
}

impl Replay {
    /// The level that `logging/setLevel` asked for.
    pub(crate) fn log_level(&self) -> Option<LogLevel> {
        *self.lock()
    }

    pub(crate) fn set_log_level(&self, level: LogLevel) {
        *self.lock() = Some(level);
    }

    /// Tells a link. Modern servers are told with each request instead. A server that refuses is let be.
    pub(crate) async fn tell(&self, server: &ServerName, link: &Link) {
        let Some(level) = self.log_level() else {
            return;
        };
        if link.peer().era() == Era::Legacy && link.peer().serves.logging {
            set_level(server, link, level).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<LogLevel>> {
        self.log_level
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

async fn set_level(server: &ServerName, link: &Link, level: LogLevel) {
    let params = Raw::of(&serde_json::json!({ "level": level.to_raw() }));
    let params = Params::parse(&params).unwrap_or_else(|_| Params::absent());
    let call = Call::own(Method::LoggingSetLevel, params, PATIENCE);
    let told = match link.begin(call).await {
        Ok(exchange) => exchange.finish().await,
        Err(error) => Err(error),
    };
    if let Err(error) = told {
        warn!(%server, %error, "a server could not be told the log level");
    }
}
