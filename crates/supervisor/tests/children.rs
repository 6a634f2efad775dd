//! Real processes: how they are started, talked to and ended.
//!
//! The scripts are written to be as unkind as servers and their launchers are.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use manifold_supervisor::{
    ChildSpec, Line, SendError, Source, Spawned, Supervisor, SupervisorError, SupervisorOptions,
};
use support::{DEADLINE, program, sh, tagged, unique, wait_until, with_env};
use tokio::task::JoinSet;

/// A server that ignores every polite way to end it. Says `ready` when it does.
const STUBBORN: &str = "
import signal, sys, time
for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)
print('ready', flush=True)
while True: time.sleep(60)
";

/// A child that runs `script` in python, unbuffered.
fn python(script: &str) -> ChildSpec {
    program("python3", ["-u", "-c", script])
}

fn supervisor() -> Supervisor {
    Supervisor::new(SupervisorOptions {
        starts_at_a_time: 4,
        warden: None,
    })
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future)
        .await
        .expect("in time")
}

async fn next(spawned: &mut Spawned) -> Option<Line> {
    within(spawned.stdout.next()).await.unwrap()
}

async fn text(spawned: &mut Spawned) -> String {
    match next(spawned).await {
        Some(Line::Whole(line)) => String::from_utf8(line.to_vec()).unwrap(),
        other => panic!("no line: {other:?}"),
    }
}

