//! What a child sees of the gateway's environment.

use manifold_testkit::{Gateway, eventually};

use crate::{MANIFOLD, stub::Stub};

/// What a child sees that is configured with `more`, when the gateway has `variables`.
async fn seen(more: &str, variables: &[(&str, &str)]) -> String {
    let stub = Stub::new();
    let dump = stub.path("dump");
    let line = format!(
        "env >'{0}.part'; mv '{0}.part' '{0}'; sleep 600",
        dump.display()
    );
    let config = format!("[servers.env]\ncommand = \"sh\"\nargs = [\"-c\", {line:?}]\n{more}");
    let _gateway = Gateway::start_with(MANIFOLD, &config, variables)
        .await
        .unwrap();
    eventually("the child's environment", || async {
        std::fs::read_to_string(&dump).ok()
    })
    .await
    .unwrap()
}

/// S06.
#[tokio::test]
async fn a_server_inherited_every_secret() {
    let more = "env = { FOO = \"1\", TZ = \"Own/Zone\" }\ninherit_env = [\"WANTED\"]\n";
    let variables = [
        ("AWS_SECRET_ACCESS_KEY", "secret-1"),
        ("GATEWAY_TOKEN", "secret-2"),
        ("LD_PRELOAD_NOT", "secret-3"),
        ("WANTED", "yes"),
        ("LANG", "C.UTF-8"),
        ("TZ", "UTC"),
    ];
    let seen = seen(more, &variables).await;
    for expected in ["FOO=1", "TZ=Own/Zone", "WANTED=yes", "LANG=C.UTF-8"] {
        assert!(
            seen.lines().any(|line| line == expected),
            "{expected}: {seen}"
        );
    }
    assert!(seen.lines().any(|line| line.starts_with("PATH=")), "{seen}");
    assert!(!seen.contains("secret-"), "{seen}");
    assert!(!seen.contains("TZ=UTC"), "{seen}");
    let ours = ["CARGO", "RUST", "MANIFOLD_CONFIG"];
    for name in seen.lines() {
        assert!(!ours.iter().any(|ours| name.starts_with(ours)), "{name}");
    }
}

/// S06, for those who want it.
#[tokio::test]
async fn a_server_could_not_be_given_everything() {
    let more = "env = { FOO = \"own\" }\ninherit_env = [\"*\"]\n";
    let variables = [("GATEWAY_TOKEN", "given"), ("FOO", "inherited")];
    let seen = seen(more, &variables).await;
    for expected in ["GATEWAY_TOKEN=given", "FOO=own"] {
        assert!(
            seen.lines().any(|line| line == expected),
            "{expected}: {seen}"
        );
    }
    assert!(!seen.contains("inherited"), "{seen}");
}
