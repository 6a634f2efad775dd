//! A file with every key, and a file with none.

use std::path::PathBuf;
use std::time::Duration;

use super::{Made, parse_all, valid};
use crate::*;

const EVERYTHING: &str = r#"
[listen]
address = "127.0.0.1:8081"
path = "/gateway/"
allowed_origins = ["https://app.example"]
allowed_hosts = ["gateway.example"]
insecure = true

[admin]
address = "localhost:9091"
token = "${ADMIN_TOKEN}"

[log]
level = "debug"
format = "json"

[sessions]
idle_timeout = "0s"
max_age = "1d"
max = 5
key = "${file:/run/secrets/key}"

[timeouts]
connect = "1s"
start = "2s"
list = "3s"
request = "4s"
request_max = "5s"
keepalive = "6s"
shutdown = "20s"

[limits]
request_body = "64KiB"
message = "1GiB"
concurrent_requests = 7
children_starting = 8
page_size = 9

[names]
separator = "_"
max_length = 64

[servers.files]
command = "npx"
args = ["-y", "a-server", "${DATA:-/data}"]
env = { LOG_LEVEL = "info", TOKEN = "${env:ADMIN_TOKEN}" }
inherit_env = ["LANG"]
cwd = "/data"
enabled = false
prefix = "f"
isolation = "shared"
start = "lazy"
required = true
max_links = 9
spare = 2
link_idle = "10m"
restart = { initial = "1s", max = "2s", stable_after = "3s" }
stop = { close = "0s", term = "1s" }
expose_stderr = true
tools = { allow = ["read_*", "list_?"], deny = ["*secret*"] }
timeouts = { request = "10m", shutdown = "30s" }
cache = { ttl = "5m", scope = "public" }

[servers.docs]
url = "https://docs.example/mcp/?a=${DATA:-b}"
headers = { Authorization = "Bearer ${ADMIN_TOKEN}" }
forward_headers = ["X-Tenant"]
transport = "sse"

[views.readonly]
servers = ["docs", "files"]
tools = { files = ["read_*"], docs = ["*"] }

[views.all]
servers = ["files"]
"#;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn globs(patterns: &[&str]) -> Vec<Glob> {
    patterns
        .iter()
        .map(|pattern| Glob::new(pattern).unwrap())
        .collect()
}

fn exposed(pairs: &[(String, SecretString)]) -> Vec<(&str, &str)> {
    pairs
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose_secret()))
        .collect()
}

