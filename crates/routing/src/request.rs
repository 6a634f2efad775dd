//! What a request is about: a tool, a prompt, a resource, a completion.

use manifold_link::{Origin, Subject};
use manifold_protocol::{Kind, Method, Params, Reference};

use crate::{
    RouteError,
    catalog::{ServerIndex, Surface},
    nearest::nearest,
};

/// A request that one server answers, as a face hands it over.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method: one that [`Request::is_routed`].
    pub method: Method,
    /// The client's params.
    pub params: Params,
    /// What the request says of its client.
    pub origin: Origin,
    /// Whether the client wants progress.
    pub progress: bool,
}

/// What a client names, by its exposed name or URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    Tool(String),
    Prompt(String),
    Resource(String),
    Completion(Reference),
}

/// The server of what a client names, and what that server calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) server: ServerIndex,
    pub(crate) subject: Subject,
}

impl Request {
    /// Whether requests of that method are answered by one server, found by what they name.
    #[must_use]
    pub fn is_routed(method: &Method) -> bool {
        matches!(
            method,
            Method::ToolsCall
                | Method::PromptsGet
                | Method::ResourcesRead
                | Method::CompletionComplete
        )
    }

    /// Whether the request changes nothing, so that it may be sent again when it surely was not answered.
    pub(crate) fn is_read(method: &Method) -> bool {
        matches!(
            method,
            Method::PromptsGet | Method::ResourcesRead | Method::CompletionComplete
        )
    }
}

impl Wanted {
    pub(crate) fn of(method: &Method, params: &Params) -> Result<Self, RouteError> {
        let name = || {
            params
                .name()
                .ok_or(RouteError::InvalidParams("params.name must be a string"))
        };
        if *method == Method::ToolsCall {
            return name().map(Self::Tool);
        }
        if *method == Method::PromptsGet {
            return name().map(Self::Prompt);
        }
        if *method == Method::ResourcesRead {
            let uri = params.uri();
            return uri
                .map(Self::Resource)
                .ok_or(RouteError::InvalidParams("params.uri must be a string"));
        }
        params
            .reference()
            .map(Self::Completion)
            .ok_or(RouteError::InvalidParams(
                "params.ref must be a ref/prompt with a name or a ref/resource with a uri",
            ))
    }

    /// Looks it up.
    pub(crate) fn find(&self, surface: &Surface) -> Option<Found> {
        let named = |target: &crate::Target| Found {
            server: target.server,
            subject: Subject::Name(target.name.clone()),
        };
        match self {
            Self::Tool(name) => surface.tool(name).map(named),
            Self::Prompt(name) => surface.prompt(name).map(named),
            Self::Resource(uri) => surface.resource(uri).map(|target| Found {
                server: target.server,
                subject: Subject::Uri(target.uri),
            }),
            Self::Completion(Reference::Prompt(name)) => surface.prompt(name).map(|target| Found {
                server: target.server,
                subject: Subject::Reference(target.name.as_str().into()),
            }),
            Self::Completion(Reference::Resource(uri)) => {
                surface.template(uri).map(|target| Found {
                    server: target.server,
                    subject: Subject::Reference(target.uri),
                })
            }
        }
    }

    /// The exposed name, where it is one.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Tool(name) | Self::Prompt(name) | Self::Completion(Reference::Prompt(name)) => {
                Some(name)
            }
            Self::Resource(_) | Self::Completion(Reference::Resource(_)) => None,
        }
    }

    /// The URI, where it is one.
    pub(crate) fn uri(&self) -> Option<&str> {
        match self {
            Self::Resource(uri) | Self::Completion(Reference::Resource(uri)) => Some(uri),
            Self::Tool(_) | Self::Prompt(_) | Self::Completion(Reference::Prompt(_)) => None,
        }
    }

    /// The error when nobody has it.
    pub(crate) fn unknown(self, surface: &Surface) -> RouteError {
        let named = |kind, name: String| RouteError::UnknownName {
            nearest: nearest(&name, surface.names(kind)),
            kind,
            name,
        };
        match self {
            Self::Tool(name) => named(Kind::Tool, name),
            Self::Prompt(name) | Self::Completion(Reference::Prompt(name)) => {
                named(Kind::Prompt, name)
            }
            Self::Resource(uri) => RouteError::UnknownResource { uri },
            Self::Completion(Reference::Resource(_)) => {
                RouteError::InvalidParams("params.ref names no resource or template")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use manifold_protocol::Raw;

    use super::*;

    fn wanted(method: Method, params: &'static str) -> Result<Wanted, RouteError> {
        let raw = Raw::parse(params.as_bytes().into()).unwrap();
        Wanted::of(&method, &Params::parse(&raw).unwrap())
    }

    #[test]
    fn what_a_request_is_about_stands_in_its_params() {
        for (method, params, expected) in [
            (
                Method::ToolsCall,
                r#"{"name":"t"}"#,
                Wanted::Tool("t".to_owned()),
            ),
            (
                Method::PromptsGet,
                r#"{"name":"p"}"#,
                Wanted::Prompt("p".to_owned()),
            ),
            (
                Method::ResourcesRead,
                r#"{"uri":"a:1"}"#,
                Wanted::Resource("a:1".to_owned()),
            ),
            (
                Method::CompletionComplete,
                r#"{"ref":{"type":"ref/prompt","name":"p"}}"#,
                Wanted::Completion(Reference::Prompt("p".to_owned())),
            ),
        ] {
            assert_eq!(wanted(method, params).unwrap(), expected);
        }
        for (method, params) in [
            (Method::ToolsCall, "{}"),
            (Method::PromptsGet, r#"{"name":1}"#),
            (Method::ResourcesRead, r#"{"name":"a:1"}"#),
            (Method::CompletionComplete, r#"{"ref":{"type":"x"}}"#),
        ] {
            let error = wanted(method, params).unwrap_err();
            assert!(matches!(error, RouteError::InvalidParams(_)));
        }
    }
}
