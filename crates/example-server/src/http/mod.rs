//! The Streamable HTTP transport: HTTP/1.1 and h2c on one port, one endpoint.

mod endpoint;
mod exchange;
mod headers;
mod sessions;

use std::convert::Infallible;
use std::future::Future;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::eras::Eras;
use crate::error::ExampleError;
use crate::process::Process;
use endpoint::Endpoint;

/// The path of the one endpoint; every other path is a 404.
pub const ENDPOINT: &str = "/mcp";

/// Connections at once; further ones wait in the system's queue.
const MAX_CONNECTIONS: usize = 1024;

/// How long a client may take to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long calls in progress may go on after the shutdown began.
const GRACE: Duration = Duration::from_secs(5);

/// Pause after a failed accept, which mostly means that the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A server that has its port and waits to be run.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    eras: Eras,
}

/// Runs tasks of HTTP/2 streams under the server's tracker.
#[derive(Debug, Clone)]
struct Tracked(TaskTracker);

/// Serves Streamable HTTP at `http://ADDRESS/mcp` until `shutdown` completes.
///
/// One line on stderr says where. Otherwise this is [`HttpServer::bind`] and [`HttpServer::run`].
///
/// # Errors
/// [`ExampleError::Bind`] when the address cannot be had.
pub async fn serve_http(
    address: SocketAddr,
    eras: Eras,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ExampleError> {
    let server = HttpServer::bind(address, eras).await?;
    // Nobody may be listening on stderr, which is no reason not to serve.
    writeln!(
        std::io::stderr().lock(),
        "example server ready on {} ({eras:?})",
        server.url()
    )
    .ok();
    server.run(shutdown).await
}

impl HttpServer {
    /// Takes the address; port 0 means any free one. Connections wait until [`HttpServer::run`].
    ///
    /// # Errors
    /// [`ExampleError::Bind`] when the address cannot be had.
    pub async fn bind(address: SocketAddr, eras: Eras) -> Result<Self, ExampleError> {
        let failed = |source| ExampleError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            address,
            eras,
        })
    }

    /// The address in use, with the real port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The endpoint's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{ENDPOINT}", self.address)
    }

    /// Serves until `shutdown` completes, then lets calls in progress go on for up to five seconds.
    ///
    /// At the shutdown open GET streams end, and open subscriptions end with their result. What is still open after the
    /// five seconds is cut off. Dropping the future stops accepting at once and lets open connections end in the same way.
    ///
    /// # Errors
    /// None at present: what goes wrong with one connection is that connection's matter.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ExampleError> {
        let closing = CancellationToken::new();
        let _closes_when_dropped = closing.clone().drop_guard();
        let tracker = TaskTracker::new();
        let endpoint = Arc::new(Endpoint::new(Process::new(self.eras), closing.clone()));
        tokio::select! {
            () = shutdown => {}
            never = accept(&self.listener, &endpoint, &tracker, &closing) => match never {},
        }
        drop(self.listener);
        closing.cancel();
        tracker.close();
        // Each connection keeps to the grace by itself; the second on top is for the tasks of HTTP/2 streams.
        tokio::time::timeout(GRACE + Duration::from_secs(1), tracker.wait())
            .await
            .ok();
        Ok(())
    }
}

/// Accepts connections for ever and gives each a task.
async fn accept(
    listener: &TcpListener,
    endpoint: &Arc<Endpoint>,
    tracker: &TaskTracker,
    closing: &CancellationToken,
) -> Infallible {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let connection = connection(
            stream,
            Arc::clone(endpoint),
            tracker.clone(),
            closing.clone(),
        );
        tracker.spawn(async move {
            connection.await;
            drop(place);
        });
    }
}

/// Serves one connection until either side ends it.
async fn connection(
    stream: TcpStream,
    endpoint: Arc<Endpoint>,
    tracker: TaskTracker,
    closing: CancellationToken,
) {
    // Small events must not wait for each other; a socket that refuses the option still works.
    stream.set_nodelay(true).ok();
    let service = service_fn(move |request| {
        let endpoint = Arc::clone(&endpoint);
        async move { Ok::<_, Infallible>(endpoint.serve(request).await) }
    });
    let mut builder = auto::Builder::new(Tracked(tracker));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT);
    builder.http2().timer(TokioTimer::new());
    let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // How a connection ended concerns its client alone.
        _ended = serving.as_mut() => {}
        () = closing.cancelled() => {
            serving.as_mut().graceful_shutdown();
            tokio::time::timeout(GRACE, serving).await.ok();
        }
    }
}

impl<F> hyper::rt::Executor<F> for Tracked
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}
