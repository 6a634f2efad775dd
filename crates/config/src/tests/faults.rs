//! What is wrong with single values and keys: message, line, column and remedy of each fault.

use super::{Made, check_faults as check, listed, parse_all};
use crate::Config;

#[test]
fn wrong_types() {
    check(&[
        (
            "listen = 5",
            &["1:10 `listen` must be a table, not an integer"],
        ),
        (
            "[[servers]]\nname = \"a\"",
            &["1:1 `servers` must be a table, not an array"],
        ),
        (
            "[listen]\naddress = 8080",
            &["2:11 `listen.address` must be a string, not an integer"],
        ),
        (
            "[listen]\nallowed_hosts = \"h\"",
            &["2:17 `listen.allowed_hosts` must be an array of strings, not a string"],
        ),
        (
            "[listen]\nallowed_hosts = [\"h\", 5, \"i\", true]",
            &[
                "2:23 `listen.allowed_hosts[1]` must be a string, not an integer",
                "2:31 `listen.allowed_hosts[3]` must be a string, not a boolean",
            ],
        ),
        (
            "[listen]\ninsecure = \"yes\"",
            &["2:12 `listen.insecure` must be true or false, not a string"],
        ),
        (
            "[sessions]\nmax = \"5\"",
            &["2:7 `sessions.max` must be a whole number, not a string"],
        ),
        (
            "[sessions]\nmax = 1979-05-27",
            &["2:7 `sessions.max` must be a whole number, not a date or time"],
        ),
        (
            "[sessions]\nmax = 1.5",
            &["2:7 `sessions.max` must be a whole number, not a float"],
        ),
        (
            "[servers.a]\ncommand = [\"x\"]",
            &["2:11 `servers.a.command` must be a string, not an array"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nargs = \"-y\"",
            &["3:8 `servers.a.args` must be an array of strings, not a string"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nenv = { A = 5 }",
            &["3:13 `servers.a.env.A` must be a string, not an integer"],
        ),
        (
            "[servers]\na = 5",
            &["2:5 `servers.a` must be a table, not an integer"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nstop = \"5s\"",
            &["3:8 `servers.a.stop` must be a table, not a string"],
        ),
        (
            "[views]\nv = \"files\"",
            &["2:5 `views.v` must be a table, not a string"],
        ),
    ]);
}

#[test]
fn unknown_keys() {
    check(&[
        (
            "serverz = 1",
            &["1:1 unknown key `serverz` in the document | did you mean `servers`?"],
        ),
        (
            "mcpServers = {}",
            &["1:1 unknown key `mcpServers` in the document"],
        ),
        (
            "[listen]\nadress = \"x\"",
            &["2:1 unknown key `adress` in `listen` | did you mean `address`?"],
        ),
        (
            "[listen]\nwhatever = 1",
            &["2:1 unknown key `whatever` in `listen`"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nenvs = {}",
            &["3:1 unknown key `envs` in `servers.a` | did you mean `env`?"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nstop = { close = \"1s\", kill = \"1s\" }",
            &["3:24 unknown key `kill` in `servers.a.stop`"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\n[servers.a.timeouts]\nrequset = \"1s\"",
            &["4:1 unknown key `requset` in `servers.a.timeouts` | did you mean `request`?"],
        ),
        (
            "[views.v]\nserver = []",
            &["2:1 unknown key `server` in `views.v` | did you mean `servers`?"],
        ),
        (
            "\"a\\u001b[31m\" = 1",
            &["1:1 unknown key `a\u{fffd}[31m` in the document"],
        ),
    ]);
}

#[test]
fn quantities() {
    check(&[
        (
            "[timeouts]\nstart = 30",
            &[
                "2:9 `timeouts.start` must be a duration: a whole number with ms, s, m, h or d | write it in quotes and with its unit, for example \"30s\"",
            ],
        ),
        (
            "[timeouts]\nstart = 1.5",
            &[
                "2:9 `timeouts.start` must be a duration: a whole number with ms, s, m, h or d | write it in quotes and with its unit, for example \"30s\"",
            ],
        ),
        (
            "[timeouts]\nstart = \"30\"",
            &[
                "2:9 `timeouts.start` must be a duration: a whole number with ms, s, m, h or d | write it in quotes and with its unit, for example \"30s\"",
            ],
        ),
        (
            "[timeouts]\nstart = \"0s\"",
            &["2:9 `timeouts.start` must be longer than zero"],
        ),
        (
            "[timeouts]\nstart = \"3651d\"",
            &["2:9 `timeouts.start` must not be longer than 3650d"],
        ),
        (
            "[limits]\nrequest_body = 1024",
            &[
                "2:16 `limits.request_body` must be a size: a whole number with B, KiB, MiB or GiB | write it in quotes and with its unit, for example \"16MiB\"",
            ],
        ),
        (
            "[limits]\nrequest_body = \"1kb\"",
            &[
                "2:16 `limits.request_body` must be a size: a whole number with B, KiB, MiB or GiB | write it in quotes and with its unit, for example \"16MiB\"",
            ],
        ),
        (
            "[limits]\nrequest_body = \"0B\"",
            &["2:16 `limits.request_body` must be more than zero"],
        ),
        (
            "[sessions]\nmax = 0",
            &["2:7 `sessions.max` must be from 1 to 10000000"],
        ),
        (
            "[sessions]\nmax = -1",
            &["2:7 `sessions.max` must be from 1 to 10000000"],
        ),
        (
            "[limits]\nconcurrent_requests = 0",
            &["2:23 `limits.concurrent_requests` must be from 1 to 1000000"],
        ),
        (
            "[limits]\nchildren_starting = 0",
            &["2:21 `limits.children_starting` must be from 1 to 10000"],
        ),
        (
            "[sessions]\nmax_age = \"0s\"",
            &["2:11 `sessions.max_age` must be longer than zero"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nlink_idle = \"0s\"",
            &["3:13 `servers.a.link_idle` must be longer than zero"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nmax_links = 0",
            &["3:13 `servers.a.max_links` must be from 1 to 1000000"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nmax_links = 2\nspare = 3",
            &["4:9 `servers.a.spare` must not be above max_links, which is 2"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nrestart = { initial = \"2s\", max = \"1s\" }",
            &["3:29 `servers.a.restart.max` must not be shorter than `initial`"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nrestart = { initial = \"2m\" }",
            &["3:13 `servers.a.restart.max` must not be shorter than `initial`"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\ntimeouts = { list = \"0s\" }",
            &["3:21 `servers.a.timeouts.list` must be longer than zero"],
        ),
    ]);
}

#[test]
fn values_of_the_gateway() {
    check(&[
        (
            "[listen]\naddress = \"gateway.example:80\"",
            &[
                "2:11 `listen.address` must be an IP address, or `localhost`, with a port | for example \"127.0.0.1:8080\" or \"[::1]:8080\"",
            ],
        ),
        (
            "[listen]\naddress = \"0.0.0.0:80\"",
            &[
                "2:11 `listen.address` can be reached from other machines, and there is no authentication | listen on a loopback address behind a proxy that authenticates, or say `insecure = true` in [listen]",
            ],
        ),
        (
            "[listen]\npath = \"mcp\"",
            &["2:8 `listen.path` must begin with `/`"],
        ),
        (
            "[listen]\npath = \"/sse\"",
            &["2:8 `listen.path` must not be `/sse` or `/messages`: the older transport has these"],
        ),
        (
            "[listen]\npath = \"/messages/\"",
            &["2:8 `listen.path` must not be `/sse` or `/messages`: the older transport has these"],
        ),
        (
            "[listen]\npath = \"/\"",
            &[
                "2:8 `listen.path` must not be the root: `/sse` would then be a server or view of that name",
            ],
        ),
        (
            "[listen]\npath = \"/a?b\"",
            &[
                "2:8 `listen.path` must be a plain path: letters, digits and -._~ between single slashes",
            ],
        ),
        (
            "[listen]\nallowed_origins = [\"*\"]",
            &[
                "2:20 `listen.allowed_origins` must hold origins: scheme and host, no path | for example \"https://app.example\"; there is no wildcard",
            ],
        ),
        (
            "[listen]\nallowed_hosts = [\"http://h\"]",
            &[
                "2:18 `listen.allowed_hosts` must hold hosts: a name or an address, with a port or without | for example \"gateway.example\" or \"gateway.example:8080\"; there is no wildcard",
            ],
        ),
        (
            "[admin]\ntoken = \"\"",
            &[
                "2:9 `admin.token` must not be empty | take it out, or set the variable it comes from",
            ],
        ),
        (
            "[admin]\ntoken = \"a b\"",
            &["2:9 `admin.token` must be visible ASCII without spaces: no client could send it"],
        ),
        (
            "[log]\nlevel = \"inof\"",
            &[
                "2:9 `log.level` must be one of `error`, `warn`, `info`, `debug`, `trace` | did you mean `info`?",
            ],
        ),
        (
            "[log]\nformat = \"yaml\"",
            &["2:10 `log.format` must be one of `auto`, `text`, `json`"],
        ),
        (
            "[sessions]\nkey = \"AAEC\"",
            &[
                "2:7 `sessions.key` must be 32 bytes in base64 | make one with `openssl rand -base64 32`",
            ],
        ),
        (
            "[names]\nseparator = \".\"",
            &[
                "2:13 `names.separator` cannot be `.` or `/`: many clients and model APIs accept only A-Z a-z 0-9 _ - in names | use \"__\"",
            ],
        ),
        (
            "[names]\nseparator = \"/\"",
            &[
                "2:13 `names.separator` cannot be `.` or `/`: many clients and model APIs accept only A-Z a-z 0-9 _ - in names | use \"__\"",
            ],
        ),
        (
            "[names]\nseparator = \"::\"",
            &["2:13 `names.separator` must be one of `__`, `_`, `-`"],
        ),
        (
            "[names]\nmax_length = 15",
            &["2:14 `names.max_length` must be from 16 to 128"],
        ),
        (
            "[names]\nmax_length = 129",
            &["2:14 `names.max_length` must be from 16 to 128"],
        ),
    ]);
}

#[test]
fn broken_syntax() {
    check(&[
        (
            "[listen\npath = 5",
            &["1:8 not valid TOML: unclosed table, expected `]`"],
        ),
        (
            "a = ",
            &["1:5 not valid TOML: string values must be quoted, expected literal string"],
        ),
        ("a = 1\na = 2", &["2:1 not valid TOML: duplicate key"]),
        (
            "[admin]\ntoken = \"x",
            &["2:11 not valid TOML: invalid basic string, expected `\"`"],
        ),
        (
            "a = 1 b = 2\nc = @",
            &[
                "1:5 not valid TOML: string values must be quoted, expected literal string",
                "1:9 not valid TOML: unexpected key or value, expected newline, `#`",
                "2:5 not valid TOML: string values must be quoted, expected literal string",
            ],
        ),
        (
            "x = \"\\q\"\n[servers.A]\n",
            &[
                "1:7 not valid TOML: missing escaped value, expected `b`, `e`, `f`, `n`, `r`, `\\`, `\"`, `x`, `u`, `U`",
            ],
        ),
    ]);
}

#[test]
fn reserved_keys() {
    check(&[
        (
            "[listen]\ntls = {}\ntrusted_proxies = []",
            &[
                "2:1 `listen.tls` is reserved: not built yet | take it out: this version would not act on it",
                "3:1 `listen.trusted_proxies` is reserved: not built yet | take it out: this version would not act on it",
            ],
        ),
        (
            "[auth]\n[policy]",
            &[
                "1:2 `auth` is reserved: not built yet | take it out: this version would not act on it",
                "2:2 `policy` is reserved: not built yet | take it out: this version would not act on it",
            ],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nmemory_max = 1\nnice = 1\numask = 1\nuser = 1\ngroup = 1\npinned = 1",
            &[
                "3:1 `servers.a.memory_max` is reserved: not built yet | take it out: this version would not act on it",
                "4:1 `servers.a.nice` is reserved: not built yet | take it out: this version would not act on it",
                "5:1 `servers.a.umask` is reserved: not built yet | take it out: this version would not act on it",
                "6:1 `servers.a.user` is reserved: not built yet | take it out: this version would not act on it",
                "7:1 `servers.a.group` is reserved: not built yet | take it out: this version would not act on it",
                "8:1 `servers.a.pinned` is reserved: not built yet | take it out: this version would not act on it",
            ],
        ),
        (
            "[servers.a]\nurl = \"http://h\"\noauth = {}",
            &[
                "3:1 `servers.a.oauth` is reserved: not built yet | take it out: this version would not act on it",
            ],
        ),
    ]);
}

#[test]
fn keys_without_behaviour_are_refused_until_they_are_taken_off_the_list() {
    let text = "\
[sessions]
max_age = \"1d\"
key = \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"
[servers.c]
url = \"http://h\"
transport = \"sse\"
";
    let no = "is not built yet | take it out: this version would not act on it";
    assert_eq!(
        listed(Config::parse(text, "manifold.toml", &Made::default())),
        [
            format!("2:1 `sessions.max_age` {no}"),
            format!("3:1 `sessions.key` {no}"),
            "6:13 `servers.c.transport` the value `sse` is not built yet".to_owned(),
        ]
    );
    assert!(parse_all(text, &Made::default()).is_ok());
}

#[test]
fn a_refused_key_is_not_offered_for_a_mistyped_one() {
    let text = "[sessions]\nmax_agee = \"1d\"";
    let listed = listed(Config::parse(text, "manifold.toml", &Made::default()));
    assert_eq!(listed, ["2:1 unknown key `max_agee` in `sessions`"]);
}

#[test]
fn all_faults_are_reported_at_once_in_order_of_place() {
    let text = "\
[servers.files]
comand = \"npx\"
args = [\"${DIR}\", 5]
restart = { initial = 5 }
[listen]
address = \"0.0.0.0:80\"
[listn]
[timeouts]
start = \"soon\"
";
    let places: Vec<String> = listed(parse_all(text, &Made::default()))
        .into_iter()
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(
        places,
        ["1:10", "2:1", "3:10", "3:19", "4:23", "6:11", "7:2", "9:9"]
    );
}

#[test]
fn a_report_shows_each_fault_with_its_line_and_remedy() {
    let text = "[listen]\nadress = \"x\"\n\n[log]\n  level = \"loud\" # é\n";
    let faults = parse_all(text, &Made::default()).unwrap_err();
    assert_eq!(
        faults.to_string(),
        "\
error: unknown key `adress` in `listen`
 --> manifold.toml:2:1
  |
2 | adress = \"*\"
  | ^^^^^^
  |
  = help: did you mean `address`?

error: `log.level` must be one of `error`, `warn`, `info`, `debug`, `trace`
 --> manifold.toml:5:11
  |
5 |   level = \"loud\" # é
  |           ^^^^^^"
    );
    assert!(!faults.to_string().contains('\u{1b}'));
    assert!(faults.render(true).contains('\u{1b}'));
    assert_eq!(&text[faults.as_slice()[1].span.clone()], "\"loud\"");
}

#[test]
fn a_very_long_line_is_named_and_not_shown() {
    let text = format!(
        "[log] # {}\nlevel = \"{}\"",
        "x".repeat(5000),
        "y".repeat(5000)
    );
    let faults = parse_all(&text, &Made::default()).unwrap_err();
    let shown = faults.to_string();
    assert!(
        shown.contains("manifold.toml:2:9") && shown.len() < 300,
        "{shown}"
    );
}
