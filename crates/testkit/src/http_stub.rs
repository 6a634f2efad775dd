//! A scripted HTTP server that remembers every request.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt,
    future::pending,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, value::RawValue};
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};

/// The largest body a stub takes.
const BODY: usize = 256 * 1024 * 1024;

/// A server on a port of its own. Dropping it closes all its connections.
#[derive(Debug)]
pub struct HttpStub {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// GET, POST, DELETE.
    pub verb: String,
    /// The path.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: String,
}

/// What a stub does about a request.
#[derive(Debug, Clone)]
pub enum Reaction {
    /// It answers.
    Answer {
        /// The status.
        status: u16,
        /// The headers.
        headers: Vec<(&'static str, String)>,
        /// The body, to the byte.
        body: Bytes,
    },
    /// It closes the connection without a word.
    Close,
    /// It never answers.
    Silence,
}

/// A legacy MCP server for an [`HttpStub`]: sessions, one list of tools, one result for every call.
pub struct LegacyServer {
    /// The text of its array of tools.
    pub tools: String,
    /// The text of the result of every call.
    pub result: String,
    sessions: Mutex<Vec<String>>,
    opened: AtomicU64,
}

/// The connection is to be closed.
#[derive(Debug)]
struct Closed;

// === impl HttpStub ===

impl HttpStub {
    /// Starts a server that does about each request what `script` says.
    ///
    /// # Errors
    /// When it can't listen.
    #[expect(
        clippy::disallowed_methods,
        reason = "the handle owns the task: it is aborted on drop"
    )]
    pub async fn start(
        script: impl Fn(&Seen) -> Reaction + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::task::spawn(serve(listener, Arc::new(script), seen.clone()));
        Ok(Self {
            address,
            seen,
            task,
        })
    }

    /// Its endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Its host and port.
    #[must_use]
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    /// All requests so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.seen).clone()
    }

    /// The POSTs of that method so far.
    #[must_use]
    pub fn posts(&self, method: &str) -> Vec<Seen> {
        let mut seen = self.seen();
        seen.retain(|seen| seen.verb == "POST" && seen.method() == method);
        seen
    }
}

impl Drop for HttpStub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// === impl Seen ===

impl Seen {
    /// The body as JSON; null when it is none.
    #[must_use]
    pub fn message(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The method of the message; empty when there is none.
    #[must_use]
    pub fn method(&self) -> String {
        let method = self.member("method");
        method.trim_matches('"').to_owned()
    }

    /// The text of a member of the message, `null` when it is not there. Unlike [`Self::message`] it does not
    /// mind what stands in the others.
    #[must_use]
    pub fn member(&self, name: &str) -> String {
        let members: BTreeMap<String, &RawValue> =
            serde_json::from_str(&self.body).unwrap_or_default();
        let value = members.get(name).map(|value| value.get());
        value.unwrap_or("null").to_owned()
    }

    /// The header's value, if it came once and is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (Some(value), None) => value.to_str().ok(),
            _ => None,
        }
    }
}

// === impl Reaction ===

impl Reaction {
    /// A status without a body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::Answer {
            status,
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    /// A body of some type.
    #[must_use]
    pub fn body(status: u16, kind: &str, body: impl Into<Bytes>) -> Self {
        Self::Answer {
            status,
            headers: vec![("content-type", kind.to_owned())],
            body: body.into(),
        }
    }

    /// The result with this text, as JSON.
    #[must_use]
    pub fn result(seen: &Seen, result: &str) -> Self {
        Self::body(200, "application/json", answer(seen, result))
    }
}

/// The text of the response to a request.
#[must_use]
pub fn answer(seen: &Seen, result: &str) -> String {
    let id = seen.member("id");
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

// === impl LegacyServer ===

impl LegacyServer {
    /// A server with one tool, `look`.
    #[must_use]
    pub fn new(result: &str) -> Self {
        Self {
            tools: r#"[{"name":"look","inputSchema":{"type":"object"}}]"#.to_owned(),
            result: result.to_owned(),
            sessions: Mutex::default(),
            opened: AtomicU64::new(0),
        }
    }

    /// Its answer to a request.
    pub fn react(&self, seen: &Seen) -> Reaction {
        let method = seen.method();
        if seen.verb == "POST" && method == "initialize" {
            return self.initialize(seen);
        }
        if method == "server/discover" {
            return Reaction::body(400, "text/plain", "Bad Request: no session");
        }
        let session = seen.header("mcp-session-id").unwrap_or_default();
        if !lock(&self.sessions).iter().any(|known| known == session) {
            return Reaction::body(404, "text/plain", "Session not found");
        }
        match (seen.verb.as_str(), method.as_str()) {
            ("POST", "tools/list") => {
                Reaction::result(seen, &format!(r#"{{"tools":{}}}"#, self.tools))
            }
            ("POST", "tools/call") => Reaction::result(seen, &self.result),
            ("POST", _) if seen.member("id") == "null" => Reaction::status(202),
            ("DELETE", _) => {
                lock(&self.sessions).retain(|known| known != session);
                Reaction::status(200)
            }
            _ => Reaction::status(405),
        }
    }

    /// Forgets all sessions.
    pub fn forget(&self) {
        lock(&self.sessions).clear();
    }

    /// The ids of the sessions that are open.
    #[must_use]
    pub fn sessions(&self) -> Vec<String> {
        lock(&self.sessions).clone()
    }

    fn initialize(&self, seen: &Seen) -> Reaction {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let session = format!("downstream-{number}");
        lock(&self.sessions).push(session.clone());
        let result = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"stub","version":"1"}}"#;
        Reaction::Answer {
            status: 200,
            headers: vec![
                ("content-type", "application/json".to_owned()),
                ("mcp-session-id", session),
            ],
            body: answer(seen, result).into(),
        }
    }
}

impl fmt::Debug for LegacyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LegacyServer").finish_non_exhaustive()
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed")
    }
}

impl std::error::Error for Closed {}

async fn serve(
    listener: TcpListener,
    script: Arc<impl Fn(&Seen) -> Reaction + Send + Sync + 'static>,
    seen: Arc<Mutex<Vec<Seen>>>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (script, seen) = (script.clone(), seen.clone());
        let service = service_fn(move |request| {
            let (script, seen) = (script.clone(), seen.clone());
            async move {
                let request = read(request).await;
                let reaction = script(&request);
                lock(&seen).push(request);
                perform(reaction).await
            }
        });
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        while connections.try_join_next().is_some() {}
    }
}

#[expect(clippy::disallowed_methods, reason = "the body is limited right here")]
async fn read(request: Request<Incoming>) -> Seen {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BODY).collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    Seen {
        verb: head.method.to_string(),
        path: head.uri.path().to_owned(),
        headers: head.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}

async fn perform(reaction: Reaction) -> Result<Response<Full<Bytes>>, Closed> {
    let (status, headers, body) = match reaction {
        Reaction::Answer {
            status,
            headers,
            body,
        } => (status, headers, body),
        Reaction::Close => return Err(Closed),
        Reaction::Silence => pending::<Result<_, Infallible>>()
            .await
            .map_err(|_| Closed)?,
    };
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(Full::new(body)).map_err(|_| Closed)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
