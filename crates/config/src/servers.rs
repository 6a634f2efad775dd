//! All servers, and the rules that hold between them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fault::{Refusal, quoted};
use crate::names::Names;
use crate::quantity;
use crate::reader::{Entry, Reader};
use crate::section::Section;
use crate::server::{self, Read, Server};
use crate::timeouts::Timeouts;

/// What a shutdown needs besides the ladder of a child: for the last answers to go out.
const SHUTDOWN_MARGIN: Duration = Duration::from_secs(1);

/// All servers of a file.
pub(crate) struct Servers {
    /// Those without a fault, in the order of the file.
    pub(crate) valid: Vec<Server>,
    /// The names of all, with a fault or not.
    pub(crate) declared: Vec<String>,
}

/// Reads `[servers]`. `shutdown_place` is where `timeouts.shutdown` is set, if it is.
pub(crate) fn read(
    root: &mut Section<'_, '_>,
    names: &Names,
    timeouts: &Timeouts,
    shutdown_place: Option<&crate::reader::Span>,
) -> Servers {
    let entries = root.entries("servers");
    let mut read: Vec<(&Entry<'_>, Read)> = Vec::with_capacity(entries.len());
    for entry in &entries {
        let server = root.named(entry, "servers.*", |section| {
            server::read(section, entry, timeouts, shutdown_place)
        });
        if let Some(server) = server {
            read.push((entry, server));
        }
    }
    check_prefixes(root.reader, names, &read);
    for (entry, server) in &read {
        check_shutdown(root.reader, entry, server);
    }
    Servers {
        declared: entries.iter().map(|entry| entry.key.to_owned()).collect(),
        valid: read
            .into_iter()
            .filter_map(|(_, read)| read.server)
            .collect(),
    }
}

/// Each prefix must fit the separator, and no two servers that can be up together may have the same.
fn check_prefixes(reader: &Reader<'_>, names: &Names, servers: &[(&Entry<'_>, Read)]) {
    let mut owners: BTreeMap<&str, (&Entry<'_>, usize)> = BTreeMap::new();
    for (entry, read) in servers {
        let Some(prefix) = &read.prefix else {
            continue;
        };
        if let Err(refusal) = names.check(&prefix.value) {
            let about = format!("the prefix of {}", quoted(&entry.path));
            let message = format!("{about} {}", refusal.message);
            reader.refuse(&prefix.span, Refusal { message, ..refusal });
        }
        if !read.enabled || prefix.value.is_empty() {
            continue;
        }
        if let Some((owner, at)) = owners.get(prefix.value.as_str()) {
            let message = format!(
                "{} has the same prefix as {} (line {})",
                quoted(&entry.path),
                quoted(&owner.path),
                reader.line_of(*at)
            );
            let remedy = "give each its own `prefix`, or none to both with \"\"";
            reader.refuse(&prefix.span, Refusal::new(message).remedy(remedy));
        } else {
            owners.insert(prefix.value.as_str(), (entry, prefix.span.start));
        }
    }
}

/// A shutdown must leave time for the whole ladder on which a child is stopped.
fn check_shutdown(reader: &Reader<'_>, entry: &Entry<'_>, read: &Read) {
    let Some(stop) = &read.stop else {
        return;
    };
    let (shutdown, shutdown_place) = &read.shutdown;
    let needed = stop.value.close + stop.value.term + SHUTDOWN_MARGIN;
    if *shutdown > needed {
        return;
    }
    let own_place = Some(&stop.span).filter(|span| !span.is_empty());
    let Some(place) = own_place.or(shutdown_place.as_ref()) else {
        // The defaults fit, so one of the two is set.
        return;
    };
    let message = format!(
        "timeouts.shutdown ({}) must be longer than the stop ladder of {}: close ({}) + term ({}) + 1s",
        quantity::shown(*shutdown),
        quoted(&entry.path),
        quantity::shown(stop.value.close),
        quantity::shown(stop.value.term),
    );
    let remedy = format!(
        "make shutdown longer than {}, or the ladder shorter",
        quantity::shown(needed)
    );
    reader.refuse(place, Refusal::new(message).remedy(remedy));
}
