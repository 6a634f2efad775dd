//! Every client counts its ids from the same number.

use std::collections::HashSet;

use manifold_testkit::Gateway;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    MANIFOLD,
    stub::{Stub, text},
};

/// S16.
#[tokio::test]
async fn a_client_got_the_answer_of_another_one_with_the_same_id() {
    const SESSIONS: u64 = 50;
    const CALLS: u64 = 20;
    let stub = Stub::new();
    let config = stub.server("one", &[]) + "isolation = \"shared\"\n";
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    let mut calls = JoinSet::new();
    for i in 0..SESSIONS {
        let session = client.session().await.unwrap();
        for j in 1..=CALLS {
            let session = session.clone();
            calls.spawn(async move {
                let arguments = json!({ "i": i, "j": j, "up_to_ms": 50 });
                let reply = session
                    .call(j, "one__echo", &arguments.to_string())
                    .await
                    .unwrap();
                assert_eq!(reply.message().unwrap()["id"], j, "{reply:?}");
                let echoed: Value = serde_json::from_str(&text(&reply)).unwrap();
                assert_eq!(echoed, arguments);
            });
        }
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
    // One child beside the catalog's, and no id twice.
    assert_eq!(stub.starts(), 2);
    let ids = stub.messages("tools/call");
    let ids: HashSet<_> = ids
        .iter()
        .map(|call| call["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids.len() as u64, SESSIONS * CALLS);
}

/// Ids of all kinds, and the same one twice in one session.
#[tokio::test]
async fn ids_came_back_as_another_type() {
    let stub = Stub::new();
    let gateway = Gateway::start(MANIFOLD, &stub.server("one", &[]))
        .await
        .unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    for id in [
        "1",
        "\"1\"",
        "9007199254740993",
        "\"r\\u00e4um\"",
        "-5",
        "1",
        "\"\"",
    ] {
        let call = |n: u8| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"one__echo","arguments":{{"n":{n},"up_to_ms":20}}}}}}"#
            )
        };
        let (first, second) = (call(1), call(2));
        let (first, second) = tokio::join!(session.post(&first), session.post(&second));
        for (n, reply) in [(1, first.unwrap()), (2, second.unwrap())] {
            assert!(reply.body.contains(&format!("\"id\":{id},")), "{reply:?}");
            assert!(text(&reply).contains(&format!("\"n\": {n}")), "{reply:?}");
        }
    }
}
