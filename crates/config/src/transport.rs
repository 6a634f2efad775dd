//! How a server is reached: a child on stdio, or HTTP.

use std::fmt;
use std::path::PathBuf;

use secrecy::SecretString;

use crate::fault::{Refusal, quoted};
use crate::header;
use crate::reader::{Entry, Placed, Shown, Span, without_places};
use crate::section::Section;

/// How a server is reached.
///
/// Any text in it may come from the environment, so `Debug` shows names of variables and headers, and numbers.
#[derive(Clone)]
pub enum Transport {
    /// A child process that speaks over its stdin and stdout.
    Stdio {
        /// The program: a name to be looked up in `PATH`, or a path. Not empty.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables added to the inherited ones, in the order of the file.
        env: Vec<(String, SecretString)>,
        /// More variables to inherit; `*` stands for all.
        inherit_env: Vec<String>,
        /// Its working directory; that of the gateway if there is none.
        cwd: Option<PathBuf>,
    },
    /// A server that is called over HTTP.
    Http {
        /// Absolute, `http` or `https`, with a host; kept exactly as written, after substitution.
        url: String,
        /// Headers set on each request, in the order of the file.
        headers: Vec<(String, SecretString)>,
        /// Headers of the client's request that are passed on, in lower case.
        forward_headers: Vec<String>,
        /// Which of the two HTTP transports.
        kind: HttpKind,
    },
}

/// Which HTTP transport a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpKind {
    /// Find out.
    Auto,
    /// Streamable HTTP, since 2025-03-26.
    StreamableHttp,
    /// HTTP+SSE, of 2024-11-05.
    Sse,
}

/// Keys that only a child has, and keys that only an HTTP server has.
const CHILD_KEYS: [&str; 7] = [
    "args",
    "env",
    "inherit_env",
    "cwd",
    "spare",
    "stop",
    "expose_stderr",
];
const HTTP_KEYS: [&str; 3] = ["headers", "forward_headers", "transport"];

// === impl Transport ===

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |pairs: &[(String, SecretString)]| -> Vec<String> {
            pairs.iter().map(|(name, _)| name.clone()).collect()
        };
        match self {
            Self::Stdio {
                args,
                env,
                inherit_env,
                ..
            } => f
                .debug_struct("Stdio")
                .field("args", &args.len())
                .field("env", &names(env))
                .field("inherit_env", &inherit_env.len())
                .finish_non_exhaustive(),
            Self::Http {
                headers,
                forward_headers,
                kind,
                ..
            } => f
                .debug_struct("Http")
                .field("headers", &names(headers))
                .field("forward_headers", &forward_headers.len())
                .field("kind", kind)
                .finish_non_exhaustive(),
        }
    }
}

/// Reads the keys of both kinds and decides which it is. `None` only where a fault was noted.
///
/// Goes first over the table: it looks for keys that others read, to say when they belong to the other kind.
pub(crate) fn read(
    section: &mut Section<'_, '_>,
    server: &str,
    server_span: &Span,
) -> Option<Transport> {
    let (command_at, url_at) = (section.place_of("command"), section.place_of("url"));
    let child_keys = places(section, &CHILD_KEYS);
    let http_keys = places(section, &HTTP_KEYS);
    let child = read_child(section);
    let http = read_http(section);
    match (command_at, url_at) {
        (Some(_), None) => {
            refuse_keys(section, http_keys, "url", server, "command");
            child
        }
        (None, Some(_)) => {
            refuse_keys(section, child_keys, "command", server, "url");
            http
        }
        (Some(_), Some(url_at)) => {
            let message = format!("server {} has both `command` and `url`", quoted(server));
            let remedy = "keep `command` for a child process, or `url` for an HTTP server";
            section
                .reader
                .refuse(&url_at, Refusal::new(message).remedy(remedy));
            None
        }
        (None, None) => {
            let message = format!("server {} has neither `command` nor `url`", quoted(server));
            let remedy = "give it a `command` to start, or the `url` of an HTTP server";
            section
                .reader
                .refuse(server_span, Refusal::new(message).remedy(remedy));
            None
        }
    }
}

