//! Asking one server for one of its lists, page by page, within bounds.

use std::collections::HashSet;

use manifold_link::{Call, Link, LinkError, Patience};
use manifold_protocol::{
    Item, Kind, Outcome, Params, Raw, RpcError, ServerName,
    json::{ScanError, Scanner, Span},
};
use tracing::warn;

use crate::lists::{CacheHint, List};

/// The most pages of one list that are followed.
const PAGES: usize = 1000;
/// The most entries of one list that are kept.
const ITEMS: usize = 10_000;

/// One page as it came.
struct Page {
    items: Vec<Raw>,
    hint: Option<CacheHint>,
}

/// A list of a server, all pages of it, in its order. A key that comes twice counts once.
///
/// # Errors
/// When the server does not answer, or answers with an error or something that is no list.
pub(crate) async fn fetch(
    server: &ServerName,
    link: &Link,
    kind: Kind,
    patience: Patience,
) -> Result<List, LinkError> {
    let word = kind.word();
    let mut gathered = Gathered::default();
    let mut cursors = HashSet::new();
    let mut params = Params::absent();
    for _ in 0..PAGES {
        let call = Call::own(kind.method(), params, patience);
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
        let page = page(&result.raw(), kind)
            .map_err(|error| LinkError::NotMcp(format!("{}: {error}", kind.method())))?;
        if !gathered.add(server, kind, page) {
            warn!(%server, list = word, limit = ITEMS, "a server lists more than is kept");
            return Ok(gathered.list(kind));
        }
        let Some(cursor) = result.next_cursor() else {
            return Ok(gathered.list(kind));
        };
        if !cursors.insert(cursor.clone()) {
            warn!(%server, list = word, "a server's list cursor repeats: the list is taken as complete");
            return Ok(gathered.list(kind));
        }
        params = next_page(&cursor);
    }
    warn!(
        %server,
        list = word,
        limit = PAGES,
        "a server's list has more pages than are followed"
    );
    Ok(gathered.list(kind))
}

/// What the pages so far hold.
#[derive(Debug, Default)]
struct Gathered {
    items: Vec<Item>,
    keys: HashSet<Box<str>>,
    hint: Option<CacheHint>,
}

impl Gathered {
    /// Adds a page; says whether there is room for another.
    fn add(&mut self, server: &ServerName, kind: Kind, page: Page) -> bool {
        // A page without a hint makes a list without one.
        let first = self.items.is_empty() && self.hint.is_none();
        self.hint = if first {
            page.hint
        } else {
            self.hint.zip(page.hint).map(|(one, other)| one.and(other))
        };
        for raw in page.items {
            match Item::parse(kind, &raw) {
                Some(_) if self.items.len() == ITEMS => return false,
                Some(item) => {
                    if self.keys.insert(item.key().into()) {
                        self.items.push(item);
                    }
                }
                None => warn!(
                    %server,
                    "a {} without a usable {} is left out", kind.word(), kind.key(),
                ),
            }
        }
        true
    }

    fn list(self, kind: Kind) -> List {
        List::new(kind, self.items, self.hint)
    }
}

fn next_page(cursor: &Raw) -> Params {
    let text = [b"{\"cursor\":", cursor.as_bytes(), b"}"].concat();
    Raw::parse(text.into())
        .and_then(|raw| Params::parse(&raw))
        .unwrap_or_else(|_| Params::absent())
}

/// The entries of a list result, and its hints for caches.
fn page(result: &Raw, kind: Kind) -> Result<Page, ScanError> {
    let mut spans: Vec<Span> = Vec::new();
    let (mut ttl_ms, mut public) = (None, false);
    let mut scanner = Scanner::new(result.as_bytes())?;
    scanner.object(|scanner, key| {
        if key.is(kind.list()) {
            scanner.array(|scanner| {
                spans.push(scanner.skip()?);
                Ok(())
            })?;
        } else if key.is("ttlMs") {
            ttl_ms = Some(serde_json::from_slice(scanner.value()?).unwrap_or(0));
        } else if key.is("cacheScope") {
            public = scanner.value()? == b"\"public\"";
        }
        Ok(())
    })?;
    let items = spans
        .into_iter()
        // Kept for long: not as a part of the page it came in.
        .map(|span| Raw::parse(result.bytes().slice(span)).map(|raw| raw.compact()))
        .collect::<Result<_, _>>()?;
    let hint = ttl_ms.map(|ttl_ms| CacheHint { ttl_ms, public });
    Ok(Page { items, hint })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn raw(text: &'static str) -> Raw {
        Raw::parse(Bytes::from_static(text.as_bytes())).unwrap()
    }

    #[test]
    fn entries_keep_their_bytes() {
        let list = raw(
            r#"{"x":[0],"tools":[ {"name":"a","n":1.0e5 }, {"name":"b"}],"y":1,"ttlMs":7,"cacheScope":"public"}"#,
        );
        let tools = page(&list, Kind::Tool).unwrap();
        let texts: Vec<_> = tools.items.iter().map(Raw::as_str).collect();
        assert_eq!(texts, [r#"{"name":"a","n":1.0e5 }"#, r#"{"name":"b"}"#]);
        let hint = CacheHint {
            ttl_ms: 7,
            public: true,
        };
        assert_eq!(tools.hint, Some(hint));
        assert!(page(&list, Kind::Prompt).unwrap().items.is_empty());
        let wrong = raw(r#"{"tools":1}"#);
        assert!(page(&wrong, Kind::Tool).is_err());
    }

    #[test]
    fn a_key_that_comes_twice_counts_once() {
        let mut gathered = Gathered::default();
        let server = ServerName::new("s");
        for text in [
            r#"{"resources":[{"uri":"a:1","name":"x"},{"name":"no uri"}],"ttlMs":9,"cacheScope":"public"}"#,
            r#"{"resources":[{"uri":"a:1","name":"y"},{"uri":"a:2"}]}"#,
        ] {
            let page = page(&raw(text), Kind::Resource).unwrap();
            assert!(gathered.add(&server, Kind::Resource, page));
        }
        let list = gathered.list(Kind::Resource);
        let keys: Vec<_> = list.items().iter().map(Item::key).collect();
        assert_eq!(keys, ["a:1", "a:2"]);
        assert_eq!(list.hint(), None);
    }
}
