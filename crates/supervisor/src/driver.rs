//! The task that owns a child: it watches, climbs the [`Ladder`], sweeps and reaps.

use std::process;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::child::Life;
use crate::ladder::{Event, Ladder, Order};
use crate::registry::Registry;
use crate::tag::Mark;
use crate::{Exit, LineWriter, Pid, StopPolicy, exit, proc};

/// A process that got SIGKILL and does not die in this time hangs in the kernel.
const KILL_WAIT: Duration = Duration::from_secs(5);
/// How long strays are hunted.
const SWEEP: Duration = Duration::from_secs(3);
/// How long the rest of stderr is awaited when nobody is left who could write to it.
const STDERR_WAIT: Duration = Duration::from_secs(1);
/// How often a group without its leader is looked at: at first, and at last.
const LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// All that a child's end needs.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) leader: Leader,
    pub(crate) label: String,
    pub(crate) mark: Mark,
    pub(crate) policy: StopPolicy,
    pub(crate) stdin: LineWriter,
    pub(crate) stderr: JoinHandle<()>,
    pub(crate) life: watch::Sender<Life>,
    pub(crate) stop: CancellationToken,
    pub(crate) registry: Arc<Registry>,
    /// Counts against the children with enlarged pipes.
    pub(crate) enlarged: Option<OwnedSemaphorePermit>,
}

/// The process that was started. Until it is reaped its number, and its group's, are ours alone.
#[derive(Debug)]
pub(crate) struct Leader {
    process: process::Child,
    reaped: bool,
}

// === impl Driver ===

impl Driver {
    /// Runs until nothing of the child is left.
    pub(crate) async fn run(mut self) {
        let exit = self.climb().await;
        self.sweep().await;
        self.registry.remove(self.leader.pid());
        self.leader.reap();
        if timeout(STDERR_WAIT, &mut self.stderr).await.is_err() {
            self.stderr.abort();
        }
        drop(self.enlarged);
        tracing::debug!(
            server = %self.label, pid = %self.leader.pid(), code = exit.code,
            signal = exit.signal_name(), "the child is gone"
        );
        self.life.send_replace(Life::Gone(exit));
    }

    /// From the start to SIGKILL, and on until the leader is dead.
    async fn climb(&self) -> Exit {
        let leader_exit = exit::exited(self.leader.pid());
        tokio::pin!(leader_exit);
        let mut ladder = Ladder::Running;
        let mut left = None;
        while ladder != Ladder::Killed {
            let event = tokio::select! {
                exit = &mut leader_exit, if left.is_none() => {
                    left = Some(exit);
                    self.life.send_replace(Life::Exited(exit));
                    Event::LeaderGone
                }
                () = self.stop.cancelled(), if ladder == Ladder::Running => Event::Stop,
                () = self.group_gone(), if left.is_some() => Event::GroupGone,
                () = reached(ladder.deadline()) => Event::Deadline,
            };
            if let Some(order) = ladder.on(event, Instant::now(), self.policy) {
                self.obey(order);
            }
        }
        match left {
            Some(exit) => exit,
            None => self.killed(leader_exit).await,
        }
    }

    fn obey(&self, order: Order) {
        tracing::trace!(server = %self.label, pid = %self.leader.pid(), ?order);
        self.stdin.close();
        match order {
            Order::CloseStdin => {}
            Order::Terminate => self.leader.signal_group(Signal::SIGTERM),
            Order::Kill => self.leader.signal_group(Signal::SIGKILL),
        }
    }

    /// The leader's exit after SIGKILL.
    async fn killed(&self, leader_exit: impl Future<Output = Exit>) -> Exit {
        let exit = timeout(KILL_WAIT, leader_exit)
            .await
            .unwrap_or_else(|_elapsed| {
                tracing::error!(
                    server = %self.label, pid = %self.leader.pid(),
                    "the child does not die of SIGKILL: it hangs in the kernel, look at its disks"
                );
                Exit::now(None, None)
            });
        self.life.send_replace(Life::Exited(exit));
        exit
    }

    /// Completes when none of the group but the leader's zombie is left.
    async fn group_gone(&self) {
        let (mut pause, longest) = LOOK;
        let group = self.leader.pid();
        while !matches!(
            spawn_blocking(move || proc::members(group).next()).await,
            Ok(None)
        ) {
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Kills what left the group, and waits until the group and the strays are really gone.
    async fn sweep(&self) {
        let started = Instant::now();
        let group = self.leader.pid();
        let (mut pause, longest) = LOOK;
        loop {
            let mark = self.mark.clone();
            let look = move || proc::kill_marked(&mark) + proc::members(group).count();
            match spawn_blocking(look).await {
                // Refused: the runtime shuts down.
                Ok(0) | Err(_) => return,
                Ok(left) if started.elapsed() >= SWEEP => {
                    tracing::error!(
                        server = %self.label, pid = %group, left,
                        "processes that the child started do not die of SIGKILL"
                    );
                    return;
                }
                Ok(_) => {}
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }
}

async fn reached(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

// === impl Leader ===

impl Leader {
    pub(crate) fn new(process: process::Child) -> Self {
        Self {
            process,
            reaped: false,
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::of(&self.process)
    }

    /// Signals the group, as long as it is known to be ours.
    pub(crate) fn signal_group(&self, signal: Signal) {
        if !self.reaped {
            proc::signal_group(self.pid(), signal);
        }
    }

    /// Removes the zombie, if it is one. No signal is sent after that.
    pub(crate) fn reap(&mut self) {
        // An error means that it is no longer our child: as good as reaped.
        self.reaped = self.reaped || !matches!(self.process.try_wait(), Ok(None));
    }
}

impl Drop for Leader {
    /// The last resort, for a driver that is dropped with its runtime.
    fn drop(&mut self) {
        if !self.reaped {
            self.signal_group(Signal::SIGKILL);
            self.reap();
        }
    }
}
