//! Servers that put more on their pipes than messages, or messages of another make.

use manifold_testkit::{Events, Gateway, eventually};
use serde_json::{Value, json};

use crate::{
    MANIFOLD,
    bodies::peak,
    stub::{Stub, error, in_background, python, text},
};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/stubs/stub.py");

/// The stub with everything that it prints going through a filter: the body of a Python loop over `line`.
fn through(stub: &Stub, name: &str, filter: &str) -> String {
    let body = filter.trim().replace('\n', "\n    ");
    let program = format!(
        "import sys\nout = sys.stdout.buffer\nfor line in iter(sys.stdin.buffer.readline, b\"\"):\n    \
         line = line.rstrip(b\"\\n\")\n    {body}\n    out.flush()\n"
    );
    stub.write("filter.py", &program);
    let (python, folder) = (python(), stub.path("."));
    let line = format!(
        "'{python}' -S '{SCRIPT}' '{}' | '{python}' -S '{}'",
        folder.display(),
        stub.path("filter.py").display()
    );
    format!("[servers.{name}]\ncommand = \"sh\"\nargs = [\"-c\", {line:?}]\n")
}

/// S41: only one revision has them, and some servers send them all the same.
#[tokio::test]
async fn a_batch_of_a_server_broke_its_link() {
    let stub = Stub::new();
    let config = through(
        &stub,
        "batch",
        r#"
out.write(b'[]\n[1,[],{}]\n[{"jsonrpc":"2.0","method":"notifications/vendor/foo"},{"jsonrpc":"2.0","id":987654321,"result":{}}]\n')
out.write(b'[{"jsonrpc":"2.0","method":"notifications/vendor/foo"},17,' + line + b']\n')
"#,
    );
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    for id in 1..6 {
        let reply = session.call(id, "batch__echo", r#"{"a":1}"#).await.unwrap();
        assert_eq!(text(&reply), r#"{"a": 1}"#);
        let messages = reply.messages().unwrap();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert_eq!(messages[0]["id"], id);
    }
    let call = r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"batch__progress","_meta":{"progressToken":"t"}}}"#;
    let messages = session.post(call).await.unwrap().messages().unwrap();
    assert_eq!(messages.len(), 11, "{messages:?}");
    assert_eq!(messages[10]["result"]["content"][0]["text"], "done");
    assert_eq!(stub.starts(), 2);
    gateway.server_is("batch", "ready").await.unwrap();
}

/// S09: they are of another protocol, and an operator has to find that out.
#[tokio::test]
async fn a_server_with_content_length_headers_hung_without_a_word() {
    let (odd, good) = (Stub::new(), Stub::new());
    let framed = through(
        &odd,
        "framed",
        r#"out.write(b"Content-Length: %d\r\n\r\n%s" % (len(line), line))"#,
    );
    let config = format!(
        "[timeouts]\nlist = \"1s\"\n{framed}timeouts = {{ start = \"2s\" }}\n{}",
        good.server("good", &[])
    );
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    let status = gateway.server_is("framed", "backoff").await.unwrap();
    let why = status["last_error"].as_str().unwrap();
    assert!(
        why.contains("did not finish starting within 2 s"),
        "{status}"
    );
    // What it says instead is there to be read.
    let tail = status["stderr_tail"].to_string();
    assert!(tail.contains("Content-Length: "), "{status}");
    let log = gateway.log();
    let told = log
        .iter()
        .find(|entry| entry["target"] == "manifold::noise" && entry["server"] == "framed");
    let told = told.unwrap_or_else(|| panic!("{}", gateway.log_text()));
    assert_eq!(told["level"], "WARN", "{told}");
    assert!(
        told["line"].to_string().contains("Content-Length: "),
        "{told}"
    );
    // Nobody else suffers, and its list says that it is missing.
    text(&session.call(1, "good__pid", "{}").await.unwrap());
    let list = session.request(2, "tools/list", "{}").await.unwrap();
    let missing = list.message().unwrap()["result"]["_meta"]["dev.manifold/unavailable"].take();
    assert_eq!(missing[0]["server"], "framed", "{list:?}");
    let alone = gateway.client_of("/mcp/framed").unwrap();
    let alone = alone.session().await.unwrap();
    let reply = alone.call(3, "pid", "{}").await.unwrap();
    assert!(error(&reply)["code"].is_i64(), "{reply:?}");
}

