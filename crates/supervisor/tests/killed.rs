//! What happens when the process that owns the children is killed, or the warden is.
//!
//! The test binary starts itself again to play the doomed parent and the warden. Those roles are
//! ignored tests, so that a usual run leaves them out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use manifold_supervisor::{Supervisor, SupervisorOptions, WardenCommand, warden};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{DEADLINE, sh, tagged, unique, wait_until, with_env};

/// Tells the doomed parent the tag of its children.
const TAG: &str = "KILLED_TEST_TAG";

fn role(name: &str) -> [String; 4] {
    ["--exact", name, "--ignored", "--nocapture"].map(str::to_owned)
}

fn options() -> SupervisorOptions {
    let warden = WardenCommand {
        program: std::env::current_exe().unwrap(),
        args: role("plays_the_warden").map(Into::into).to_vec(),
    };
    SupervisorOptions {
        starts_at_a_time: 8,
        warden: Some(warden),
    }
}

#[test]
#[ignore = "a role, started by the other tests"]
fn plays_the_warden() {
    warden::run();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a role, started by the other tests"]
async fn plays_the_doomed_parent() {
    let Some(tag) = std::env::var_os(TAG) else {
        return;
    };
    let supervisor = Supervisor::new(options());
    let mut children = Vec::new();
    for script in [
        // Ignores every polite way, and has a child that left the group.
        "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM HUP; echo up; exec sleep 600' & \
         while :; do sleep 1; done",
        "echo up; exec sleep 600",
    ] {
        let spec = with_env(sh(script), TAG, &tag);
        let mut spawned = supervisor.spawn(&spec).await.unwrap();
        spawned.stdout.next().await.unwrap().unwrap();
        children.push(spawned);
    }
    // On stderr: the test harness has its own lines on stdout.
    eprintln!("doomed: ready");
    std::future::pending::<()>().await;
}

/// The children of `parent` that are wardens.
fn wardens(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let cmdline = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        let is_child = stat.rsplit_once(") ").is_some_and(|(_, rest)| {
            rest.split(' ').nth(1) == Some(parent.to_string().as_str()) && !rest.starts_with('Z')
        });
        if is_child && cmdline.contains("plays_the_warden") {
            found.extend(
                entry
                    .file_name()
                    .to_str()
                    .and_then(|name| name.parse::<u32>().ok()),
            );
        }
    }
    found
}

/// Whether a warden has taken its name. By then its orders are in the pipe.
fn is_at_its_post(warden: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{warden}/task"))
        .into_iter()
        .flatten()
        .flatten();
    threads
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok())
        .any(|name| name == "warden\n")
}

fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
}

fn doomed(tag: &str) -> std::process::Child {
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(role("plays_the_doomed_parent"))
        .env(TAG, tag)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(parent.stderr.take().unwrap()).lines();
    assert!(
        lines
            .map_while(Result::ok)
            .any(|line| line == "doomed: ready")
    );
    parent
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_survives_the_kill_of_the_parent() {
    let tag = unique("DOOMED");
    let variable = format!("{TAG}={tag}");
    let mut parent = doomed(&tag);
    let own = parent.id();
    let children = || {
        let mut all = tagged(&variable);
        all.retain(|pid| *pid != own);
        all
    };
    assert!(children().len() >= 3, "{:?}", children());
    let warden = wardens(parent.id());
    assert_eq!(warden.len(), 1);
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until("the end of all", Duration::from_secs(5), || {
        children().is_empty()
    })
    .await;
    let warden = format!("/proc/{}/stat", warden[0]);
    wait_until("the warden's end", DEADLINE, || {
        // Its zombie is for whoever inherited it.
        let stat = std::fs::read_to_string(&warden).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_none_or(|(_, rest)| rest.starts_with('Z'))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warden_that_dies_is_replaced_and_knows_everything() {
    let tag = unique("DOOMED");
    let variable = format!("{TAG}={tag}");
    let mut parent = doomed(&tag);
    let own = parent.id();
    let first = wardens(own);
    signal(first[0], Signal::SIGKILL);
    wait_until("another warden, at its post", DEADLINE, || {
        let second = wardens(own);
        second.len() == 1 && second != first && is_at_its_post(second[0])
    })
    .await;
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until("the end of all", Duration::from_secs(5), || {
        tagged(&variable).iter().all(|pid| *pid == own)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_dismisses_the_warden() {
    let supervisor = Supervisor::new(options());
    let spawned = supervisor.spawn(&sh("read line")).await.unwrap();
    assert_eq!(wardens(std::process::id()).len(), 1);
    tokio::time::timeout(DEADLINE, supervisor.shutdown())
        .await
        .unwrap();
    assert!(spawned.child.exit().is_some());
    assert_eq!(wardens(std::process::id()), [0u32; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warden_that_cannot_be_started_keeps_no_child_from_starting() {
    let warden = WardenCommand {
        program: "/no/such/warden".into(),
        args: Vec::new(),
    };
    let options = SupervisorOptions {
        starts_at_a_time: 1,
        warden: Some(warden),
    };
    let supervisor = Supervisor::new(options);
    let spec = sh("read line");
    let started = tokio::time::timeout(DEADLINE, supervisor.spawn(&spec)).await;
    assert!(started.unwrap().is_ok());
    tokio::time::timeout(DEADLINE, supervisor.shutdown())
        .await
        .unwrap();
}
