//! What the servers say when they are asked directly.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Value, json};

use super::peers::{Call, Driver, Server};

/// What the servers say without a gateway, by name.
pub(crate) type Direct = BTreeMap<&'static str, Known>;

/// A server's own words.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) tools: Vec<Value>,
    /// Calls and their outcomes.
    pub(crate) calls: Vec<(Call, Value)>,
}

/// Lists and calls every server without the gateway, in the era that the gateway speaks to it.
pub(crate) async fn ask_directly(servers: &[Server], folder: &Path) -> Direct {
    let mut direct = Direct::new();
    for server in servers {
        let driver = match server.era {
            "legacy" => Driver::TypeScript1,
            _ => Driver::Python2,
        };
        let calls = own_calls(server.name, folder);
        let report = driver.report(&server.reach, &calls).await.unwrap();
        assert!(!report.tools.is_empty(), "{server:?}");
        for (call, outcome) in calls.iter().zip(&report.results) {
            assert!(outcome.get("result").is_some(), "{call:?}: {outcome}");
        }
        assert_eq!(report.results.len(), calls.len());
        // Otherwise some of what is compared later is nothing.
        let some = |says: fn(&Value) -> bool| report.results.iter().any(says);
        assert!(some(|outcome| outcome["result"]["isError"] == true));
        let reports_progress = calls.iter().any(|call| call.progress);
        assert_eq!(
            some(|outcome| outcome["progress"][1].is_object()),
            reports_progress
        );
        let known = Known {
            tools: report.tools,
            calls: calls.into_iter().zip(report.results).collect(),
        };
        direct.insert(server.name, known);
    }
    direct
}

/// Calls that a server always answers alike.
fn own_calls(server: &str, folder: &Path) -> Vec<Call> {
    let call = |name: &str, arguments: Value| Call {
        name: name.to_owned(),
        arguments,
        progress: false,
    };
    let at = |name: &str| json!({ "path": folder.join(name) });
    match server {
        "files" => vec![
            call("read_text_file", at("a.txt")),
            call("list_directory", at("")),
            call("list_allowed_directories", json!({})),
            call("read_text_file", at("missing.txt")), // isError
        ],
        "time" => {
            let convert = |time: &str| json!({ "source_timezone": "UTC", "time": time, "target_timezone": "Asia/Tokyo" });
            vec![
                call("convert_time", convert("12:00")),
                call("convert_time", convert("noon")), // isError
            ]
        }
        _ => vec![
            call("echo", json!({ "message": "grüße \u{1F980} \"quoted\"\n" })),
            call("get-sum", json!({ "a": 2, "b": 3 })),
            call("get-structured-content", json!({ "location": "New York" })),
            call(
                "get-annotated-message",
                json!({ "messageType": "error", "includeImage": true }),
            ),
            Call {
                progress: true,
                ..call(
                    "trigger-long-running-operation",
                    json!({ "duration": 1, "steps": 2 }),
                )
            },
            call("get-sum", json!({ "a": "two" })), // isError
        ],
    }
}

/// The files that are read.
pub(crate) fn fill(folder: &Path) {
    std::fs::write(
        folder.join("a.txt"),
        "first\n\tsecond: ünïcödé \u{1F980}\r\n\"third\"",
    )
    .unwrap();
    std::fs::create_dir(folder.join("empty")).unwrap();
}
