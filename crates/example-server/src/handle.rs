//! The decisions: which era a message is of, and what is to be done about it. No I/O.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::content;
use crate::eras::{self, Era, Eras};
use crate::jobs::{Job, Work};
use crate::message::{Id, Message, Notification, Params, Request, Response};
use crate::process::{Answer, Process};
use crate::reply::{Cache, Fault, Payload, Reply, server_info};
use crate::surface;
use crate::tools;

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const META_PROGRESS: &str = "progressToken";

/// What is known of the other end of a stdio connection or a legacy HTTP session.
///
/// Modern requests neither read nor change it: each carries all there is to know.
#[derive(Debug, Default)]
pub(crate) enum Peer {
    #[default]
    Stranger,
    Initialized(Client),
}

/// A legacy client after its `initialize`.
#[derive(Debug)]
pub(crate) struct Client {
    version: &'static str,
    name: Option<String>,
    elicitation: bool,
    log_level: Level,
}

/// Who makes one request, in either era.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) era: Era,
    pub(crate) version: &'static str,
    pub(crate) client: Option<String>,
    /// Whether form elicitation was declared.
    pub(crate) elicitation: bool,
    /// The lowest level of log message that is wanted; none without a wish in the modern era.
    pub(crate) log_level: Option<Level>,
    pub(crate) progress: Option<Id>,
}

/// Log levels, least severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

/// What the transport is to do about a message.
#[derive(Debug)]
pub(crate) enum Action {
    /// Send this.
    Reply(Reply),
    /// Run this and send what it says.
    Run(Job),
    /// Stop the job of that request, and send nothing more for it.
    Cancel(Id),
    /// Give this to whoever asked.
    Deliver { question: u64, answer: Answer },
    /// Nothing: a notification or a response that needs no action.
    Ignore,
}

/// How a request that both eras know comes out.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done(Payload),
    Later(Work),
}

/// The era of a message, from what it says and, over HTTP, from its version header.
///
/// `initialize` is legacy whatever else it carries; so is everything that does not claim to be modern. A server of one era
/// takes everything as being of that era.
pub(crate) fn era_of(eras: Eras, message: &Message, header_version: Option<&str>) -> Era {
    match eras {
        Eras::Legacy => return Era::Legacy,
        Eras::Modern => return Era::Modern,
        Eras::Both => {}
    }
    let (method, params) = match message {
        Message::Request(request) => (&request.method, &request.params),
        Message::Notification(notification) => (&notification.method, &notification.params),
        Message::Response(_) => return Era::Legacy,
    };
    let claims_modern = || {
        method == "server/discover"
            || header_version.is_some_and(eras::is_modern)
            || params.meta().is_ok_and(|meta| {
                meta.contains_key(META_VERSION) || meta.contains_key(META_CAPABILITIES)
            })
    };
    if method != "initialize" && claims_modern() {
        Era::Modern
    } else {
        Era::Legacy
    }
}

/// The protocol version in a message's `_meta`, which over HTTP the header must repeat.
pub(crate) fn body_version(params: &Params) -> Option<String> {
    let meta = params.meta().ok()?;
    meta.get(META_VERSION)?.as_str().map(ToOwned::to_owned)
}

/// Decides what to do about one message of that era; `peer` is who sent it.
pub(crate) fn handle(process: &Process, peer: &mut Peer, era: Era, message: Message) -> Action {
    let request = match message {
        Message::Notification(notification) => return notified(&notification),
        Message::Response(response) => return answered(response),
        Message::Request(request) => request,
    };
    let outcome = match era {
        Era::Legacy => legacy(process, peer, &request),
        Era::Modern => modern(process, &request),
    };
    let outcome = match outcome {
        Ok((Outcome::Done(payload), _)) => Ok(payload),
        Ok((Outcome::Later(work), caller)) => {
            return Action::Run(Job {
                id: request.id,
                caller,
                work,
            });
        }
        Err(fault) => Err(fault),
    };
    Action::Reply(Reply {
        id: Some(request.id),
        era,
        outcome,
    })
}

