//! Starts children, and ends them all.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use nix::fcntl::{FcntlArg, fcntl};
use tokio::net::unix::pipe;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::child::Life;
use crate::driver::{Driver, Leader};
use crate::registry::Registry;
use crate::tag::{Family, Mark};
use crate::warden::Keeper;
use crate::{
    Child, ChildLog, ChildSpec, LineReader, LineWriter, SupervisorError, TAG_VARIABLE,
    WardenCommand, orphans, program,
};

/// Large enough that a large answer takes a few reads, not hundreds.
const PIPE_SIZE: i32 = 1024 * 1024;
/// A user has a budget of pipe pages, and over it every new pipe gets one page only. This many
/// children with two enlarged pipes take half of the usual budget.
const ENLARGED: usize = 16;

/// How a [`Supervisor`] works.
#[derive(Debug, Clone)]
pub struct SupervisorOptions {
    /// How many children may be starting at the same time; at least one. Servers burn seconds of
    /// CPU before their first answer: all at once, none of them gets there in time.
    pub starts_at_a_time: usize,
    /// Who ends the children should this process be killed; without it, nobody does.
    pub warden: Option<WardenCommand>,
}

/// Starts children and owns them until nothing of them is left. Clones are the same supervisor.
///
/// All its tasks run on the runtime that [`Supervisor::spawn`] is called on. Dropping the runtime
/// without [`Supervisor::shutdown`] kills the children's groups.
#[derive(Debug, Clone)]
pub struct Supervisor {
    inner: Arc<Inner>,
}

/// A child that has just been started.
#[derive(Debug)]
pub struct Spawned {
    /// To watch and to stop it.
    pub child: Child,
    /// Its stdin.
    pub stdin: LineWriter,
    /// Its stdout. Whoever drops it makes the child's writes fail.
    pub stdout: LineReader,
    /// To be dropped when the child has started, which only the caller can tell.
    pub permit: StartPermit,
}

/// The right to be starting. Dropping it lets the next child start.
#[derive(Debug)]
pub struct StartPermit {
    _permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct Inner {
    family: Family,
    numbers: AtomicU64,
    starts: Arc<Semaphore>,
    enlarged: Arc<Semaphore>,
    registry: Arc<Registry>,
    /// The tasks of the children.
    children: TaskTracker,
    /// The tasks that outlive them.
    helpers: TaskTracker,
    helpers_end: CancellationToken,
    helpers_started: AtomicBool,
    warden: Option<WardenCommand>,
    warden_tried: watch::Sender<bool>,
}

/// A process that runs, with its pipes.
struct Started {
    leader: Leader,
    path: PathBuf,
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    enlarged: Option<OwnedSemaphorePermit>,
}

// === impl Supervisor ===

impl Supervisor {
    /// A supervisor without children. Needs no runtime yet.
    pub fn new(options: SupervisorOptions) -> Self {
        let starts = options.starts_at_a_time.clamp(1, Semaphore::MAX_PERMITS);
        let has_warden = options.warden.is_some();
        Self {
            inner: Arc::new(Inner {
                family: Family::random(),
                numbers: AtomicU64::new(1),
                starts: Arc::new(Semaphore::new(starts)),
                enlarged: Arc::new(Semaphore::new(ENLARGED)),
                registry: Arc::default(),
                children: TaskTracker::new(),
                helpers: TaskTracker::new(),
                helpers_end: CancellationToken::new(),
                helpers_started: AtomicBool::new(false),
                warden: options.warden,
                warden_tried: watch::Sender::new(!has_warden),
            }),
        }
    }

    /// Starts a child, as soon as few enough others are starting. That wait has no bound of its
    /// own. Dropping the future starts nothing, or stops what was started.
    ///
    /// # Errors
    /// See [`SupervisorError`].
    pub async fn spawn(&self, spec: &ChildSpec) -> Result<Spawned, SupervisorError> {
        let permit = Arc::clone(&self.inner.starts).acquire_owned().await;
        let permit = permit.map_err(|_closed| SupervisorError::ShuttingDown)?;
        self.start_helpers().await;
        let (answer, spawned) = oneshot::channel();
        let (inner, spec) = (Arc::clone(&self.inner), spec.clone());
        // A task of its own: a start that nobody waits for any more must be finished, so that
        // the child can be stopped.
        self.inner.children.spawn(async move {
            let result = inner.launch(spec, StartPermit { _permit: permit }).await;
            // If nobody listens, dropping the handle in it stops the child.
            drop(answer.send(result));
        });
        spawned.await.unwrap_or(Err(SupervisorError::ShuttingDown))
    }

    /// Stops all children, at the same time and each by its ladder, waits until nothing of them
    /// is left, and dismisses the warden. No child is started from now on. Asking twice waits
    /// for the same end; dropping the future stops the children all the same, but then it must
    /// be called again for the warden.
    pub async fn shutdown(&self) {
        let inner = &self.inner;
        inner.starts.close();
        inner.registry.close();
        inner.children.close();
        inner.children.wait().await;
        inner.helpers_end.cancel();
        inner.helpers.close();
        inner.helpers.wait().await;
    }

