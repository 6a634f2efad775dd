//! The Rust SDK as a client, in process.
//!
//! Its models drop what they do not know, so what it reports is compared with what it makes of the same
//! server's own words: [`as_seen`].

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::Context;
use http::{HeaderName, HeaderValue};
use manifold_testkit::{DEADLINE, eventually};
use rmcp::{
    ClientHandler, RoleClient, ServiceError,
    model::{
        CallToolRequestParams, CallToolResult, ClientJsonRpcMessage, ClientRequest,
        ProgressNotificationParam, Request, ServerResult, Tool,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt, NotificationContext, PeerRequestOptions,
        RunningService,
    },
    transport::{
        StreamableHttpClientTransport,
        common::client_side_sse::BoxedSseResponse,
        streamable_http_client::{
            StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
            StreamableHttpPostResponse,
        },
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::peers::{Call, Report};

/// A running client.
pub(crate) type Running = RunningService<RoleClient, Handler>;

/// Keeps the progress it is sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Handler {
    progress: Arc<Mutex<Vec<ProgressNotificationParam>>>,
}

/// What stands between the SDK and its HTTP client: it keeps what is sent, and makes trouble when told.
#[derive(Debug, Clone)]
pub(crate) struct Hop<C> {
    client: C,
    seen: Arc<Seen>,
}

/// What a [`Hop`] has seen, and what it does.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    sent: Mutex<Vec<Value>>,
    first_session: Mutex<Option<Arc<str>>>,
    trouble: Mutex<Option<Trouble>>,
}

/// What is wrong with requests from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Those of the first session name one that nobody has.
    LostSession,
    /// Their header names a version that nobody speaks.
    UnknownVersion,
}

/// Opens a session over a hop; `reinitialize` is the SDK's own setting for lost sessions.
///
/// # Errors
/// When it is refused or takes too long.
pub(crate) async fn connect(
    url: &str,
    mode: ClientLifecycleMode,
    reinitialize: bool,
) -> anyhow::Result<(Running, Arc<Seen>)> {
    let seen = Arc::new(Seen::default());
    let hop = Hop {
        client: default_client(StreamableHttpClientTransport::from_uri),
        seen: seen.clone(),
    };
    let config =
        StreamableHttpClientTransportConfig::with_uri(url).reinit_on_expired_session(reinitialize);
    let transport = StreamableHttpClientTransport::with_client(hop, config);
    let serving = Handler::default().serve_with_lifecycle(transport, mode);
    let running = tokio::time::timeout(DEADLINE, serving)
        .await
        .context("rmcp waits for its session")??;
    Ok((running, seen))
}

/// One session like those of the other clients, with what the SDK does when nobody says: the handshake.
///
/// # Errors
/// When the session can't be had or the tools can't be listed.
pub(crate) async fn report(url: &str, calls: &[Call]) -> anyhow::Result<Report> {
    let (running, _) = connect(url, ClientLifecycleMode::Initialize, true).await?;
    let version = version(&running)?;
    let tools = tokio::time::timeout(DEADLINE, running.list_all_tools())
        .await
        .context("rmcp waits for the tools")??;
    let mut results = Vec::new();
    for call in calls {
        results.push(outcome(&running, call).await?);
    }
    running.cancel().await?;
    Ok(Report {
        protocol_version: version,
        tools: tools.iter().map(to_value).collect(),
        results,
        ..Report::default()
    })
}

/// The version that a session speaks.
///
/// # Errors
/// When there is none.
pub(crate) fn version(running: &Running) -> anyhow::Result<String> {
    let peer = running.peer_info().context("rmcp has no server info")?;
    Ok(peer.protocol_version.to_string())
}

