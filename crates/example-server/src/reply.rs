//! What goes back: results and errors, in the shape of the era that asked.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::eras::{Era, MODERN};
use crate::message::Id;

/// The `_meta` key under which a modern server names itself.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// How long a modern client may keep a list, a resource or the discovery result, in milliseconds.
///
/// Nothing of it changes while the process lives; the bound is for a client that outlives the process.
const TTL_MS: u64 = 300_000;

/// An answer to one request.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Absent only when the message was too broken to have one.
    pub(crate) id: Option<Id>,
    pub(crate) era: Era,
    pub(crate) outcome: Result<Payload, Fault>,
}

/// A finished result object, as JSON text.
#[derive(Debug, Clone)]
pub(crate) struct Payload(Box<RawValue>);

/// Whether a client may keep a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cache {
    /// The same for everybody, for [`TTL_MS`].
    Shared,
    /// Not a cacheable operation.
    No,
}

/// An error answer: one variant for each thing that a client can get wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("not JSON: one message is one JSON text in UTF-8")]
    NotJson,
    #[error("not a JSON-RPC message: {0}")]
    NotJsonRpc(String),
    #[error("message larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("unknown method {0}")]
    UnknownMethod(String),
    #[error("invalid parameters: {0}")]
    InvalidParams(String),
    #[error("the request's _meta lacks {0}, which every request needs")]
    IncompleteMeta(&'static str),
    #[error("unknown resource {uri}")]
    UnknownResource { uri: String },
    #[error("not initialized: send `initialize` first")]
    NotInitialized,
    #[error("already initialized")]
    AlreadyInitialized,
    #[error("id {} belongs to a request still in progress", serde_json::json!(.0))]
    IdInUse(Id),
    #[error("missing or unacceptable header: {0}")]
    BadHeader(String),
    #[error("no Mcp-Session-Id header: send `initialize` first, then the session id of its answer")]
    NoSession,
    #[error("unknown session: it has ended or never was; send `initialize` again")]
    UnknownSession,
    #[error("header mismatch: {0}")]
    HeaderMismatch(String),
    #[error("this tool needs a client that declares form elicitation")]
    NeedsElicitation,
    #[error("unsupported protocol version")]
    UnsupportedVersion { requested: String },
    #[error("too many calls in progress: try again when some have ended")]
    Busy,
}

/// Something the server says unasked while a call runs.
#[derive(Debug, Serialize)]
pub(crate) struct Notice<P> {
    jsonrpc: &'static str,
    method: &'static str,
    params: P,
}

/// A question to the client; legacy era only.
#[derive(Debug, Serialize)]
pub(crate) struct Question<P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'static str,
    params: P,
}

/// JSON text of anything this crate sends.
///
/// Serializing our own types into memory cannot fail; should it ever, the client gets a `null` rather than a dead server.
pub(crate) fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// What names this server, in `initialize`, in `server/discover` and in the `_meta` of modern results.
pub(crate) fn server_info() -> Value {
    json!({
        "name": "manifold-example-server",
        "title": "Manifold example server",
        "version": env!("CARGO_PKG_VERSION"),
    })
}

// === impl Reply ===

impl Reply {
    /// The message to send, on one line unless a raw part of it came in with line breaks.
    pub(crate) fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Success<'a> {
            jsonrpc: &'static str,
            id: Option<&'a Id>,
            result: &'a RawValue,
        }
        let id = self.id.as_ref();
        match &self.outcome {
            Ok(Payload(result)) => text(&Success {
                jsonrpc: "2.0",
                id,
                result,
            }),
            Err(fault) => {
                let mut error =
                    json!({ "code": fault.code(self.era), "message": fault.to_string() });
                if let (Some(data), Some(members)) = (fault.data(), error.as_object_mut()) {
                    members.insert("data".to_owned(), data);
                }
                text(&json!({ "jsonrpc": "2.0", "id": id, "error": error }))
            }
        }
    }
}

// === impl Payload ===

impl Payload {
    /// A complete result for `era`: for a modern one with `resultType`, the server's name and, if `cache` allows, the
    /// caching hints (2026-07-28, "Responses" and "Caching").
    pub(crate) fn complete(era: Era, body: impl Serialize, cache: Cache) -> Self {
        match era {
            Era::Legacy => Self::raw(&body),
            Era::Modern => Self::modern("complete", body, cache, json!({})),
        }
    }

