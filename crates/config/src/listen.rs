//! `[listen]`, `[admin]` and `[log]`: where the gateway is reached and what it writes.

use std::net::{Ipv4Addr, SocketAddr};

use secrecy::SecretString;

use crate::address::{host, is_loopback, origin, parse_address};
use crate::fault::Refusal;
use crate::header;
use crate::reader::{Placed, Shown, without_places};
use crate::section::Section;

/// `[listen]`: where clients connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Where to listen: loopback, unless `insecure`.
    pub address: SocketAddr,
    /// The path of the endpoint: begins with `/`, does not end with one.
    pub path: String,
    /// Origins of browsers, besides the loopback ones. Scheme and host, no path.
    pub allowed_origins: Vec<String>,
    /// Values of `Host`, besides the local ones and the bound address. With a port or without.
    pub allowed_hosts: Vec<String>,
    /// Whether `address` may be reachable from other machines, without authentication.
    pub insecure: bool,
}

/// `[admin]`: where operators connect.
#[derive(Debug, Clone)]
pub struct Admin {
    /// Where to listen.
    pub address: SocketAddr,
    /// The bearer token that everything but metrics and health asks for on a non-loopback address. Not empty.
    pub token: Option<SecretString>,
}

/// `[log]`: what is written to stderr.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The least severe level written, where `RUST_LOG` says nothing.
    pub level: Level,
    /// How it is written.
    pub format: LogFormat,
}

/// How severe a log line is, most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Something failed.
    Error,
    /// Something is not as it should be.
    Warn,
    /// What an operator wants to know.
    Info,
    /// What a developer wants to know.
    Debug,
    /// Everything.
    Trace,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

const LEVELS: [(&str, Level); 5] = [
    ("error", Level::Error),
    ("warn", Level::Warn),
    ("info", Level::Info),
    ("debug", Level::Debug),
    ("trace", Level::Trace),
];

// === impl Listen ===

impl Listen {
    /// The same at another address, for a flag that overrides the file.
    ///
    /// # Errors
    /// Refuses, as the file's own address would be, one that other machines can reach while `insecure` is not set.
    pub fn at(mut self, address: SocketAddr) -> Result<Self, Refusal> {
        check_reach(address, self.insecure)?;
        self.address = address;
        Ok(self)
    }
}

// === impl Level ===

impl Level {
    /// The word for it in the file, which is also a filter of `tracing`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

pub(crate) fn read_listen(section: &mut Section<'_, '_>) -> Listen {
    let address = section.parsed("address", parse_address);
    let insecure = section.flag("insecure", false);
    if let Some(Placed { value, span }) = &address
        && let Err(refusal) = check_reach(*value, insecure)
    {
        let path = section.path_of("address");
        section.reader.refuse(span, refusal.about(&path));
    }
    Listen {
        address: address.map_or(local(8080), |address| address.value),
        path: section
            .parsed("path", endpoint)
            .map_or_else(|| "/mcp".to_owned(), |path| path.value),
        allowed_origins: without_places(section.list("allowed_origins", Shown::Yes, origin)),
        allowed_hosts: without_places(section.list("allowed_hosts", Shown::Yes, host)),
        insecure,
    }
}

pub(crate) fn read_admin(section: &mut Section<'_, '_>) -> Admin {
    Admin {
        address: section
            .parsed("address", parse_address)
            .map_or(local(9090), |address| address.value),
        token: section.secret("token", |token| {
            header::bearer(&token).map(|()| SecretString::from(token))
        }),
    }
}

pub(crate) fn read_log(section: &mut Section<'_, '_>) -> Log {
    const FORMATS: [(&str, LogFormat); 3] = [
        ("auto", LogFormat::Auto),
        ("text", LogFormat::Text),
        ("json", LogFormat::Json),
    ];
    Log {
        level: section.choice("level", &LEVELS, Level::Info),
        format: section.choice("format", &FORMATS, LogFormat::Auto),
    }
}

/// Without `[auth]`, whoever can reach the address can use every server behind it.
fn check_reach(address: SocketAddr, insecure: bool) -> Result<(), Refusal> {
    if insecure || is_loopback(address) {
        return Ok(());
    }
    let refusal =
        Refusal::new("can be reached from other machines, and there is no authentication");
    Err(refusal.remedy(
        "listen on a loopback address behind a proxy that authenticates, or say `insecure = true` in [listen]",
    ))
}

/// Reads the path of the endpoint; a slash at the end says nothing and is left out.
fn endpoint(text: &str) -> Result<String, Refusal> {
    let Some(rest) = text.strip_prefix('/') else {
        return Err(Refusal::new("must begin with `/`"));
    };
    let path = text.strip_suffix('/').unwrap_or(text);
    if path.is_empty() {
        return Err(Refusal::new(
            "must not be the root: `/sse` would then be a server or view of that name",
        ));
    }
    if matches!(path, "/sse" | "/messages") {
        return Err(Refusal::new(
            "must not be `/sse` or `/messages`: the older transport has these",
        ));
    }
    let segments = rest.strip_suffix('/').unwrap_or(rest).split('/');
    let valid = segments.into_iter().all(|segment| {
        !matches!(segment, "" | "." | "..")
            && segment
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    });
    if valid {
        Ok(path.to_owned())
    } else {
        Err(Refusal::new(
            "must be a plain path: letters, digits and -._~ between single slashes",
        ))
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        for (text, expected) in [
            ("/mcp", Some("/mcp")),
            ("/mcp/", Some("/mcp")),
            ("/a/b.c", Some("/a/b.c")),
            ("/sse/x", Some("/sse/x")),
            ("mcp", None),
            ("", None),
            ("/", None),
            ("/sse", None),
            ("/messages/", None),
            ("/a//b", None),
            ("/a/../b", None),
            ("/a?b", None),
            ("/a b", None),
        ] {
            assert_eq!(endpoint(text).ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn level_words_are_the_ones_of_the_file() {
        for (word, level) in LEVELS {
            assert_eq!(level.as_str(), word);
        }
    }
}
