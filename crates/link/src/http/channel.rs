//! The HTTP relation with one server: where it is, what every request carries, its session.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::ResponseFuture;
use manifold_protocol::{LinkRequestId, Method, ProtocolVersion, wire};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;

use super::{
    ForwardedHeaders, HttpExchange,
    client::{Answer, HttpClient},
    headers,
};
use crate::{HttpTarget, LinkError, Notices, exchange::GOODBYE};

/// One HTTP relation.
#[derive(Debug)]
pub(crate) struct Http(Arc<Relation>);

/// What the exchanges of a relation share.
#[derive(Debug)]
pub(crate) struct Relation {
    client: HttpClient,
    uri: Uri,
    /// The headers of every request: the configured ones, the forwarded ones and what every POST carries.
    base: HeaderMap,
    pub(super) limit: usize,
    next: AtomicU64,
    pub(super) in_flight: AtomicUsize,
    session: OnceLock<HeaderValue>,
    pub(super) notices: watch::Sender<Notices>,
    pub(super) tasks: TaskTracker,
    ended: CancellationToken,
    end: OnceLock<LinkError>,
}

impl Http {
    pub(crate) fn new(
        target: &HttpTarget,
        forwarded: &ForwardedHeaders,
        limit: usize,
        tasks: TaskTracker,
    ) -> Self {
        Self(Arc::new(Relation {
            client: target.client.clone(),
            uri: target.uri.clone(),
            base: base_headers(&target.headers, forwarded),
            limit,
            next: AtomicU64::new(1),
            in_flight: AtomicUsize::new(0),
            session: OnceLock::new(),
            notices: watch::Sender::default(),
            tasks,
            ended: CancellationToken::new(),
            end: OnceLock::new(),
        }))
    }

    /// What outlives this owner in the hands of those who are not to keep the relation open.
    pub(crate) fn relation(&self) -> &Arc<Relation> {
        &self.0
    }

    /// Sends a notification and waits until the server has taken it. Any 2xx will do: servers answer 200,
    /// 202 and 204, with and without a body.
    pub(crate) async fn notify(
        &self,
        version: ProtocolVersion,
        method: &Method,
        params: &[u8],
    ) -> Result<(), LinkError> {
        let body = wire::notification(method.as_str(), params);
        self.0.post_and_forget(version, method, body).await
    }

    /// Remembers the session that `initialize` opened.
    pub(crate) fn set_session(&self, session: HeaderValue) {
        // Only the first counts: a relation has one session.
        drop(self.0.session.set(session));
    }

    pub(crate) fn notices(&self) -> &watch::Sender<Notices> {
        &self.0.notices
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.0.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.0.ended.is_cancelled()
    }

    pub(crate) fn ended(&self) -> impl Future<Output = LinkError> + Send + 'static {
        let relation = self.0.clone();
        async move { relation.ended().await }
    }

    /// Ends the session at the server, if there is one (2025-11-25 transports, "Session Management").
    /// Servers may refuse that; it is a courtesy with a deadline.
    pub(crate) fn close(&self, version: ProtocolVersion) {
        // Once is enough, and a session that is lost needs no goodbye.
        if !self.0.end(LinkError::Closed) || self.0.session.get().is_none() {
            return;
        }
        let relation = self.0.clone();
        self.0.tasks.spawn(async move {
            let Some(request) = relation.request("DELETE", version, None, None, Bytes::new())
            else {
                return;
            };
            let goodbye = tokio::time::timeout(GOODBYE, relation.client.send(request));
            if goodbye.await.is_err() {
                debug!("a server did not answer DELETE");
            }
        });
    }
}

impl Drop for Http {
    /// Says goodbye also when the handshake failed after the session was opened.
    fn drop(&mut self) {
        self.close(ProtocolVersion::LATEST_LEGACY);
    }
}

// === impl Relation ===

impl Relation {
    /// Prepares a request under `version`. It is sent when the exchange is first asked for an event.
    pub(crate) fn exchange(
        self: &Arc<Self>,
        version: ProtocolVersion,
        method: &Method,
        name: Option<&str>,
        params: impl FnOnce(LinkRequestId) -> Bytes,
    ) -> HttpExchange {
        let id = LinkRequestId(self.next.fetch_add(1, Ordering::Relaxed));
        let body = wire::request(id, method.as_str(), &params(id));
        HttpExchange::new(self.clone(), id, version, method.clone(), name, body)
    }

