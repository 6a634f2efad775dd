//! Which variables of our own environment a child may see.
//!
//! Too much hands every secret of the gateway to every server; too little and launchers such as
//! `npx` and `uvx` neither find their caches nor get through the proxy. The line is drawn at
//! what a launcher needs to find programs, directories, the network and its caches.

use std::ffi::{OsStr, OsString};

/// The names every child inherits, with the reason why. A name that ends in `*` is a prefix.
pub const INHERITED: &[(&str, &str)] = &[
    ("PATH", "finding programs"),
    ("HOME", "configuration and caches"),
    ("USER", "who we are"),
    ("LOGNAME", "who we are"),
    ("SHELL", "launchers that go through a shell"),
    ("LANG", "language"),
    ("LANGUAGE", "language"),
    ("LC_*", "language"),
    ("TZ", "time zone"),
    ("TERM", "kind of terminal"),
    ("TMPDIR", "temporary files"),
    ("TEMP", "temporary files"),
    ("TMP", "temporary files"),
    (
        "XDG_*",
        "configuration, data, cache and runtime directories",
    ),
    ("HTTP_PROXY", "proxy"),
    ("HTTPS_PROXY", "proxy"),
    ("ALL_PROXY", "proxy"),
    ("NO_PROXY", "proxy"),
    ("http_proxy", "proxy"),
    ("https_proxy", "proxy"),
    ("all_proxy", "proxy"),
    ("no_proxy", "proxy"),
    ("SSL_CERT_FILE", "certificate authorities"),
    ("SSL_CERT_DIR", "certificate authorities"),
    ("NODE_EXTRA_CA_CERTS", "certificate authorities"),
    ("REQUESTS_CA_BUNDLE", "certificate authorities"),
    ("CURL_CA_BUNDLE", "certificate authorities"),
    ("NVM_DIR", "where node's version manager keeps node"),
    ("VOLTA_HOME", "where node's version manager keeps node"),
    ("FNM_DIR", "where node's version manager keeps node"),
    ("ASDF_DIR", "where the version manager's shims look"),
    ("ASDF_DATA_DIR", "where the version manager's shims look"),
    ("PYENV_ROOT", "where python's version manager keeps python"),
    (
        "NPM_CONFIG_CACHE",
        "download cache: without it a first start installs again",
    ),
    (
        "npm_config_cache",
        "download cache: without it a first start installs again",
    ),
    (
        "UV_CACHE_DIR",
        "download cache: without it a first start installs again",
    ),
    ("UV_TOOL_DIR", "where uv keeps installed tools"),
    ("UV_PYTHON_INSTALL_DIR", "where uv keeps python"),
    (
        "PIP_CACHE_DIR",
        "download cache: without it a first start installs again",
    ),
    ("NIX_SSL_CERT_FILE", "certificate authorities"),
];

/// Entry of a configured list that stands for the whole environment.
const EVERYTHING: &str = "*";

/// Picks from `vars` what a child may see: the names in [`INHERITED`], and those in `inherit`.
///
/// `inherit` takes exact names and prefixes that end in `*`, so `["*"]` means all of them. The
/// supervisor's own tag is never passed on.
pub fn allowed(
    vars: impl Iterator<Item = (OsString, OsString)>,
    inherit: &[String],
) -> Vec<(OsString, OsString)> {
    vars.filter(|(name, _)| {
        name != crate::TAG_VARIABLE
            && (INHERITED.iter().any(|(pattern, _)| matches(pattern, name))
                || inherit.iter().any(|pattern| matches(pattern, name)))
    })
    .collect()
}

fn matches(pattern: &str, name: &OsStr) -> bool {
    match pattern.strip_suffix(EVERYTHING) {
        Some(prefix) => name.as_encoded_bytes().starts_with(prefix.as_bytes()),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(vars: &[&str], inherit: &[&str]) -> Vec<String> {
        let vars = vars
            .iter()
            .map(|name| (OsString::from(name), OsString::from("v")));
        let inherit: Vec<String> = inherit.iter().map(|name| (*name).to_owned()).collect();
        allowed(vars, &inherit)
            .into_iter()
            .map(|(n, _)| n.into_string().unwrap())
            .collect()
    }

    #[test]
    fn secrets_stay_and_launcher_needs_pass() {
        let ours = [
            "PATH",
            "HOME",
            "LC_ALL",
            "XDG_CACHE_HOME",
            "https_proxy",
            "HTTPS_PROXY",
            "AWS_SECRET_ACCESS_KEY",
            "GATEWAY_TOKEN",
            "PATHS",
            "LC",
            "NODE_OPTIONS",
            "LD_PRELOAD",
        ];
        assert_eq!(
            names(&ours, &[]),
            [
                "PATH",
                "HOME",
                "LC_ALL",
                "XDG_CACHE_HOME",
                "https_proxy",
                "HTTPS_PROXY"
            ]
        );
    }

    #[test]
    fn configured_names_are_added() {
        assert_eq!(
            names(&["A", "B", "APP_X", "APP_Y"], &["A", "APP_*"]),
            ["A", "APP_X", "APP_Y"]
        );
    }

    #[test]
    fn a_star_passes_everything_but_the_tag() {
        assert_eq!(
            names(&["A", "SECRET", "MANIFOLD_CHILD"], &["*"]),
            ["A", "SECRET"]
        );
    }

    #[test]
    fn names_that_are_not_utf8_match_as_bytes() {
        use std::os::unix::ffi::OsStringExt;
        let odd = OsString::from_vec(b"LC_\xff".to_vec());
        let kept = allowed([(odd.clone(), OsString::new())].into_iter(), &[]);
        assert_eq!(kept, [(odd, OsString::new())]);
    }

    #[test]
    fn no_name_is_listed_twice() {
        let mut seen = std::collections::BTreeSet::new();
        for (name, _) in INHERITED {
            assert!(seen.insert(name), "{name}");
        }
    }
}
