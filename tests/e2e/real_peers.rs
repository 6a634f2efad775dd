//! Four real servers behind one gateway look to four real clients as they look without it.

mod known;
mod peers;
mod rust_sdk;

use std::collections::BTreeMap;

use manifold_testkit::{Client, Gateway, eventually, tagged};
use rmcp::{model::ProtocolVersion, service::ClientLifecycleMode};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tempfile::TempDir;

use self::{
    known::Direct,
    peers::{Call, Driver, Listening, Reach, Report, Server},
    rust_sdk::Trouble,
};
use crate::MANIFOLD;

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";
/// The variable that the gateway's children carry.
const TAG: &str = "MANIFOLD_REAL_PEERS";

/// The gateway and what stands behind it.
struct World {
    gateway: Gateway,
    servers: Vec<Server>,
    direct: Direct,
    tag: String,
    _http: Listening,
    _folder: TempDir,
}

/// The body of an answer to `tools/list`, its tools as they were written.
#[derive(Debug, Deserialize)]
struct ListBody<'a> {
    #[serde(borrow)]
    result: ListResult<'a>,
}

#[derive(Debug, Deserialize)]
struct ListResult<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
}

#[tokio::test]
async fn the_rust_sdk_gets_an_answer_to_everything() {
    let config = format!("[servers.a]\ncommand = {MANIFOLD:?}\nargs = [\"example-server\"]\n");
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let url = gateway.url("/mcp");
    let echo = Call {
        name: "a__echo".into(),
        arguments: json!({ "message": "hi" }),
        progress: false,
    };
    let auto = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: None,
    };
    let modes = [(ClientLifecycleMode::Initialize, LEGACY), (auto, MODERN)];
    for (mode, version) in modes {
        let (running, seen) = rust_sdk::connect(&url, mode, true).await.unwrap();
        // Its handshake asks for a version that has none.
        let first = seen.sent().swap_remove(0);
        if version == LEGACY {
            assert_eq!(first["method"], "initialize");
            assert_eq!(first["params"]["protocolVersion"], MODERN);
        } else {
            assert_eq!(first["method"], "server/discover");
        }
        assert_eq!(rust_sdk::version(&running).unwrap(), version);
        let answer = rust_sdk::outcome(&running, &echo).await.unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "hi", "{answer}");
        let unknown = Call {
            name: "a__ecko".into(),
            ..echo.clone()
        };
        let refusal = rust_sdk::outcome(&running, &unknown).await.unwrap();
        assert_eq!(refusal["error"]["code"], -32602, "{refusal}");
        assert_eq!(refusal["error"]["data"]["nearest"][0], "a__echo");
        // The answer comes with a status of 400, and counts because it has the request's id.
        seen.make(Trouble::UnknownVersion);
        let refusal = rust_sdk::outcome(&running, &echo).await.unwrap();
        assert!(refusal["error"]["code"].is_i64(), "{refusal}");
    }
    // A lost session: the SDK opens another one, or says so.
    for reinitialize in [true, false] {
        let (running, seen) =
            rust_sdk::connect(&url, ClientLifecycleMode::Initialize, reinitialize)
                .await
                .unwrap();
        seen.make(Trouble::LostSession);
        let answer = rust_sdk::outcome(&running, &echo).await;
        let initialized = seen
            .sent()
            .iter()
            .filter(|sent| sent["method"] == "initialize")
            .count();
        if reinitialize {
            assert_eq!(answer.unwrap()["result"]["content"][0]["text"], "hi");
            assert_eq!(initialized, 2);
        } else {
            let error = answer.unwrap_err().to_string();
            assert!(error.to_lowercase().contains("session"), "{error}");
            assert_eq!(initialized, 1);
        }
    }
}

#[tokio::test]
async fn real_clients_find_real_servers_as_they_are() {
    let mut world = World::start().await;
    world.every_server_is_spoken_to_in_its_era().await;
    // All at once: the clients count their ids and tokens from the same numbers.
    tokio::join!(
        world.is_true_to(Driver::TypeScript1, LEGACY),
        world.is_true_to(Driver::TypeScript2, MODERN),
        world.is_true_to(Driver::Python2, MODERN),
        world.is_true_to_the_rust_sdk(),
        world.is_true_alone_to(Driver::TypeScript1, LEGACY),
        world.is_true_alone_to(Driver::Python2, MODERN),
    );
    world.lists_are_true_to_the_byte().await;
    world.progress_carries_the_token_it_was_asked_with().await;
    world.every_child_is_accounted_for().await;
    world.leaves_nothing_behind().await;
}

