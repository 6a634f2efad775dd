//! How children die when this process is killed.
//!
//! A process that gets SIGKILL cannot end its children, and the ones that matter ignore the end
//! of their stdin. So one small process waits for our end: the warden, the same binary started
//! with another argument. It holds the read end of a pipe that we hold the write end of, and is
//! told what to end:
//!
//! | line | meaning |
//! |---|---|
//! | `tag RANDOM` | the children's tags begin with `RANDOM-` |
//! | `add PGID` | a group to be killed |
//! | `remove PGID` | it is gone |
//! | `bye` | all is well: leave, and kill nothing |
//!
//! When the pipe ends without `bye`, we died. The warden kills the groups, and then whatever
//! carries the tag, so that a child counts that was not announced yet, or that left its group.
//!
//! It must not start a runtime, and must take little memory: it waits as long as we live.

mod keeper;
mod system;
mod watch;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};

pub(crate) use keeper::Keeper;

use system::Kernel;
use watch::{Outcome, watch};

/// How to start the warden: with these, the program must do no more than call [`run`].
///
/// `/proc/self/exe` as the program still works after the binary's file was replaced.
#[derive(Debug, Clone)]
pub struct WardenCommand {
    /// The program, as an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// The life of the warden: reads its orders from stdin until that ends.
///
/// To be called on the main thread, before any other is started: the signals that are meant for
/// the process it guards (SIGINT, SIGTERM, SIGHUP, SIGQUIT) are blocked on this thread.
///
/// The exit code is 0 when it was dismissed or left nothing behind, 1 otherwise.
pub fn run() -> ExitCode {
    let mut ignored = SigSet::empty();
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ] {
        ignored.add(signal);
    }
    // Whoever kills the main process by its name should not hit this one. Both are precautions:
    // a warden that could not take them is better than none.
    ignored.thread_block().ok();
    prctl::set_name(c"warden").ok();
    match watch(io::stdin().lock(), &mut Kernel) {
        Outcome::Dismissed | Outcome::Orphaned { left: 0 } => ExitCode::SUCCESS,
        Outcome::Orphaned { .. } => ExitCode::FAILURE,
    }
}
