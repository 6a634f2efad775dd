//! Which HTTP headers a server entry may set or pass on.

use crate::fault::Refusal;

/// Checks the name of a header that is set on requests to a server.
pub(crate) fn set_name(name: &str) -> Result<(), Refusal> {
    if !is_token(name) {
        return Err(not_a_name());
    }
    let lower = name.to_ascii_lowercase();
    if is_of_the_connection(&lower) || is_of_the_transport(&lower) {
        return Err(Refusal::new(
            "cannot be set: the gateway writes this header itself",
        ));
    }
    Ok(())
}

/// Checks the name of a header that is passed on from a client's request; gives it in lower case.
pub(crate) fn forwarded_name(name: &str) -> Result<String, Refusal> {
    if !is_token(name) {
        return Err(not_a_name());
    }
    let lower = name.to_ascii_lowercase();
    let reason = match lower.as_str() {
        "authorization" | "cookie" => {
            "it holds what the client shows to the gateway, which is not for servers"
        }
        "host" => "it names the gateway, not the server",
        other if is_of_the_connection(other) => "it is about the client's connection only",
        other if other.starts_with("content-") => {
            "it describes the client's body, not the one sent on"
        }
        other if other.starts_with("mcp-") || is_of_the_transport(other) => {
            "the gateway writes it itself"
        }
        _ => return Ok(lower),
    };
    Err(Refusal::new(format!("cannot name this header: {reason}")))
}

/// Checks the value of a header.
pub(crate) fn value(value: &str) -> Result<(), Refusal> {
    if value
        .bytes()
        .all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
    {
        Ok(())
    } else {
        Err(
            Refusal::new("must not hold line ends, control characters or characters outside ASCII")
                .remedy(
                    "a file with several lines, or one with a byte order mark, is a common cause",
                ),
        )
    }
}

/// Checks a token that clients have to send as `Authorization: Bearer …`.
pub(crate) fn bearer(token: &str) -> Result<(), Refusal> {
    if token.is_empty() {
        return Err(Refusal::new("must not be empty")
            .remedy("take it out, or set the variable it comes from"));
    }
    if token.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(())
    } else {
        Err(Refusal::new(
            "must be visible ASCII without spaces: no client could send it",
        ))
    }
}

fn not_a_name() -> Refusal {
    Refusal::new("is not the name of an HTTP header")
}

/// RFC 9110, 5.6.2.
fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// RFC 9110, 7.6.1: what an intermediary must not pass on.
fn is_of_the_connection(lower: &str) -> bool {
    matches!(
        lower,
        "connection" | "keep-alive" | "te" | "trailer" | "transfer-encoding" | "upgrade"
    ) || lower.starts_with("proxy-")
}

/// What the MCP transport says about each request.
fn is_of_the_transport(lower: &str) -> bool {
    matches!(
        lower,
        "accept"
            | "content-encoding"
            | "content-length"
            | "content-type"
            | "last-event-id"
            | "mcp-method"
            | "mcp-name"
            | "mcp-protocol-version"
            | "mcp-session-id"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_may_be_set() {
        for name in [
            "Authorization",
            "Cookie",
            "Host",
            "x-api-key",
            "Mcp-Tenant",
            "Content-Language",
        ] {
            assert_eq!(set_name(name), Ok(()), "{name}");
        }
        for name in [
            "",
            "a b",
            "a:",
            "ä",
            "Connection",
            "Content-Length",
            "MCP-Session-Id",
            "proxy-authorization",
            "TE",
        ] {
            assert!(set_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn names_that_may_be_forwarded() {
        assert_eq!(forwarded_name("X-Tenant"), Ok("x-tenant".to_owned()));
        for name in [
            "authorization",
            "Cookie",
            "HOST",
            "content-type",
            "Content-Language",
            "mcp-session-id",
            "Mcp-Anything",
            "connection",
            "keep-alive",
            "proxy-authorization",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
            "accept",
            "last-event-id",
            "",
            "x tenant",
        ] {
            assert!(forwarded_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn values_and_tokens() {
        for text in ["", "Bearer abc", "a\tb", "~"] {
            assert_eq!(value(text), Ok(()), "{text:?}");
        }
        for text in ["a\r\nX: y", "a\n", "a\0", "\u{7f}", "é", "\u{feff}a"] {
            assert!(value(text).is_err(), "{text:?}");
        }
        assert_eq!(bearer("abc.DEF-123"), Ok(()));
        for text in ["", "a b", "a\n", "é"] {
            assert!(bearer(text).is_err(), "{text:?}");
        }
    }
}