// === impl World ===

impl World {
    async fn start() -> Self {
        peers::install().await.unwrap();
        let folder = TempDir::new().unwrap();
        known::fill(folder.path());
        let http = peers::everything_http().await.unwrap();
        let stdio = |name, era, command| Server {
            name,
            era,
            reach: Reach::Stdio(command),
        };
        let servers = vec![
            stdio("everything", "legacy", peers::everything()),
            Server {
                name: "everything-http",
                era: "legacy",
                reach: Reach::Http(http.url.clone()),
            },
            stdio("files", "legacy", peers::filesystem(folder.path())),
            stdio("time", "modern", peers::time()),
        ];
        let value = std::process::id().to_string();
        let config: String = servers
            .iter()
            .map(|server| server.config((TAG, &value)))
            .collect();
        let (gateway, direct) = tokio::join!(
            Gateway::start(MANIFOLD, &config),
            known::ask_directly(&servers, folder.path()),
        );
        Self {
            gateway: gateway.unwrap(),
            servers,
            direct,
            tag: format!("{TAG}={value}"),
            _http: http,
            _folder: folder,
        }
    }

    async fn every_server_is_spoken_to_in_its_era(&self) {
        for server in &self.servers {
            let status = self.gateway.server_is(server.name, "ready").await.unwrap();
            assert_eq!(status["era"], server.era, "{status}");
            let tools = self.direct[server.name].tools.len();
            assert_eq!(status["counts"]["tools"], tools, "{status}");
        }
    }

    /// A client lists and calls through `/mcp` what it would list and call directly.
    async fn is_true_to(&self, driver: Driver, version: &str) {
        let who = format!("{driver:?}");
        let (mut calls, expected) = self.calls(version);
        calls.push(unknown_tool());
        let target = Reach::Http(self.gateway.url("/mcp"));
        let mut report = driver.report(&target, &calls).await.unwrap();
        agrees(&who, &report, version, &self.merged_tools());
        is_refused(&who, &report.results.pop().unwrap());
        for ((call, seen), expected) in calls.iter().zip(&report.results).zip(&expected) {
            assert_eq!(undated(seen), undated(expected), "{who}: {call:?}");
        }
        assert_eq!(report.results.len(), expected.len(), "{who}");
    }

    /// The same for the Rust SDK, as far as its models go.
    async fn is_true_to_the_rust_sdk(&self) {
        let (mut calls, expected) = self.calls(LEGACY);
        calls.push(unknown_tool());
        let url = self.gateway.url("/mcp");
        let mut report = rust_sdk::report(&url, &calls).await.unwrap();
        let tools = self.merged_tools();
        let tools: Vec<_> = tools.iter().map(rust_sdk::tool_as_seen).collect();
        agrees("rmcp", &report, LEGACY, &tools);
        is_refused("rmcp", &report.results.pop().unwrap());
        for ((call, seen), expected) in calls.iter().zip(&report.results).zip(expected) {
            let expected = rust_sdk::outcome_as_seen(expected);
            assert_eq!(undated(seen), undated(&expected), "rmcp: {call:?}");
        }
    }

    /// On a server's own path nothing is renamed.
    async fn is_true_alone_to(&self, driver: Driver, version: &str) {
        let who = format!("{driver:?} alone");
        let known = &self.direct["everything"];
        let calls: Vec<_> = known.calls.iter().map(|(call, _)| call.clone()).collect();
        let target = Reach::Http(self.gateway.url("/mcp/everything"));
        let report = driver.report(&target, &calls).await.unwrap();
        agrees(&who, &report, version, &known.tools);
        assert_eq!(report.results.len(), calls.len(), "{who}");
        for ((call, seen), (_, direct)) in calls.iter().zip(&report.results).zip(&known.calls) {
            assert_eq!(*seen, in_version(direct, version), "{who}: {call:?}");
        }
    }