/// S07, S11: on no stream.
#[tokio::test]
async fn what_a_server_prints_beside_its_answers_reached_a_client() {
    let stub = Stub::new();
    let config = stub.server("odd", &["banner", "odd"]);
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    gateway.server_is("odd", "ready").await.unwrap();
    let session = client.session().await.unwrap();
    let own = ("mcp-session-id", session.id.as_str());
    let headers = [own, ("accept", "text/event-stream")];
    let stream = client.open("GET", &headers, "").await.unwrap();
    let mut stream = Events::of(stream).unwrap();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"odd__progress","_meta":{"progressToken":"t"}}}"#;
    let messages = session.post(call).await.unwrap().messages().unwrap();
    let (answer, notes) = messages.split_last().unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    assert_eq!(notes.len(), 10, "{notes:?}");
    for note in notes {
        assert_eq!(note["params"]["progressToken"], "t", "{note}");
    }
    let params = json!({ "name": "odd__echo", "arguments": {} });
    let reply = client.modern("tools/call", params).await.unwrap();
    assert_eq!(text(&reply), "{}");
    assert_eq!(reply.messages().unwrap().len(), 1);
    session.delete().await.unwrap();
    assert_eq!(stream.next().await.unwrap(), None);
    // It is noted, and held against nobody.
    let errors = gateway
        .log()
        .into_iter()
        .filter(|entry| entry["level"] == "ERROR");
    assert_eq!(errors.collect::<Vec<_>>(), Vec::<Value>::new());
    gateway.server_is("odd", "ready").await.unwrap();
}

/// S05: it is text for people, however much, whatever it is made of, and no error.
#[tokio::test]
async fn stderr_filled_the_memory_or_was_taken_for_an_error() {
    let stub = Stub::new();
    let config = stub.server("loud", &["stderr=1048576"]);
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    text(&session.call(1, "loud__pid", "{}").await.unwrap());
    let before = peak(&gateway);
    for id in 2..34 {
        let reply = session.call(id, "loud__stderr", r#"{"bytes":8388608}"#);
        assert_eq!(text(&reply.await.unwrap()), "written");
    }
    let grown = peak(&gateway) - before;
    assert!(grown < 64 << 10, "{grown} KiB of 256 MiB");
    let status = gateway.server_is("loud", "ready").await.unwrap();
    assert_eq!(
        (&status["restarts"], &status["last_error"]),
        (&json!(0), &Value::Null)
    );
    let tail = status["stderr_tail"].to_string();
    assert!(
        tail.contains(" e") && tail.len() < 1 << 20,
        "{}",
        tail.len()
    );
    let worse = gateway
        .log()
        .into_iter()
        .filter(|entry| matches!(entry["level"].as_str(), Some("WARN" | "ERROR")));
    assert_eq!(worse.collect::<Vec<_>>(), Vec::<Value>::new());
}

/// S08: another client of the same child, in both directions at once.
#[tokio::test]
async fn small_calls_failed_beside_large_ones() {
    const SIZE: usize = 16 << 20;
    let stub = Stub::new();
    let config = "[limits]\nrequest_body = \"32MiB\"\n".to_owned();
    let config = config + &stub.server("s", &[]) + "isolation = \"shared\"\n";
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    let (large, small) = (
        client.session().await.unwrap(),
        client.session().await.unwrap(),
    );
    let own = text(&small.call(1, "s__pid", "{}").await.unwrap());
    let up = {
        let large = large.clone();
        in_background(async move {
            let arguments = format!(r#"{{"a":"{}"}}"#, "y".repeat(SIZE));
            large.call(1, "s__echo", &arguments).await.unwrap()
        })
    };
    let down = in_background(async move {
        let arguments = format!(r#"{{"bytes":{SIZE}}}"#);
        large.call(2, "s__size", &arguments).await.unwrap()
    });
    let served = eventually("the large calls", || async {
        assert_eq!(text(&small.call(1, "s__pid", "{}").await.unwrap()), own);
        (up.is_finished() && down.is_finished()).then_some(())
    });
    served.await.unwrap();
    assert_eq!(text(&up.await.unwrap()).len(), SIZE + r#"{"a": ""}"#.len());
    assert_eq!(text(&down.await.unwrap()).len(), SIZE);
    assert_eq!(stub.starts(), 2);
}
