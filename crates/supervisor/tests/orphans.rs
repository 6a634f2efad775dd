//! As PID 1, or as here a subreaper, the supervisor removes zombies that it never started.
//!
//! Alone in its binary: being a subreaper is a property of the whole process.

use std::path::Path;
use std::time::Duration;

use manifold_supervisor::{ChildSpec, Line, StopPolicy, Supervisor, SupervisorOptions};
use tokio::time::{sleep, timeout};

const DEADLINE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn an_inherited_zombie_is_reaped_and_a_child_is_not() {
    nix::sys::prctl::set_child_subreaper(true).unwrap();
    let supervisor = Supervisor::new(SupervisorOptions {
        starts_at_a_time: 4,
        warden: None,
    });
    // The inner shell ends first, so its child becomes ours; then that ends as well.
    let spec = ChildSpec {
        label: "test".to_owned(),
        program: "sh".into(),
        args: ["-c", "sh -c 'sleep 0.3 & echo $!'; read line; exit 7"]
            .map(Into::into)
            .to_vec(),
        env: vec![],
        cwd: None,
        stop: StopPolicy::default(),
        line_limit: 1024,
    };
    let mut spawned = supervisor.spawn(&spec).await.unwrap();
    let line = timeout(DEADLINE, spawned.stdout.next())
        .await
        .unwrap()
        .unwrap();
    let Some(Line::Whole(orphan)) = line else {
        unreachable!("{line:?}")
    };
    let orphan = format!("/proc/{}", String::from_utf8(orphan.to_vec()).unwrap());
    let reaped = async {
        while Path::new(&orphan).exists() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(DEADLINE, reaped).await.unwrap();

    spawned.stdin.send("go".into()).await.unwrap();
    let exit = timeout(DEADLINE, spawned.child.exited()).await.unwrap();
    assert_eq!(exit.code, Some(7), "nobody else reaped it");
    timeout(DEADLINE, supervisor.shutdown()).await.unwrap();
}