fn places(section: &Section<'_, '_>, keys: &[&'static str]) -> Vec<(&'static str, Span)> {
    keys.iter()
        .filter_map(|key| Some((*key, section.place_of(key)?)))
        .collect()
}

fn refuse_keys(
    section: &Section<'_, '_>,
    keys: Vec<(&'static str, Span)>,
    owner: &str,
    server: &str,
    has: &str,
) {
    for (key, span) in keys {
        let message = format!(
            "`{key}` is for a server with `{owner}`, and {} has `{has}`",
            quoted(server)
        );
        section.reader.refuse(&span, Refusal::new(message));
    }
}

fn read_child(section: &mut Section<'_, '_>) -> Option<Transport> {
    let command = section.parsed("command", filled);
    // Programs are given secrets as arguments, too.
    let args = section.list("args", Shown::Never, no_nul);
    let env = section.entries("env");
    let inherit_env = section.list("inherit_env", Shown::Yes, |name| match name {
        "*" => Ok(name.to_owned()),
        _ => variable_name(name).map(|()| name.to_owned()),
    });
    let cwd = section.parsed("cwd", filled);
    Some(Transport::Stdio {
        env: secrets(section, &env, variable_name, |value| {
            no_nul(value).map(drop)
        }),
        command: command?.value,
        args: without_places(args),
        inherit_env: without_places(inherit_env),
        cwd: cwd.map(|cwd| PathBuf::from(cwd.value)),
    })
}

fn read_http(section: &mut Section<'_, '_>) -> Option<Transport> {
    const KINDS: [(&str, HttpKind); 3] = [
        ("auto", HttpKind::Auto),
        ("streamable-http", HttpKind::StreamableHttp),
        ("sse", HttpKind::Sse),
    ];
    // User names, passwords and keys stand before an `@` or behind a `?`.
    section.guard_if("url", |text| text.contains(['@', '?']));
    let url = section.parsed("url", url);
    let headers = section.entries("headers");
    let forwarded = section.list("forward_headers", Shown::Yes, header::forwarded_name);
    let kind = section.choice("transport", &KINDS, HttpKind::Auto);
    refuse_twins(section, &headers, forwarded.as_deref().unwrap_or_default());
    Some(Transport::Http {
        headers: secrets(section, &headers, header::set_name, header::value),
        url: url?.value,
        forward_headers: without_places(forwarded),
        kind,
    })
}

/// Reads a table of names and secret values.
fn secrets(
    section: &Section<'_, '_>,
    entries: &[Entry<'_>],
    check_name: impl Fn(&str) -> Result<(), Refusal>,
    check_value: impl Fn(&str) -> Result<(), Refusal>,
) -> Vec<(String, SecretString)> {
    let mut pairs = Vec::with_capacity(entries.len());
    for entry in entries {
        if let Err(refusal) = check_name(entry.key) {
            section
                .reader
                .refuse(&entry.key_span, refusal.about(&entry.path));
        }
        let Some(text) = section.reader.text(entry, Shown::Never) else {
            continue;
        };
        if let Err(refusal) = check_value(&text.value) {
            section
                .reader
                .refuse(&text.span, refusal.about(&entry.path));
        }
        pairs.push((entry.key.to_owned(), SecretString::from(text.value)));
    }
    pairs
}

/// A header has one value: TOML keeps its keys apart by case, HTTP does not.
fn refuse_twins(section: &Section<'_, '_>, headers: &[Entry<'_>], forwarded: &[Placed<String>]) {
    for (index, entry) in headers.iter().enumerate() {
        let before = headers.iter().take(index);
        if before
            .into_iter()
            .any(|other| other.key.eq_ignore_ascii_case(entry.key))
        {
            let refusal = Refusal::new("is set twice: the case of a header's name does not matter");
            section
                .reader
                .refuse(&entry.key_span, refusal.about(&entry.path));
        }
    }
    for (index, name) in forwarded.iter().enumerate() {
        let set = headers
            .iter()
            .any(|entry| entry.key.eq_ignore_ascii_case(&name.value));
        let twice = forwarded
            .iter()
            .take(index)
            .any(|other| other.value == name.value);
        let message = match (set, twice) {
            (true, _) => "names a header that `headers` sets",
            (false, true) => "names a header twice",
            (false, false) => continue,
        };
        let path = section.path_of("forward_headers");
        section
            .reader
            .refuse(&name.span, Refusal::new(message).about(&path));
    }
}

/// Reads an absolute URL. It is not normalised: servers may tell `/mcp` from `/mcp/`.
fn url(text: &str) -> Result<String, Refusal> {
    let begins_with = |scheme: &str| {
        text.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    if !begins_with("http://") && !begins_with("https://") {
        return Err(Refusal::new(
            "must be absolute: `http://` or `https://`, then a host",
        ));
    }
    let invalid = || Refusal::new("must be a valid URL");
    let uri: http::Uri = text.parse().map_err(|_| invalid())?;
    let authority = uri.authority().ok_or_else(invalid)?;
    if authority.host().is_empty() {
        return Err(Refusal::new("must name a host"));
    }
    if authority.as_str().contains('@') {
        return Err(Refusal::new("must not hold a user name or password")
            .remedy("set `headers = { Authorization = \"…\" }` instead"));
    }
    let port = authority.as_str().strip_prefix(authority.host());
    if port.is_some_and(|port| !port.is_empty()) && authority.port_u16().is_none() {
        return Err(Refusal::new("must have a port from 0 to 65535"));
    }
    if text.contains('#') {
        return Err(Refusal::new("must not hold a fragment: it is never sent"));
    }
    Ok(text.to_owned())
}

fn variable_name(name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.contains(['=', '\0']) {
        Err(Refusal::new(
            "is not the name of a variable: it is empty, or holds `=` or NUL",
        ))
    } else {
        Ok(())
    }
}

fn filled(text: &str) -> Result<String, Refusal> {
    if text.is_empty() {
        return Err(Refusal::new("must not be empty"));
    }
    no_nul(text)
}

fn no_nul(text: &str) -> Result<String, Refusal> {
    if text.contains('\0') {
        Err(Refusal::new(
            "must not hold a NUL: no process could be given it",
        ))
    } else {
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for text in [
            "http://localhost:1234/mcp",
            "https://docs.example",
            "HTTPS://docs.example/mcp/?key=a%20b",
            "http://[::1]:80/",
        ] {
            assert_eq!(url(text).as_deref(), Ok(text));
        }
        for text in [
            "",
            "docs.example/mcp",
            "/mcp",
            "ftp://docs.example",
            "http://",
            "http:///mcp",
            "http://:80/mcp",
            "https://u:p@docs.example",
            "https://docs.example/#top",
            "http://a b/",
            "http://docs.example:99999/",
            "http://docs.example:/",
            "localhost:80",
            "*",
        ] {
            assert!(url(text).is_err(), "{text}");
        }
    }
}
