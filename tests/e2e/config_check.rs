//! `manifold check`: every fault at its place, nothing that is secret, nothing that is started.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::{MANIFOLD, stub::Stub};

/// What a run of the binary came to.
#[derive(Debug)]
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs the binary in `folder` with these variables beside PATH, and no others.
fn run(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> Run {
    let output = Command::new(MANIFOLD)
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Checks a file of that text, called `gateway.toml`.
fn check(text: impl AsRef<[u8]>, variables: &[(&str, &str)]) -> Run {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("gateway.toml"), text).unwrap();
    let args = ["check", "--config", "gateway.toml"];
    run(folder.path(), &args, variables)
}

fn is_fine(run: &Run) {
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("", ""));
}

/// Each fault as its message, its place, the line as shown and the remedy.
fn faults(run: &Run) -> Vec<(&str, &str, &str, &str)> {
    assert_eq!(run.code, Some(2), "{run:?}");
    assert_eq!(run.stdout, "", "{run:?}");
    let each = run.stderr.trim_end().split("\n\n").map(|fault| {
        let mut lines = fault.lines().map(str::trim);
        let message = lines.next().unwrap().strip_prefix("error: ").unwrap();
        let place = lines.next().unwrap().strip_prefix("--> ").unwrap();
        let rest: Vec<_> = lines.collect();
        let shown = rest.iter().find_map(|line| line.split_once(" | "));
        let help = rest.iter().find_map(|line| line.strip_prefix("= help: "));
        let carets = rest.iter().any(|line| line.contains('^'));
        assert!(carets, "what is meant is not marked: {fault}");
        (message, place, shown.unwrap().1, help.unwrap_or_default())
    });
    each.collect()
}

#[test]
fn one_fault_hid_the_others() {
    let run = check(
        r#"
[listen]
adress = "127.0.0.1:8080"

[timeouts]
list = 5

[servers.files]
command = "npx"
headers = {}
isolation = "share"

[servers.more]
command = "npx"
prefix = "files"
env = { "é" = "x", TOKEN = "${NO_SUCH_VARIABLE}", B = 5 }

[servers.docs]
url = "docs.example/mcp"
nice = 5

[views.docs]
servers = ["file"]

[auth]
"#,
        &[],
    );
    assert_eq!(
        faults(&run),
        [
            (
                "unknown key `adress` in `listen`",
                "gateway.toml:3:1",
                "adress = \"**************\"",
                "did you mean `address`?"
            ),
            (
                "`timeouts.list` must be a duration: a whole number with ms, s, m, h or d",
                "gateway.toml:6:8",
                "list = 5",
                "write it in quotes and with its unit, for example \"30s\""
            ),
            (
                "`headers` is for a server with `url`, and `files` has `command`",
                "gateway.toml:10:1",
                "headers = {}",
                ""
            ),
            (
                "`servers.files.isolation` must be one of `session`, `shared`",
                "gateway.toml:11:13",
                "isolation = \"share\"",
                "did you mean `shared`?"
            ),
            (
                "`servers.more` has the same prefix as `servers.files` (line 8)",
                "gateway.toml:15:10",
                "prefix = \"files\"",
                "give each its own `prefix`, or none to both with \"\""
            ),
            (
                "the environment variable `NO_SUCH_VARIABLE` is not set",
                "gateway.toml:16:29",
                "env = { \"é\" = \"*\", TOKEN = \"${NO_SUCH_VARIABLE}\", B = * }",
                "set it, or give a default: `${NO_SUCH_VARIABLE:-default}`"
            ),
            (
                "`servers.more.env.B` must be a string, not an integer",
                "gateway.toml:16:55",
                "env = { \"é\" = \"*\", TOKEN = \"${NO_SUCH_VARIABLE}\", B = * }",
                ""
            ),
            (
                "`servers.docs.url` must be absolute: `http://` or `https://`, then a host",
                "gateway.toml:19:7",
                "url = \"docs.example/mcp\"",
                ""
            ),
            (
                "`servers.docs.nice` is reserved: not built yet",
                "gateway.toml:20:1",
                "nice = *",
                "take it out: this version would not act on it"
            ),
            (
                "`views.docs` has the name of a server, and the two would share a path",
                "gateway.toml:22:8",
                "[views.docs]",
                "give the view another name"
            ),
            (
                "`views.docs.servers` names a server that does not exist",
                "gateway.toml:23:12",
                "servers = [\"file\"]",
                "did you mean `files`?"
            ),
            (
                "`auth` is reserved: not built yet",
                "gateway.toml:25:2",
                "[auth]",
                "take it out: this version would not act on it"
            ),
        ]
    );
}

