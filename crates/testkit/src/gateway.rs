//! The gateway as users run it: the binary, a configuration file, a port of its own.

use std::{
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, bail};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    task::JoinHandle,
};

use crate::{
    client::{Client, Reply},
    wait::eventually,
};

/// A running gateway. Dropping it kills it.
#[derive(Debug)]
pub struct Gateway {
    child: Child,
    listen: String,
    admin: String,
    log: Arc<Mutex<Vec<serde_json::Value>>>,
    reader: JoinHandle<()>,
    _folder: TempDir,
}

impl Gateway {
    /// Starts `binary` on `config` and waits until it listens. `[listen]` and `[admin]` addresses are chosen
    /// by the system; the configuration must not set them.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn start(binary: &str, config: &str) -> anyhow::Result<Self> {
        Self::start_with(binary, config, &[]).await
    }

    /// The same with variables in its environment.
    ///
    /// # Errors
    /// When it does not come up.
    #[expect(
        clippy::disallowed_methods,
        reason = "the handle owns the task: it is aborted on drop"
    )]
    pub async fn start_with(
        binary: &str,
        config: &str,
        variables: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("manifold.toml");
        tokio::fs::write(&file, config).await?;
        let mut child = command(binary, &file)
            .envs(variables.iter().copied())
            .spawn()
            .with_context(|| format!("can't start {binary}"))?;
        let stderr = child.stderr.take().context("no stderr")?;
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = log.clone();
        let reader = tokio::task::spawn(async move {
            let mut stderr = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = stderr.next_line().await {
                let entry = serde_json::from_str(&line).unwrap_or(serde_json::Value::String(line));
                lines
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(entry);
            }
        });
        let mut gateway = Self {
            child,
            listen: String::new(),
            admin: String::new(),
            log,
            reader,
            _folder: folder,
        };
        let (listen, admin) = gateway.addresses().await?;
        gateway.listen = listen;
        gateway.admin = admin;
        Ok(gateway)
    }

    async fn addresses(&mut self) -> anyhow::Result<(String, String)> {
        let log = self.log.clone();
        let find = move || {
            let log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.iter().find_map(|entry| {
                let text = |key: &str| entry.get(key)?.as_str().map(str::to_owned);
                Some((text("listen")?, text("admin")?))
            })
        };
        let child = &mut self.child;
        let outcome = tokio::select! {
            found = eventually("the gateway's addresses", || std::future::ready(find())) => found,
            status = child.wait() => bail!("the gateway ended: {status:?}\n{}", self.log_text()),
        };
        outcome.with_context(|| self.log_text())
    }

    /// Waits until `/readyz` says so.
    ///
    /// # Errors
    /// When it never does.
    pub async fn ready(&self) -> anyhow::Result<()> {
        eventually("readiness", || async {
            let reply = self.admin("GET", "/readyz").await.ok()?;
            (reply.status == 200).then_some(())
        })
        .await
        .with_context(|| self.log_text())
    }

    /// Waits until a server is in `state`.
    ///
    /// # Errors
    /// When it never is.
    pub async fn server_is(&self, server: &str, state: &str) -> anyhow::Result<serde_json::Value> {
        eventually(&format!("server {server} to be {state}"), || async {
            let status = self.status().await.ok()?;
            let servers = status.get("servers")?.as_array()?.clone();
            servers
                .into_iter()
                .find(|entry| entry["name"] == server && entry["state"] == state)
        })
        .await
        .with_context(|| self.log_text())
    }

    /// `/status`.
    ///
    /// # Errors
    /// When it can't be read.
    pub async fn status(&self) -> anyhow::Result<serde_json::Value> {
        self.admin("GET", "/status").await?.json()
    }

    /// A request to the admin listener.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn admin(&self, verb: &str, path: &str) -> anyhow::Result<Reply> {
        Client::new(&format!("http://{}{path}", self.admin))?
            .send(verb, &[], "")
            .await
    }

    /// A client of `/mcp`.
    ///
    /// # Errors
    /// When the address is unusable.
    pub fn client(&self) -> anyhow::Result<Client> {
        self.client_of("/mcp")
    }

    /// A client of a path.
    ///
    /// # Errors
    /// When the address is unusable.
    pub fn client_of(&self, path: &str) -> anyhow::Result<Client> {
        Client::new(&self.url(path))
    }

    /// The URL of a path on the client listener.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listen)
    }

    /// Host and port of the client listener.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.listen
    }

    /// The process.
    ///
    /// # Errors
    /// When it has ended.
    pub fn pid(&self) -> anyhow::Result<u32> {
        self.child.id().context("the gateway has ended")
    }

    /// Sends a signal by name, such as `TERM`.
    ///
    /// # Errors
    /// When `kill` fails.
    pub async fn signal(&self, name: &str) -> anyhow::Result<()> {
        let status = Command::new("kill")
            .args([&format!("-{name}"), &self.pid()?.to_string()])
            .status()
            .await?;
        if !status.success() {
            bail!("kill -{name} failed");
        }
        Ok(())
    }

    /// Waits for its end and returns the exit code; none when a signal ended it.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn exit_code(&mut self) -> anyhow::Result<Option<i32>> {
        let status = tokio::time::timeout(crate::DEADLINE, self.child.wait())
            .await
            .with_context(|| format!("the gateway does not end\n{}", self.log_text()))??;
        Ok(status.code())
    }

    /// The log lines so far, as JSON.
    #[must_use]
    pub fn log(&self) -> Vec<serde_json::Value> {
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The same as text, for error messages.
    #[must_use]
    pub fn log_text(&self) -> String {
        let lines: Vec<_> = self.log().iter().map(ToString::to_string).collect();
        lines.join("\n")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

fn command(binary: &str, config: &Path) -> Command {
    let mut command = Command::new(binary);
    command
        .arg("serve")
        .arg("--config")
        .arg(config)
        .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}
