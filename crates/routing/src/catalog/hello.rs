//! What a path says of itself: capabilities and instructions.

use manifold_link::Serves;
use manifold_protocol::{Kind, Method, Raw, ServerName};
use serde_json::{Map, Value, json};

/// The most of one server's instructions that is told, in bytes, when there are several servers.
const ONE: usize = 8 * 1024;
/// The most of all together.
const ALL: usize = 32 * 1024;

/// What a path declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(Serves);

impl Capabilities {
    /// What `/mcp` and views declare, whatever is behind them: an empty list is an answer.
    pub(super) fn all() -> Self {
        Self(Serves {
            tools: true,
            prompts: true,
            resources: true,
            completions: true,
            logging: true,
        })
    }

    /// What one server declares.
    pub(super) fn of(serves: Serves) -> Self {
        Self(serves)
    }

    /// Whether lists of that kind are declared.
    #[must_use]
    pub fn lists(self, kind: Kind) -> bool {
        self.0.lists(kind)
    }

    /// Whether what a request asks for is declared.
    #[must_use]
    pub fn answers(self, method: &Method) -> bool {
        let declared = [
            (Method::ToolsCall, self.0.tools),
            (Method::PromptsGet, self.0.prompts),
            (Method::ResourcesRead, self.0.resources),
            (Method::CompletionComplete, self.0.completions),
        ];
        let of = declared.iter().find(|(of, _)| of == method);
        of.is_none_or(|(_, declared)| *declared)
    }

    /// Whether log levels are declared.
    #[must_use]
    pub fn logging(self) -> bool {
        self.0.logging
    }

    /// The `capabilities` object. Extensions and experiments of servers are not in it: they are taken out in both
    /// directions.
    #[must_use]
    pub fn to_raw(self) -> Raw {
        let lists = || json!({ "listChanged": true });
        let mut declared = Map::new();
        let mut declare = |serves, name: &str, value: Value| {
            if serves {
                declared.insert(name.to_owned(), value);
            }
        };
        declare(self.0.tools, "tools", lists());
        declare(self.0.prompts, "prompts", lists());
        declare(self.0.resources, "resources", lists());
        declare(self.0.completions, "completions", json!({}));
        declare(self.0.logging, "logging", json!({}));
        Raw::of(&declared)
    }
}

/// The instructions of several servers, each under its name, in the order of the configuration. Those of a single
/// server are passed as they are.
pub(super) fn instructions<'a>(
    servers: impl Iterator<Item = (&'a ServerName, Option<&'a str>)>,
) -> Option<String> {
    let servers: Vec<_> = servers.collect();
    if let [(_, only)] = servers.as_slice() {
        return only.map(str::to_owned);
    }
    let mut all = String::new();
    for (name, text) in servers {
        let Some(text) = text else { continue };
        let section = format!("## {name}\n\n{}", cut(text.trim_end(), ONE));
        if all.len() + section.len() > ALL {
            break;
        }
        if !all.is_empty() {
            all.push_str("\n\n");
        }
        all.push_str(&section);
    }
    (!all.is_empty()).then_some(all)
}

/// At most `most` bytes of a text, and a mark where it was cut.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end));
    let kept = text.get(..end.unwrap_or(0)).unwrap_or_default();
    format!("{kept}\n[cut: the instructions of this server are longer]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(servers: &[(&str, Option<&str>)]) -> Option<String> {
        let names: Vec<_> = servers
            .iter()
            .map(|(name, _)| ServerName::new(name))
            .collect();
        instructions(names.iter().zip(servers.iter().map(|(_, text)| *text)))
    }

    #[test]
    fn a_single_server_speaks_for_itself() {
        let long = "x".repeat(50_000);
        assert_eq!(merged(&[("a", Some(&long))]), Some(long));
        assert_eq!(merged(&[("a", None)]), None);
        assert_eq!(merged(&[]), None);
    }

    #[test]
    fn several_servers_speak_under_their_names_and_within_bounds() {
        let long = "ü".repeat(10_000);
        let text = merged(&[("a", Some("AAA\n")), ("b", None), ("c", Some(&long))]).unwrap();
        assert!(text.starts_with("## a\n\nAAA\n\n## c\n\nüü"), "{text}");
        assert!(text.ends_with("longer]"));
        assert!(text.len() < ONE + 200);
        let many: Vec<_> = (0..10).map(|_| ("s", Some(long.as_str()))).collect();
        assert!(merged(&many).unwrap().len() <= ALL);
        assert_eq!(merged(&[("a", None), ("b", None)]), None);
    }
}