#[test]
fn broken_syntax_had_no_place() {
    let run = check("[listen\naddress = \"127.0.0.1:0\"\n[log]\nlevel =\n", &[]);
    let places: Vec<_> = faults(&run).iter().map(|fault| fault.1).collect();
    assert_eq!(places, ["gateway.toml:1:8", "gateway.toml:4:8"], "{run:?}");
}

#[test]
fn files_as_editors_save_them_were_refused() {
    for text in [
        "",
        "\n\n# nothing\n",
        "\u{feff}[listen]\r\naddress = \"127.0.0.1:0\"\r\n",
        "[servers.a]\ncommand = \"x\"\nenv = {\n  A = \"1\", # why\n}",
    ] {
        is_fine(&check(text, &[]));
    }
}

/// Whoever sees the output of a build or a terminal may not see them.
#[test]
fn a_secret_was_printed() {
    let long = format!("s3cret{}", "x".repeat(5000));
    let variables = [
        ("SECRET", "s3cret-value"),
        ("LINES", "s3cret\ns3cret"),
        ("LONG", long.as_str()),
    ];
    for text in [
        // What a variable holds does not fit.
        "[listen]\naddress = \"${SECRET}\"\npath = \"${SECRET}\"\nallowed_origins = [\"${SECRET}\"]",
        "[log]\nlevel = \"${SECRET}\"\nformat = \"${LONG}\"\n[names]\nseparator = \"${SECRET}\"",
        "[timeouts]\nstart = \"${SECRET}\"\n[limits]\nmessage = \"${SECRET}\"",
        "[servers.a]\ncommand = \"x\"\nisolation = \"${SECRET}\"\nstart = \"${SECRET}\"\nprefix = \"${SECRET}.\"",
        "[servers.a]\ncommand = \"x\"\nprefix = \"${SECRET}\"\n[servers.b]\ncommand = \"x\"\nprefix = \"${SECRET}\"",
        "[servers.a]\ncommand = \"x\"\n[views.v]\nservers = [\"${SECRET}\"]",
        "[servers.a]\nurl = \"${SECRET}\"",
        "[servers.a]\nurl = \"http://s3cret:s3cret@h\"",
        "[servers.a]\nurl = \"h/?key=s3cret\"",
        "[servers.a]\nurl = \"http://h/${LINES}\"",
        // Its place is right, and what it is does not fit.
        "[servers.a]\nurl = \"http://h\"\nheaders = { Authorization = \"Bearer ${LINES}\", X = \"s3cret\\n\" }",
        "[admin]\ntoken = \"${SECRET} \"",
        "[admin]\ntoken = \"s3cret s3cret\"",
        // Something else in its line does not.
        "[servers.a]\ncommand = \"x\"\nenv = { TOKEN = \"s3cret\", \"A=B\" = \"s3cret\", B = 5 }",
        "[servers.a]\ncommand = \"x\"\nenv = { TOKEN = \"${SECRET}${NO_SUCH:-}${NO_SUCH}\" }",
        "[servers.a]\ncommand = \"x\"\nargs = [\"--token\", \"s3cret\", 5]",
        "servers.b = { url = \"http://h\", headers = { Authorization = \"s3cret\" }, spare = 1 }",
        "[servers.a]\ncommand = \"x\"\nenv = { TOKEN = \"${NO_SUCH} s3cret\" }",
        "[servers.a]\ncommand = \"x\"\nenv = { TOKEN = \"${NO_SUCH\", B = \"s3cret\" }",
        // It stands where nobody looks for it.
        "[servers.a]\ncommand = \"x\"\nenvs = { TOKEN = \"s3cret\" }\ntoken = \"s3cret\"",
        "[servers.a]\ncommand = \"x\"\nenv = [\"TOKEN=s3cret\"]",
        "[auth]\nkeys = [\"s3cret\"]\n[policy]\nkey = \"s3cret\"\nmore = { key = \"s3cret\" }",
        "auth = { keys = [\"s3cret\"] }",
        "[servers.a]\nurl = \"http://h\"\noauth = { client_secret = \"s3cret\" }",
        // Nobody can tell what it is.
        "[admin]\ntoken = \"s3cret",
        "[admin]\ntoken = s3cret",
        "[admin]\ntoken = \"s3cret\"\ntoken = \"s3cret\"",
        "[servers.a]\nenv = { A = \"s3cret\", B = }",
    ] {
        let run = check(text, &variables);
        assert_eq!(run.code, Some(2), "{text}: {run:?}");
        assert!(run.stderr.contains("gateway.toml:"), "{text}: {run:?}");
        let shown = format!("{}{}", run.stdout, run.stderr);
        assert!(!shown.contains("s3cret"), "{text}:\n{shown}");
    }
}

