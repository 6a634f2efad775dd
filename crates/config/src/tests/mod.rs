//! Whole files against what they give: values, or faults.

mod example;
mod faults;
mod rules;
mod secrets;

use std::collections::BTreeMap;
use std::io;

use proptest::prelude::*;

use crate::{Config, Faults, Surroundings};

/// Surroundings made of maps.
#[derive(Default)]
pub(super) struct Made {
    variables: BTreeMap<String, String>,
    files: BTreeMap<String, String>,
}

impl Made {
    pub(super) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(super) fn file(mut self, path: &str, content: &str) -> Self {
        self.files.insert(path.to_owned(), content.to_owned());
        self
    }
}

impl Surroundings for Made {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    fn file(&self, path: &str) -> io::Result<String> {
        self.files
            .get(path)
            .cloned()
            .ok_or_else(|| io::Error::new(io::ErrorKind::PermissionDenied, "hush-from-an-error"))
    }
}

/// Parses as a later version would, which has everything that this crate reads.
pub(super) fn parse_all(text: &str, surroundings: &Made) -> Result<Config, Faults> {
    Config::parse_with(text, "manifold.toml", surroundings, &[])
}

/// The configuration of a text without a fault.
pub(super) fn valid(text: &str) -> Config {
    parse_all(text, &Made::default()).unwrap_or_else(|faults| panic!("{faults}"))
}

/// Faults as `line:column message`, or `line:column message | remedy`.
pub(super) fn listed(result: Result<Config, Faults>) -> Vec<String> {
    let faults = result.expect_err("a fault");
    let lines = faults.iter().map(|fault| {
        let remedy = fault.remedy.as_ref().map(|remedy| format!(" | {remedy}"));
        format!(
            "{}:{} {}{}",
            fault.line,
            fault.column,
            fault.message,
            remedy.unwrap_or_default()
        )
    });
    lines.collect()
}

/// Checks that each text has exactly these faults, listed as by [`listed`].
pub(super) fn check_faults(table: &[(&str, &[&str])]) {
    for (text, expected) in table {
        assert_eq!(
            listed(parse_all(text, &Made::default())),
            *expected,
            "{text}"
        );
    }
}

#[test]
fn an_empty_file_is_valid() {
    let config = Config::parse("", "manifold.toml", &Made::default()).unwrap();
    assert!(config.servers.is_empty() && config.views.is_empty());
}

/// Lines that look like a configuration, so that the rules are reached and not only the parser.
fn line() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "address",
        "path",
        "token",
        "key",
        "level",
        "max",
        "idle_timeout",
        "start",
        "shutdown",
        "request_body",
        "separator",
        "max_length",
        "command",
        "args",
        "env",
        "url",
        "headers",
        "forward_headers",
        "transport",
        "prefix",
        "stop",
        "restart",
        "tools",
        "timeouts",
        "servers",
        "views",
        "listen",
        "x",
    ]);
    let value = prop::sample::select(vec![
        "\"\"",
        "\"a\"",
        "\"${A}\"",
        "\"${\"",
        "'$${'",
        "\"${file:/x}\"",
        "\"5s\"",
        "\"0s\"",
        "\"1KiB\"",
        "5",
        "-1",
        "0x10",
        "1.5",
        "true",
        "1979-05-27",
        "[]",
        "[\"a\", 1]",
        "{}",
        "{ a = \"b\" }",
        "{ close = \"90s\" }",
        "\"\"\"\né${B:-c}\"\"\"",
        "\"\\u00e9${A}\"",
        "\"http://a\"",
        "\"é\"",
        "\"abc",
        "[",
        "{",
        "",
    ]);
    let table = prop::sample::select(vec![
        "listen",
        "admin",
        "log",
        "sessions",
        "timeouts",
        "limits",
        "names",
        "servers.a",
        "servers.b",
        "servers.A",
        "servers.a.env",
        "servers.b.tools",
        "views.a",
        "views.v",
        "views.v.tools",
        "auth",
        "[servers]",
        "",
    ]);
    prop_oneof![
        4 => (key, value).prop_map(|(key, value)| format!("{key} = {value}\n")),
        2 => table.prop_map(|table| format!("[{table}]\n")),
        1 => "\\PC{0,12}\n",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_parsed_without_a_panic(text in "\\PC{0,200}") {
        check(&text)?;
    }

    #[test]
    fn any_lines_are_parsed_without_a_panic(lines in prop::collection::vec(line(), 0..16)) {
        check(&lines.concat())?;
    }
}

fn check(text: &str) -> Result<(), TestCaseError> {
    let surroundings = Made::default().variable("A", "val-ue");
    for result in [
        parse_all(text, &surroundings),
        Config::parse(text, "manifold.toml", &surroundings),
    ] {
        let Err(faults) = result else {
            continue;
        };
        prop_assert!(!faults.as_slice().is_empty());
        prop_assert!(faults.as_slice().is_sorted_by_key(|fault| fault.span.start));
        let shown = faults.to_string();
        for fault in &faults {
            prop_assert!(fault.span.end <= text.len());
            let place = format!("manifold.toml:{}:{}", fault.line, fault.column);
            prop_assert!(shown.contains(&place), "{place} is not in\n{shown}");
        }
    }
    Ok(())
}
