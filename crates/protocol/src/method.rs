//! The methods of the protocol, requests and notifications of both eras.

use std::fmt;

macro_rules! methods {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// A JSON-RPC method.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum Method {
            $($(#[$doc])* $variant,)+
            /// Any other: an extension's, a vendor's, or nonsense.
            Other(Box<str>),
        }

        impl From<&str> for Method {
            fn from(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)+
                    _ => Self::Other(name.into()),
                }
            }
        }

        impl Method {
            /// The name on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Other(name) => name,
                }
            }

            /// The name for metrics: the protocol's, else `other`, so that no client can make a series.
            #[must_use]
            pub fn label(&self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Other(_) => "other",
                }
            }
        }
    };
}

methods! {
    /// Opens a legacy session.
    Initialize = "initialize",
    /// Ends the legacy handshake.
    Initialized = "notifications/initialized",
    /// Liveness, legacy only.
    Ping = "ping",
    /// Modern discovery.
    ServerDiscover = "server/discover",
    /// Lists tools.
    ToolsList = "tools/list",
    /// Calls a tool.
    ToolsCall = "tools/call",
    /// Lists prompts.
    PromptsList = "prompts/list",
    /// Gets a prompt.
    PromptsGet = "prompts/get",
    /// Lists resources.
    ResourcesList = "resources/list",
    /// Lists resource templates.
    ResourcesTemplatesList = "resources/templates/list",
    /// Reads a resource.
    ResourcesRead = "resources/read",
    /// Subscribes to a resource, legacy only.
    ResourcesSubscribe = "resources/subscribe",
    /// Ends such a subscription.
    ResourcesUnsubscribe = "resources/unsubscribe",
    /// Completes an argument.
    CompletionComplete = "completion/complete",
    /// Sets the log level, legacy only.
    LoggingSetLevel = "logging/setLevel",
    /// Opens a modern notification stream.
    SubscriptionsListen = "subscriptions/listen",
    /// A server asks for the client's roots.
    RootsList = "roots/list",
    /// A server asks the client's model.
    SamplingCreateMessage = "sampling/createMessage",
    /// A server asks the user.
    ElicitationCreate = "elicitation/create",
    /// Cancels a request.
    Cancelled = "notifications/cancelled",
    /// Progress of a request.
    Progress = "notifications/progress",
    /// A log message.
    LogMessage = "notifications/message",
    /// The tool list changed.
    ToolsListChanged = "notifications/tools/list_changed",
    /// The prompt list changed.
    PromptsListChanged = "notifications/prompts/list_changed",
    /// The resource list changed.
    ResourcesListChanged = "notifications/resources/list_changed",
    /// A subscribed resource changed.
    ResourcesUpdated = "notifications/resources/updated",
    /// The client's roots changed.
    RootsListChanged = "notifications/roots/list_changed",
    /// A URL elicitation has completed.
    ElicitationComplete = "notifications/elicitation/complete",
    /// A modern subscription is set up.
    SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged",
}

impl Method {
    /// Whether a server works for a client when it answers: what it says or asks meanwhile may be about that. All
    /// other requests are Manifold's own.
    #[must_use]
    pub fn is_work(&self) -> bool {
        matches!(
            self,
            Self::ToolsCall
                | Self::PromptsGet
                | Self::ResourcesRead
                | Self::CompletionComplete
                | Self::Other(_)
        )
    }

    /// Whether a server asks the client something with it.
    #[must_use]
    pub fn is_ask(&self) -> bool {
        matches!(
            self,
            Self::RootsList | Self::SamplingCreateMessage | Self::ElicitationCreate
        )
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_no_client_may_invent_has_one_label() {
        assert_eq!(Method::from("tools/call"), Method::ToolsCall);
        assert_eq!(Method::from("tools/call").label(), "tools/call");
        let other = Method::from("vendor/thing-1234");
        assert_eq!(other.label(), "other");
        assert_eq!(other.as_str(), "vendor/thing-1234");
    }
}
