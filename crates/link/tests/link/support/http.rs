//! An HTTP server that a script answers for, and whose streams a test holds in its hands.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{HeaderMap, HeaderValue};
use manifold_link::{Connector, HttpClient, HttpTarget, Limits, Target};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::task::TaskTracker;

use super::{LIMIT, in_time};

/// A server on a port of its own, one request per connection. Dropping it closes all of them.
pub(crate) struct Server {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    streams: mpsc::UnboundedReceiver<Stream>,
    _tasks: JoinSet<()>,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) verb: String,
    /// With lower-case names.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// What the server does about a request.
pub(crate) enum Reaction {
    /// It answers with a status, headers and a body.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// It opens a stream, which the test gets.
    Stream,
    /// It writes these bytes and closes the connection.
    Bytes(String),
}

/// A stream of events that is open.
pub(crate) struct Stream(TcpStream);

type Script = dyn Fn(&Seen) -> Reaction + Send + Sync;

// === impl Server ===

impl Server {
    pub(crate) async fn start(script: impl Fn(&Seen) -> Reaction + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (opened, streams) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, Arc::new(script), seen.clone(), opened));
        Self {
            url,
            seen,
            streams,
            _tasks: tasks,
        }
    }

    /// A legacy server with sessions that has tools and resources, and does about a GET what `get` says.
    pub(crate) async fn legacy(get: impl Fn(&Seen) -> Reaction + Send + Sync + 'static) -> Self {
        Self::start(move |seen| match (seen.verb.as_str(), &*seen.method()) {
            ("GET", _) => get(seen),
            _ => legacy(seen),
        })
        .await
    }

    /// A modern server with these capabilities that does about a subscription what `listen` says.
    pub(crate) async fn modern(
        capabilities: &'static str,
        listen: impl Fn(&Seen) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |seen| match &*seen.method() {
            "server/discover" => Reaction::result(
                seen,
                &format!(
                    r#"{{"supportedVersions":["2026-07-28"],"capabilities":{capabilities},"resultType":"complete"}}"#
                ),
            ),
            "subscriptions/listen" => listen(seen),
            _ => Reaction::result(seen, "{}"),
        })
        .await
    }

    /// A connector to it whose links run on `tasks`.
    pub(crate) fn connector(&self, tasks: &TaskTracker) -> Connector {
        connector(&self.url, HeaderMap::new(), tasks)
    }

    /// The same with a configured header.
    pub(crate) fn connector_with(
        &self,
        name: &'static str,
        value: &'static str,
        tasks: &TaskTracker,
    ) -> Connector {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        connector(&self.url, headers, tasks)
    }

    /// The next stream that a client has opened.
    pub(crate) async fn stream(&mut self) -> Stream {
        in_time(self.streams.recv()).await.unwrap()
    }

    /// Whether a client has opened one more.
    pub(crate) fn has_stream(&self) -> bool {
        !self.streams.is_empty()
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The requests so far with that verb.
    pub(crate) fn verbs(&self, verb: &str) -> Vec<Seen> {
        let mut seen = self.seen();
        seen.retain(|seen| seen.verb == verb);
        seen
    }

    /// The messages so far with that method; an empty one for responses.
    pub(crate) fn messages(&self, method: &str) -> Vec<Value> {
        let posts = self.verbs("POST").into_iter();
        let posts = posts.filter(|seen| seen.method() == method);
        posts.map(|seen| seen.message()).collect()
    }
}

/// A connector to whatever is at `url`.
pub(crate) fn connector(url: &str, headers: HeaderMap, tasks: &TaskTracker) -> Connector {
    let target = HttpTarget {
        client: HttpClient::new(Duration::from_secs(60)).unwrap(),
        uri: url.parse().unwrap(),
        headers,
    };
    let limits = Limits {
        start: Duration::from_secs(60),
        message: LIMIT,
    };
    Connector::new(Target::Http(Box::new(target)), limits, tasks.clone())
}

/// What a legacy server with the one session `downstream` answers to a POST or a DELETE.
pub(crate) fn legacy(seen: &Seen) -> Reaction {
    match &*seen.method() {
        "server/discover" => Reaction::status(400),
        "initialize" => {
            let result =
                r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{}}}"#;
            Reaction::Answer(
                200,
                vec![
                    ("content-type", "application/json".to_owned()),
                    ("mcp-session-id", "downstream".to_owned()),
                ],
                answer(seen, result),
            )
        }
        "tools/call" => Reaction::result(seen, r#"{"content":[]}"#),
        _ => Reaction::status(202),
    }
}