/// Makes a call.
///
/// # Errors
/// When it is not answered in time, or not with a result or an error of the server.
pub(crate) async fn outcome(running: &Running, call: &Call) -> anyhow::Result<Value> {
    let params = CallToolRequestParams::new(call.name.clone());
    let params = params.with_arguments(call.arguments.as_object().cloned().unwrap_or_default());
    let request = ClientRequest::CallToolRequest(Request::new(params));
    let handle = running
        .send_cancellable_request(request, PeerRequestOptions::no_options())
        .await?;
    let token = handle.progress_token.clone();
    let answer = tokio::time::timeout(DEADLINE, handle.await_response())
        .await
        .with_context(|| format!("rmcp waits for {}", call.name))?;
    let mut outcome = match answer {
        Ok(ServerResult::CallToolResult(result)) => json!({ "result": to_value(&result) }),
        Ok(other) => anyhow::bail!("{other:?}"),
        Err(ServiceError::McpError(error)) => json!({ "error": to_value(&error) }),
        Err(error) => return Err(error.into()),
    };
    if call.progress {
        // The SDK hands progress over beside the answer, so the last of it may come later.
        let all = &running.service().progress;
        let steps = eventually("progress that reaches its total", || async {
            let mut own = lock(all).clone();
            own.retain(|step| step.progress_token == token);
            own.last()
                .is_some_and(|step| Some(step.progress) == step.total)
                .then_some(own)
        });
        let steps: Vec<_> = steps.await?.iter().map(to_value).map(untokened).collect();
        outcome["progress"] = Value::Array(steps);
    }
    Ok(outcome)
}

/// A tool as the SDK hands it out when it reads `tool`.
pub(crate) fn tool_as_seen(tool: &Value) -> Value {
    as_seen::<Tool>(tool.clone())
}

/// The outcome of a call as [`outcome`] tells it when a server answers with `outcome`.
pub(crate) fn outcome_as_seen(mut outcome: Value) -> Value {
    if let Some(result) = outcome.get_mut("result") {
        *result = as_seen::<CallToolResult>(result.take());
    }
    if let Some(steps) = outcome.get_mut("progress").and_then(Value::as_array_mut) {
        for step in steps {
            step["progressToken"] = json!(0);
            *step = untokened(as_seen::<ProgressNotificationParam>(step.take()));
        }
    }
    outcome
}

fn as_seen<T: DeserializeOwned + Serialize>(value: Value) -> Value {
    to_value(&serde_json::from_value::<T>(value).unwrap())
}

fn to_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn untokened(mut step: Value) -> Value {
    step.as_object_mut().unwrap().remove("progressToken");
    step
}

/// A default HTTP client of the kind that the SDK itself uses.
fn default_client<C: StreamableHttpClient + Default>(
    _transport: fn(&'static str) -> StreamableHttpClientTransport<C>,
) -> C {
    C::default()
}

// === impl Handler ===

impl ClientHandler for Handler {
    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        lock(&self.progress).push(params);
    }
}

// === impl Seen ===

impl Seen {
    /// The messages sent so far.
    pub(crate) fn sent(&self) -> Vec<Value> {
        lock(&self.sent).clone()
    }

    /// Makes trouble from now on.
    pub(crate) fn make(&self, trouble: Trouble) {
        *lock(&self.trouble) = Some(trouble);
    }

    fn session(&self, id: Option<Arc<str>>) -> Option<Arc<str>> {
        let id = id?;
        let is_first = *lock(&self.first_session).get_or_insert_with(|| id.clone()) == id;
        if is_first && *lock(&self.trouble) == Some(Trouble::LostSession) {
            return Some("nobody-has-this-session".into());
        }
        Some(id)
    }

    fn headers(
        &self,
        mut headers: HashMap<HeaderName, HeaderValue>,
    ) -> HashMap<HeaderName, HeaderValue> {
        if *lock(&self.trouble) == Some(Trouble::UnknownVersion) {
            let version = HeaderValue::from_static("2030-01-01");
            headers.insert(HeaderName::from_static("mcp-protocol-version"), version);
        }
        headers
    }
}

// === impl Hop ===

impl<C: StreamableHttpClient + Sync> StreamableHttpClient for Hop<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<Self::Error>> {
        lock(&self.seen.sent).push(to_value(&message));
        let session = self.seen.session(session);
        let headers = self.seen.headers(headers);
        self.client
            .post_message(uri, message, session, auth, headers)
            .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableHttpError<Self::Error>> {
        self.client
            .delete_session(uri, session, auth, headers)
            .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, StreamableHttpError<Self::Error>> {
        self.client
            .get_stream(uri, session, last_event, auth, headers)
            .await
    }
}
