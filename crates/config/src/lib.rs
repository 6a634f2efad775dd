//! The configuration file: TOML text to validated values, with every fault at its line and column.
//!
//! [`Config::parse`] is the whole of it. It reports all faults of a file at once, each with what to do about it, and
//! a [`Config`] that exists is valid: nothing downstream checks it again.
//!
//! This crate knows no other crate of the gateway. It reads neither the environment nor files: whoever calls it
//! passes [`Surroundings`]. What may be a secret (a literal in a secret field, a substituted value) is never part of
//! a message, a shown source line or a `Debug` output.
//!
//! The text is TOML 1.1: newlines and trailing commas in inline tables are accepted, which some editors do not know.

mod address;
mod fault;
mod glob;
mod header;
mod listen;
mod mask;
mod names;
mod nearest;
mod not_yet;
mod quantity;
mod reader;
mod section;
mod server;
mod servers;
mod sessions;
mod substitute;
#[cfg(test)]
mod tests;
mod timeouts;
mod transport;
mod views;

use std::io;

use toml::de::DeTable;

pub use crate::address::parse_address;
pub use crate::fault::{Fault, Faults, Refusal};
pub use crate::glob::Glob;
pub use crate::listen::{Admin, Level, Listen, Log, LogFormat};
pub use crate::names::{Names, Prefix, Separator, ServerName, ViewName};
pub use crate::server::{Cache, CacheScope, Isolation, Restart, Server, Start, Stop, ToolFilter};
pub use crate::sessions::{Limits, SessionKey, Sessions};
pub use crate::timeouts::Timeouts;
pub use crate::transport::{HttpKind, Transport};
pub use crate::views::View;
pub use secrecy::{ExposeSecret, SecretString};

use crate::not_yet::{Keys, NOT_YET};
use crate::reader::Reader;
use crate::section::Section;

/// What substitution may look at: the environment and files, as far as the caller lets it.
pub trait Surroundings {
    /// The environment variable `name`; `None` when it is not set or not Unicode.
    fn variable(&self, name: &str) -> Option<String>;

    /// The content of the file at `path`, for `${file:path}`.
    ///
    /// # Errors
    /// Whatever reading gave. Only the [`io::ErrorKind`] of it is shown. An implementation should bound the size.
    fn file(&self, path: &str) -> io::Result<String>;
}

/// A valid configuration. It is immutable: a reload parses a new one and swaps the whole.
#[derive(Debug, Clone)]
pub struct Config {
    /// `[listen]`: where clients connect.
    pub listen: Listen,
    /// `[admin]`: where operators connect.
    pub admin: Admin,
    /// `[log]`: what is written to stderr.
    pub log: Log,
    /// `[sessions]`: how long client sessions live and how many there may be.
    pub sessions: Sessions,
    /// `[timeouts]`: the ones that hold where a server sets none of its own.
    pub timeouts: Timeouts,
    /// `[limits]`: sizes and numbers that bound the gateway's memory.
    pub limits: Limits,
    /// `[names]`: how exposed names are built.
    pub names: Names,
    /// `[servers.NAME]`, in the order of the file, which decides every tie. Disabled ones are included.
    pub servers: Vec<Server>,
    /// `[views.NAME]`, in the order of the file.
    pub views: Vec<View>,
}

impl Config {
    /// Reads `text`, the content of the file called `file_name` (used in the report only).
    ///
    /// # Errors
    /// All faults found, in the order of their places. When the text is not TOML, only the faults of syntax are
    /// reported, since what the rest means is then a guess.
    pub fn parse(
        text: &str,
        file_name: &str,
        surroundings: &dyn Surroundings,
    ) -> Result<Self, Faults> {
        Self::parse_with(text, file_name, surroundings, NOT_YET)
    }

    fn parse_with(
        text: &str,
        file_name: &str,
        surroundings: &dyn Surroundings,
        not_yet: Keys,
    ) -> Result<Self, Faults> {
        let (document, syntax) = DeTable::parse_recoverable(text);
        if syntax.is_empty() {
            let reader = Reader::new(text, surroundings, not_yet);
            let config = read(&reader, document.get_ref());
            let findings = reader.into_findings();
            if findings.faults.is_empty() {
                Ok(config)
            } else {
                Err(Faults::new(file_name, text, findings))
            }
        } else {
            // Read all the same, with nothing to look at: this finds the places that hold secrets.
            let reader = Reader::new(text, &Nothing, not_yet);
            read(&reader, document.get_ref());
            let findings = reader.into_findings().replaced_by_syntax(text, &syntax);
            Err(Faults::new(file_name, text, findings))
        }
    }
}

/// Surroundings in which nothing is set and no file exists.
struct Nothing;

impl Surroundings for Nothing {
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    fn file(&self, _path: &str) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Reads the document. Where something is refused a default stands in, and the reader holds a fault, so the result
/// counts only when the reader holds none.
fn read<'t>(reader: &Reader<'_>, document: &'t DeTable<'t>) -> Config {
    Section::document(reader, document, |root| {
        let (timeouts, shutdown_place) = root.table("timeouts", |section| {
            timeouts::read(section, &Timeouts::default())
        });
        let names = root.table("names", names::read);
        let servers = servers::read(root, &names, &timeouts, shutdown_place.as_ref());
        let views = views::read(root, &servers);
        Config {
            listen: root.table("listen", listen::read_listen),
            admin: root.table("admin", listen::read_admin),
            log: root.table("log", listen::read_log),
            sessions: root.table("sessions", sessions::read_sessions),
            limits: root.table("limits", sessions::read_limits),
            timeouts,
            names,
            servers: servers.valid,
            views,
        }
    })
}
