//! A first call goes through, in both eras, on the servers that are built in.

use manifold_testkit::Gateway;

use crate::MANIFOLD;

fn config() -> String {
    format!(
        "[servers.red]\ncommand = {MANIFOLD:?}\nargs = [\"example-server\"]\n\
         [servers.blue]\ncommand = {MANIFOLD:?}\nargs = [\"example-server\", \"--era\", \"legacy\"]\n"
    )
}

#[tokio::test]
async fn clients_of_both_eras_list_and_call_servers_of_both_eras() {
    let gateway = Gateway::start(MANIFOLD, &config()).await.unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    let names = |reply: manifold_testkit::Reply| -> Vec<String> {
        let message = reply.message().unwrap();
        let tools = message["result"]["tools"].as_array().unwrap().clone();
        tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let legacy = names(session.request(1, "tools/list", "{}").await.unwrap());
    let modern = names(
        client
            .modern("tools/list", serde_json::json!({}))
            .await
            .unwrap(),
    );
    assert_eq!(legacy, modern);
    assert!(legacy.contains(&"red__echo".to_owned()) && legacy.contains(&"blue__echo".to_owned()));
    for (server, era) in [("red", "modern"), ("blue", "legacy")] {
        let reply = session
            .call(2, &format!("{server}__whoami"), "{}")
            .await
            .unwrap();
        let result = &reply.message().unwrap()["result"];
        assert_eq!(result["structuredContent"]["era"], era, "{result}");
        let reply = client
            .modern(
                "tools/call",
                serde_json::json!({ "name": format!("{server}__whoami"), "arguments": {} }),
            )
            .await
            .unwrap();
        let result = &reply.message().unwrap()["result"];
        assert_eq!(result["structuredContent"]["era"], era, "{result}");
        assert_eq!(result["resultType"], "complete");
    }
}