    /// Whatever a client makes of it, what travels is what the server wrote: every field to everyone, and
    /// from an HTTP server, which shows us its bytes, every byte.
    async fn lists_are_true_to_the_byte(&self) {
        let client = self.gateway.client().unwrap();
        let session = client.session().await.unwrap();
        let legacy = session.request(7, "tools/list", "{}").await.unwrap();
        let modern = client.modern("tools/list", json!({})).await.unwrap();
        let Reach::Http(url) = &self.servers[1].reach else {
            panic!("{:?}", self.servers[1]);
        };
        let session = Client::new(url).unwrap().session().await.unwrap();
        let direct = session.request(7, "tools/list", "{}").await.unwrap();
        // An event stream, whose first event has no data.
        let mut direct = direct.body.lines().filter_map(|l| l.strip_prefix("data: "));
        let direct = direct.next_back().unwrap();
        let prefixed = |server: &str, tool: &&RawValue| {
            let start = r#"{"name":""#;
            tool.get().replacen(start, &format!("{start}{server}__"), 1)
        };
        for reply in [&legacy, &modern] {
            let message = reply.json().unwrap();
            let tools = message["result"]["tools"].as_array().unwrap();
            assert_eq!(*tools, self.merged_tools());
            assert!(message["result"].get("nextCursor").is_none(), "{message}");
            for server in ["everything", "everything-http"] {
                let seen: Vec<_> = raw_tools(&reply.body)
                    .iter()
                    .map(|tool| tool.get().to_owned())
                    .filter(|tool| tool.contains(&format!(r#""{server}__"#)))
                    .collect();
                let expected: Vec<_> = raw_tools(direct)
                    .iter()
                    .map(|tool| prefixed(server, tool))
                    .collect();
                assert_eq!(seen, expected);
            }
        }
    }

    async fn progress_carries_the_token_it_was_asked_with(&self) {
        let client = self.gateway.client().unwrap();
        let session = client.session().await.unwrap();
        let params = |server: &str, token: Value| {
            json!({
                "name": format!("{server}__trigger-long-running-operation"),
                "arguments": { "duration": 1, "steps": 2 },
                "_meta": { "progressToken": token },
            })
        };
        let word = json!("räum \"1\"");
        let number = json!(9_007_199_254_740_993_u64);
        let pairs = [
            ("everything", &word),
            ("everything-http", &number),
            ("everything", &number),
            ("everything-http", &word),
        ];
        let [a, b, c, d] = pairs.map(|(server, token)| params(server, token.clone()));
        let (a, b) = (a.to_string(), b.to_string());
        // All with one id besides: what belongs together is the exchange, not the id.
        let (a, b, c, d) = tokio::join!(
            session.request(1, "tools/call", &a),
            session.request(1, "tools/call", &b),
            client.modern("tools/call", c),
            client.modern("tools/call", d),
        );
        for (reply, (server, token)) in [a, b, c, d].into_iter().zip(pairs) {
            let mut messages = reply.unwrap().messages().unwrap();
            let answer = messages.pop().unwrap();
            assert_eq!(answer["id"], 1, "{server}: {answer}");
            let said = &answer["result"]["content"][0]["text"];
            let said = said.as_str().unwrap_or_default();
            assert!(
                said.starts_with("Long running operation completed"),
                "{said}"
            );
            let steps: Vec<_> = messages.iter().map(|step| &step["params"]).collect();
            let step = |done| json!({ "progress": done, "total": 2, "progressToken": token });
            assert_eq!(steps, [&step(1), &step(2)], "{server}");
        }
    }

    /// Every child of the gateway belongs to a link that `/status` shows, and every link to someone.
    async fn every_child_is_accounted_for(&self) {
        let look = || async {
            let status = self.gateway.status().await.unwrap();
            let mut children: Vec<_> = tagged(&self.tag).into_iter().map(u64::from).collect();
            children.sort_unstable();
            (pids_by_use(&status), children)
        };
        // For itself and for all modern clients the gateway has one child of each of the three programs. Of
        // the legacy clients, rmcp has ended its session; the first TypeScript SDK never does: one session used
        // all three, one `everything` alone. So did the session that asked for progress.
        let numbers = BTreeMap::from([
            ("catalog".to_owned(), 3),
            ("principal".to_owned(), 3),
            ("session".to_owned(), 5),
        ]);
        let same = || async {
            let (pids, children) = look().await;
            let found = pids.iter().map(|(used, pids)| (used.clone(), pids.len()));
            let mut pids: Vec<_> = pids.values().flatten().copied().collect();
            pids.sort_unstable();
            (pids == children && numbers == found.collect()).then_some(())
        };
        if let Err(error) = eventually("the children to be those of /status", same).await {
            panic!("{error}: {:?}\n{}", look().await, self.gateway.log_text());
        }
    }

    /// Neither those that leave when their stdin ends, nor one that has to be told.
    async fn leaves_nothing_behind(&mut self) {
        let session = self.gateway.client().unwrap().session().await.unwrap();
        // From now on its timer keeps the program alive.
        let tool = "everything__toggle-simulated-logging";
        let reply = session.call(1, tool, "{}").await.unwrap();
        let content = &reply.message().unwrap()["result"]["content"];
        let said = content[0]["text"].as_str().unwrap_or_default();
        assert!(said.starts_with("Started simulated"), "{reply:?}");
        self.gateway.signal("TERM").await.unwrap();
        let code = self.gateway.exit_code().await.unwrap();
        let left = tagged(&self.tag);
        let log = self.gateway.log_text();
        assert_eq!(code, Some(0), "{log}");
        assert!(left.is_empty(), "{left:?}\n{log}");
        let told = "a link to server everything has ended: was ended by SIGTERM";
        assert_eq!(log.matches(told).count(), 1, "{log}");
    }

    /// The tools of all servers under their exposed names, in the order of the configuration.
    fn merged_tools(&self) -> Vec<Value> {
        let exposed = |server: &Server, tool: &Value| {
            let mut tool = tool.clone();
            let name = tool["name"].as_str().unwrap().to_owned();
            tool["name"] = Value::String(format!("{}__{name}", server.name));
            tool
        };
        self.servers
            .iter()
            .flat_map(|server| {
                let tools = &self.direct[server.name].tools;
                tools.iter().map(|tool| exposed(server, tool))
            })
            .collect()
    }

    /// All known calls under their exposed names with the outcomes a client of `version` must see.
    fn calls(&self, version: &str) -> (Vec<Call>, Vec<Value>) {
        let known = self.servers.iter().flat_map(|server| {
            let known = &self.direct[server.name].calls;
            known.iter().map(|(call, direct)| {
                let name = format!("{}__{}", server.name, call.name);
                let call = Call {
                    name,
                    ..call.clone()
                };
                (call, in_version(direct, version))
            })
        });
        known.unzip()
    }
}

/// The processes of all links by what they are used for.
fn pids_by_use(status: &Value) -> BTreeMap<String, Vec<u64>> {
    let mut pids = BTreeMap::<_, Vec<_>>::new();
    let servers = status["servers"].as_array().unwrap().iter();
    for link in servers.flat_map(|server| server["links"].as_array().unwrap()) {
        if let Some(pid) = link["pid"].as_u64() {
            let used = link["use"].as_str().unwrap().to_owned();
            pids.entry(used).or_default().push(pid);
        }
    }
    pids
}

/// Checks what a session began with.
fn agrees(who: &str, report: &Report, version: &str, tools: &[Value]) {
    assert_eq!(report.protocol_version, version, "{who}");
    assert_eq!(report.tools_error, None, "{who}");
    assert!(report.dropped_tools.is_empty(), "{who}: {report:?}");
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    let names: Vec<_> = report.tools.iter().map(name).collect();
    let expected: Vec<_> = tools.iter().map(name).collect();
    assert_eq!(names, expected, "{who}");
    for (seen, expected) in report.tools.iter().zip(tools) {
        assert_eq!(seen, expected, "{who}");
    }
}

/// A call that no server sees.
fn unknown_tool() -> Call {
    Call {
        name: "everything__ecko".into(),
        arguments: json!({}),
        progress: false,
    }
}

/// Checks what came of [`unknown_tool`].
fn is_refused(who: &str, outcome: &Value) {
    assert_eq!(outcome["error"]["code"], -32602, "{who}: {outcome}");
    let nearest = &outcome["error"]["data"]["nearest"];
    assert_eq!(nearest[0], "everything__echo", "{who}: {outcome}");
}

/// What becomes of an outcome on its way to a client of `version`: results of 2026-07-28 say their type.
fn in_version(direct: &Value, version: &str) -> Value {
    let mut outcome = direct.clone();
    if let (MODERN, Some(result)) = (version, outcome["result"].as_object_mut()) {
        result.entry("resultType").or_insert(json!("complete"));
    }
    outcome
}

/// The same without the dates that a conversion of times happens on: midnight may pass between two calls.
fn undated(outcome: &Value) -> Value {
    let mut text = outcome.to_string();
    for end in ["source", "target"] {
        let end = &outcome["result"]["structuredContent"][end];
        if let (Some(time), Some(day)) = (end["datetime"].as_str(), end["day_of_week"].as_str()) {
            let (date, _) = time.split_once('T').unwrap();
            text = text.replace(date, "DATE").replace(day, "DAY");
        }
    }
    serde_json::from_str(&text).unwrap()
}

fn raw_tools(body: &str) -> Vec<&RawValue> {
    serde_json::from_str::<ListBody<'_>>(body)
        .unwrap()
        .result
        .tools
}
