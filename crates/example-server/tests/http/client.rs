//! A server to test, and a client that knows nothing but HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use manifold_example_server::{Eras, ExampleError, HttpServer};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Far beyond what anything here takes; only a hang meets it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Runs a test's steps, but not for ever.
pub(crate) async fn in_time<T>(steps: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, steps)
        .await
        .expect("done before the deadline")
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) stop: CancellationToken,
    task: JoinSet<Result<(), ExampleError>>,
}

impl Server {
    pub(crate) async fn start(eras: Eras) -> Self {
        let server = HttpServer::bind("127.0.0.1:0".parse().unwrap(), eras)
            .await
            .unwrap();
        let address = server.address();
        assert_eq!(server.url(), format!("http://{address}/mcp"));
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        task.spawn(server.run(stop.clone().cancelled_owned()));
        Self {
            address,
            stop,
            task,
        }
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            connection.await.ok();
        });
        Answer::new(in_time(sender.send_request(request)).await.unwrap(), driver)
    }

    pub(crate) async fn post(&self, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        self.send(request(Method::POST, headers, body)).await
    }

    /// A modern request with the headers that go with it.
    pub(crate) async fn modern(&self, method: &str, params: Value) -> Answer {
        let mut params = params;
        if params.get("_meta").is_none() {
            params["_meta"] = json!({});
        }
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        if params["_meta"]
            .get("io.modelcontextprotocol/clientCapabilities")
            .is_none()
        {
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        let mut headers = vec![
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
        ];
        let name = params
            .get("name")
            .or(params.get("uri"))
            .and_then(Value::as_str)
            .map(ToOwned::to_owned);
        if let Some(name) = &name {
            headers.push(("mcp-name", name));
        }
        self.post(&headers, message(json!(1), method, params)).await
    }

    /// Initializes, and returns the session's id.
    pub(crate) async fn session(&self, capabilities: Value) -> String {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": { "name": "raw", "version": "1" } });
        let answer = self
            .post(&[], message(json!(0), "initialize", params))
            .await;
        assert_eq!(answer.status, StatusCode::OK);
        let id = answer.headers["mcp-session-id"]
            .to_str()
            .unwrap()
            .to_owned();
        assert_eq!(
            answer.json().await["result"]["protocolVersion"],
            "2025-11-25"
        );
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
        assert_eq!(
            self.post(&[("mcp-session-id", &id)], note).await.status,
            StatusCode::ACCEPTED
        );
        id
    }

    pub(crate) async fn legacy(
        &self,
        session: &str,
        id: u64,
        method: &str,
        params: Value,
    ) -> Answer {
        let headers = [
            ("mcp-session-id", session),
            ("mcp-protocol-version", "2025-11-25"),
        ];
        self.post(&headers, message(json!(id), method, params))
            .await
    }

    /// Asks `whoami` until it tells of so many slow calls in progress and cancelled.
    pub(crate) async fn until(&self, running: u64, cancelled: u64) {
        in_time(async {
            loop {
                let facts = self
                    .modern("tools/call", json!({ "name": "whoami" }))
                    .await
                    .json()
                    .await;
                let facts = &facts["result"]["structuredContent"];
                if facts["running"] == running && facts["cancelled"] == cancelled {
                    break;
                }
            }
        })
        .await;
    }

    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        in_time(self.task.join_next())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
    }
}

/// A response, and the connection that it comes over.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Incoming,
    buffer: String,
    _driver: JoinSet<()>,
}

impl Answer {
    pub(crate) fn new(response: http::Response<Incoming>, driver: JoinSet<()>) -> Self {
        let (head, body) = response.into_parts();
        Self {
            status: head.status,
            headers: head.headers,
            body,
            buffer: String::new(),
            _driver: driver,
        }
    }

    pub(crate) fn kind(&self) -> &str {
        self.headers["content-type"].to_str().unwrap()
    }

    /// Takes one more piece of the body; false at its end.
    pub(crate) async fn more(&mut self) -> bool {
        match in_time(self.body.frame()).await {
            Some(frame) => {
                let data = frame.unwrap().into_data().unwrap();
                self.buffer.push_str(std::str::from_utf8(&data).unwrap());
                true
            }
            None => false,
        }
    }

    pub(crate) async fn text(mut self) -> String {
        while self.more().await {}
        self.buffer
    }

    pub(crate) async fn json(self) -> Value {
        assert_eq!(self.kind(), "application/json");
        serde_json::from_str(&self.text().await).unwrap()
    }

    /// The next event's message; nothing at the end of the stream.
    pub(crate) async fn event(&mut self) -> Option<Value> {
        assert_eq!(self.kind(), "text/event-stream");
        loop {
            if let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let data: Vec<_> = event
                    .lines()
                    .filter_map(|line| line.strip_prefix("data: "))
                    .collect();
                let message =
                    (!data.is_empty()).then(|| serde_json::from_str(&data.join("\n")).unwrap());
                self.buffer = rest.to_owned();
                if message.is_some() {
                    return message;
                }
            } else if !self.more().await {
                assert_eq!(self.buffer, "");
                return None;
            }
        }
    }

    pub(crate) async fn error(self, status: u16, id: Value, code: i64) -> Value {
        assert_eq!(self.status, status);
        let body = self.json().await;
        assert_eq!(
            (&body["id"], &body["error"]["code"]),
            (&id, &json!(code)),
            "{body}"
        );
        body["error"].clone()
    }
}

pub(crate) fn message(id: Value, method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// A request to the endpoint; `headers` replace the usual ones of the same name.
pub(crate) fn request(
    method: Method,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body.into()));
    *request.method_mut() = method;
    *request.uri_mut() = "/mcp".parse().unwrap();
    let all = [
        ("host", "localhost"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    for (name, value) in all.iter().chain(headers) {
        let name: http::HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request
}

pub(crate) fn countdown(from: u32, interval_ms: u64, token: bool) -> Value {
    let mut params =
        json!({ "name": "countdown", "arguments": { "from": from, "interval_ms": interval_ms } });
    if token {
        params["_meta"] = json!({ "progressToken": 7 });
    }
    params
}
