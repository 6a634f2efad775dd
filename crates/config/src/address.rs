//! Addresses to listen on, and what a browser or client may call the gateway.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::fault::Refusal;

/// Reads an address with its port: `127.0.0.1:8080`, `[::1]:8080` or `localhost:8080`. Other names are not looked
/// up.
///
/// # Errors
/// A predicate, to read after the name of the key or flag.
pub fn parse_address(text: &str) -> Result<SocketAddr, Refusal> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Some(port) = text.strip_prefix("localhost:").and_then(port) {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    let refusal = Refusal::new("must be an IP address, or `localhost`, with a port");
    Err(refusal.remedy("for example \"127.0.0.1:8080\" or \"[::1]:8080\""))
}

/// Whether only this machine can reach `address`.
pub(crate) fn is_loopback(address: SocketAddr) -> bool {
    // `::ffff:127.0.0.1` is loopback, though the standard library says it is not.
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback(),
    }
}

/// Reads an origin as a browser sends it: scheme and host, with a port or without.
pub(crate) fn origin(text: &str) -> Result<String, Refusal> {
    let parts = text.split_once("://");
    let valid = parts.is_some_and(|(scheme, host)| {
        let mut bytes = scheme.bytes();
        bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic())
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
            && is_host(host)
    });
    if valid {
        Ok(text.to_owned())
    } else {
        Err(Refusal::new("must hold origins: scheme and host, no path")
            .remedy("for example \"https://app.example\"; there is no wildcard"))
    }
}

/// Reads a host as a client sends it in `Host`: a name or address, with a port or without.
pub(crate) fn host(text: &str) -> Result<String, Refusal> {
    if is_host(text) {
        Ok(text.to_owned())
    } else {
        Err(
            Refusal::new("must hold hosts: a name or an address, with a port or without").remedy(
                "for example \"gateway.example\" or \"gateway.example:8080\"; there is no wildcard",
            ),
        )
    }
}

fn is_host(text: &str) -> bool {
    let (name, port_text) = match text.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        Some(_) | None => (text, None),
    };
    let inner = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let valid_name = match inner {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        }
    };
    valid_name && port_text.is_none_or(|text| port(text).is_some())
}

fn port(text: &str) -> Option<u16> {
    // `parse` alone would take "+80".
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("127.0.0.1:8080", Some("127.0.0.1:8080")),
            ("localhost:0", Some("127.0.0.1:0")),
            ("[::1]:80", Some("[::1]:80")),
            ("0.0.0.0:1", Some("0.0.0.0:1")),
            ("127.0.0.1", None),
            ("localhost", None),
            ("localhost:+80", None),
            ("localhost:65536", None),
            ("gateway.example:80", None),
            (":8080", None),
            ("", None),
        ] {
            let parsed = parse_address(text).ok();
            assert_eq!(parsed, expected.map(|text| text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn loopback() {
        for (text, expected) in [
            ("127.0.0.1:1", true),
            ("127.8.8.8:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("192.168.0.1:1", false),
            ("[::ffff:10.0.0.1]:1", false),
        ] {
            assert_eq!(is_loopback(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn origins_and_hosts() {
        for text in [
            "https://app.example",
            "http://localhost:3000",
            "http://[::1]:3000",
            "vscode-webview://x1",
        ] {
            assert!(origin(text).is_ok(), "{text}");
        }
        for text in [
            "*",
            "null",
            "app.example",
            "https://",
            "https://app.example/",
            "https://a b",
            "1x://a",
        ] {
            assert!(origin(text).is_err(), "{text}");
        }
        for text in [
            "gateway.example",
            "gateway.example:8080",
            "[::1]",
            "[::1]:80",
            "10.0.0.1:80",
            "my_host",
        ] {
            assert!(host(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "*",
            "*.example",
            "http://a",
            "a/b",
            "a:",
            "a:99999",
            "[::1",
            "::1",
            "a:b:1",
        ] {
            assert!(host(text).is_err(), "{text}");
        }
    }
}