fn notified(notification: &Notification) -> Action {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cancelled {
        request_id: Id,
    }
    match notification.method.as_str() {
        // A malformed cancellation is ignored, as the protocol asks in both eras.
        "notifications/cancelled" => notification
            .params
            .read()
            .map_or(Action::Ignore, |Cancelled { request_id }| {
                Action::Cancel(request_id)
            }),
        _ => Action::Ignore,
    }
}

fn answered(response: Response) -> Action {
    match &response.id {
        Id::Integer(number) => number
            .as_u64()
            .map_or(Action::Ignore, |question| Action::Deliver {
                question,
                answer: response.result,
            }),
        Id::Text(_) => Action::Ignore,
    }
}

fn legacy(
    process: &Process,
    peer: &mut Peer,
    request: &Request,
) -> Result<(Outcome, Caller), Fault> {
    let client = match (request.method.as_str(), &mut *peer) {
        ("ping", _) => return Ok(plain(json!({}))),
        ("server/discover", _) => return Err(Fault::UnknownMethod(request.method.clone())),
        ("initialize", Peer::Initialized(_)) => return Err(Fault::AlreadyInitialized),
        ("initialize", Peer::Stranger) => {
            let client = Client::from_initialize(&request.params)?;
            let result = json!({
                "protocolVersion": client.version,
                "capabilities": surface::capabilities(),
                "serverInfo": server_info(),
                "instructions": surface::INSTRUCTIONS,
            });
            *peer = Peer::Initialized(client);
            return Ok(plain(result));
        }
        (_, Peer::Stranger) => return Err(Fault::NotInitialized),
        (_, Peer::Initialized(client)) => client,
    };
    if request.method == "logging/setLevel" {
        #[derive(Deserialize)]
        struct SetLevel {
            level: Level,
        }
        client.log_level = request.params.read::<SetLevel>()?.level;
        return Ok(plain(json!({})));
    }
    let caller = Caller {
        era: Era::Legacy,
        version: client.version,
        client: client.name.clone(),
        elicitation: client.elicitation,
        log_level: Some(client.log_level),
        progress: member(&request.params.meta()?, META_PROGRESS)?,
    };
    Ok((common(process, &caller, request)?, caller))
}

fn modern(process: &Process, request: &Request) -> Result<(Outcome, Caller), Fault> {
    if request.method == "initialize" {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Asked {
            #[serde(default)]
            protocol_version: String,
        }
        let requested = request.params.read().map_or_else(
            |_| String::new(),
            |Asked { protocol_version }| protocol_version,
        );
        return Err(Fault::UnsupportedVersion { requested });
    }
    let caller = Caller::from_envelope(&request.params)?;
    let outcome = match request.method.as_str() {
        "server/discover" => {
            let body = json!({
                "supportedVersions": [eras::MODERN],
                "capabilities": surface::capabilities(),
                "instructions": surface::INSTRUCTIONS,
            });
            Outcome::Done(caller.complete(body, Cache::Shared))
        }
        "subscriptions/listen" => {
            #[derive(Deserialize)]
            struct Listen {
                // Only checked for being there: nothing here ever changes, so no kind of notification is honoured.
                #[serde(rename = "notifications")]
                _notifications: Map<String, Value>,
            }
            request.params.read::<Listen>()?;
            Outcome::Later(Work::Listen)
        }
        _ => common(process, &caller, request)?,
    };
    Ok((outcome, caller))
}

/// The methods that both eras have.
fn common(process: &Process, caller: &Caller, request: &Request) -> Result<Outcome, Fault> {
    let Request { method, params, .. } = request;
    let done = |body: Value, cache| Ok(Outcome::Done(caller.complete(body, cache)));
    match method.as_str() {
        "tools/list" => done(one_page(params, "tools", surface::tools())?, Cache::Shared),
        "tools/call" => tools::call(process, caller, params),
        "resources/list" => done(
            one_page(params, "resources", surface::resources())?,
            Cache::Shared,
        ),
        "resources/templates/list" => done(
            one_page(params, "resourceTemplates", surface::templates())?,
            Cache::Shared,
        ),
        "resources/read" => done(content::read_resource(params)?, Cache::Shared),
        "prompts/list" => done(
            one_page(params, "prompts", surface::prompts())?,
            Cache::Shared,
        ),
        "prompts/get" => done(content::get_prompt(params)?, Cache::No),
        "completion/complete" => done(content::complete(params)?, Cache::No),
        _ => Err(Fault::UnknownMethod(method.clone())),
    }
}

