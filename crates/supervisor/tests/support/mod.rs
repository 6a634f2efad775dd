//! What the tests with real processes share.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use manifold_supervisor::{ChildSpec, StopPolicy};

/// No wait of a test is longer.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A child that runs `script` in `sh`.
pub(crate) fn sh(script: &str) -> ChildSpec {
    program("sh", ["-c", script])
}

/// A child that runs a program.
pub(crate) fn program<const N: usize>(program: &str, args: [&str; N]) -> ChildSpec {
    ChildSpec {
        label: "test".to_owned(),
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        env: manifold_supervisor::environment::allowed(std::env::vars_os(), &[]),
        cwd: None,
        stop: StopPolicy {
            close: Duration::from_millis(200),
            term: Duration::from_millis(300),
        },
        line_limit: 16 << 20,
    }
}

/// The same child with one variable more.
pub(crate) fn with_env(mut spec: ChildSpec, name: &str, value: &OsStr) -> ChildSpec {
    spec.env.push((name.into(), value.to_owned()));
    spec
}

/// A value that no other process has in its environment.
pub(crate) fn unique(name: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!(
        "{name}-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

/// The processes whose environment has `variable` (`NAME=value`) in it.
pub(crate) fn tagged(variable: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environ
            .split(|byte| *byte == 0)
            .any(|entry| entry == variable.as_bytes())
        {
            found.push(pid);
        }
    }
    found
}

/// Waits until `condition` holds.
pub(crate) async fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(
        tokio::time::timeout(limit, waiting).await.is_ok(),
        "never happened: {what}"
    );
}
