//! The HTTP client: pooled connections, rustls, the system's root certificates.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnectorBuilder, MaybeHttpsStream, builderstates::WantsSchemes};
use hyper_util::{
    client::legacy::{Client, ResponseFuture, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower::{BoxError, timeout::Timeout, util::BoxCloneSyncService};

use crate::LinkError;

/// How long an unused connection is kept: less than the five seconds after which common servers close theirs,
/// so that a call does not meet a connection that is just being closed.
const POOL_IDLE: Duration = Duration::from_secs(4);

/// When a connection is silent for so long, its other end is asked whether it is there, and three times more. A stream
/// that only listens would not notice otherwise that nobody speaks any more.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A pooled client. Cheap to clone; the clones share the pool.
#[derive(Debug, Clone)]
pub struct HttpClient(Client<Connect, Full<Bytes>>);

/// Makes a connection within a deadline.
type Connect = BoxCloneSyncService<Uri, MaybeHttpsStream<TokioIo<TcpStream>>, BoxError>;

impl HttpClient {
    /// A client for `http://` and `https://` that gives a connection `connect` to be made, TCP and TLS together.
    ///
    /// # Errors
    /// When the system has no root certificates.
    pub fn new(connect: Duration) -> Result<Self, LinkError> {
        let connector = HttpsConnectorBuilder::new()
            .with_native_roots()
            .map_err(|error| LinkError::Unreachable(format!("no root certificates: {error}")))?;
        Ok(Self::over(connector, connect))
    }

    /// A client for `http://` alone: it trusts no certificate, and holds none in memory.
    #[must_use]
    pub fn plain(connect: Duration) -> Self {
        let nobody = ClientConfig::builder()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        Self::over(
            HttpsConnectorBuilder::new().with_tls_config(nobody),
            connect,
        )
    }

    fn over(connector: HttpsConnectorBuilder<WantsSchemes>, connect: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE / 3));
        tcp.set_keepalive_retries(Some(3));
        let connector = connector
            .https_or_http()
            .enable_http1()
            .enable_http2()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(POOL_IDLE)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .build(BoxCloneSyncService::new(Timeout::new(connector, connect)));
        Self(client)
    }

    /// Sends a request. Dropping the future ends it.
    pub(crate) fn send(&self, request: Request<Full<Bytes>>) -> ResponseFuture {
        self.0.request(request)
    }
}

/// A response as it arrives.
pub(crate) type Answer = Response<Incoming>;
