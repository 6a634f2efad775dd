//! The scripted stdio server and the folder that it shares with its test.

use std::{path::PathBuf, process::Command, sync::OnceLock};

use manifold_testkit::eventually;
use serde_json::Value;
use tempfile::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/stubs/stub.py");

/// A scripted server: see `tests/stubs/stub.py`.
#[derive(Debug)]
pub(crate) struct Stub {
    folder: TempDir,
}

impl Stub {
    pub(crate) fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    /// Its section of a configuration; more keys may follow.
    pub(crate) fn server(&self, name: &str, flags: &[&str]) -> String {
        let words = self.words(flags);
        let (program, args) = words.split_first().unwrap();
        format!("[servers.{name}]\ncommand = {program:?}\nargs = {args:?}\n")
    }

    /// The same behind a shell that stays: the server is a grandchild of the gateway.
    pub(crate) fn server_behind_shell(&self, name: &str, flags: &[&str]) -> String {
        let words: Vec<_> = self
            .words(flags)
            .iter()
            .map(|word| format!("'{word}'"))
            .collect();
        let line = format!("{}; true", words.join(" "));
        format!("[servers.{name}]\ncommand = \"sh\"\nargs = [\"-c\", {line:?}]\n")
    }

    fn words(&self, flags: &[&str]) -> Vec<String> {
        let folder = self.folder.path().to_str().unwrap().to_owned();
        // No site packages: a start takes half the time.
        let mut words = vec![python().to_owned(), "-S".into(), SCRIPT.into(), folder];
        words.extend(flags.iter().map(|flag| (*flag).to_owned()));
        words
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        // At once: the server must not see half a file.
        let draft = self.path(&format!(".{name}"));
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(draft, self.path(name)).unwrap();
    }

    /// How often it was started.
    pub(crate) fn starts(&self) -> usize {
        let starts = std::fs::read_to_string(self.path("starts")).unwrap_or_default();
        starts.lines().count()
    }

    /// Everything its processes were sent, one after the other.
    pub(crate) fn stdin(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|kind| kind == "stdin") {
                all.extend(std::fs::read(path).unwrap());
            }
        }
        all
    }

    /// The whole lines that it was sent.
    pub(crate) fn lines(&self) -> Vec<String> {
        let stdin = String::from_utf8(self.stdin()).unwrap();
        let whole = stdin.split_inclusive('\n').filter(|l| l.ends_with('\n'));
        whole
            .map(|line| line.trim_end_matches('\n').to_owned())
            .collect()
    }

    /// The messages of that method which it was sent.
    pub(crate) fn messages(&self, method: &str) -> Vec<Value> {
        let lines = self.lines().into_iter();
        let messages = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
        messages
            .filter(|message| message["method"] == method)
            .collect()
    }

    /// Waits until it was sent `count` messages of that method.
    pub(crate) async fn was_sent(&self, method: &str, count: usize) -> Vec<Value> {
        let what = format!("{count} times {method}");
        let look = || async {
            let messages = self.messages(method);
            (messages.len() >= count).then_some(messages)
        };
        eventually(&what, look).await.unwrap()
    }
}

/// The interpreter itself, not a launcher that finds it anew every time.
pub(crate) fn python() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let print = ["-c", "import sys; print(sys.executable)"];
        let output = Command::new("python3").args(print).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    })
}

/// The text of a tool's answer.
pub(crate) fn text(reply: &manifold_testkit::Reply) -> String {
    let message = reply.message().unwrap();
    let text = message["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{message}")).to_owned()
}

/// The error of an answer.
pub(crate) fn error(reply: &manifold_testkit::Reply) -> Value {
    let message = reply.message().unwrap();
    assert!(message["error"].is_object(), "{message}");
    message["error"].clone()
}

/// The names in a list of tools.
pub(crate) fn names(reply: &manifold_testkit::Reply) -> Vec<String> {
    let message = reply.message().unwrap();
    let tools = message["result"]["tools"].as_array();
    let tools = tools.unwrap_or_else(|| panic!("{message}")).iter();
    tools
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Runs a client's request beside the test, which holds the handle.
#[expect(
    clippy::disallowed_methods,
    reason = "the test that holds the handle owns the task"
)]
pub(crate) fn in_background<F>(request: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(request)
}
