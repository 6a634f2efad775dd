//! The four lists: what the scripted server is given to list, and what clients of both eras are shown.

use std::{ffi::OsStr, process::Command};

use manifold_testkit::{Client, DEADLINE, Events, Gateway, Reply, Session, is_alive};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::stub::{Stub, text};

/// One of the four.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    pub(crate) method: &'static str,
    /// Where the entries stand in a result.
    pub(crate) member: &'static str,
    /// What tells one entry from another.
    pub(crate) key: &'static str,
    /// The file in the folder of the scripted server.
    pub(crate) file: &'static str,
    /// The notification that it has changed.
    pub(crate) changed: &'static str,
}

pub(crate) const TOOLS: List = List {
    method: "tools/list",
    member: "tools",
    key: "name",
    file: "tools",
    changed: "notifications/tools/list_changed",
};
pub(crate) const PROMPTS: List = List {
    method: "prompts/list",
    member: "prompts",
    key: "name",
    file: "prompts",
    changed: "notifications/prompts/list_changed",
};
pub(crate) const RESOURCES: List = List {
    method: "resources/list",
    member: "resources",
    key: "uri",
    file: "resources",
    changed: "notifications/resources/list_changed",
};
pub(crate) const TEMPLATES: List = List {
    method: "resources/templates/list",
    member: "resourceTemplates",
    key: "uriTemplate",
    file: "templates",
    changed: "notifications/resources/list_changed",
};
pub(crate) const LISTS: [List; 4] = [TOOLS, PROMPTS, RESOURCES, TEMPLATES];

/// A client of one era.
#[derive(Debug, Clone)]
pub(crate) enum Asker {
    Legacy(Session),
    Modern(Client),
}

// === impl List ===

impl List {
    /// Has the scripted server list these from now on.
    pub(crate) fn fill<S: AsRef<str>>(self, stub: &Stub, keys: &[S]) {
        let entries = keys.iter().map(|key| {
            let mut entry = json!({ "name": "n" });
            entry[self.key] = key.as_ref().into();
            if self.file == TOOLS.file {
                entry["inputSchema"] = json!({ "type": "object" });
            }
            entry
        });
        stub.write(self.file, &entries.collect::<Value>().to_string());
    }

    /// The keys in an answer.
    pub(crate) fn keys(self, reply: &Reply) -> Vec<String> {
        let result = result(reply);
        let entries = result[self.member].as_array();
        let entries = entries.unwrap_or_else(|| panic!("{result}")).iter();
        entries
            .map(|entry| entry[self.key].as_str().unwrap().to_owned())
            .collect()
    }

    /// The keys that a client is shown.
    pub(crate) async fn shown(self, asker: &Asker) -> Vec<String> {
        self.keys(&asker.ask(self.method, json!({})).await)
    }

    /// `count` keys that differ from one another and from those of the other lists.
    pub(crate) fn many(self, stem: &str, count: usize) -> Vec<String> {
        let key = |n| match self.method {
            "resources/list" => format!("{stem}://r/{n}"),
            "resources/templates/list" => format!("{stem}://t/{n}/{{id}}"),
            _ => format!("{stem}-{n}"),
        };
        (0..count).map(key).collect()
    }
}

// === impl Asker ===

impl Asker {
    /// One of each era.
    pub(crate) async fn both(client: &Client) -> [Self; 2] {
        [
            Self::Legacy(client.session().await.unwrap()),
            Self::Modern(client.clone()),
        ]
    }

    /// The answer to a request, which must come in a time that a client would wait.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Reply {
        let asking = async {
            match self {
                Self::Legacy(session) => session.request(1, method, &params.to_string()).await,
                Self::Modern(client) => client.modern(method, params).await,
            }
        };
        let reply = timeout(DEADLINE, asking).await;
        reply
            .unwrap_or_else(|_| panic!("{method} is not answered"))
            .unwrap()
    }
}

/// The result in an answer.
pub(crate) fn result(reply: &Reply) -> Value {
    let mut message = reply.message().unwrap();
    assert!(message["result"].is_object(), "{message}");
    message["result"].take()
}

