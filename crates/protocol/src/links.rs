//! The places of a result where a server's own URIs stand: what a client reads there it must be able to read
//! through Manifold.
//!
//! They are `contents[].uri`, content items of the types `resource_link` and `resource`, and the page of a tool
//! (`_meta.ui.resourceUri`, `_meta["ui/resourceUri"]`). Text and `structuredContent` are nobody's to change.

use bytes::Bytes;

use crate::{
    json::{Key, ScanError, Scanner, Span},
    raw::Raw,
    splice::Splice,
};

/// Collects the links in the value of a result's member. A member that can have none is not taken.
pub(crate) fn member(
    scanner: &mut Scanner<'_>,
    key: Key<'_>,
    links: &mut Vec<Span>,
) -> Result<(), ScanError> {
    if key.is("content") {
        content(scanner, links)?;
    } else if key.is("contents") {
        objects(scanner, |scanner, key| embedded(scanner, key, links))?;
    } else if key.is("messages") {
        objects(scanner, |scanner, key| {
            if key.is("content") {
                content(scanner, links)?;
            }
            Ok(())
        })?;
    } else if key.is("_meta") {
        meta(scanner, links)?;
    }
    Ok(())
}

/// The links of a `_meta` object.
pub(crate) fn meta(scanner: &mut Scanner<'_>, links: &mut Vec<Span>) -> Result<(), ScanError> {
    object(scanner, |scanner, key| {
        if key.is("ui") {
            object(scanner, |scanner, key| {
                if key.is("resourceUri") {
                    links.push(scanner.skip()?);
                }
                Ok(())
            })?;
        } else if key.is("ui/resourceUri") {
            links.push(scanner.skip()?);
        }
        Ok(())
    })
}

/// Puts into `splice` what `link` makes of each link; those it says nothing of stay.
pub(crate) fn translate(
    splice: &mut Splice<'_>,
    text: &Bytes,
    links: &[Span],
    link: &dyn Fn(&str) -> Option<String>,
) {
    for span in links {
        let uri = Raw::scanned(text, span.clone()).to_text();
        if let Some(exposed) = uri.and_then(|uri| link(&uri)) {
            splice.replace(span.clone(), Raw::of(exposed.as_str()).bytes().clone());
        }
    }
}

/// One content item, or an array of them.
fn content(scanner: &mut Scanner<'_>, links: &mut Vec<Span>) -> Result<(), ScanError> {
    if scanner.peek() == Some(b'[') {
        scanner.array(|scanner| content_item(scanner, links))?;
        return Ok(());
    }
    content_item(scanner, links)
}

fn content_item(scanner: &mut Scanner<'_>, links: &mut Vec<Span>) -> Result<(), ScanError> {
    let (mut is_link, mut is_resource) = (false, false);
    // The type may stand behind what it is the type of.
    let mut uri = None;
    let mut inner = Vec::new();
    object(scanner, |scanner, key| {
        if key.is("type") {
            let kind = scanner.value()?;
            is_link = kind == b"\"resource_link\"";
            is_resource = kind == b"\"resource\"";
        } else if key.is("uri") {
            uri = Some(scanner.skip()?);
        } else if key.is("resource") {
            object(scanner, |scanner, key| embedded(scanner, key, &mut inner))?;
        } else if key.is("_meta") {
            meta(scanner, links)?;
        }
        Ok(())
    })?;
    if is_link {
        links.extend(uri);
    } else if is_resource {
        links.append(&mut inner);
    }
    Ok(())
}

/// A member of an embedded resource, or of an entry of `contents`.
fn embedded(
    scanner: &mut Scanner<'_>,
    key: Key<'_>,
    links: &mut Vec<Span>,
) -> Result<(), ScanError> {
    if key.is("uri") {
        links.push(scanner.skip()?);
    } else if key.is("_meta") {
        meta(scanner, links)?;
    }
    Ok(())
}

/// An object; a value of another type is left alone.
fn object(
    scanner: &mut Scanner<'_>,
    member: impl FnMut(&mut Scanner<'_>, Key<'_>) -> Result<(), ScanError>,
) -> Result<(), ScanError> {
    if scanner.peek() == Some(b'{') {
        scanner.object(member)?;
    } else {
        scanner.skip()?;
    }
    Ok(())
}

/// An array of objects; values of other types are left alone.
fn objects(
    scanner: &mut Scanner<'_>,
    mut member: impl FnMut(&mut Scanner<'_>, Key<'_>) -> Result<(), ScanError>,
) -> Result<(), ScanError> {
    if scanner.peek() != Some(b'[') {
        scanner.skip()?;
        return Ok(());
    }
    scanner.array(|scanner| object(scanner, &mut member))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{Raw, ResultObject};

    fn translated(text: &str) -> String {
        let raw = Raw::parse(text.to_owned().into()).unwrap();
        let result = ResultObject::parse(&raw).unwrap();
        let link = |uri: &str| (uri != "keep:me").then(|| ["s+", uri].concat());
        result.with_links(&link).raw().as_str().to_owned()
    }

    #[test]
    fn links_are_translated_where_the_protocol_has_them() {
        for (before, after) in [
            (
                r#"{"content":[{"uri":"a:1","type":"resource_link","name":"n"},{"type":"resource","resource":{"uri":"a:2","text":"a:2"}}]}"#,
                r#"{"content":[{"uri":"s+a:1","type":"resource_link","name":"n"},{"type":"resource","resource":{"uri":"s+a:2","text":"a:2"}}]}"#,
            ),
            (
                r#"{"contents":[{"uri":"a:1","text":"x"},{"uri":"keep:me"}],"_meta":{"ui":{"resourceUri":"ui:1"}}}"#,
                r#"{"contents":[{"uri":"s+a:1","text":"x"},{"uri":"keep:me"}],"_meta":{"ui":{"resourceUri":"s+ui:1"}}}"#,
            ),
            (
                r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"a:1"}}}]}"#,
                r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"s+a:1"}}}]}"#,
            ),
        ] {
            assert_eq!(translated(before), after);
        }
    }

    #[test]
    fn everything_else_keeps_its_bytes() {
        for text in [
            r#"{"structuredContent":{"content":[{"type":"resource_link","uri":"a:1"}]}}"#,
            r#"{"content":[{"type":"text","text":"a:1","uri":"a:1"},{"type":"video3d","resource":{"uri":"a:1"}}]}"#,
            r#"{"content":"a:1","contents":{"uri":"a:1"},"messages":[1,{"content":7}],"_meta":null}"#,
            r#"{"content":[{"type":"resource_link","uri":{"uri":1}},[],null]}"#,
        ] {
            assert_eq!(translated(text), text);
        }
    }
}