/// Does about the first requests what `reactions` say, in turn, and opens streams from then on.
pub(crate) fn in_turn<const N: usize>(
    reactions: [fn(&Seen) -> Reaction; N],
) -> impl Fn(&Seen) -> Reaction + Send + Sync {
    let next = AtomicUsize::new(0);
    move |seen| {
        let at = next.fetch_add(1, Ordering::Relaxed);
        reactions
            .get(at)
            .map_or(Reaction::Stream, |react| react(seen))
    }
}

fn answer(seen: &Seen, result: &str) -> String {
    let id = &seen.message()["id"];
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

// === impl Seen ===

impl Seen {
    /// The body as JSON; null when it is none.
    pub(crate) fn message(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub(crate) fn method(&self) -> String {
        let message = self.message();
        message["method"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

// === impl Reaction ===

impl Reaction {
    pub(crate) fn status(status: u16) -> Self {
        Self::Answer(status, Vec::new(), String::new())
    }

    pub(crate) fn body(status: u16, kind: &str, body: &str) -> Self {
        let kind = vec![("content-type", kind.to_owned())];
        Self::Answer(status, kind, body.to_owned())
    }

    pub(crate) fn result(seen: &Seen, result: &str) -> Self {
        Self::body(200, "application/json", &answer(seen, result))
    }

    pub(crate) fn error(seen: &Seen, status: u16, code: i64) -> Self {
        let id = &seen.message()["id"];
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"no"}}}}"#);
        Self::body(status, "application/json", &body)
    }
}

// === impl Stream ===

impl Stream {
    /// Writes bytes as they are. Says whether the other end takes them.
    pub(crate) async fn write(&mut self, text: &str) -> bool {
        self.0.write_all(text.as_bytes()).await.is_ok()
    }

    /// Writes an event with a message.
    pub(crate) async fn send(&mut self, message: &str) {
        assert!(self.write(&format!("data: {message}\n\n")).await);
    }

    /// Writes a notification without params but `_meta`'s subscription.
    pub(crate) async fn notify(&mut self, method: &str, subscription: &Value) {
        let meta = format!(r#"{{"io.modelcontextprotocol/subscriptionId":{subscription}}}"#);
        let params = format!(r#"{{"notifications":{{}},"_meta":{meta}}}"#);
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{params}}}"#
        ))
        .await;
    }

    /// Waits until the other end has closed it.
    pub(crate) async fn closed(mut self) {
        let mut rest = Vec::new();
        // An error is an end, too.
        drop(in_time(self.0.read_to_end(&mut rest)).await);
    }
}

async fn serve(
    listener: TcpListener,
    script: Arc<Script>,
    seen: Arc<Mutex<Vec<Seen>>>,
    opened: mpsc::UnboundedSender<Stream>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (script, seen, opened) = (script.clone(), seen.clone(), opened.clone());
        connections.spawn(async move {
            serve_one(stream, &*script, &seen, &opened).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_one(
    mut stream: TcpStream,
    script: &Script,
    seen: &Mutex<Vec<Seen>>,
    opened: &mpsc::UnboundedSender<Stream>,
) {
    let Some(request) = read(&mut stream).await else {
        return;
    };
    let reaction = script(&request);
    seen.lock().unwrap().push(request);
    let text = match reaction {
        Reaction::Answer(status, headers, body) => {
            let length = body.len();
            let mut head =
                format!("HTTP/1.1 {status} -\r\nconnection: close\r\ncontent-length: {length}\r\n");
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            format!("{head}\r\n{body}")
        }
        Reaction::Bytes(bytes) => bytes,
        Reaction::Stream => {
            let head =
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n";
            if stream.write_all(head.as_bytes()).await.is_ok() {
                drop(opened.send(Stream(stream)));
            }
            return;
        }
    };
    if stream.write_all(text.as_bytes()).await.is_ok() {
        drop(stream.shutdown().await);
    }
}

async fn read(stream: &mut TcpStream) -> Option<Seen> {
    let mut text = Vec::new();
    let end = loop {
        let end = text.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        if let Some(end) = end {
            break end;
        }
        if stream.read_buf(&mut text).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&text[..end]).into_owned();
    let mut lines = head.lines();
    let verb = lines.next()?.split(' ').next()?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length");
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    let mut body = text.split_off(end + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Seen {
        verb,
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}
