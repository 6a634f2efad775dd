//! A raw HTTP client that sends exactly what it is told.

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{HeaderMap, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::{
    client::legacy::{Client as Pool, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;

use crate::Events;

/// The largest body a test reads.
const BODY: usize = 256 * 1024 * 1024;

/// A client of one URL.
#[derive(Debug, Clone)]
pub struct Client {
    url: Uri,
    pool: Pool<HttpConnector, Full<Bytes>>,
}

/// A response, read whole.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: String,
}

/// A legacy session.
#[derive(Debug, Clone)]
pub struct Session {
    /// The client it runs on.
    pub client: Client,
    /// The value of `Mcp-Session-Id`.
    pub id: String,
    /// The result of `initialize`.
    pub hello: Value,
}

impl Client {
    /// A client of `url`.
    ///
    /// # Errors
    /// When `url` is none.
    pub fn new(url: &str) -> anyhow::Result<Self> {
        Ok(Self {
            url: url.parse().with_context(|| url.to_owned())?,
            pool: Pool::builder(TokioExecutor::new()).build_http(),
        })
    }

    /// Sends a request with these headers and no others (but Host and Content-Length).
    ///
    /// # Errors
    /// When the connection fails.
    #[expect(clippy::disallowed_methods, reason = "the body is limited right here")]
    pub async fn send(
        &self,
        verb: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> anyhow::Result<Reply> {
        let response = self.open(verb, headers, body).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, BODY)
            .collect()
            .await
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(Reply {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8(body.to_bytes().to_vec())?,
        })
    }

    /// Sends a request and returns when the head of its answer is there.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn open(
        &self,
        verb: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> anyhow::Result<http::Response<hyper::body::Incoming>> {
        let mut request = Request::builder().method(verb).uri(self.url.clone());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes())))?;
        Ok(self.pool.request(request).await?)
    }

    /// POSTs a message the way clients do, with more headers.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn post(&self, headers: &[(&str, &str)], body: &str) -> anyhow::Result<Reply> {
        let mut all = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        all.extend_from_slice(headers);
        self.send("POST", &all, body).await
    }

    /// Opens a legacy session: initialize and initialized.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn session(&self) -> anyhow::Result<Session> {
        let reply = self
            .post(
                &[],
                r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"testkit","version":"1"}}}"#,
            )
            .await?;
        let id = reply
            .headers
            .get("mcp-session-id")
            .with_context(|| format!("no session id: {reply:?}"))?
            .to_str()?
            .to_owned();
        let session = Session {
            client: self.clone(),
            id,
            hello: reply.message()?.get("result").cloned().unwrap_or_default(),
        };
        let reply = session
            .post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .await?;
        if reply.status != 202 {
            bail!("initialized was answered with {}", reply.status);
        }
        Ok(session)
    }

    /// A modern request with the headers and the `_meta` that it needs.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn modern(&self, method: &str, params: Value) -> anyhow::Result<Reply> {
        let mut params = params;
        let name = params.get("name").or_else(|| params.get("uri"));
        let name = name.and_then(Value::as_str).map(str::to_owned);
        let fields = serde_json::json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "testkit", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let object = params.as_object_mut().context("params are an object")?;
        let meta = object
            .entry("_meta")
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
        if let (Some(meta), Value::Object(fields)) = (meta.as_object_mut(), fields) {
            for (key, value) in fields {
                meta.entry(key).or_insert(value);
            }
        }
        let body =
            serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut headers = vec![
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
        ];
        if let Some(name) = &name {
            headers.push(("mcp-name", name));
        }
        self.post(&headers, &body.to_string()).await
    }

    /// Opens `subscriptions/listen`, for `notifications` such as `{"toolsListChanged": true}`. The first message is the
    /// acknowledgement.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn listen(&self, notifications: Value) -> anyhow::Result<Events> {
        let body = serde_json::json!({
            "jsonrpc": "2.0", "id": "listen", "method": "subscriptions/listen",
            "params": {
                "notifications": notifications,
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": { "name": "testkit", "version": "1" },
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        });
        let headers = [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "subscriptions/listen"),
        ];
        Events::of(self.open("POST", &headers, &body.to_string()).await?)
    }
}

impl Session {
    /// POSTs a message in the session.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn post(&self, body: &str) -> anyhow::Result<Reply> {
        self.client
            .post(&[("mcp-session-id", &self.id)], body)
            .await
    }

    /// A request; `params` is JSON text, passed on as it is.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn request(&self, id: u64, method: &str, params: &str) -> anyhow::Result<Reply> {
        self.post(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
        ))
        .await
    }

    /// Calls a tool; `arguments` is JSON text.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn call(&self, id: u64, name: &str, arguments: &str) -> anyhow::Result<Reply> {
        self.request(
            id,
            "tools/call",
            &format!(r#"{{"name":"{name}","arguments":{arguments}}}"#),
        )
        .await
    }

    /// Opens the session's GET stream.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn stream(&self) -> anyhow::Result<Events> {
        let headers = [
            ("mcp-session-id", self.id.as_str()),
            ("accept", "text/event-stream"),
        ];
        Events::of(self.client.open("GET", &headers, "").await?)
    }

    /// Ends the session.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn delete(&self) -> anyhow::Result<Reply> {
        self.client
            .send("DELETE", &[("mcp-session-id", &self.id)], "")
            .await
    }
}

impl Reply {
    /// The body as JSON.
    ///
    /// # Errors
    /// When it is none.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("{self:?}"))
    }

    /// All messages of the answer, from JSON or from an event stream.
    ///
    /// # Errors
    /// When it holds something else.
    pub fn messages(&self) -> anyhow::Result<Vec<Value>> {
        let kind = self.headers.get("content-type");
        if kind.is_none_or(|kind| kind != "text/event-stream") {
            return Ok(vec![self.json()?]);
        }
        self.body
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            // Some servers begin a stream with an event that has an id alone.
            .filter(|data| !data.is_empty())
            .map(|data| serde_json::from_str(data).with_context(|| data.to_owned()))
            .collect()
    }

    /// The last message: the answer.
    ///
    /// # Errors
    /// When there is none.
    pub fn message(&self) -> anyhow::Result<Value> {
        self.messages()?
            .pop()
            .with_context(|| format!("no message: {self:?}"))
    }
}
