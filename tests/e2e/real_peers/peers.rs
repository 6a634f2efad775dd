//! The pinned servers and clients of `tests/peers`, as processes.

use std::{net::TcpListener, path::Path, process::Stdio, time::Duration};

use anyhow::{Context, bail};
use manifold_testkit::DEADLINE;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader},
    process::{Child, Command},
    sync::OnceCell,
    task::JoinSet,
    time::timeout,
};

/// The folder that everything is installed in.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peers");
/// A first installation downloads what is pinned.
const INSTALL: Duration = Duration::from_secs(900);
/// Drivers give up after 60 s themselves; this is for one that does not.
const DRIVER: Duration = Duration::from_secs(90);
/// How often a server may find its port taken.
const PORTS: usize = 10;

/// A server, as the gateway's configuration and the drivers' command lines name it.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) era: &'static str,
    pub(crate) reach: Reach,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub(crate) enum Reach {
    /// Over the pipes of a program.
    Stdio(Vec<String>),
    /// At a URL.
    Http(String),
}

/// A client program (see `tests/peers/README.md`).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Driver {
    TypeScript1,
    TypeScript2,
    Python2,
}

/// A call, as the drivers read it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Value,
    pub(crate) progress: bool,
}

/// What a client reports of one session.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) protocol_version: String,
    pub(crate) tools: Vec<Value>,
    pub(crate) dropped_tools: Vec<Value>,
    pub(crate) tools_error: Option<Value>,
    pub(crate) results: Vec<Value>,
}

/// A server that listens. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) url: String,
    _child: Child,
    /// Reads its output, which it would block on otherwise.
    _drains: JoinSet<()>,
}

/// Installs what is pinned, once in this process.
///
/// # Errors
/// When a tool is missing or the installation fails: tests that need it must fail then.
pub(crate) async fn install() -> anyhow::Result<()> {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let run = || async {
        let command = Command::new(inside("install"))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(INSTALL, command).await.context("install")??;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    };
    INSTALLED.get_or_try_init(run).await.copied()
}

/// The reference server, over stdio.
pub(crate) fn everything() -> Vec<String> {
    vec!["node".into(), package("server-everything")]
}

/// The filesystem server on a folder.
pub(crate) fn filesystem(folder: &Path) -> Vec<String> {
    let folder = folder.to_string_lossy().into_owned();
    vec!["node".into(), package("server-filesystem"), folder]
}

/// The time server.
pub(crate) fn time() -> Vec<String> {
    let words = ["-m", "mcp_server_time", "--local-timezone", "UTC"];
    let mut command = vec![inside("venv/bin/python")];
    command.extend(words.map(str::to_owned));
    command
}

/// Starts the reference server over HTTP on a free port.
///
/// # Errors
/// When it does not come up.
pub(crate) async fn everything_http() -> anyhow::Result<Listening> {
    // It does not say which port it got when asked for any, and ends when its port is taken.
    for _ in 0..PORTS {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        if let Some(listening) = timeout(DEADLINE, everything_on(port)).await?? {
            return Ok(listening);
        }
    }
    bail!("the reference server found {PORTS} ports taken")
}

async fn everything_on(port: u16) -> anyhow::Result<Option<Listening>> {
    let mut child = Command::new("node")
        .args([&package("server-everything"), "streamableHttp"])
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut drains = JoinSet::new();
    drains.spawn(drain(child.stdout.take().context("no stdout")?));
    let mut stderr = BufReader::new(child.stderr.take().context("no stderr")?);
    let ready = format!("listening on port {port}");
    loop {
        let mut line = String::new();
        if stderr.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        if line.contains(&ready) {
            drains.spawn(drain(stderr));
            return Ok(Some(Listening {
                url: format!("http://127.0.0.1:{port}/mcp"),
                _child: child,
                _drains: drains,
            }));
        }
    }
}

async fn drain(mut from: impl AsyncRead + Unpin) {
    // A server whose output ends is noticed by whoever talks to it.
    tokio::io::copy(&mut from, &mut tokio::io::sink())
        .await
        .unwrap_or_default();
}

fn package(name: &str) -> String {
    inside(&format!(
        "node_modules/@modelcontextprotocol/{name}/dist/index.js"
    ))
}

fn inside(path: &str) -> String {
    format!("{FOLDER}/{path}")
}

// === impl Server ===

impl Server {
    /// Its table in the gateway's configuration; children get `variable` into their environment.
    pub(crate) fn config(&self, (variable, value): (&str, &str)) -> String {
        let name = self.name;
        match &self.reach {
            Reach::Http(url) => format!("[servers.{name}]\nurl = {url:?}\n"),
            Reach::Stdio(command) => {
                let (program, args) = command.split_first().unwrap();
                format!(
                    "[servers.{name}]\ncommand = {program:?}\nargs = {args:?}\nenv = {{ {variable} = {value:?} }}\n"
                )
            }
        }
    }
}

// === impl Reach ===

impl Reach {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Http(url) => vec!["http".into(), url.clone()],
            Self::Stdio(command) => {
                let mut words = vec!["stdio".into()];
                words.extend_from_slice(command);
                words
            }
        }
    }
}

// === impl Driver ===

impl Driver {
    fn command(self) -> [String; 2] {
        match self {
            Self::TypeScript1 => ["node".into(), inside("clients/ts1.mjs")],
            Self::TypeScript2 => ["node".into(), inside("clients/ts2.mjs")],
            Self::Python2 => [inside("venv/bin/python"), inside("clients/py2.py")],
        }
    }

    /// One session: the tools, then the calls.
    ///
    /// # Errors
    /// When the session can't be had, kept or closed.
    pub(crate) async fn report(self, target: &Reach, calls: &[Call]) -> anyhow::Result<Report> {
        let [program, script] = self.command();
        let mut child = Command::new(program)
            .arg(script)
            .args(target.words())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let request = json!({ "calls": calls, "mode": "auto" }).to_string();
        let mut stdin = child.stdin.take().context("no stdin")?;
        stdin.write_all(request.as_bytes()).await?;
        drop(stdin);
        let output = timeout(DRIVER, child.wait_with_output())
            .await
            .with_context(|| format!("{self:?} does not end"))??;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{self:?} on {target:?}: {} {said}", output.status);
        }
        serde_json::from_slice(&output.stdout).with_context(|| format!("{self:?}'s report"))
    }
}
