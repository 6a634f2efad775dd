//! The warden's mind: what it was told, and what it does about it.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::time::Duration;

use super::system::System;
use crate::Pid;
use crate::tag::{Family, Mark};

/// How often the tag is looked for, and how long between: 3 s in all.
const ROUNDS: u32 = 13;
const PAUSE: Duration = Duration::from_millis(250);
/// A process between fork and exec does not carry its tag yet: one quiet look is no proof.
const QUIET: u32 = 3;

/// How the watch ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// We were told to leave.
    Dismissed,
    /// Whoever told us died. So many that carry the tag were there at the last look.
    Orphaned { left: usize },
}

/// A line we are told.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    Tag(Family),
    Add(Pid),
    Remove(Pid),
    Bye,
}

/// What we know so far.
#[derive(Debug, Default)]
struct Known {
    mark: Option<Mark>,
    /// The groups, and when their leaders started.
    groups: BTreeMap<Pid, Option<u64>>,
}

/// Reads `input` to its end, and acts on it.
pub(crate) fn watch(input: impl BufRead, system: &mut impl System) -> Outcome {
    let mut known = Known::default();
    let mut dismissed = false;
    // A read that fails is an end as well: nothing more will be told.
    for line in input.split(b'\n').map_while(Result::ok) {
        match Word::parse(&line) {
            Some(Word::Tag(family)) => known.mark = Some(Mark::Any(family)),
            Some(Word::Add(group)) => {
                known.groups.insert(group, system.started(group));
            }
            Some(Word::Remove(group)) => {
                known.groups.remove(&group);
            }
            Some(Word::Bye) => dismissed = true,
            // A line cut off by the writer's death, or by a later version.
            None => {}
        }
    }
    match dismissed {
        true => Outcome::Dismissed,
        false => Outcome::Orphaned {
            left: known.end(system),
        },
    }
}

// === impl Word ===

impl Word {
    fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let (verb, object) = line.split_once(' ').unwrap_or((line, ""));
        // Groups 0 and 1 would be our own and everyone's.
        let group = || object.parse().ok().filter(|group| *group > 1).map(Pid);
        match verb {
            "tag" => Family::parse(object).map(Self::Tag),
            "add" => group().map(Self::Add),
            "remove" => group().map(Self::Remove),
            "bye" => Some(Self::Bye),
            _ => None,
        }
    }
}

// === impl Known ===

