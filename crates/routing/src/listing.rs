//! Asking one server for everything it has, page by page, within bounds.

use std::collections::HashSet;

use bytes::Bytes;
use manifold_link::{Call, Link, LinkError, Patience};
use manifold_protocol::{
    MetaEdit, Method, OriginalName, Outcome, Params, ParamsEdit, Raw, RpcError, ServerName,
    json::{ScanError, Scanner},
};
use tracing::warn;

/// The most pages of one list that are followed.
const PAGES: usize = 1000;
/// The most items of one list that are kept.
const ITEMS: usize = 10_000;

/// One tool of a server, as the server wrote it.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its name.
    pub name: OriginalName,
    object: Params,
}

impl Item {
    /// Reads a tool's object; `None` when it has no name.
    pub(crate) fn parse(raw: &Raw) -> Option<Self> {
        let object = Params::parse(raw).ok()?;
        let name = OriginalName::new(&object.name()?);
        Some(Self { name, object })
    }

    /// The object under another name, with `meta` added; every other byte as it was.
    pub(crate) fn exposed(&self, name: &str, meta: &[(&str, Raw)]) -> Bytes {
        let renamed = (name != self.name.as_str()).then_some(name);
        self.object.edited(&ParamsEdit {
            name: renamed,
            progress_token: None,
            meta: MetaEdit {
                drop: &[],
                set: meta,
            },
        })
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.object.raw() == other.object.raw()
    }
}

/// All tools of a server, in its order. A name that comes twice counts once.
///
/// # Errors
/// When the server does not answer, or answers with an error or something that is no list.
pub(crate) async fn tools(
    server: &ServerName,
    link: &Link,
    patience: Patience,
) -> Result<Vec<Item>, LinkError> {
    if !link.peer().serves.tools {
        return Ok(Vec::new());
    }
    let mut items = Vec::new();
    let mut names = HashSet::new();
    let mut cursors = HashSet::new();
    let mut params = Params::absent();
    for _ in 0..PAGES {
        let call = Call::own(Method::ToolsList, params, patience);
        let outcome = link.begin(call).await?.finish().await?;
        let result = match outcome {
            Outcome::Result(result) => result,
            Outcome::Error(error) => {
                return Err(LinkError::Refused(RpcError::new(
                    error.code(),
                    error.message(),
                )));
            }
        };
        let page = elements(&result.raw(), "tools")
            .map_err(|error| LinkError::NotMcp(format!("tools/list: {error}")))?;
        for raw in page {
            match Item::parse(&raw) {
                Some(item) if items.len() < ITEMS => {
                    if names.insert(item.name.clone()) {
                        items.push(item);
                    }
                }
                Some(_) => {
                    warn!(%server, limit = ITEMS, "a server lists more tools than are kept");
                    return Ok(items);
                }
                None => warn!(%server, "a tool without a usable name is left out"),
            }
        }
        let Some(cursor) = result.next_cursor() else {
            return Ok(items);
        };
        if !cursors.insert(cursor.clone()) {
            warn!(%server, "a server's list cursor repeats: the list is taken as complete");
            return Ok(items);
        }
        params = next_page(&cursor);
    }
    warn!(
        %server,
        limit = PAGES,
        "a server's list has more pages than are followed"
    );
    Ok(items)
}

fn next_page(cursor: &Raw) -> Params {
    let text = [b"{\"cursor\":", cursor.as_bytes(), b"}"].concat();
    Raw::parse(text.into())
        .and_then(|raw| Params::parse(&raw))
        .unwrap_or_else(|_| Params::absent())
}

/// The elements of the array `member` of an object.
fn elements(object: &Raw, member: &str) -> Result<Vec<Raw>, ScanError> {
    let mut spans = Vec::new();
    let mut scanner = Scanner::new(object.as_bytes())?;
    scanner.object(|scanner, key| {
        if key.is(member) {
            scanner.array(|scanner| {
                spans.push(scanner.skip()?);
                Ok(())
            })?;
        }
        Ok(())
    })?;
    spans
        .into_iter()
        // Kept for long: not as a part of the page it came in.
        .map(|span| Raw::parse(object.bytes().slice(span)).map(|raw| raw.compact()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &'static str) -> Raw {
        Raw::parse(Bytes::from_static(text.as_bytes())).unwrap()
    }

    #[test]
    fn elements_keep_their_bytes() {
        let list = raw(r#"{"x":[0],"tools":[ {"name":"a","n":1.0e5 }, {"name":"b"}],"y":1}"#);
        let texts: Vec<_> = elements(&list, "tools")
            .unwrap()
            .iter()
            .map(|raw| raw.as_str().to_owned())
            .collect();
        assert_eq!(texts, [r#"{"name":"a","n":1.0e5 }"#, r#"{"name":"b"}"#]);
        assert!(elements(&list, "none").unwrap().is_empty());
        assert!(elements(&list, "y").is_err());
    }

    #[test]
    fn an_item_changes_only_its_name() {
        let item = Item::parse(&raw(
            r#"{"description":"\ud83d","name":"a","inputSchema":{"b":1,"b":2},"_meta":{"k":1}}"#,
        ))
        .unwrap();
        assert_eq!(
            item.exposed("s__a", &[]),
            r#"{"description":"\ud83d","name":"s__a","inputSchema":{"b":1,"b":2},"_meta":{"k":1}}"#
        );
        assert_eq!(
            item.exposed("a", &[("o", Raw::of(&2))]),
            r#"{"description":"\ud83d","name":"a","inputSchema":{"b":1,"b":2},"_meta":{"k":1,"o":2}}"#
        );
        assert!(Item::parse(&raw(r#"{"description":"x"}"#)).is_none());
        assert!(Item::parse(&raw(r#"{"name":1}"#)).is_none());
    }
}