    /// Starts the warden and the reaper of orphans before the first child, and waits until the
    /// warden has been tried.
    async fn start_helpers(&self) {
        let inner = &self.inner;
        if !inner.helpers_started.swap(true, Ordering::Relaxed) {
            if orphans::come_to_us() {
                let registry = Arc::clone(&inner.registry);
                inner
                    .helpers
                    .spawn(orphans::reap(registry, inner.helpers_end.clone()));
            }
            if let Some(command) = &inner.warden {
                let keeper = Keeper {
                    command: command.clone(),
                    family: inner.family.clone(),
                    registry: Arc::clone(&inner.registry),
                    end: inner.helpers_end.clone(),
                    tried: inner.warden_tried.clone(),
                };
                inner.helpers.spawn(keeper.run());
            }
        }
        // The sender is ours, so this cannot fail.
        drop(
            inner
                .warden_tried
                .subscribe()
                .wait_for(|tried| *tried)
                .await,
        );
    }
}

// === impl Inner ===

impl Inner {
    async fn launch(
        self: Arc<Self>,
        spec: ChildSpec,
        permit: StartPermit,
    ) -> Result<Spawned, SupervisorError> {
        if self.registry.is_closed() {
            return Err(SupervisorError::ShuttingDown);
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let stop = CancellationToken::new();
        let (inner, start_spec, start_stop) = (Arc::clone(&self), spec.clone(), stop.clone());
        let started = spawn_blocking(move || inner.start(&start_spec, number, &start_stop)).await;
        let started = started.map_err(|_refused| SupervisorError::ShuttingDown)??;

        let pid = started.leader.pid();
        let pipes = (|| {
            Ok((
                pipe::Sender::from_owned_fd(present(started.stdin)?)?,
                pipe::Receiver::from_owned_fd(present(started.stdout)?)?,
                pipe::Receiver::from_owned_fd(present(started.stderr)?)?,
            ))
        })();
        let (stdin, stdout, stderr) = match pipes {
            Ok(pipes) => pipes,
            Err(source) => {
                // Dropping the leader kills its group.
                self.registry.remove(pid);
                return Err(SupervisorError::Pipes {
                    path: started.path,
                    source,
                });
            }
        };
        tracing::debug!(server = %spec.label, %pid, program = %started.path.display(), "started");

        let log = ChildLog::new(spec.label.clone());
        let stdin = LineWriter::new(stdin, spec.line_limit);
        self.children.spawn(stdin.clone().run());
        let drain = log.clone();
        let stderr = self
            .children
            .spawn(async move { drain.drain(stderr).await });
        let (life, watched) = watch::channel(Life::Running);
        let driver = Driver {
            leader: started.leader,
            label: spec.label,
            mark: Mark::One(self.family.tag(number)),
            policy: spec.stop,
            stdin: stdin.clone(),
            stderr,
            life,
            stop: stop.clone(),
            registry: Arc::clone(&self.registry),
            enlarged: started.enlarged,
        };
        self.children.spawn(driver.run());
        let child = Child::new(pid, log, watched, stop);
        let stdout = LineReader::new(stdout, spec.line_limit);
        Ok(Spawned {
            child,
            stdin,
            stdout,
            permit,
        })
    }

    /// Starts the process and lists it. Blocks until it has replaced itself by the program.
    fn start(
        &self,
        spec: &ChildSpec,
        number: u64,
        stop: &CancellationToken,
    ) -> Result<Started, SupervisorError> {
        let path = program::resolve(spec)?;
        let mut command = Command::new(&path);
        command
            .arg0(&spec.program)
            .args(&spec.args)
            .env_clear()
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .env(TAG_VARIABLE, self.family.tag(number))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(cwd) = &spec.cwd {
            command.current_dir(cwd);
        }
        let listed = self
            .registry
            .starting
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut process = match command.spawn() {
            Ok(process) => process,
            Err(source) => return Err(SupervisorError::Start { path, source }),
        };
        let stdin = process.stdin.take().map(OwnedFd::from);
        let stdout = process.stdout.take().map(OwnedFd::from);
        let stderr = process.stderr.take().map(OwnedFd::from);
        let leader = Leader::new(process);
        self.registry.insert(leader.pid(), number, stop);
        drop(listed);
        let enlarged = Arc::clone(&self.enlarged).try_acquire_owned().ok();
        if enlarged.is_some() {
            stdin.iter().chain(&stdout).for_each(enlarge);
        }
        Ok(Started {
            leader,
            path,
            stdin,
            stdout,
            stderr,
            enlarged,
        })
    }
}

fn present(pipe: Option<OwnedFd>) -> std::io::Result<OwnedFd> {
    pipe.ok_or_else(|| std::io::ErrorKind::BrokenPipe.into())
}

/// A pipe of the usual size works as well, only slower.
fn enlarge(pipe: &OwnedFd) {
    if let Err(error) = fcntl(pipe.as_fd(), FcntlArg::F_SETPIPE_SZ(PIPE_SIZE)) {
        tracing::trace!(%error, "the pipe keeps its size");
    }
}
