//! `subscriptions/listen`: the stream on which a modern client hears of changes.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::Response;
use manifold_protocol::{Method, Params, Raw, RequestId, RpcError, code, meta, wire};
use manifold_routing::{Caller, Capabilities, Fingerprints, Router, Scope};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::{
    announce::{Announcing, Audience},
    body::{self, Body},
    shared::Shared,
};

/// What a client wants to hear of (2026-07-28 subscriptions, "Notification Filter"). Subscriptions to single resources
/// are not honoured, and so are not acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Filter {
    #[serde(skip_serializing_if = "is_false")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    resources_list_changed: bool,
}

#[derive(Debug, Deserialize)]
struct Wanted<'a> {
    #[serde(borrow)]
    notifications: &'a RawValue,
}

/// A client on its stream.
struct Listener {
    id: RequestId,
    filter: Filter,
    router: Arc<Router>,
    caller: Arc<Caller>,
    scope: Scope,
    known: Fingerprints,
    _permit: OwnedSemaphorePermit,
}

/// Opens the stream: the acknowledgement first, then what changes, and a completion result when we end it.
pub(crate) fn open(
    shared: &Shared,
    caller: Arc<Caller>,
    scope: Scope,
    id: RequestId,
    params: &Params,
    permit: OwnedSemaphorePermit,
) -> Result<Response<Body>, RpcError> {
    let wanted = Filter::of(params).ok_or_else(|| {
        RpcError::new(
            code::INVALID_PARAMS,
            "Invalid params: notifications must be an object of true and false",
        )
    })?;
    let router = shared.router.clone();
    let changes = router.changes(&caller);
    let surface = router.surface(&caller, scope);
    let filter = wanted.honoured(*surface.capabilities());
    let listener = Listener {
        filter,
        known: surface.fingerprints(),
        router,
        caller,
        scope,
        id,
        _permit: permit,
    };
    let acknowledged = listener.notification(
        &Method::SubscriptionsAcknowledged,
        &[("notifications", Raw::of(&filter))],
    );
    let stream = Announcing::new(
        listener,
        changes,
        // Nothing but the client's leaving ends it on that side.
        CancellationToken::new(),
        shared.draining.clone(),
        shared.settings.keepalive,
        manifold_protocol::sse::message(&acknowledged),
    );
    Ok(body::events(stream::unfold(stream, Announcing::next)))
}

impl Filter {
    /// Reads the member of the params.
    fn of(params: &Params) -> Option<Self> {
        let params = params.raw();
        let wanted: Wanted<'_> = params.read()?;
        let filter = Raw::of(wanted.notifications);
        // A list could be read as an object as well.
        filter.is_object().then(|| filter.read()).flatten()
    }

    /// What the path can tell of.
    fn honoured(self, capabilities: Capabilities) -> Self {
        use manifold_protocol::Kind;
        Self {
            tools_list_changed: self.tools_list_changed && capabilities.lists(Kind::Tool),
            prompts_list_changed: self.prompts_list_changed && capabilities.lists(Kind::Prompt),
            resources_list_changed: self.resources_list_changed
                && capabilities.lists(Kind::Resource),
        }
    }

    fn wants(self, method: &Method) -> bool {
        (self.tools_list_changed && *method == Method::ToolsListChanged)
            || (self.prompts_list_changed && *method == Method::PromptsListChanged)
            || (self.resources_list_changed && *method == Method::ResourcesListChanged)
    }
}

impl Listener {
    /// A notification of this subscription.
    fn notification(&self, method: &Method, members: &[(&str, Raw)]) -> Bytes {
        let id = format!(
            "\"_meta\":{{{}:{}}}",
            Raw::of(meta::SUBSCRIPTION_ID).as_str(),
            self.id.as_raw().as_str()
        );
        let members = members
            .iter()
            .map(|(name, value)| format!("{}:{}", Raw::of(*name).as_str(), value.as_str()));
        let members: Vec<String> = std::iter::once(id).chain(members).collect();
        wire::notification(
            method.as_str(),
            format!("{{{}}}", members.join(",")).as_bytes(),
        )
    }
}

impl Audience for Listener {
    fn tell(&mut self) -> Vec<Bytes> {
        let now = self.router.surface(&self.caller, self.scope).fingerprints();
        let changes = self.known.changes(now);
        self.known = now;
        changes
            .iter()
            .filter(|method| self.filter.wants(method))
            .map(|method| self.notification(method, &[]))
            .collect()
    }

    fn farewell(&self) -> Option<Bytes> {
        let result = format!(
            "{{\"resultType\":\"complete\",\"_meta\":{{{}:{}}}}}",
            Raw::of(meta::SUBSCRIPTION_ID).as_str(),
            self.id.as_raw().as_str()
        );
        let result = Raw::parse(result.into()).ok()?;
        Some(wire::result(&self.id, &result))
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &'static str) -> Option<Filter> {
        let raw = Raw::parse(text.as_bytes().into()).unwrap();
        Filter::of(&Params::parse(&raw).unwrap())
    }

    #[test]
    fn only_what_is_honoured_is_acknowledged() {
        let filter = filter(
            r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["a:1"],"later":1}}"#,
        )
        .unwrap();
        assert_eq!(Raw::of(&filter).as_str(), r#"{"toolsListChanged":true}"#);
        assert!(filter.wants(&Method::ToolsListChanged));
        assert!(!filter.wants(&Method::PromptsListChanged));
        assert!(!filter.wants(&Method::ResourcesListChanged));
    }

    #[test]
    fn a_filter_is_an_object_of_true_and_false() {
        for wrong in [
            "{}",
            r#"{"notifications":[]}"#,
            r#"{"notifications":[true]}"#,
            r#"{"notifications":null}"#,
            r#"{"notifications":{"toolsListChanged":1}}"#,
        ] {
            assert_eq!(filter(wrong), None, "{wrong}");
        }
    }
}