    /// Whether a session id goes out with requests.
    pub(super) fn in_session(&self) -> bool {
        self.session.get().is_some()
    }

    /// The relation is no use any more: whoever holds it makes a new one.
    /// Says whether it was of use until now.
    pub(super) fn end(&self, reason: LinkError) -> bool {
        let first = self.end.set(reason).is_ok();
        self.ended.cancel();
        first
    }

    /// Waits for the end and says why it came.
    pub(super) async fn ended(&self) -> LinkError {
        self.ended.cancelled().await;
        self.end.get().cloned().unwrap_or(LinkError::Closed)
    }

    /// Why it has ended, if it has.
    pub(super) fn end_reason(&self) -> Option<LinkError> {
        self.end.get().cloned()
    }

    /// Waits for an end that takes the answers of requests with it. A lost session does not: the server may have
    /// worked on what was sent before, and each request has an answer of its own.
    pub(super) async fn cut(&self) -> LinkError {
        let reason = self.ended().await;
        if matches!(reason, LinkError::SessionLost) {
            std::future::pending::<()>().await;
        }
        reason
    }

    pub(super) fn post(
        &self,
        version: ProtocolVersion,
        method: &Method,
        name: Option<&str>,
        body: Bytes,
    ) -> Option<ResponseFuture> {
        let request = self.request("POST", version, Some(method), name, body)?;
        Some(self.client.send(request))
    }

    /// Asks for the stream of the session, from after an event of an earlier one on if `after` names it.
    pub(super) fn get(
        &self,
        version: ProtocolVersion,
        after: Option<&HeaderValue>,
    ) -> Option<ResponseFuture> {
        let mut request = self.request("GET", version, None, None, Bytes::new())?;
        headers::listen(request.headers_mut(), after);
        Some(self.client.send(request))
    }

    /// POSTs what is not answered with a message.
    pub(super) async fn post_and_forget(
        &self,
        version: ProtocolVersion,
        method: &Method,
        body: Bytes,
    ) -> Result<(), LinkError> {
        let Some(response) = self.post(version, method, None, body) else {
            return Err(LinkError::Unreachable("the URL is not usable".to_owned()));
        };
        let answer: Answer = response.await.map_err(|error| describe(&error))?;
        if answer.status().is_success() {
            return Ok(());
        }
        Err(LinkError::Status(answer.status().as_u16()))
    }

    fn request(
        &self,
        verb: &str,
        version: ProtocolVersion,
        method: Option<&Method>,
        name: Option<&str>,
        body: Bytes,
    ) -> Option<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(verb)
            .uri(self.uri.clone())
            .body(Full::new(body))
            .ok()?;
        let to = request.headers_mut();
        to.clone_from(&self.base);
        // `initialize` comes before there is a version to speak of.
        if method != Some(&Method::Initialize) {
            headers::protocol(to, version, method, name);
        }
        if let Some(session) = self.session.get() {
            to.insert(headers::SESSION_ID, session.clone());
        }
        Some(request)
    }
}

fn base_headers(configured: &HeaderMap, forwarded: &ForwardedHeaders) -> HeaderMap {
    let mut base = configured.clone();
    forwarded.add_to(&mut base);
    headers::post(&mut base);
    base
}

/// What went wrong before the head of a response. A connect error means that nothing was sent.
pub(super) fn describe(error: &hyper_util::client::legacy::Error) -> LinkError {
    let mut text = error.to_string();
    let mut spoke = false;
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = cause.to_string();
        // Something came, and it was no HTTP.
        spoke |= cause
            .downcast_ref::<hyper::Error>()
            .is_some_and(hyper::Error::is_parse);
        source = cause.source();
    }
    if error.is_connect() {
        LinkError::Unreachable(text)
    } else if spoke {
        LinkError::broken_within(text)
    } else {
        LinkError::broken_before(text)
    }
}
