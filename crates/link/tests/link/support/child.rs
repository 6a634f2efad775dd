//! Children that a shell script plays.

use std::{fs, path::Path, time::Duration};

use manifold_link::{Connector, Limits, Target};
use manifold_supervisor::{ChildSpec, StopPolicy, Supervisor, SupervisorOptions};
use tempfile::TempDir;
use tokio_util::task::TaskTracker;

use super::{LIMIT, finished, in_time};

/// Functions for scripts: `id` is the id of a line, `say` prints one.
const PRELUDE: &str = r#"
say() { printf '%s\n' "$1"; }
id() { printf '%s' "$1" | sed 's/.*"id":\([0-9]*\).*/\1/'; }
"#;

/// A script, the folder it runs in, and where it leaves every line that it was sent.
pub(crate) struct Shell {
    folder: TempDir,
    supervisor: Supervisor,
    pub(crate) connector: Connector,
    pub(crate) tasks: TaskTracker,
}

impl Shell {
    /// Runs `script`, which begins in a folder of its own. One child may be starting at a time.
    pub(crate) fn new(script: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let supervisor = Supervisor::new(SupervisorOptions {
            starts_at_a_time: 1,
            warden: None,
        });
        let spec = ChildSpec {
            label: "scripted".to_owned(),
            program: "/bin/sh".into(),
            args: vec!["-c".into(), format!("{PRELUDE}\n{script}").into()],
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            cwd: Some(folder.path().to_owned()),
            stop: StopPolicy::default(),
            line_limit: LIMIT,
        };
        let target = Target::Child {
            supervisor: supervisor.clone(),
            spec: Box::new(spec),
        };
        let limits = Limits {
            start: Duration::from_secs(60),
            message: LIMIT,
        };
        let tasks = TaskTracker::new();
        Self {
            folder,
            supervisor,
            connector: Connector::new(target, limits, tasks.clone()),
            tasks,
        }
    }

    /// A legacy server with tools. `script` is run first, and once for each line after that, with it in `$line`, by
    /// the function `other`.
    pub(crate) fn legacy(script: &str) -> Self {
        let serve = r#"
while read -r line; do
    say "$line" >> lines
    case "$line" in
        *'"method":"server/discover"'*)
            say '{"jsonrpc":"2.0","id":'"$(id "$line")"',"error":{"code":-32601,"message":"no"}}' ;;
        *'"method":"initialize"'*)
            say '{"jsonrpc":"2.0","id":'"$(id "$line")"',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}' ;;
    esac
done"#;
        Self::new(&format!("{script}\n{serve}"))
    }

    /// Its folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The lines that its children were sent so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder().join("lines")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Ends all children.
    pub(crate) async fn end(self) {
        in_time(self.supervisor.shutdown()).await;
        finished(&self.tasks).await;
    }
}