#[test]
fn a_reserved_key_was_ignored() {
    let child = "[servers.a]\ncommand = \"x\"\n";
    let http = "[servers.a]\nurl = \"http://h\"\n";
    for (before, key, path) in [
        ("", "[auth]", "auth"),
        ("", "[policy]", "policy"),
        ("[listen]\n", "tls = { cert = \"c\" }", "listen.tls"),
        (
            "[listen]\n",
            "trusted_proxies = []",
            "listen.trusted_proxies",
        ),
        (child, "memory_max = \"1GiB\"", "servers.a.memory_max"),
        (child, "nice = 5", "servers.a.nice"),
        (child, "umask = \"077\"", "servers.a.umask"),
        (child, "user = \"nobody\"", "servers.a.user"),
        (child, "group = \"nobody\"", "servers.a.group"),
        (child, "pinned = true", "servers.a.pinned"),
        (http, "oauth = {}", "servers.a.oauth"),
    ] {
        let run = check(format!("{before}{key}\n"), &[]);
        let faults = faults(&run);
        let line = before.lines().count() + 1;
        let column = if key.starts_with('[') { 2 } else { 1 };
        assert_eq!(faults.len(), 1, "{key}: {run:?}");
        let message = format!("`{path}` is reserved: not built yet");
        assert_eq!(faults[0].0, message);
        assert_eq!(faults[0].1, format!("gateway.toml:{line}:{column}"));
    }
    let folder = TempDir::new().unwrap();
    for command in ["import", "tools", "call", "stdio", "lock", "login"] {
        let run = run(folder.path(), &[command, "x", "--y"], &[]);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.stderr.contains("reserved"), "{run:?}");
        assert_eq!(run.stdout, "");
    }
}

/// Nearly everything that there is to set.
const WHOLE: &str = r#"
[listen]
address = "127.0.0.1:0"
path = "/mcp"
allowed_origins = ["https://app.example"]
allowed_hosts = ["mcp.example", "other.example:8443"]
[admin]
address = "127.0.0.1:0"
token = "${ADMIN_TOKEN}"
[log]
level = "info"
format = "auto"
[sessions]
idle_timeout = "0s"
max = 10000
[timeouts]
connect = "5s"
start = "120s"
list = "5s"
request = "120s"
request_max = "15m"
keepalive = "15s"
shutdown = "25s"
[limits]
request_body = "16MiB"
message = "64MiB"
concurrent_requests = 64
children_starting = 4
page_size = 50
[names]
separator = "__"
max_length = 48
[servers.files]
command = "npx"
args = ["-y", "@modelcontextprotocol/server-filesystem", "${HOME:-/data}"]
env = { LOG_LEVEL = "info", KEY = "${file:secret}" }
inherit_env = ["LANG"]
cwd = "/data"
enabled = true
prefix = "files"
isolation = "session"
start = "lazy"
required = false
max_links = 64
spare = 0
link_idle = "30m"
restart = { initial = "500ms", max = "60s", stable_after = "60s" }
stop = { close = "2s", term = "3s" }
expose_stderr = false
tools = { allow = ["*"], deny = ["delete_*"] }
timeouts = { request = "10m" }
cache = { ttl = "5m", scope = "public" }
[servers.docs]
url = "https://docs.example/mcp/"
headers = { Authorization = "Bearer ${env:DOCS_TOKEN}" }
forward_headers = ["x-tenant"]
transport = "streamable-http"
isolation = "shared"
[views.readonly]
servers = ["files", "docs"]
tools = { files = ["read_*", "list_*"], docs = ["*"] }
[views.all]
servers = ["docs"]
"#;

#[test]
fn a_key_that_is_there_was_refused() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("secret"), "s3cret\n").unwrap();
    std::fs::write(folder.path().join("gateway.toml"), WHOLE).unwrap();
    let args = ["check", "--config", "gateway.toml"];
    let variables = [("ADMIN_TOKEN", "s3cret"), ("DOCS_TOKEN", "s3cret")];
    is_fine(&run(folder.path(), &args, &variables));
    // Without them it's a fault at each place.
    let without = run(folder.path(), &args, &[]);
    let faults: Vec<_> = faults(&without).iter().map(|fault| fault.0).collect();
    let unset = |name: &str| format!("the environment variable `{name}` is not set");
    assert_eq!(faults, [unset("ADMIN_TOKEN"), unset("DOCS_TOKEN")]);
}