    /// A modern result that asks for input (2026-07-28, "Multi Round-Trip Requests").
    pub(crate) fn input_required(body: impl Serialize) -> Self {
        Self::modern("input_required", body, Cache::No, json!({}))
    }

    /// The result that ends a subscription on the server's own initiative (2026-07-28, "Graceful Closure").
    pub(crate) fn subscription_closed(subscription: &Id) -> Self {
        let meta = json!({ "io.modelcontextprotocol/subscriptionId": subscription });
        Self::modern("complete", json!({}), Cache::No, meta)
    }

    fn modern(
        result_type: &'static str,
        body: impl Serialize,
        cache: Cache,
        mut meta: Value,
    ) -> Self {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Modern<T> {
            result_type: &'static str,
            #[serde(flatten)]
            body: T,
            #[serde(skip_serializing_if = "Option::is_none")]
            ttl_ms: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            cache_scope: Option<&'static str>,
            #[serde(rename = "_meta")]
            meta: Value,
        }
        if let Some(members) = meta.as_object_mut() {
            members.insert(SERVER_INFO.to_owned(), server_info());
        }
        let shared = cache == Cache::Shared;
        Self::raw(&Modern {
            result_type,
            body,
            ttl_ms: shared.then_some(TTL_MS),
            cache_scope: shared.then_some("public"),
            meta,
        })
    }

    fn raw(body: &impl Serialize) -> Self {
        Self(serde_json::value::to_raw_value(body).unwrap_or_default())
    }
}

// === impl Fault ===

impl Fault {
    /// The JSON-RPC code, which for a missing resource depends on the era.
    pub(crate) const fn code(&self, era: Era) -> i64 {
        match self {
            Self::NotJson => -32700,
            Self::NotJsonRpc(_)
            | Self::TooLarge { .. }
            | Self::NotInitialized
            | Self::AlreadyInitialized
            | Self::IdInUse(_)
            | Self::BadHeader(_)
            | Self::NoSession
            | Self::UnknownSession => -32600,
            Self::UnknownMethod(_) => -32601,
            Self::InvalidParams(_) | Self::IncompleteMeta(_) => -32602,
            Self::UnknownResource { .. } => match era {
                Era::Legacy => -32002,
                Era::Modern => -32602,
            },
            Self::HeaderMismatch(_) => -32020,
            Self::NeedsElicitation => -32021,
            Self::UnsupportedVersion { .. } => -32022,
            Self::Busy => -32603,
        }
    }

    /// The `data` member, for the errors whose reader is a program.
    fn data(&self) -> Option<Value> {
        match self {
            Self::UnknownResource { uri } => Some(json!({ "uri": uri })),
            Self::NeedsElicitation => {
                Some(json!({ "requiredCapabilities": { "elicitation": { "form": {} } } }))
            }
            Self::UnsupportedVersion { requested } => {
                Some(json!({ "supported": [MODERN], "requested": requested }))
            }
            Self::NotJson
            | Self::NotJsonRpc(_)
            | Self::TooLarge { .. }
            | Self::UnknownMethod(_)
            | Self::InvalidParams(_)
            | Self::IncompleteMeta(_)
            | Self::NotInitialized
            | Self::AlreadyInitialized
            | Self::IdInUse(_)
            | Self::BadHeader(_)
            | Self::NoSession
            | Self::UnknownSession
            | Self::HeaderMismatch(_)
            | Self::Busy => None,
        }
    }
}

// === impl Notice, Question ===

impl<P: Serialize> Notice<P> {
    /// The notification's JSON text.
    pub(crate) fn json(method: &'static str, params: P) -> String {
        text(&Self {
            jsonrpc: "2.0",
            method,
            params,
        })
    }
}

impl<P: Serialize> Question<P> {
    /// The request's JSON text.
    pub(crate) fn json(id: u64, method: &'static str, params: P) -> String {
        text(&Self {
            jsonrpc: "2.0",
            id,
            method,
            params,
        })
    }
}