fn everything() -> Config {
    let surroundings = Made::default().variable("ADMIN_TOKEN", "t0ken").file(
        "/run/secrets/key",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
    );
    parse_all(EVERYTHING, &surroundings).unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn every_key_of_the_gateway_is_read() {
    let config = everything();
    assert_eq!(
        config.listen,
        Listen {
            address: "127.0.0.1:8081".parse().unwrap(),
            path: "/gateway".to_owned(),
            allowed_origins: vec!["https://app.example".to_owned()],
            allowed_hosts: vec!["gateway.example".to_owned()],
            insecure: true,
        }
    );
    assert_eq!(config.admin.address, "127.0.0.1:9091".parse().unwrap());
    assert_eq!(config.admin.token.unwrap().expose_secret(), "t0ken");
    assert_eq!(
        config.log,
        Log {
            level: Level::Debug,
            format: LogFormat::Json
        }
    );
    assert_eq!(config.sessions.idle_timeout, None);
    assert_eq!(config.sessions.max_age, seconds(86_400));
    assert_eq!(config.sessions.max, 5);
    assert_eq!(config.sessions.key.unwrap().expose(), &[0; 32]);
    assert_eq!(
        config.timeouts,
        Timeouts {
            connect: seconds(1),
            start: seconds(2),
            list: seconds(3),
            request: seconds(4),
            request_max: seconds(5),
            keepalive: seconds(6),
            shutdown: seconds(20),
        }
    );
    assert_eq!(
        config.limits,
        Limits {
            request_body: 65_536,
            message: 1 << 30,
            concurrent_requests: 7,
            children_starting: 8,
            page_size: 9,
        }
    );
    assert_eq!(
        config.names,
        Names {
            separator: Separator::Underscore,
            max_length: 64
        }
    );
}

#[test]
fn every_key_of_a_child_is_read() {
    let config = everything();
    let files = &config.servers[0];
    assert_eq!(files.name.as_str(), "files");
    assert_eq!(
        (files.enabled, files.required, files.expose_stderr),
        (false, true, true)
    );
    assert_eq!(files.prefix.as_str(), "f");
    assert_eq!(
        (files.isolation, files.start),
        (Isolation::Shared, Start::Lazy)
    );
    assert_eq!((files.max_links, files.spare), (9, 2));
    assert_eq!(files.link_idle, seconds(600));
    assert_eq!(
        files.restart,
        Restart {
            initial: seconds(1),
            max: seconds(2),
            stable_after: seconds(3)
        }
    );
    assert_eq!(
        files.stop,
        Stop {
            close: Duration::ZERO,
            term: seconds(1)
        }
    );
    assert_eq!(files.tools.allow, globs(&["read_*", "list_?"]));
    assert_eq!(files.tools.deny, globs(&["*secret*"]));
    assert!(files.tools.permits("read_file"));
    assert!(!files.tools.permits("read_secrets"));
    assert!(!files.tools.permits("write_file"));
    let expected = Timeouts {
        request: seconds(600),
        shutdown: seconds(30),
        ..config.timeouts.clone()
    };
    assert_eq!(files.timeouts, expected);
    assert_eq!(
        files.cache,
        Cache {
            ttl: seconds(300),
            scope: CacheScope::Public
        }
    );
    let Transport::Stdio {
        command,
        args,
        env,
        inherit_env,
        cwd,
    } = &files.transport
    else {
        panic!("not a child");
    };
    assert_eq!(command, "npx");
    assert_eq!(*args, ["-y", "a-server", "/data"]);
    assert_eq!(exposed(env), [("LOG_LEVEL", "info"), ("TOKEN", "t0ken")]);
    assert_eq!(*inherit_env, ["LANG"]);
    assert_eq!(*cwd, Some(PathBuf::from("/data")));
}

#[test]
fn every_key_of_an_http_server_and_of_a_view_is_read() {
    let config = everything();
    let docs = &config.servers[1];
    assert_eq!((docs.name.as_str(), docs.prefix.as_str()), ("docs", "docs"));
    assert_eq!(docs.timeouts, config.timeouts);
    let Transport::Http {
        url,
        headers,
        forward_headers,
        kind,
    } = &docs.transport
    else {
        panic!("not HTTP");
    };
    assert_eq!(url, "https://docs.example/mcp/?a=b");
    assert_eq!(exposed(headers), [("Authorization", "Bearer t0ken")]);
    assert_eq!(*forward_headers, ["x-tenant"]);
    assert_eq!(*kind, HttpKind::Sse);

    let name = |name| ServerName::new(name).unwrap();
    let [readonly, all] = config.views.as_slice() else {
        panic!("not two views");
    };
    assert_eq!(readonly.name.as_str(), "readonly");
    assert_eq!(readonly.servers, [name("docs"), name("files")]);
    assert_eq!(
        readonly.tools,
        [
            (name("files"), globs(&["read_*"])),
            (name("docs"), globs(&["*"]))
        ]
    );
    assert_eq!(all.name.as_str(), "all");
    assert_eq!(all.tools, [(name("files"), globs(&["*"]))]);
}

#[test]
fn defaults() {
    let config = valid("[servers.a]\ncommand = \"x\"\n[servers.b]\nurl = \"http://h\"\n");
    assert_eq!(
        config.listen,
        Listen {
            address: "127.0.0.1:8080".parse().unwrap(),
            path: "/mcp".to_owned(),
            allowed_origins: vec![],
            allowed_hosts: vec![],
            insecure: false,
        }
    );
    assert_eq!(config.admin.address, "127.0.0.1:9090".parse().unwrap());
    assert!(config.admin.token.is_none());
    assert_eq!(
        config.log,
        Log {
            level: Level::Info,
            format: LogFormat::Auto
        }
    );
    assert_eq!(config.sessions.idle_timeout, Some(seconds(1800)));
    assert_eq!(config.sessions.max_age, seconds(7 * 86_400));
    assert_eq!(config.sessions.max, 10_000);
    assert!(config.sessions.key.is_none());
    assert_eq!(
        config.timeouts,
        Timeouts {
            connect: seconds(5),
            start: seconds(120),
            list: seconds(5),
            request: seconds(120),
            request_max: seconds(900),
            keepalive: seconds(15),
            shutdown: seconds(25),
        }
    );
    assert_eq!(
        config.limits,
        Limits {
            request_body: 16 << 20,
            message: 64 << 20,
            concurrent_requests: 64,
            children_starting: 4,
            page_size: 0,
        }
    );
    assert_eq!(
        config.names,
        Names {
            separator: Separator::DoubleUnderscore,
            max_length: 48
        }
    );

    let a = &config.servers[0];
    assert_eq!(
        (a.enabled, a.required, a.expose_stderr),
        (true, false, false)
    );
    assert_eq!(a.prefix.as_str(), "a");
    assert_eq!((a.isolation, a.start), (Isolation::Session, Start::Eager));
    assert_eq!((a.max_links, a.spare), (64, 0));
    assert_eq!(a.link_idle, seconds(1800));
    assert_eq!(
        a.restart,
        Restart {
            initial: Duration::from_millis(500),
            max: seconds(60),
            stable_after: seconds(60)
        }
    );
    assert_eq!(
        a.stop,
        Stop {
            close: seconds(2),
            term: seconds(3)
        }
    );
    assert_eq!(
        a.tools,
        ToolFilter {
            allow: globs(&["*"]),
            deny: vec![]
        }
    );
    assert_eq!(a.timeouts, config.timeouts);
    assert_eq!(
        a.cache,
        Cache {
            ttl: Duration::ZERO,
            scope: CacheScope::Private
        }
    );
    let Transport::Stdio {
        args,
        env,
        inherit_env,
        cwd,
        ..
    } = &a.transport
    else {
        panic!("not a child");
    };
    assert!(args.is_empty() && env.is_empty() && inherit_env.is_empty() && cwd.is_none());
    let Transport::Http {
        headers,
        forward_headers,
        kind,
        ..
    } = &config.servers[1].transport
    else {
        panic!("not HTTP");
    };
    assert!(headers.is_empty() && forward_headers.is_empty());
    assert_eq!(*kind, HttpKind::Auto);
}

#[test]
fn order_is_that_of_the_file() {
    let config = valid(
        "[servers.zebra]\ncommand = \"x\"\nenv = { Z = \"1\", A = \"2\" }\n\
         [servers.ant]\ncommand = \"x\"\n[servers.mole]\ncommand = \"x\"\n\
         [views.z]\nservers = []\n[views.a]\nservers = []\n",
    );
    let servers: Vec<&str> = config
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect();
    assert_eq!(servers, ["zebra", "ant", "mole"]);
    let views: Vec<&str> = config.views.iter().map(|view| view.name.as_str()).collect();
    assert_eq!(views, ["z", "a"]);
    let Transport::Stdio { env, .. } = &config.servers[0].transport else {
        panic!("not a child");
    };
    assert_eq!(exposed(env), [("Z", "1"), ("A", "2")]);
}

#[test]
fn a_flag_can_move_the_listener_under_the_same_rule() {
    let listen = valid("").listen;
    let there = "0.0.0.0:80".parse().unwrap();
    let refusal = listen.clone().at(there).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "can be reached from other machines, and there is no authentication"
    );
    let moved = listen.clone().at("[::1]:0".parse().unwrap()).unwrap();
    assert_eq!(moved.address, "[::1]:0".parse().unwrap());
    let open = valid("[listen]\ninsecure = true").listen.at(there).unwrap();
    assert_eq!(open.address, there);
}