/// Nor is anything started, by either command.
#[test]
fn a_faulty_file_was_served() {
    let stub = Stub::new();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("manifold.toml");
    std::fs::write(&file, stub.server("s", &[]) + "colour = 1\n").unwrap();
    let checked = run(folder.path(), &["check"], &[]);
    assert_eq!(faults(&checked).len(), 1);
    let flags = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let served = run(folder.path(), &flags, &[]);
    assert_eq!((served.code, &served.stderr), (Some(2), &checked.stderr));
    std::fs::write(&file, stub.server("s", &[])).unwrap();
    is_fine(&run(folder.path(), &["check"], &[]));
    assert_eq!(stub.starts(), 0);
}

#[test]
fn the_file_was_looked_for_in_the_wrong_place() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, key: &str| {
        std::fs::write(folder.path().join(name), format!("{key} = 1\n")).unwrap();
    };
    write("flag.toml", "flag");
    write("variable.toml", "variable");
    write("manifold.toml", "folder");
    let variable = ("MANIFOLD_CONFIG", "variable.toml");
    for (args, variables, key) in [
        (
            &["check", "--config", "flag.toml"][..],
            &[variable][..],
            "flag",
        ),
        (&["check"], &[variable], "variable"),
        (&["check"], &[], "folder"),
    ] {
        let run = run(folder.path(), args, variables);
        let message = format!("unknown key `{key}` in the document");
        assert_eq!(faults(&run)[0].0, message);
    }
}

#[test]
fn bad_usage_had_another_exit_code() {
    let folder = TempDir::new().unwrap();
    std::fs::write(
        folder.path().join("bytes"),
        b"[listen]\naddress = \"\xff\"\n",
    )
    .unwrap();
    std::fs::write(folder.path().join("good"), "").unwrap();
    for (args, told) in [
        (&["check", "--config", "none.toml"][..], "none.toml"),
        (&["check", "--config", "."], "--config"),
        (&["check", "--config", "bytes"], "UTF-8"),
        (&["check"], "manifold.toml"),
        (&["serve"], "manifold.toml"),
        (&["check", "--conf", "good"], "--conf"),
        (&["check", "good"], "good"),
        (&["chek"], "check"),
        (&[], "check"),
        (
            &["serve", "--config", "good", "--listen", "here"],
            "--listen",
        ),
        (
            &["serve", "--config", "good", "--listen", "0.0.0.0:0"],
            "authentication",
        ),
        (&["serve", "--config", "good", "--admin", "8080"], "--admin"),
        (&["example-server", "--era", "old"], "--era"),
    ] {
        let run = run(folder.path(), args, &[]);
        assert_eq!(run.code, Some(2), "{args:?}: {run:?}");
        assert!(run.stderr.contains(told), "{args:?}: {run:?}");
        assert_eq!(run.stdout, "", "{args:?}");
    }
}

/// And of each server what it is, in the order of the file.
#[test]
fn a_check_of_the_servers_left_them_running() {
    let stub = Stub::new();
    let down = "[servers.down]\ncommand = \"sh\"\nargs = [\"-c\", \"exit 3\"]\n";
    let off = "[servers.off]\ncommand = \"no-such-program\"\nenabled = false\n";
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("manifold.toml");
    let flags = ["check", "--connect"];
    std::fs::write(&file, stub.server("up", &[]) + off).unwrap();
    let good = run(folder.path(), &flags, &[]);
    assert_eq!(good.code, Some(0), "{good:?}");
    let lines: Vec<_> = good.stdout.lines().collect();
    assert!(
        lines[0].contains("up: legacy 2025-11-25, 6 tools, started in "),
        "{good:?}"
    );
    assert!(lines[1].starts_with("off") && lines[1].ends_with("disabled"));
    std::fs::write(&file, down.to_owned() + &stub.server("up", &[])).unwrap();
    let bad = run(folder.path(), &flags, &[]);
    assert_eq!(bad.code, Some(1), "{bad:?}");
    let lines: Vec<_> = bad.stdout.lines().collect();
    assert!(lines[0].starts_with("down"), "{bad:?}");
    assert!(lines[0].contains("code 3"), "{bad:?}");
    assert!(
        lines[1].starts_with("up") && lines[1].contains("6 tools"),
        "{bad:?}"
    );
    assert_eq!(stub.starts(), 2);
    let starts = std::fs::read_to_string(stub.path("starts")).unwrap();
    for pid in starts.lines() {
        assert!(!manifold_testkit::is_alive(pid.parse().unwrap()), "{pid}");
    }
}
