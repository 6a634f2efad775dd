//! What to start, and how patiently to end it.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How long a child is given on each rung of the way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopPolicy {
    /// From the closing of stdin to SIGTERM.
    pub close: Duration,
    /// From SIGTERM to SIGKILL.
    pub term: Duration,
}

/// A program, all that it is given, and the bounds it is held to.
///
/// `Debug` shows neither arguments nor values of variables: both carry secrets.
#[derive(Clone)]
pub struct ChildSpec {
    /// The name that log events carry, such as the server's name in the configuration.
    pub label: String,
    /// A path, or a name that is looked up on the `PATH` of [`ChildSpec::env`].
    pub program: OsString,
    /// The arguments, without the program.
    pub args: Vec<OsString>,
    /// The whole environment: nothing is inherited beside it. See [`crate::environment::allowed`].
    pub env: Vec<(OsString, OsString)>,
    /// The working directory; this process's own when `None`.
    pub cwd: Option<PathBuf>,
    /// How the child is ended.
    pub stop: StopPolicy,
    /// The longest line that is read from stdout, in bytes without its end.
    pub line_limit: usize,
}

// === impl StopPolicy ===

impl Default for StopPolicy {
    fn default() -> Self {
        Self {
            close: Duration::from_secs(2),
            term: Duration::from_secs(3),
        }
    }
}

// === impl ChildSpec ===

impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("ChildSpec")
            .field("label", &self.label)
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("env", &names)
            .field("cwd", &self.cwd)
            .field("stop", &self.stop)
            .field("line_limit", &self.line_limit)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let spec = ChildSpec {
            label: "s".to_owned(),
            program: "prog".into(),
            args: vec!["--token=hunter2".into()],
            env: vec![("TOKEN".into(), "hunter3".into())],
            cwd: None,
            stop: StopPolicy::default(),
            line_limit: 1,
        };
        let shown = format!("{spec:?}");
        assert!(shown.contains("TOKEN") && shown.contains("prog"), "{shown}");
        assert!(!shown.contains("hunter"), "{shown}");
    }
}
