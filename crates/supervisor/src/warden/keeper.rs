//! Our side of the warden: starts it, tells it what lives, and starts it again when it dies.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::WardenCommand;
use crate::driver::Leader;
use crate::registry::Registry;
use crate::tag::Family;
use crate::{Pid, RestartPolicy, Restarts, exit};

/// The pipe is empty as a rule: a warden that does not read for so long is as good as dead.
const PATIENCE: Duration = Duration::from_secs(2);
const RESTART: RestartPolicy = RestartPolicy {
    initial: Duration::from_millis(250),
    max: Duration::from_secs(60),
    stable_after: Duration::from_secs(60),
};

/// Keeps a warden until `end`.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) command: WardenCommand,
    pub(crate) family: Family,
    pub(crate) registry: Arc<Registry>,
    /// All children are gone: dismiss it.
    pub(crate) end: CancellationToken,
    /// Set when the first start has been tried, with success or not.
    pub(crate) tried: watch::Sender<bool>,
}

/// A warden that runs.
struct Warden {
    leader: Leader,
    orders: pipe::Sender,
    /// The groups it knows of.
    told: BTreeMap<Pid, u64>,
}

// === impl Keeper ===

impl Keeper {
    pub(crate) async fn run(self) {
        let mut restarts = Restarts::new(RESTART);
        loop {
            let started = Instant::now();
            let lost = match self.start().await {
                Ok(warden) => self.keep(warden).await,
                Err(error) => Err(error),
            };
            self.registry.set_warden(None);
            self.tried.send_replace(true);
            let Err(error) = lost else { return };
            let retry = restarts.failed(started.elapsed(), 1.0);
            tracing::warn!(
                %error, attempt = retry.attempt, again_in = ?retry.after,
                "no warden: should this process be killed, its children may live on"
            );
            tokio::select! {
                () = sleep(retry.after) => {}
                () = self.end.cancelled() => return,
            }
        }
    }

    async fn start(&self) -> io::Result<Warden> {
        let (command, registry) = (self.command.clone(), Arc::clone(&self.registry));
        let started = spawn_blocking(move || start(&command, &registry)).await;
        let (leader, orders) = started.map_err(io::Error::other)??;
        let orders = pipe::Sender::from_owned_fd(orders)?;
        Ok(Warden {
            leader,
            orders,
            told: BTreeMap::new(),
        })
    }

    /// Has the warden watch until it is dismissed (`Ok`) or lost, and sees it off.
    async fn keep(&self, mut warden: Warden) -> io::Result<()> {
        let outcome = self.inform(&mut warden).await;
        let Warden {
            mut leader, orders, ..
        } = warden;
        drop(orders);
        if outcome.is_err() {
            leader.signal_group(Signal::SIGKILL);
        }
        // One that does not leave is killed when `leader` is dropped.
        if timeout(PATIENCE, exit::exited(leader.pid())).await.is_ok() {
            leader.reap();
        }
        outcome
    }

    /// Tells the warden what lives, and at the end that all is well.
    async fn inform(&self, warden: &mut Warden) -> io::Result<()> {
        let lost = exit::exited(warden.leader.pid());
        tokio::pin!(lost);
        let mut text = format!("tag {}\n", self.family);
        loop {
            text.push_str(&warden.news(self.registry.groups()));
            let dismissed = self.end.is_cancelled();
            if dismissed {
                text.push_str("bye\n");
            }
            timeout(PATIENCE, warden.orders.write_all(text.as_bytes())).await??;
            self.tried.send_replace(true);
            if dismissed {
                return Ok(());
            }
            text.clear();
            tokio::select! {
                exit = &mut lost => {
                    let how = exit.signal_name().unwrap_or("an exit of its own");
                    return Err(io::Error::other(format!("the warden ended by {how}")));
                }
                () = self.registry.changed.notified() => {}
                () = self.end.cancelled() => {}
            }
        }
    }
}

fn start(command: &WardenCommand, registry: &Registry) -> io::Result<(Leader, OwnedFd)> {
    let mut program = Command::new(&command.program);
    program
        .args(&command.args)
        // No tag of a supervisor above us: its sweep must spare our warden.
        .env_clear()
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let listed = registry
        .starting
        .read()
        .unwrap_or_else(PoisonError::into_inner);
    let mut process = program.spawn()?;
    let orders = process.stdin.take().map(OwnedFd::from);
    let leader = Leader::new(process);
    registry.set_warden(Some(leader.pid()));
    drop(listed);
    Ok((leader, orders.ok_or(io::ErrorKind::BrokenPipe)?))
}

// === impl Warden ===

impl Warden {
    /// The lines that bring it up to date.
    fn news(&mut self, live: BTreeMap<Pid, u64>) -> String {
        let mut text = String::new();
        // Removals first: a number may have gone from one child to the next.
        for (pid, number) in &self.told {
            if live.get(pid) != Some(number) {
                line(&mut text, "remove", *pid);
            }
        }
        for (pid, number) in &live {
            if self.told.get(pid) != Some(number) {
                line(&mut text, "add", *pid);
            }
        }
        self.told = live;
        text
    }
}

fn line(text: &mut String, verb: &str, pid: Pid) {
    // Writing to a String cannot fail.
    writeln!(text, "{verb} {pid}").ok();
}
