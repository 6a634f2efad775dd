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

/// Signals that are meant for the process the warden guards.
const IGNORED: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// The life of the warden: reads its orders from stdin until that ends.
///
/// To be called on the main thread, before any other is started: the signals that are meant for
/// the process it guards (SIGINT, SIGTERM, SIGHUP, SIGQUIT) are blocked on this thread.
///
/// The exit code is 0 when it was dismissed or left nothing behind, 1 otherwise.
pub fn run() -> ExitCode {
    take_cover();
    match watch(io::stdin().lock(), &mut Kernel) {
        Outcome::Dismissed | Outcome::Orphaned { left: 0 } => ExitCode::SUCCESS,
        Outcome::Orphaned { .. } => ExitCode::FAILURE,
    }
}

/// Makes it harder to take the warden down together with the process it guards. These are
/// precautions: a warden that could not take them is better than none.
fn take_cover() {
    // A terminal and a service manager signal all processes at once.
    let mut ignored = SigSet::empty();
    for signal in IGNORED {
        ignored.add(signal);
    }
    ignored.thread_block().ok();
    // Whoever kills the main process by its name should not hit this one.
    prctl::set_name(c"warden").ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_covered_warden_is_not_hit_with_the_process_it_guards() {
        std::thread::spawn(|| {
            take_cover();
            let blocked = SigSet::thread_get_mask().unwrap();
            assert!(IGNORED.iter().all(|signal| blocked.contains(*signal)));
            assert!(!blocked.contains(Signal::SIGCHLD));
            assert_eq!(prctl::get_name().unwrap().as_c_str(), c"warden");
        })
        .join()
        .unwrap();
    }
}
