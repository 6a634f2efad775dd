//! What the kernel says about running processes, read from `/proc`.
//!
//! Everything here reads files and may take milliseconds: call it from `spawn_blocking`.

use std::fs;
use std::io::{self, Read};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};

use crate::Pid;
use crate::tag::Mark;

/// No environment is larger: the kernel limits arguments and environment together.
const MAX_ENVIRON: u64 = 8 * 1024 * 1024;

/// The parts of `/proc/PID/stat` that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) zombie: bool,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    /// When it started, in clock ticks since boot: with the pid it names a process for good.
    pub(crate) started: u64,
}

// === impl Stat ===

impl Stat {
    /// The process with number `pid`; `None` when there is none.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(line: &str) -> Option<Self> {
        // The name in brackets may hold anything, brackets too.
        let (_, fields) = line.rsplit_once(") ")?;
        let mut fields = fields.split_ascii_whitespace();
        let zombie = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        // Field 22 of the line; three of those after the bracket are taken.
        let started = fields.nth(16)?.parse().ok()?;
        Some(Self {
            zombie,
            parent,
            group,
            started,
        })
    }
}

/// All processes, as far as they can be seen.
pub(crate) fn all() -> impl Iterator<Item = Pid> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .map(Pid)
}

/// The processes of a group that are not zombies.
pub(crate) fn members(group: Pid) -> impl Iterator<Item = Pid> {
    all()
        .filter(move |pid| Stat::of(*pid).is_some_and(|stat| stat.group == group.0 && !stat.zombie))
}

/// The environment a process was started with; empty for zombies and the kernel's own.
pub(crate) fn environ(pid: Pid) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(format!("/proc/{pid}/environ"))?
        .take(MAX_ENVIRON)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether a process carries the mark.
pub(crate) fn carries(pid: Pid, mark: &Mark) -> bool {
    environ(pid).is_ok_and(|environ| mark.is_in(&environ))
}

/// SIGKILL to every process that carries the mark, but this one. Returns how many there were.
pub(crate) fn kill_marked(mark: &Mark) -> usize {
    let own = std::process::id();
    let marked: Vec<Pid> = all()
        .filter(|pid| pid.0 != own && carries(*pid, mark))
        .collect();
    for pid in &marked {
        // Looked at once more: by now the number may belong to another process.
        if carries(*pid, mark) {
            signal(*pid, Signal::SIGKILL);
        }
    }
    marked.len()
}

/// Signals one process.
pub(crate) fn signal(pid: Pid, signal: Signal) {
    log_failure(kill(pid.raw(), signal), "process", pid);
}

/// Signals a group, which must be known to be ours.
pub(crate) fn signal_group(group: Pid, signal: Signal) {
    log_failure(killpg(group.raw(), signal), "group", group);
}

fn log_failure(result: nix::Result<()>, what: &str, pid: Pid) {
    match result {
        // EPERM: what is left of it runs as another user.
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => tracing::debug!(%pid, %error, "cannot signal the {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::Family;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn stat_is_read_behind_the_last_bracket() {
        let line = "42 (a) Z 1) S 7 9 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 100 5 184\n";
        let stat = Stat {
            zombie: false,
            parent: 7,
            group: 9,
            started: 98765,
        };
        assert_eq!(Stat::parse(line), Some(stat));
        assert_eq!(Stat::parse("42 (a"), None);
        let own = Stat::of(Pid(std::process::id())).unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id());
    }

    #[test]
    fn a_marked_process_is_found_and_killed_and_others_are_not() {
        let family = Family::random();
        let start = |number| {
            Command::new("sleep")
                .arg("600")
                .env(crate::TAG_VARIABLE, family.tag(number))
                .process_group(0)
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        };
        let (mut one, mut other) = (start(1), start(11));
        let pid = Pid::of(&one);
        assert_eq!(members(pid).collect::<Vec<_>>(), [pid]);
        assert_eq!(kill_marked(&Mark::One(family.tag(1))), 1);
        one.wait().unwrap();
        assert_eq!(kill_marked(&Mark::One(family.tag(1))), 0);
        assert!(other.try_wait().unwrap().is_none(), "another child's tag");
        assert_eq!(kill_marked(&Mark::Any(family)), 1);
        other.wait().unwrap();
        assert_eq!(members(pid).count(), 0);
    }
}
