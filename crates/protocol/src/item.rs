//! One entry of a list, as its server wrote it: a tool, a prompt, a resource or a template.

use bytes::Bytes;

use crate::{
    json::{Key, ScanError, ScanErrorKind, Scanner, Span},
    links,
    message::once,
    meta::{MetaEdit, MetaSpans},
    method::Method,
    raw::Raw,
    splice::Splice,
};

/// The four kinds of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Tools, by `name`.
    Tool,
    /// Prompts, by `name`.
    Prompt,
    /// Resources, by `uri`.
    Resource,
    /// Resource templates, by `uriTemplate`.
    Template,
}

/// An entry: its key, and the places that Manifold may change. Every other byte passes as it is.
#[derive(Debug, Clone)]
pub struct Item {
    object: Raw,
    key: Box<str>,
    spans: ItemSpans,
}

#[derive(Debug, Clone, Default)]
struct ItemSpans {
    whole: Span,
    members: u32,
    key: Option<Span>,
    meta: Option<MetaSpans>,
    /// Strings in `_meta` that are URIs of the server's resources.
    links: Vec<Span>,
}

// === impl Kind ===

impl Kind {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 4] = [Self::Tool, Self::Prompt, Self::Resource, Self::Template];

    /// The word for it in metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::Template => "template",
        }
    }

    /// The method that lists them.
    #[must_use]
    pub fn method(self) -> Method {
        match self {
            Self::Tool => Method::ToolsList,
            Self::Prompt => Method::PromptsList,
            Self::Resource => Method::ResourcesList,
            Self::Template => Method::ResourcesTemplatesList,
        }
    }

    /// The member of a list's result that holds the entries.
    #[must_use]
    pub fn list(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Prompt => "prompts",
            Self::Resource => "resources",
            Self::Template => "resourceTemplates",
        }
    }

    /// The member of an entry that tells it from its neighbours.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "name",
            Self::Resource => "uri",
            Self::Template => "uriTemplate",
        }
    }
}

// === impl ItemSpans ===

impl ItemSpans {
    fn member(
        &mut self,
        kind: Kind,
        scanner: &mut Scanner<'_>,
        key: Key<'_>,
    ) -> Result<(), ScanError> {
        self.members = self.members.saturating_add(1);
        if key.is(kind.key()) {
            return once(scanner, &mut self.key);
        }
        if key.is("_meta") {
            if self.meta.is_some() {
                return Err(scanner.error(ScanErrorKind::Duplicate));
            }
            // The same bytes twice: once for its members, once for the links among them.
            links::meta(&mut scanner.clone(), &mut self.links)?;
            self.meta = Some(MetaSpans::scan(scanner)?);
        }
        Ok(())
    }
}

// === impl Item ===

impl Item {
    /// Reads an entry; `None` when it is no object, or has no key that is a string.
    #[must_use]
    pub fn parse(kind: Kind, object: &Raw) -> Option<Self> {
        let mut spans = ItemSpans::default();
        let mut scanner = Scanner::new(object.as_bytes()).ok()?;
        spans.whole = scanner
            .object(|scanner, key| spans.member(kind, scanner, key))
            .ok()?;
        let key = Raw::scanned(object.bytes(), spans.key.clone()?).to_text()?;
        Some(Self {
            object: object.clone(),
            key: key.into(),
            spans,
        })
    }

    /// Its name, URI or template, as the server has it.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The entry under another key, with `meta` added and the links in its `_meta` translated.
    #[must_use]
    pub fn exposed(
        &self,
        key: &str,
        meta: &[(&str, Raw)],
        link: &dyn Fn(&str) -> Option<String>,
    ) -> Bytes {
        let text = self.object.bytes();
        let mut splice = Splice::new(text, self.spans.whole.clone());
        if let Some(span) = self.spans.key.clone().filter(|_| key != &*self.key) {
            splice.replace(span, Raw::of(key).bytes().clone());
        }
        let edit = MetaEdit {
            drop: &[],
            set: meta,
        };
        match (&self.spans.meta, edit.addition()) {
            (Some(spans), Some(addition)) => {
                // What is set goes in front of what is there, so that links keep their places.
                let doubled = spans.members.iter().find(|member| edit.drops(&member.key));
                if let Some(member) = doubled {
                    splice.remove_member(member.whole.clone());
                }
                let left = spans.members.len() - usize::from(doubled.is_some());
                splice.replace(
                    spans.whole.start + 1..spans.whole.start + 1,
                    joined(&addition, left > 0),
                );
            }
            (None, Some(addition)) => {
                let at = self.spans.whole.start + 1;
                let member = [b"\"_meta\":{", addition.as_slice(), b"}"].concat();
                splice.replace(at..at, joined(&member, self.spans.members > 0));
            }
            (_, None) => {}
        }
        links::translate(&mut splice, text, &self.spans.links, link);
        splice.finish()
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.object == other.object
    }
}

/// A member, and the comma that parts it from those which follow.
fn joined(member: &[u8], more: bool) -> Bytes {
    let comma: &[u8] = if more { b"," } else { b"" };
    [member, comma].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &'static str) -> Raw {
        Raw::parse(Bytes::from_static(text.as_bytes())).unwrap()
    }

    fn none(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn an_item_changes_only_its_key() {
        let item = Item::parse(
            Kind::Tool,
            &raw(
                r#"{"description":"\ud83d","name":"a","inputSchema":{"b":1,"b":2},"_meta":{"k":1}}"#,
            ),
        )
        .unwrap();
        assert_eq!(item.key(), "a");
        assert_eq!(
            item.exposed("s__a", &[], &none),
            r#"{"description":"\ud83d","name":"s__a","inputSchema":{"b":1,"b":2},"_meta":{"k":1}}"#
        );
        assert_eq!(
            item.exposed("a", &[("o", Raw::of(&2))], &none),
            r#"{"description":"\ud83d","name":"a","inputSchema":{"b":1,"b":2},"_meta":{"o":2,"k":1}}"#
        );
        assert_eq!(
            item.exposed("a", &[("k", Raw::of(&2))], &none),
            r#"{"description":"\ud83d","name":"a","inputSchema":{"b":1,"b":2},"_meta":{"k":2}}"#
        );
        let plain = Item::parse(Kind::Resource, &raw(r#"{"uri":"x://a"}"#)).unwrap();
        assert_eq!(
            plain.exposed("b+x://a", &[("o", Raw::of(&2))], &none),
            r#"{"_meta":{"o":2},"uri":"b+x://a"}"#
        );
        assert!(Item::parse(Kind::Tool, &raw(r#"{"description":"x"}"#)).is_none());
        assert!(Item::parse(Kind::Tool, &raw(r#"{"name":1}"#)).is_none());
        assert!(Item::parse(Kind::Template, &raw("[1]")).is_none());
    }

    #[test]
    fn the_page_of_a_tool_is_a_link() {
        let item = Item::parse(
            Kind::Tool,
            &raw(
                r#"{"name":"a","_meta":{"ui":{"resourceUri":"ui://x/y"},"ui/resourceUri":"ui://z"}}"#,
            ),
        )
        .unwrap();
        let link = |uri: &str| Some(uri.replace("ui://", "ui://s/"));
        assert_eq!(
            item.exposed("a", &[("o", Raw::of(&2))], &link),
            r#"{"name":"a","_meta":{"o":2,"ui":{"resourceUri":"ui://s/x/y"},"ui/resourceUri":"ui://s/z"}}"#
        );
    }
}
