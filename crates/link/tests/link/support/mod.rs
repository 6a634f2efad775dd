//! Scripted servers, and what the tests share.

pub(crate) mod child;
pub(crate) mod http;

use std::time::Duration;

use bytes::Bytes;
use manifold_link::{Call, Connector, Exchange, Link, LinkError, Notices, Patience};
use manifold_protocol::{Method, Outcome, Params, Raw};
use manifold_testkit::{DEADLINE, eventually};
use tokio_util::task::TaskTracker;

/// Patience for what is to work.
pub(crate) const PATIENCE: Patience = Patience {
    silence: Duration::from_secs(60),
    max: Duration::from_secs(60),
};

/// Waits for something, but not for ever.
pub(crate) async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.unwrap()
}

/// Waits until all tasks have ended.
pub(crate) async fn finished(tasks: &TaskTracker) {
    tasks.close();
    in_time(tasks.wait()).await;
}

/// The largest message in these tests.
pub(crate) const LIMIT: usize = 64 * 1024;

/// A link that speaks for Manifold.
pub(crate) async fn connect(connector: &Connector) -> Link {
    let origin = manifold_link::Origin::manifold();
    connector.connect(&origin, |_| {}).await.unwrap()
}

/// A call of a tool without arguments.
pub(crate) fn call() -> Call {
    let params = Raw::parse(Bytes::from_static(br#"{"name":"look","arguments":{}}"#)).unwrap();
    Call::own(Method::ToolsCall, Params::parse(&params).unwrap(), PATIENCE)
}

/// The outcome of that call.
pub(crate) async fn called(link: &Link) -> Result<Outcome, LinkError> {
    link.begin(call()).await.map(Exchange::finish)?.await
}

/// Waits until the notices are as `expected`.
pub(crate) async fn noticed(link: &Link, expected: [u64; 3]) {
    let notices = link.notices();
    let now = || {
        let Notices {
            tools,
            prompts,
            resources,
        } = *notices.borrow();
        [tools, prompts, resources]
    };
    let look = async || (now() == expected).then_some(());
    let found = eventually("notices", look).await;
    assert!(found.is_ok(), "{:?} and not {expected:?}", now());
}
