//! The listener: HTTP/1.1 and HTTP/2 with prior knowledge on one port, connections with an owner and a bound.

use std::{convert::Infallible, fmt::Display, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::Service;
use tracing::{debug, warn};

/// The most connections at a time; more wait to be accepted.
const CONNECTIONS: usize = 16_384;
/// How long a client may take to send its first byte, and then the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long a connection lives that comes while we are draining.
const LATE_TIME: Duration = Duration::from_secs(5);
/// How long to wait after the system would not give us a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `service` on `listener` until `stop`. From `drain` on, connections that are open end after the
/// requests they carry; new ones have a short life, in which `service` can tell clients to come back later.
/// Only the connections from before `drain` run on `tasks`.
///
/// Dropping the future closes the listener and the connections from after `drain`; the others go on.
pub async fn serve<S, B>(
    listener: TcpListener,
    service: S,
    drain: CancellationToken,
    stop: CancellationToken,
    tasks: TaskTracker,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Display,
{
    let seats = Arc::new(Semaphore::new(CONNECTIONS));
    let mut builder = auto::Builder::new(TrackedExecutor(tasks.clone()));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME);
    builder.http2().timer(TokioTimer::new());
    let builder = Arc::new(builder);
    let mut late = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &seats) => accepted,
            Some(_) = late.join_next() => continue,
            () = stop.cancelled() => return,
        };
        let Some((stream, seat)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (builder, drain) = (builder.clone(), drain.clone());
        let service = TowerToHyperService::new(service.clone());
        if drain.is_cancelled() {
            late.spawn(async move {
                let _seat = seat;
                let connection = builder.serve_connection(TokioIo::new(stream), service);
                // Whatever comes of it: the process is about to end.
                drop(tokio::time::timeout(LATE_TIME, connection).await);
            });
            continue;
        }
        tasks.spawn(async move {
            let _seat = seat;
            // The HTTP library's own timer starts with the first byte. Readiness alone may be a false alarm.
            let mut first = [0];
            let begun = tokio::select! {
                begun = tokio::time::timeout(HEAD_TIME, stream.peek(&mut first)) => begun,
                () = drain.cancelled() => return,
            };
            match begun {
                Ok(Ok(_)) => {}
                Ok(Err(_)) | Err(_) => return,
            }
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            tokio::pin!(connection);
            let mut asked = false;
            let outcome = loop {
                tokio::select! {
                    outcome = connection.as_mut() => break outcome,
                    () = drain.cancelled(), if !asked => {
                        asked = true;
                        connection.as_mut().graceful_shutdown();
                    }
                }
            };
            if let Err(error) = outcome {
                debug!(%error, "a connection ended with an error");
            }
        });
    }
}

async fn accept(
    listener: &TcpListener,
    seats: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let seat = seats.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            if let Err(error) = stream.set_nodelay(true) {
                debug!(%error, "no TCP_NODELAY");
            }
            Some((stream, seat))
        }
        Err(error) => {
            warn!(%error, "can't accept a connection: is the limit of open files reached?");
            None
        }
    }
}

/// Runs the tasks of HTTP/2 streams where everything else runs: on the tracker.
#[derive(Debug, Clone)]
struct TrackedExecutor(TaskTracker);

impl<F> hyper::rt::Executor<F> for TrackedExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}