/// Whether a process is a zombie of ours. What its launcher orphaned is init's to reap.
fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ours = format!("Z {} ", std::process::id());
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with(&ours))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_echo_child_answers_and_leaves_at_the_end_of_its_input() {
    let supervisor = supervisor();
    let mut spawned = within(supervisor.spawn(&program("cat", []))).await.unwrap();
    for size in [1, 65_535, 65_536, 65_537, (1 << 20) + 1, 16 << 20] {
        let line = Bytes::from(vec![b'x'; size]);
        let send = spawned.stdin.send(line.clone());
        let read = spawned.stdout.next();
        let (sent, read) = within(async { tokio::join!(send, read) }).await;
        sent.unwrap();
        assert!(read.unwrap() == Some(Line::Whole(line)), "{size}");
    }
    let odd = "a\u{2028}b\u{2029}c\u{85}d\u{b}\u{c}e\u{1F600}";
    spawned.stdin.send(odd.into()).await.unwrap();
    assert_eq!(text(&mut spawned).await, odd);
    assert_eq!(spawned.child.exit(), None);
    let exit = within(spawned.child.stopped()).await;
    assert_eq!(
        (exit.code, exit.signal),
        (Some(0), None),
        "stdin was closed, no signal needed"
    );
    assert_eq!(next(&mut spawned).await, None);
    assert_eq!(
        spawned.stdin.send(Bytes::new()).await,
        Err(SendError::Closed)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s01_a_stubborn_grandchild_behind_a_wrapper_dies() {
    let tag = unique("S01");
    let spec = sh("python3 -u -c \"$STUB\"; true");
    let spec = with_env(spec, "STUB", STUBBORN.as_ref());
    let spec = with_env(spec, "TAG", tag.as_ref());
    let mut spawned = within(supervisor().spawn(&spec)).await.unwrap();
    assert_eq!(text(&mut spawned).await, "ready");
    let variable = format!("TAG={tag}");
    let before = tagged(&variable);
    assert_eq!(before.len(), 2, "wrapper and server");
    within(spawned.child.stopped()).await;
    assert_eq!(tagged(&variable), [0u32; 0]);
    assert!(!before.into_iter().any(is_zombie));
}

#[tokio::test(flavor = "multi_thread")]
async fn s01_shutdown_ends_all_children_at_the_same_time() {
    let tag = unique("S01");
    let supervisor = supervisor();
    let mut all = Vec::new();
    for _ in 0..3 {
        let spec = with_env(
            sh("python3 -u -c \"$STUB\"; true"),
            "STUB",
            STUBBORN.as_ref(),
        );
        let mut spec = with_env(spec, "TAG", tag.as_ref());
        spec.stop.close = Duration::from_secs(1);
        let mut spawned = within(supervisor.spawn(&spec)).await.unwrap();
        assert_eq!(text(&mut spawned).await, "ready");
        all.push(spawned);
    }
    let pids = tagged(&format!("TAG={tag}"));
    assert_eq!(pids.len(), 6);
    within(supervisor.shutdown()).await;
    assert_eq!(tagged(&format!("TAG={tag}")), [0u32; 0]);
    assert!(!pids.into_iter().any(is_zombie));
    assert!(all.iter().all(|spawned| spawned.child.exit().is_some()));
    let refused = supervisor.spawn(&sh("true")).await;
    assert!(matches!(refused, Err(SupervisorError::ShuttingDown)));
    within(supervisor.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grandchild_that_the_leader_left_behind_dies_without_a_stop() {
    let tag = unique("LEFT");
    let spec = sh("python3 -u -c \"$STUB\" & read line; exit 3");
    let spec = with_env(spec, "STUB", STUBBORN.as_ref());
    let spec = with_env(spec, "TAG", tag.as_ref());
    let mut spawned = within(supervisor().spawn(&spec)).await.unwrap();
    assert_eq!(text(&mut spawned).await, "ready");
    spawned.stdin.send(Bytes::from_static(b"go")).await.unwrap();
    let exit = within(spawned.child.exited()).await;
    assert_eq!(exit.code, Some(3));
    assert!(
        next(&mut spawned).await.is_none(),
        "its stdout ends with the last of them"
    );
    assert_eq!(within(spawned.child.stopped()).await.code, Some(3));
    assert_eq!(tagged(&format!("TAG={tag}")), [0u32; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grandchild_has_time_to_save_its_work_when_the_wrapper_dies_of_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    let server = "
import signal, sys, time
def save(*_):
    time.sleep(0.3)
    open('saved', 'w').close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print('ready', flush=True)
while True: time.sleep(60)
";
    let mut spec = with_env(sh("python3 -u -c \"$STUB\"; true"), "STUB", server.as_ref());
    spec.cwd = Some(dir.path().to_owned());
    spec.stop.close = Duration::from_millis(10);
    spec.stop.term = Duration::from_secs(20);
    let mut spawned = within(supervisor().spawn(&spec)).await.unwrap();
    assert_eq!(text(&mut spawned).await, "ready");
    let exit = within(spawned.child.stopped()).await;
    assert_eq!(exit.signal_name(), Some("SIGTERM"), "the wrapper");
    assert!(dir.path().join("saved").exists(), "the server");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grandchild_that_left_the_group_dies() {
    let tag = unique("SETSID");
    let daemon = "setsid sh -c 'trap \"\" TERM HUP; echo out; while :; do sleep 1; done' & wait";
    let spec = with_env(sh(daemon), "TAG", tag.as_ref());
    let mut spawned = within(supervisor().spawn(&spec)).await.unwrap();
    assert_eq!(text(&mut spawned).await, "out");
    within(spawned.child.stopped()).await;
    assert_eq!(tagged(&format!("TAG={tag}")), [0u32; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_nobody_waits_for_goes_on_and_so_does_a_dropped_handle() {
    for dropped in [false, true] {
        let tag = unique("DROP");
        let spec = with_env(python(STUBBORN), "TAG", tag.as_ref());
        let mut spawned = within(supervisor().spawn(&spec)).await.unwrap();
        assert_eq!(text(&mut spawned).await, "ready");
        if dropped {
            let clone = spawned.child.clone();
            drop(clone);
            assert_eq!(spawned.child.exit(), None, "another handle is left");
            drop(spawned);
        } else {
            let waited = tokio::time::timeout(Duration::ZERO, spawned.child.stopped()).await;
            assert!(waited.is_err());
        }
        let variable = format!("TAG={tag}");
        wait_until("the end", DEADLINE, || tagged(&variable).is_empty()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s02_a_crash_is_noticed_by_every_waiter() {
    let mut spawned = within(supervisor().spawn(&sh("echo up; read l; kill -9 $$")))
        .await
        .unwrap();
    assert_eq!(text(&mut spawned).await, "up");
    let mut waiters = JoinSet::new();
    for _ in 0..5 {
        let child = spawned.child.clone();
        waiters.spawn(async move { child.exited().await });
    }
    spawned
        .stdin
        .send(Bytes::from_static(b"now"))
        .await
        .unwrap();
    while let Some(exit) = within(waiters.join_next()).await {
        assert_eq!(exit.unwrap().signal_name(), Some("SIGKILL"));
    }
    assert_eq!(
        within(spawned.child.exited()).await.signal,
        Some(9),
        "also later"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s03_the_last_words_of_a_child_that_dies_at_once_are_kept() {
    let spawned = within(supervisor().spawn(&sh("echo boom >&2; exit 1")))
        .await
        .unwrap();
    let exit = within(spawned.child.stopped()).await;
    assert_eq!(exit.code, Some(1));
    let tail = spawned.child.log().tail(5);
    assert_eq!(tail.len(), 1);
    assert_eq!(
        (tail[0].text.as_str(), tail[0].source),
        ("boom", Source::Stderr)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s05_a_flood_on_stderr_without_newlines_blocks_nothing() {
    let script = r"
import sys
sys.stderr.buffer.write(b'\x1b[31m\xff' * (1 << 18)); sys.stderr.flush()
print('ready', flush=True)
for line in sys.stdin:
    sys.stderr.buffer.write(b'y' * (1 << 18) + b'\n'); sys.stderr.flush()
    print(line.strip(), flush=True)
";
    let mut spawned = within(supervisor().spawn(&python(script))).await.unwrap();
    assert_eq!(text(&mut spawned).await, "ready");
    for call in ["one", "two"] {
        spawned.stdin.send(call.into()).await.unwrap();
        assert_eq!(text(&mut spawned).await, call);
    }
    within(spawned.child.stopped()).await;
    let lines = spawned.child.log().tail(usize::MAX);
    let bytes: usize = lines.iter().map(|line| line.text.len()).sum();
    assert!((1..64 << 10).contains(&bytes), "{bytes}");
    assert!(lines.iter().all(|line| !line.text.contains('\u{1b}')));
    assert!(spawned.child.log().stderr_lines() >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn s06_a_child_sees_the_environment_it_is_given_and_its_tag() {
    let mut spec = program("env", []);
    spec.env = vec![
        ("FOO".into(), "1".into()),
        ("PATH".into(), "/usr/bin:/bin".into()),
    ];
    let mut spawned = within(supervisor().spawn(&spec)).await.unwrap();
    let mut names = Vec::new();
    while let Some(Line::Whole(line)) = next(&mut spawned).await {
        let line = String::from_utf8(line.to_vec()).unwrap();
        names.push(line.split_once('=').unwrap().0.to_owned());
    }
    names.sort();
    assert_eq!(names, ["FOO", "MANIFOLD_CHILD", "PATH"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn s07_noise_is_for_the_caller_to_tell_and_stands_in_the_log() {
    let script = r"printf '\n\033[32mready\033[0m\r\n{}\n'";
    let mut spawned = within(supervisor().spawn(&sh(script))).await.unwrap();
    let Some(Line::Whole(banner)) = next(&mut spawned).await else {
        panic!("a banner")
    };
    spawned.child.log().note_noise(&banner);
    assert_eq!(text(&mut spawned).await, "{}");
    let tail = spawned.child.log().tail(1);
    assert_eq!(
        (tail[0].text.as_str(), tail[0].source),
        ("ready", Source::StdoutNoise)
    );
    assert_eq!(spawned.child.log().noise_lines(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn s08_a_line_over_the_limit_costs_itself_alone() {
    let script = "
print('x' * 1024); print('y' * 1025); print('z' * (3 << 20)); print('ok', flush=True)
";
    let mut spec = python(script);
    spec.line_limit = 1024;
    let mut spawned = within(supervisor().spawn(&spec)).await.unwrap();
    assert_eq!(text(&mut spawned).await.len(), 1024);
    for expected in [1025, 3 << 20] {
        match next(&mut spawned).await {
            Some(Line::TooLong { head, length }) => {
                assert_eq!(length, expected);
                assert_eq!(head.len() as u64, expected.min(4096));
            }
            other => panic!("not too long: {other:?}"),
        }
    }
    assert_eq!(text(&mut spawned).await, "ok");
    assert_eq!(next(&mut spawned).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn s09_carriage_returns_a_mark_and_single_bytes() {
    let script = r"
import os, time
for byte in b'\xef\xbb\xbf{}\r\n\r\nlast':
    os.write(1, bytes([byte]))
    time.sleep(0.002)
";
    let mut spawned = within(supervisor().spawn(&python(script))).await.unwrap();
    assert_eq!(text(&mut spawned).await, "{}");
    assert_eq!(text(&mut spawned).await, "last");
    assert_eq!(next(&mut spawned).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_never_reads_holds_the_sender_back_until_it_is_stopped() {
    let mut spec = sh("echo up; exec sleep 600");
    spec.line_limit = 1 << 20;
    let mut spawned = within(supervisor().spawn(&spec)).await.unwrap();
    assert_eq!(text(&mut spawned).await, "up");
    let (writer, child) = (spawned.stdin.clone(), spawned.child.clone());
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        for _ in 0..8 {
            writer.send(Bytes::from(vec![b'x'; 1 << 20])).await?;
            count.fetch_add(1, Ordering::SeqCst);
        }
        Ok::<_, SendError>(())
    });
    let idle = tokio::time::timeout(Duration::from_millis(300), tasks.join_next()).await;
    assert!(idle.is_err(), "it waits");
    assert!(
        (1..8).contains(&sent.load(Ordering::SeqCst)),
        "{sent:?} MiB were taken"
    );
    child.stop();
    let released = within(tasks.join_next()).await.unwrap().unwrap();
    assert_eq!(released, Err(SendError::Closed));
    within(child.stopped()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_cannot_be_started_says_what_to_check() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    for (content, expected) in [
        ("#!/no/such/interpreter\n", "interpreter"),
        ("echo\n", "#!"),
    ] {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(&script, content).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = script.to_str().unwrap();
        let error = supervisor()
            .spawn(&program(path, []))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(path) && error.contains(expected), "{error}");
    }
    let error = supervisor()
        .spawn(&program("no-such-server", []))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`no-such-server`") && error.contains("PATH"),
        "{error}"
    );
    let zero = supervisor()
        .spawn(&program("true", ["a\0b"]))
        .await
        .unwrap_err()
        .to_string();
    assert!(zero.contains("zero byte"), "{zero}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_start_at_a_time() {
    let supervisor = Supervisor::new(SupervisorOptions {
        starts_at_a_time: 2,
        warden: None,
    });
    let spec = sh("read line");
    let first = within(supervisor.spawn(&spec)).await.unwrap();
    let second = within(supervisor.spawn(&spec)).await.unwrap();
    let mut third = Box::pin(supervisor.spawn(&spec));
    let early = tokio::time::timeout(Duration::from_millis(100), &mut third).await;
    assert!(early.is_err(), "two are starting");
    drop(first.permit);
    let third = within(third).await.unwrap();
    assert_eq!(second.child.exit(), None);
    drop((second.permit, third.permit));
    within(supervisor.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_nobody_waits_for_is_undone() {
    let tag = unique("UNDONE");
    let supervisor = supervisor();
    for _ in 0..20 {
        let spec = with_env(python(STUBBORN), "TAG", tag.as_ref());
        let mut spawning = Box::pin(supervisor.spawn(&spec));
        // Far enough for the start to be under way, not far enough for its answer.
        tokio::select! {
            biased;
            spawned = &mut spawning => drop(spawned),
            () = tokio::task::yield_now() => {}
        }
        drop(spawning);
    }
    within(supervisor.shutdown()).await;
    assert_eq!(tagged(&format!("TAG={tag}")), [0u32; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_short_lives_leave_no_zombie() {
    let supervisor = supervisor();
    let mut lives = JoinSet::new();
    for number in 0..40 {
        let supervisor = supervisor.clone();
        lives.spawn(async move {
            let spawned = supervisor
                .spawn(&sh(&format!("exit {number}")))
                .await
                .unwrap();
            drop(spawned.permit);
            (number, spawned.child.pid(), spawned.child.stopped().await)
        });
    }
    while let Some(life) = within(lives.join_next()).await {
        let (number, pid, exit) = life.unwrap();
        // A child that is stopped before it came to its exit may have been signalled.
        assert!(
            exit.code == Some(number) || exit.signal.is_some(),
            "{exit:?}"
        );
        assert!(!is_zombie(pid.get()), "{pid}");
    }
}