impl Known {
    /// Ends what is left. Returns how many were there at the last look.
    fn end(&self, system: &mut impl System) -> usize {
        for (group, started) in &self.groups {
            // The number may have gone to strangers meanwhile.
            let same_leader = started.is_some() && system.started(*group) == *started;
            if same_leader
                || self
                    .mark
                    .as_ref()
                    .is_some_and(|mark| system.is_marked(*group, mark))
            {
                system.kill_group(*group);
            }
        }
        let Some(mark) = &self.mark else { return 0 };
        let mut quiet = 0;
        let mut left = 0;
        for round in 0..ROUNDS {
            if round > 0 {
                system.pause(PAUSE);
            }
            left = system.kill_marked(mark);
            quiet = if left == 0 { quiet + 1 } else { 0 };
            if quiet == QUIET {
                break;
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TAG_VARIABLE;
    use crate::warden::system::Kernel;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[derive(Debug, Default)]
    struct Fake {
        started: BTreeMap<Pid, u64>,
        marked: Vec<Pid>,
        /// How many each look finds.
        looks: Vec<usize>,
        killed: Vec<Pid>,
        looked: usize,
        paused: Duration,
    }

    impl System for Fake {
        fn started(&mut self, pid: Pid) -> Option<u64> {
            // Each process is seen once with its number; later it belongs to another.
            let started = self.started.get_mut(&pid)?;
            Some(*started)
        }
        fn is_marked(&mut self, group: Pid, _mark: &Mark) -> bool {
            self.marked.contains(&group)
        }
        fn kill_group(&mut self, group: Pid) {
            self.killed.push(group);
        }
        fn kill_marked(&mut self, _mark: &Mark) -> usize {
            self.looked += 1;
            self.looks.get(self.looked - 1).copied().unwrap_or(0)
        }
        fn pause(&mut self, time: Duration) {
            self.paused += time;
        }
    }

    const TAG: &str = "tag 0123456789abcdef0123456789abcdef\n";

    fn told(text: &str, fake: &mut Fake) -> Outcome {
        watch(format!("{TAG}{text}").as_bytes(), fake)
    }

    #[test]
    fn a_dismissed_warden_kills_nothing() {
        let mut fake = Fake {
            marked: vec![Pid(7)],
            ..Fake::default()
        };
        assert_eq!(told("add 7\nbye\n", &mut fake), Outcome::Dismissed);
        assert_eq!((fake.killed, fake.looked), (vec![], 0));
    }

    #[test]
    fn an_orphaned_warden_kills_what_is_registered_and_ours() {
        let mut fake = Fake {
            marked: vec![Pid(7), Pid(8)],
            ..Fake::default()
        };
        fake.started.insert(Pid(9), 100);
        let text = "add 7\nadd 8\nadd 9\nadd 10\nremove 8\nadd 0\nadd 1\nadd -5\nnonsense\nad";
        assert_eq!(told(text, &mut fake), Outcome::Orphaned { left: 0 });
        // 7 by its mark, 9 by its leader; 8 is gone, 10 is a stranger's, the rest no groups.
        assert_eq!(fake.killed, [Pid(7), Pid(9)]);
        assert_eq!(fake.looked, 3);
    }

    #[test]
    fn a_leader_that_started_at_another_time_is_a_stranger() {
        struct Reused(Fake, u64);
        impl System for Reused {
            fn started(&mut self, _pid: Pid) -> Option<u64> {
                self.1 += 1;
                Some(self.1)
            }
            fn is_marked(&mut self, group: Pid, mark: &Mark) -> bool {
                self.0.is_marked(group, mark)
            }
            fn kill_group(&mut self, group: Pid) {
                self.0.kill_group(group);
            }
            fn kill_marked(&mut self, mark: &Mark) -> usize {
                self.0.kill_marked(mark)
            }
            fn pause(&mut self, time: Duration) {
                self.0.pause(time);
            }
        }
        let mut system = Reused(Fake::default(), 0);
        watch(format!("{TAG}add 7\n").as_bytes(), &mut system);
        assert_eq!(system.0.killed, []);
    }

    #[test]
    fn the_sweep_goes_on_until_it_is_quiet_and_no_longer_than_three_seconds() {
        let mut fake = Fake {
            looks: vec![0, 0, 2, 1],
            ..Fake::default()
        };
        assert_eq!(told("", &mut fake), Outcome::Orphaned { left: 0 });
        assert_eq!(fake.looked, 7, "a late one starts the count again");
        let mut fake = Fake {
            looks: vec![1; 100],
            ..Fake::default()
        };
        assert_eq!(told("", &mut fake), Outcome::Orphaned { left: 1 });
        assert_eq!(fake.paused, Duration::from_secs(3));
    }

    #[test]
    fn without_a_tag_nothing_is_swept() {
        let mut fake = Fake::default();
        assert_eq!(watch(&b""[..], &mut fake), Outcome::Orphaned { left: 0 });
        assert_eq!(fake.looked, 0);
    }

    #[test]
    fn real_processes_are_killed_in_and_out_of_their_group() {
        let family = Family::random();
        let mut child = Command::new("sh")
            .args([
                "-c",
                "trap '' TERM HUP INT; setsid sleep 600 & sleep 600 & wait",
            ])
            .env(TAG_VARIABLE, family.tag(1))
            .process_group(0)
            .spawn()
            .unwrap();
        let mut stranger = Command::new("sleep")
            .arg("600")
            .process_group(0)
            .spawn()
            .unwrap();
        // The stranger's group as if its number had been ours once: told, but without a leader
        // to compare, since it is added before it exists.
        struct Late(Kernel, Pid);
        impl System for Late {
            fn started(&mut self, pid: Pid) -> Option<u64> {
                if pid == self.1 {
                    None
                } else {
                    self.0.started(pid)
                }
            }
            fn is_marked(&mut self, group: Pid, mark: &Mark) -> bool {
                self.0.is_marked(group, mark)
            }
            fn kill_group(&mut self, group: Pid) {
                self.0.kill_group(group);
            }
            fn kill_marked(&mut self, mark: &Mark) -> usize {
                self.0.kill_marked(mark)
            }
            fn pause(&mut self, time: Duration) {
                self.0.pause(time);
            }
        }
        let text = format!("tag {family}\nadd {}\nadd {}\n", child.id(), stranger.id());
        let outcome = watch(text.as_bytes(), &mut Late(Kernel, Pid::of(&stranger)));
        assert_eq!(outcome, Outcome::Orphaned { left: 0 });
        assert_eq!(crate::proc::kill_marked(&Mark::Any(family)), 0);
        child.wait().unwrap();
        assert!(stranger.try_wait().unwrap().is_none(), "a stranger lives");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