/// A whole list as its only page: no cursor was ever given out, so none is good.
fn one_page(params: &Params, name: &str, items: Value) -> Result<Value, Fault> {
    #[derive(Deserialize)]
    struct Page {
        cursor: Option<String>,
    }
    match params.read::<Page>()?.cursor {
        None => Ok(json!({ name: items })),
        Some(cursor) => Err(Fault::InvalidParams(format!("unknown cursor {cursor:?}"))),
    }
}

/// A legacy result of a method that only the legacy era has.
fn plain(body: Value) -> (Outcome, Caller) {
    let nobody = Caller {
        era: Era::Legacy,
        version: eras::negotiate(""),
        client: None,
        elicitation: false,
        log_level: None,
        progress: None,
    };
    (Outcome::Done(nobody.complete(body, Cache::No)), nobody)
}

/// One optional member of `_meta`, of the right type if it is there.
fn member<T: serde::de::DeserializeOwned>(
    meta: &Map<String, Value>,
    key: &str,
) -> Result<Option<T>, Fault> {
    meta.get(key)
        .map(|value| {
            T::deserialize(value)
                .map_err(|error| Fault::InvalidParams(format!("_meta {key}: {error}")))
        })
        .transpose()
}

/// Whether capabilities allow a form to be shown: an elicitation capability without modes means just that.
fn offers_forms(capabilities: &Map<String, Value>) -> bool {
    match capabilities.get("elicitation") {
        Some(Value::Object(modes)) => modes.contains_key("form") || !modes.contains_key("url"),
        _ => false,
    }
}

// === impl Client, Caller ===

impl Client {
    fn from_initialize(params: &Params) -> Result<Self, Fault> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Initialize {
            protocol_version: String,
            #[serde(default)]
            capabilities: Map<String, Value>,
            #[serde(default)]
            client_info: BTreeMap<String, Value>,
        }
        let asked: Initialize = params.read()?;
        Ok(Self {
            version: eras::negotiate(&asked.protocol_version),
            name: asked
                .client_info
                .get("name")
                .and_then(Value::as_str)
                .map(ToOwned::to_owned),
            elicitation: offers_forms(&asked.capabilities),
            log_level: Level::Info,
        })
    }
}

impl Caller {
    /// Reads a modern request's envelope (2026-07-28, "Per-request protocol fields"). The version comes first: of another
    /// version we could not say which fields it needs.
    fn from_envelope(params: &Params) -> Result<Self, Fault> {
        let meta = params.meta()?;
        let version: String =
            member(&meta, META_VERSION)?.ok_or(Fault::IncompleteMeta(META_VERSION))?;
        if version != eras::MODERN {
            return Err(Fault::UnsupportedVersion { requested: version });
        }
        let capabilities: Map<String, Value> =
            member(&meta, META_CAPABILITIES)?.ok_or(Fault::IncompleteMeta(META_CAPABILITIES))?;
        Ok(Self {
            era: Era::Modern,
            version: eras::MODERN,
            client: meta
                .get(META_CLIENT)
                .and_then(|client| client.get("name"))
                .and_then(Value::as_str)
                .map(ToOwned::to_owned),
            elicitation: offers_forms(&capabilities),
            log_level: member(&meta, META_LOG_LEVEL)?,
            progress: member(&meta, META_PROGRESS)?,
        })
    }

    /// A complete result in the caller's era.
    pub(crate) fn complete(&self, body: impl serde::Serialize, cache: Cache) -> Payload {
        Payload::complete(self.era, body, cache)
    }

    /// Whether the caller wants log messages of that level.
    pub(crate) fn wants(&self, level: Level) -> bool {
        self.log_level.is_some_and(|lowest| level >= lowest)
    }
}

#[cfg(test)]
mod tests;
