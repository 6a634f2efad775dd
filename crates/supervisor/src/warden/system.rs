//! The warden's hands.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::Pid;
use crate::proc::{self, Stat};
use crate::tag::Mark;

/// What the warden can see and do.
pub(crate) trait System {
    /// When a process started; with its number that names it for good.
    fn started(&mut self, pid: Pid) -> Option<u64>;
    /// Whether some process of the group carries the mark.
    fn is_marked(&mut self, group: Pid, mark: &Mark) -> bool;
    /// SIGKILL to a group.
    fn kill_group(&mut self, group: Pid);
    /// SIGKILL to all that carry the mark. Returns how many there were.
    fn kill_marked(&mut self, mark: &Mark) -> usize;
    /// Waits.
    fn pause(&mut self, time: Duration);
}

/// The real one.
#[derive(Debug)]
pub(crate) struct Kernel;

// === impl Kernel ===

impl System for Kernel {
    fn started(&mut self, pid: Pid) -> Option<u64> {
        Stat::of(pid).map(|stat| stat.started)
    }

    fn is_marked(&mut self, group: Pid, mark: &Mark) -> bool {
        proc::members(group).any(|pid| proc::carries(pid, mark))
    }

    fn kill_group(&mut self, group: Pid) {
        proc::signal_group(group, Signal::SIGKILL);
    }

    fn kill_marked(&mut self, mark: &Mark) -> usize {
        proc::kill_marked(mark)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the warden has one thread and no runtime"
    )]
    fn pause(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}
