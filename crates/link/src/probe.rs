//! Which era a server is of, from how it answers `server/discover` and `initialize`.
//!
//! Pure: the drivers in [`crate::connect`] do the sending and the waiting. (2026-07-28 versioning,
//! "Backward Compatibility"; stdio and streamable-http, the same section.)

use manifold_protocol::{Era, ErrorObject, Outcome, ProtocolVersion, RpcError, code};
use serde::Deserialize;

use crate::{
    LinkError,
    peer::{HelloFault, Peer},
};

/// What an answer to `server/discover` means.
#[derive(Debug)]
pub(crate) enum Discovered {
    /// A modern server, and what it says of itself.
    Modern(Box<Peer>),
    /// Any answer that is no recognised modern one: talk to it with `initialize`.
    Legacy,
    /// A modern server that we can't talk to.
    Fault(LinkError),
}

/// What an answer to `initialize` means.
#[derive(Debug)]
pub(crate) enum Initialized {
    /// A legacy server, and what it says of itself.
    Legacy(Box<Peer>),
    /// A modern server that says so: discover it.
    Modern,
    /// Neither.
    Fault(LinkError),
}

#[derive(Debug, Default, Deserialize)]
struct Unsupported {
    #[serde(default)]
    supported: Vec<String>,
}

/// Reads the answer to `server/discover`.
pub(crate) fn discovered(outcome: &Outcome) -> Discovered {
    match outcome {
        Outcome::Result(result) => match Peer::from_discover(&result.raw()) {
            Ok(peer) => Discovered::Modern(Box::new(peer)),
            // A result without versions is what a server answers that takes any method for a request.
            Err(HelloFault::Malformed) => Discovered::Legacy,
            Err(HelloFault::Versions(versions)) => {
                if versions.split(", ").any(is_legacy) {
                    Discovered::Legacy
                } else {
                    Discovered::Fault(LinkError::Incompatible(versions))
                }
            }
        },
        Outcome::Error(error) => match error.code() {
            code::UNSUPPORTED_VERSION => {
                let supported = supported(error);
                if supported.iter().any(|date| is_legacy(date)) {
                    Discovered::Legacy
                } else {
                    Discovered::Fault(LinkError::Incompatible(supported.join(", ")))
                }
            }
            code::HEADER_MISMATCH | code::MISSING_CAPABILITY => Discovered::Fault(refused(error)),
            _ => Discovered::Legacy,
        },
    }
}

/// Reads the answer to `initialize`.
pub(crate) fn initialized(outcome: &Outcome) -> Initialized {
    match outcome {
        Outcome::Result(result) => match Peer::from_initialize(&result.raw()) {
            Ok(peer) => Initialized::Legacy(Box::new(peer)),
            Err(HelloFault::Malformed) => Initialized::Fault(LinkError::NotMcp(
                "the result of initialize has no protocolVersion".to_owned(),
            )),
            Err(HelloFault::Versions(versions)) => {
                Initialized::Fault(LinkError::Incompatible(versions))
            }
        },
        Outcome::Error(error) => {
            let modern = ProtocolVersion::LATEST_MODERN.as_str();
            let names_modern = error.code() == code::UNSUPPORTED_VERSION
                && supported(error).iter().any(|date| date == modern);
            if names_modern {
                Initialized::Modern
            } else {
                Initialized::Fault(refused(error))
            }
        }
    }
}

fn supported(error: &ErrorObject) -> Vec<String> {
    error
        .data()
        .and_then(|data| data.read::<Unsupported>())
        .unwrap_or_default()
        .supported
}

fn is_legacy(date: &str) -> bool {
    ProtocolVersion::parse(date).is_some_and(|version| version.era() == Era::Legacy)
}

fn refused(error: &ErrorObject) -> LinkError {
    LinkError::Refused(RpcError::new(error.code(), error.message()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use manifold_protocol::Message;

    use super::*;

    fn outcome(body: &str) -> Outcome {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,{body}}}"#);
        match Message::parse(Bytes::from(text)).unwrap() {
            Message::Response(response) => response.outcome,
            Message::Request(_) | Message::Notification(_) => panic!("no response"),
        }
    }

    /// Reactions of real servers to a probe.
    #[test]
    fn reactions_to_discover() {
        let modern = outcome(r#""result":{"supportedVersions":["2026-07-28"],"capabilities":{}}"#);
        assert!(matches!(discovered(&modern), Discovered::Modern(_)));
        for body in [
            r#""error":{"code":-32601,"message":"Method not found"}"#,
            r#""error":{"code":-32602,"message":"Invalid request parameters","data":""}"#,
            r#""error":{"code":-32000,"message":"Bad Request: Server not initialized"}"#,
            r#""error":{"code":-32600,"message":"Bad Request: Missing session ID"}"#,
            r#""error":{"code":0,"message":"x"}"#,
            r#""error":{"message":"no code"}"#,
            r#""result":{}"#,
            r#""error":{"code":-32022,"message":"x","data":{"supported":["2025-11-25"]}}"#,
        ] {
            assert!(
                matches!(discovered(&outcome(body)), Discovered::Legacy),
                "{body}"
            );
        }
        for body in [
            r#""error":{"code":-32022,"message":"x","data":{"supported":["2099-01-01"],"requested":"2026-07-28"}}"#,
            r#""error":{"code":-32020,"message":"Header mismatch"}"#,
            r#""error":{"code":-32021,"message":"x"}"#,
            r#""result":{"supportedVersions":["2099-01-01"]}"#,
        ] {
            assert!(
                matches!(discovered(&outcome(body)), Discovered::Fault(_)),
                "{body}"
            );
        }
    }

    #[test]
    fn reactions_to_initialize() {
        let legacy = outcome(r#""result":{"protocolVersion":"2025-11-25","capabilities":{}}"#);
        assert!(matches!(initialized(&legacy), Initialized::Legacy(_)));
        let pinned = outcome(
            r#""error":{"code":-32022,"message":"connection is serving the 2026-07-28 protocol","data":{"supported":["2026-07-28"]}}"#,
        );
        assert!(matches!(initialized(&pinned), Initialized::Modern));
        for body in [
            r#""result":{"protocolVersion":"2026-07-28"}"#,
            r#""result":{}"#,
            r#""error":{"code":-32600,"message":"no"}"#,
        ] {
            assert!(
                matches!(initialized(&outcome(body)), Initialized::Fault(_)),
                "{body}"
            );
        }
    }
}
