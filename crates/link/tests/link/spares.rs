//! Processes that wait for their handshake.

use std::{cell::Cell, fs};

use http::HeaderMap;
use manifold_link::{ConnectOptions, LinkError, Origin, Spare};
use manifold_testkit::{eventually, is_alive};
use tokio_util::task::TaskTracker;

use crate::support::{child::Shell, connect, http::connector, in_time};

async fn spare(shell: &Shell) -> Spare {
    let seen = Cell::new(None);
    let spare = shell.connector.spawn(|child| seen.set(Some(child.pid())));
    let spare = in_time(spare).await.unwrap().unwrap();
    assert_eq!(seen.get(), Some(spare.child().pid()));
    spare
}

fn with(spare: Spare) -> ConnectOptions {
    ConnectOptions {
        spare: Some(spare),
        ..ConnectOptions::default()
    }
}

async fn gone(pid: u32) {
    let look = async || (!is_alive(pid)).then_some(());
    eventually("the process's end", look).await.unwrap();
}

#[tokio::test]
async fn a_spare_is_heard_and_not_spoken_to_until_it_is_needed() {
    let shell = Shell::legacy(
        r#"
say 'Welcome!'
say '{"jsonrpc":"2.0","id":"early","method":"ping"}'
say '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
say 'Ready.'
say 'to stderr' >&2"#,
    );
    let spare = spare(&shell).await;
    let (id, pid) = (spare.id(), spare.child().pid());
    eventually("its noise", async || {
        let log = spare.child().log();
        (log.noise_lines() == 2 && log.stderr_lines() == 1).then_some(())
    })
    .await
    .unwrap();
    assert!(!spare.is_ended());
    assert!(shell.lines().is_empty());

    let link = shell
        .connector
        .connect_with(with(spare), &Origin::manifold(), |_| {
            panic!("nothing is to be started")
        })
        .await
        .unwrap();
    assert_eq!(link.id(), id);
    assert_eq!(link.child().unwrap().pid(), pid);
    assert_eq!(link.notices().borrow().tools, 1);
    // What it had asked is answered now.
    let answer = r#"{"jsonrpc":"2.0","id":"early","result":{}}"#;
    eventually("the answer", async || {
        shell
            .lines()
            .iter()
            .any(|line| line == answer)
            .then_some(())
    })
    .await
    .unwrap();
    let first = &shell.lines()[0];
    assert!(first.contains("server/discover"), "{first}");
    drop(link);
    gone(pid.get()).await;
    shell.end().await;
}

#[tokio::test]
async fn a_spare_that_nobody_needs_is_stopped() {
    let shell = Shell::legacy("");
    let dropped = spare(&shell).await;
    let pid = dropped.child().pid().get();
    drop(dropped);
    gone(pid).await;
    let stopped = spare(&shell).await;
    let pid = stopped.child().pid().get();
    stopped.stop();
    assert!(matches!(
        in_time(stopped.ended()).await,
        LinkError::Exited { .. }
    ));
    assert!(stopped.is_ended());
    gone(pid).await;
    shell.end().await;
}

#[tokio::test]
async fn spares_that_wait_do_not_hold_up_others() {
    let shell = Shell::legacy("");
    // One child may be starting at a time, and none of these ever says that it has.
    let spares = [spare(&shell).await, spare(&shell).await];
    let link = connect(&shell.connector).await;
    assert!(spares.iter().all(|spare| !spare.is_ended()));
    let pids = spares.each_ref().map(|spare| spare.child().pid());
    assert!(!pids.contains(&link.child().unwrap().pid()));
    drop((spares, link));
    shell.end().await;
}

#[tokio::test]
async fn a_spare_that_has_died_is_replaced() {
    let shell = Shell::legacy("test -e die && exit 3");
    fs::write(shell.folder().join("die"), "").unwrap();
    let dead = spare(&shell).await;
    let LinkError::Exited { exit, .. } = in_time(dead.ended()).await else {
        panic!("it has exited");
    };
    assert_eq!(exit.unwrap().code, Some(3));
    assert!(dead.is_ended());
    fs::remove_file(shell.folder().join("die")).unwrap();
    replaced(&shell, dead).await;
    shell.end().await;
}

#[tokio::test]
async fn a_spare_that_dies_over_the_handshake_is_replaced() {
    let shell = Shell::legacy("test -e first || { : > first; read -r line; exit 3; }");
    let dying = spare(&shell).await;
    eventually("its start", async || {
        shell.folder().join("first").exists().then_some(())
    })
    .await
    .unwrap();
    assert!(!dying.is_ended());
    replaced(&shell, dying).await;
    shell.end().await;
}

/// A link is made all the same, with a child of its own.
async fn replaced(shell: &Shell, spare: Spare) {
    let (id, pid) = (spare.id(), spare.child().pid());
    let started = Cell::new(None);
    let link = shell
        .connector
        .connect_with(with(spare), &Origin::manifold(), |child| {
            started.set(Some(child.pid()));
        })
        .await
        .unwrap();
    assert_eq!(started.get(), Some(link.child().unwrap().pid()));
    assert_ne!(started.get(), Some(pid));
    assert_ne!(link.id(), id);
}

#[tokio::test]
async fn http_has_no_spares() {
    let connector = connector(
        "http://127.0.0.1:1/mcp",
        HeaderMap::new(),
        &TaskTracker::new(),
    );
    assert!(connector.spawn(|_| {}).await.unwrap().is_none());
}
