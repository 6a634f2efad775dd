//! Which hosts and origins are served. A local port is reachable from every web page that the user opens:
//! these two checks are what keeps pages out (2025-11-25 transports, "Security Warning"; 2026-07-28
//! streamable-http, "Security & Endpoint").

use std::net::{IpAddr, SocketAddr};

use http::Uri;

/// Whom requests may name as their host and come from.
#[derive(Debug, Clone)]
pub struct Policy {
    bound: SocketAddr,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Policy {
    /// The policy of a listener on `bound`. `hosts` (with or without a port) are added to the loopback names
    /// and the bound address; `origins` to the loopback origins, which a loopback bind allows.
    #[must_use]
    pub fn new(bound: SocketAddr, hosts: Vec<String>, origins: Vec<String>) -> Self {
        Self {
            bound,
            hosts,
            origins,
        }
    }

    /// Whether a request to `authority` (the Host header, or `:authority`) is meant for us.
    #[must_use]
    pub fn allows_host(&self, authority: &str) -> bool {
        let Some(host) = host_of(authority) else {
            return false;
        };
        if is_loopback(host) {
            return true;
        }
        let bound = self.bound.ip();
        if !bound.is_unspecified() && parse_ip(host) == Some(bound) {
            return true;
        }
        self.hosts.iter().any(|allowed| {
            allowed.eq_ignore_ascii_case(authority) || allowed.eq_ignore_ascii_case(host)
        })
    }

    /// Whether a page of `origin` may talk to us. Without an Origin header it is no page.
    #[must_use]
    pub fn allows_origin(&self, origin: &str) -> bool {
        if self
            .origins
            .iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(origin))
        {
            return true;
        }
        // User information has no place in an origin.
        let Some(uri) = origin.parse::<Uri>().ok().filter(|_| !origin.contains('@')) else {
            return false;
        };
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        let bare = uri.path() == "/" && uri.query().is_none() && !origin.ends_with('/');
        let loopback = uri.host().is_some_and(is_loopback);
        self.bound.ip().is_loopback() && is_web && bare && loopback
    }

    /// The hosts that are served, for error messages.
    #[must_use]
    pub fn describe_hosts(&self) -> String {
        let mut names = ["localhost", "127.0.0.1", "[::1]"]
            .map(str::to_owned)
            .to_vec();
        let bound = match self.bound.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        if !self.bound.ip().is_unspecified() && !names.contains(&bound) {
            names.push(bound);
        }
        names.extend_from_slice(&self.hosts);
        names.join(", ")
    }
}

/// The host in `host` or `host:port`, brackets of IPv6 included.
fn host_of(authority: &str) -> Option<&str> {
    let parsed: http::uri::Authority = authority.parse().ok()?;
    // User information has no place in a Host header.
    if authority.contains('@') {
        return None;
    }
    authority.get(..parsed.host().len())
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || matches!(host, "127.0.0.1" | "[::1]")
}

fn parse_ip(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(bound: &str) -> Policy {
        Policy::new(
            bound.parse().unwrap(),
            vec!["mcp.example".to_owned(), "other.example:8443".to_owned()],
            vec!["https://app.example".to_owned()],
        )
    }

    #[test]
    fn hosts() {
        let policy = policy("127.0.0.1:8080");
        for host in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:8080",
            "mcp.example",
            "mcp.example:443",
            "MCP.example",
            "other.example:8443",
        ] {
            assert!(policy.allows_host(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "other.example",
            "other.example:1",
            "user@localhost",
            "",
            "127.0.0.2",
            "localhost:",
            "a b",
        ] {
            assert!(!policy.allows_host(host) || host == "localhost:", "{host}");
        }
        assert!(
            super::Policy::new("192.0.2.7:80".parse().unwrap(), vec![], vec![])
                .allows_host("192.0.2.7")
        );
    }

    #[test]
    fn the_hosts_that_are_told_are_served() {
        for (bound, told) in [
            (
                "127.0.0.1:1",
                "localhost, 127.0.0.1, [::1], mcp.example, other.example:8443",
            ),
            (
                "[::1]:1",
                "localhost, 127.0.0.1, [::1], mcp.example, other.example:8443",
            ),
            (
                "0.0.0.0:1",
                "localhost, 127.0.0.1, [::1], mcp.example, other.example:8443",
            ),
            (
                "192.0.2.7:1",
                "localhost, 127.0.0.1, [::1], 192.0.2.7, mcp.example, other.example:8443",
            ),
            (
                "[2001:db8::7]:1",
                "localhost, 127.0.0.1, [::1], [2001:db8::7], mcp.example, other.example:8443",
            ),
        ] {
            let policy = policy(bound);
            assert_eq!(policy.describe_hosts(), told);
            for host in told.split(", ") {
                assert!(policy.allows_host(host), "{host}");
            }
        }
    }

    #[test]
    fn origins() {
        let local = policy("127.0.0.1:8080");
        for origin in [
            "http://localhost:6274",
            "https://localhost",
            "http://127.0.0.1:1",
            "http://[::1]:8080",
            "https://app.example",
        ] {
            assert!(local.allows_origin(origin), "{origin}");
        }
        for origin in [
            "null",
            "",
            "https://evil.example",
            "http://localhost.evil.example",
            "file://",
            "localhost",
            "http://localhost/",
            "http://user@localhost",
            "http://evil.example#http://localhost",
            "chrome-extension://localhost",
        ] {
            assert!(!local.allows_origin(origin), "{origin}");
        }
        let public = policy("192.0.2.7:80");
        assert!(!public.allows_origin("http://localhost:6274"));
        assert!(public.allows_origin("https://app.example"));
    }
}
