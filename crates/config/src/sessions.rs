//! `[sessions]` and `[limits]`: what bounds the gateway's memory.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use secrecy::{ExposeSecret, SecretBox};

use crate::fault::Refusal;
use crate::section::Section;

/// `[sessions]`: how long client sessions live and how many there may be.
#[derive(Debug, Clone)]
pub struct Sessions {
    /// After how long without use a session's links and buffers are freed; `None` for never.
    pub idle_timeout: Option<Duration>,
    /// For how long a sealed session id is good.
    pub max_age: Duration,
    /// Live ones at once. At least 1.
    pub max: usize,
    /// The key session ids are sealed with; without one the gateway makes its own.
    pub key: Option<SessionKey>,
}

/// A key of 32 bytes. `Debug` does not show it, and it is wiped when dropped.
pub struct SessionKey {
    bytes: SecretBox<[u8; 32]>,
}

/// `[limits]`: sizes in bytes and numbers. All are at least 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The body of a client's request.
    pub request_body: usize,
    /// One message from a server.
    pub message: usize,
    /// Requests at once of one client session or modern caller.
    pub concurrent_requests: usize,
    /// Children that start at once.
    pub children_starting: usize,
    /// Entries on one page of a list toward clients; 0 for everything on one page.
    pub page_size: usize,
}

// === impl SessionKey ===

impl SessionKey {
    /// The key itself.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        self.bytes.expose_secret()
    }

    /// Reads base64, of either alphabet, padded or not.
    fn parse(text: &str) -> Result<Self, Refusal> {
        let config =
            GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let decode = |alphabet| GeneralPurpose::new(alphabet, config).decode(text);
        let bytes = decode(&STANDARD).or_else(|_| decode(&URL_SAFE));
        bytes
            .ok()
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
            .map(|bytes| Self {
                bytes: SecretBox::new(Box::new(bytes)),
            })
            .ok_or_else(|| {
                Refusal::new("must be 32 bytes in base64")
                    .remedy("make one with `openssl rand -base64 32`")
            })
    }
}

impl Clone for SessionKey {
    fn clone(&self) -> Self {
        Self {
            bytes: SecretBox::new(Box::new(*self.expose())),
        }
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(…)")
    }
}

pub(crate) fn read_sessions(section: &mut Section<'_, '_>) -> Sessions {
    let idle_timeout = section.duration_or_zero("idle_timeout", Duration::from_secs(30 * 60));
    Sessions {
        idle_timeout: Some(idle_timeout).filter(|timeout| !timeout.is_zero()),
        max_age: section.duration("max_age", Duration::from_secs(7 * 24 * 60 * 60)),
        max: section.count("max", 1..=10_000_000, 10_000).value,
        key: section.secret("key", |text| SessionKey::parse(&text)),
    }
}

pub(crate) fn read_limits(section: &mut Section<'_, '_>) -> Limits {
    Limits {
        request_body: section.size("request_body", 16 << 20),
        message: section.size("message", 64 << 20),
        concurrent_requests: section
            .count("concurrent_requests", 1..=1_000_000, 64)
            .value,
        children_starting: section.count("children_starting", 1..=10_000, 4).value,
        page_size: section.count("page_size", 0..=10_000, 0).value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        let plain = "////////////////////////////////////////////";
        for text in [
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
        ] {
            let key = SessionKey::parse(text).unwrap();
            assert_eq!(
                key.expose(),
                &std::array::from_fn::<u8, 32, _>(|at| u8::try_from(at).unwrap())
            );
            assert_eq!(format!("{:?}", key.clone()), "SessionKey(…)");
        }
        let url_safe = "__________________________________________8";
        assert_eq!(SessionKey::parse(url_safe).unwrap().expose(), &[255; 32]);
        for text in ["", "AAEC", "not base64!", plain] {
            assert!(SessionKey::parse(text).is_err(), "{text}");
        }
    }
}