/// The servers that a list says it misses, with their states.
pub(crate) fn missing(reply: &Reply) -> Vec<(String, String)> {
    let result = result(reply);
    let missing = result["_meta"]["dev.manifold/unavailable"].as_array();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    missing
        .into_iter()
        .flatten()
        .map(|entry| (word(&entry["server"]), word(&entry["state"])))
        .collect()
}

/// Every process of the scripted server announces `times` times that these lists have changed, whether they have or
/// not. Each `round` has a number of its own.
pub(crate) fn announce(stub: &Stub, round: usize, lists: &[List], times: usize) {
    let announced = json!({ "round": round, "kinds": kinds(lists), "times": times });
    stub.write("announce", &announced.to_string());
}

/// The same of one process, once.
pub(crate) fn announce_only(stub: &Stub, pid: &str, round: usize, list: List) {
    let pid: u32 = pid.parse().unwrap();
    let announced = json!({ "round": round, "kinds": kinds(&[list]), "times": 1, "only": pid });
    stub.write("announce", &announced.to_string());
}

fn kinds(lists: &[List]) -> Vec<&'static str> {
    let kind = |list: &List| {
        let kind = list.changed.strip_prefix("notifications/").unwrap();
        kind.strip_suffix("/list_changed").unwrap()
    };
    lists.iter().map(kind).collect()
}

/// A server `s` with the tools `login` and `pid`, and two entries in each other list.
pub(crate) fn stocked(stub: &Stub, flags: &[&str]) -> String {
    for list in LISTS {
        list.fill(stub, &list.many("s", 2));
    }
    TOOLS.fill(stub, &["login", "pid"]);
    stub.server("s", &[&["shelf", "named=it"], flags].concat())
}

/// A session that has a link of its own to [`stocked`] and was shown everything, and its stream.
pub(crate) async fn at_work(client: &Client) -> (Session, Asker, Events) {
    let session = client.session().await.unwrap();
    text(&session.call(1, "s__pid", "{}").await.unwrap());
    let asker = Asker::Legacy(session.clone());
    for list in LISTS {
        list.shown(&asker).await;
    }
    let events = session.stream().await.unwrap();
    (session, asker, events)
}

/// What a modern client may listen to.
pub(crate) fn everything() -> Value {
    json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true })
}

/// A modern client's stream, after its acknowledgement.
pub(crate) async fn listening(client: &Client, notifications: Value) -> Events {
    let mut events = client.listen(notifications.clone()).await.unwrap();
    let first = events.next().await.unwrap().unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["notifications"], notifications, "{first}");
    events
}

/// The next three methods on a stream, by name.
pub(crate) async fn three(events: &mut Events) -> Vec<String> {
    let mut all = vec![told(events).await, told(events).await, told(events).await];
    all.sort();
    all
}

/// The processes of a scripted server that live, in the order of their starts.
pub(crate) fn alive(stub: &Stub) -> Vec<String> {
    let starts = std::fs::read_to_string(stub.path("starts")).unwrap_or_default();
    let alive = starts.lines().filter(|pid| is_alive(pid.parse().unwrap()));
    alive.map(str::to_owned).collect()
}

/// Kills processes of a scripted server.
pub(crate) fn kill<S: AsRef<OsStr>>(pids: &[S]) {
    assert!(!pids.is_empty());
    let killed = Command::new("kill").arg("-9").args(pids).status();
    assert!(killed.unwrap().success());
}

/// The method of the next message on a stream.
pub(crate) async fn told(events: &mut Events) -> String {
    // Comments keep a stream alive, and would this wait.
    let next = timeout(DEADLINE, events.next()).await;
    let next = next.unwrap_or_else(|_| panic!("nothing is told"));
    let message = next
        .unwrap()
        .unwrap_or_else(|| panic!("the stream has ended"));
    message["method"].as_str().unwrap().to_owned()
}

/// A gateway whose servers of these names are ready.
pub(crate) async fn ready(config: &str, servers: &[&str]) -> Gateway {
    let gateway = Gateway::start(crate::MANIFOLD, config).await.unwrap();
    for server in servers {
        gateway.server_is(server, "ready").await.unwrap();
    }
    gateway
}
