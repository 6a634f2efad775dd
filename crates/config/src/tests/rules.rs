//! The rules of servers and views, of what holds between tables, and of substitution.

use super::{Made, check_faults as check, parse_all, valid};
use crate::Transport;

#[test]
fn values_of_a_server() {
    check(&[
        (
            "[servers.A]\ncommand = \"x\"",
            &[
                "1:10 `servers.A` must have a name of 1 to 24 of a-z 0-9 -, with a letter first and no - at the end",
            ],
        ),
        (
            "[servers.a]",
            &[
                "1:10 server `a` has neither `command` nor `url` | give it a `command` to start, or the `url` of an HTTP server",
            ],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nurl = \"http://h\"",
            &[
                "3:1 server `a` has both `command` and `url` | keep `command` for a child process, or `url` for an HTTP server",
            ],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nheaders = {}\nforward_headers = []\ntransport = \"auto\"",
            &[
                "3:1 `headers` is for a server with `url`, and `a` has `command`",
                "4:1 `forward_headers` is for a server with `url`, and `a` has `command`",
                "5:1 `transport` is for a server with `url`, and `a` has `command`",
            ],
        ),
        (
            "[servers.a]\nurl = \"http://h\"\nargs = []\nenv = {}\ninherit_env = []\ncwd = \"/\"\nspare = 0\nstop = {}\nexpose_stderr = false",
            &[
                "3:1 `args` is for a server with `command`, and `a` has `url`",
                "4:1 `env` is for a server with `command`, and `a` has `url`",
                "5:1 `inherit_env` is for a server with `command`, and `a` has `url`",
                "6:1 `cwd` is for a server with `command`, and `a` has `url`",
                "7:1 `spare` is for a server with `command`, and `a` has `url`",
                "8:1 `stop` is for a server with `command`, and `a` has `url`",
                "9:1 `expose_stderr` is for a server with `command`, and `a` has `url`",
            ],
        ),
        (
            "[servers.a]\ncommand = \"\"",
            &["2:11 `servers.a.command` must not be empty"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\ncwd = \"\"",
            &["3:7 `servers.a.cwd` must not be empty"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nargs = [\"a\\u0000\"]",
            &["3:9 `servers.a.args` must not hold a NUL: no process could be given it"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nenv = { \"A=B\" = \"1\", \"\" = \"2\", C = \"\\u0000\" }",
            &[
                "3:9 `servers.a.env.A=B` is not the name of a variable: it is empty, or holds `=` or NUL",
                "3:22 `servers.a.env.` is not the name of a variable: it is empty, or holds `=` or NUL",
                "3:36 `servers.a.env.C` must not hold a NUL: no process could be given it",
            ],
        ),
        (
            "[servers.a]\ncommand = \"x\"\ninherit_env = [\"A=B\", \"*\"]",
            &[
                "3:16 `servers.a.inherit_env` is not the name of a variable: it is empty, or holds `=` or NUL",
            ],
        ),
        (
            "[servers.a]\nurl = \"docs.example/mcp\"",
            &["2:7 `servers.a.url` must be absolute: `http://` or `https://`, then a host"],
        ),
        (
            "[servers.a]\nurl = \"ftp://h\"",
            &["2:7 `servers.a.url` must be absolute: `http://` or `https://`, then a host"],
        ),
        (
            "[servers.a]\nurl = \"http://u:p@h\"",
            &[
                "2:7 `servers.a.url` must not hold a user name or password | set `headers = { Authorization = \"…\" }` instead",
            ],
        ),
        (
            "[servers.a]\nurl = \"http://h/#x\"",
            &["2:7 `servers.a.url` must not hold a fragment: it is never sent"],
        ),
        (
            "[servers.a]\nurl = \"http://h:99999\"",
            &["2:7 `servers.a.url` must have a port from 0 to 65535"],
        ),
        (
            "[servers.a]\nurl = \"a b\"",
            &["2:7 `servers.a.url` must be absolute: `http://` or `https://`, then a host"],
        ),
        (
            "[servers.a]\nurl = \"http://h\"\nheaders = { \"a b\" = \"1\", Connection = \"1\", X = \"a\\nb\", x = \"1\" }",
            &[
                "3:13 `servers.a.headers.a b` is not the name of an HTTP header",
                "3:26 `servers.a.headers.Connection` cannot be set: the gateway writes this header itself",
                "3:48 `servers.a.headers.X` must not hold line ends, control characters or characters outside ASCII | a file with several lines, or one with a byte order mark, is a common cause",
                "3:56 `servers.a.headers.x` is set twice: the case of a header's name does not matter",
            ],
        ),
        (
            "[servers.a]\nurl = \"http://h\"\nheaders = { X-A = \"1\" }\nforward_headers = [\"Authorization\", \"cookie\", \"host\", \"content-type\", \"mcp-session-id\", \"Connection\", \"a b\", \"accept\", \"x-a\", \"x-b\", \"X-B\"]",
            &[
                "4:20 `servers.a.forward_headers` cannot name this header: it holds what the client shows to the gateway, which is not for servers",
                "4:37 `servers.a.forward_headers` cannot name this header: it holds what the client shows to the gateway, which is not for servers",
                "4:47 `servers.a.forward_headers` cannot name this header: it names the gateway, not the server",
                "4:55 `servers.a.forward_headers` cannot name this header: it describes the client's body, not the one sent on",
                "4:71 `servers.a.forward_headers` cannot name this header: the gateway writes it itself",
                "4:89 `servers.a.forward_headers` cannot name this header: it is about the client's connection only",
                "4:103 `servers.a.forward_headers` is not the name of an HTTP header",
                "4:110 `servers.a.forward_headers` cannot name this header: the gateway writes it itself",
                "4:120 `servers.a.forward_headers` names a header that `headers` sets",
                "4:134 `servers.a.forward_headers` names a header twice",
            ],
        ),
        (
            "[servers.a]\nurl = \"http://h\"\ntransport = \"http\"",
            &["3:13 `servers.a.transport` must be one of `auto`, `streamable-http`, `sse`"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nisolation = \"share\"",
            &[
                "3:13 `servers.a.isolation` must be one of `session`, `shared` | did you mean `shared`?",
            ],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nstart = \"now\"",
            &["3:9 `servers.a.start` must be one of `eager`, `lazy`"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\ncache = { scope = \"all\" }",
            &["3:19 `servers.a.cache.scope` must be one of `private`, `public`"],
        ),
        (
            "[servers.a]\ncommand = \"x\"\ntools = { allow = [\"\"], deny = [5] }",
            &[
                "3:20 `servers.a.tools.allow` must not be empty: it would match no name | write \"*\" for every name",
                "3:33 `servers.a.tools.deny[0]` must be a string, not an integer",
            ],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nprefix = \"a.b\"",
            &["3:10 `servers.a.prefix` must hold only A-Z a-z 0-9 _ -"],
        ),
        (
            "[servers.a]\nurl = \"http://h:x/\"",
            &["2:7 `servers.a.url` must have a port from 0 to 65535"],
        ),
    ]);
}

#[test]
fn rules_between_tables() {
    check(&[
        (
            "[names]\nseparator = \"_\"\n[servers.a]\ncommand = \"x\"\nprefix = \"a_b\"",
            &[
                "5:10 the prefix of `servers.a` contains the separator `_`, so exposed names could be read in two ways | set a `prefix` without `_`, or use the separator \"__\"",
            ],
        ),
        (
            "[names]\nseparator = \"-\"\n[servers.a-b]\ncommand = \"x\"",
            &[
                "3:10 the prefix of `servers.a-b` contains the separator `-`, so exposed names could be read in two ways | set a `prefix` without `-`, or use the separator \"__\"",
            ],
        ),
        (
            "[names]\nmax_length = 16\n[servers.abcdefg]\ncommand = \"x\"",
            &[
                "3:10 the prefix of `servers.abcdefg` leaves no room for names: names.max_length would have to be 17, and is 16",
            ],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nprefix = \"p\"\n[servers.b]\ncommand = \"x\"\nprefix = \"p\"\n[servers.p]\ncommand = \"x\"",
            &[
                "6:10 `servers.b` has the same prefix as `servers.a` (line 3) | give each its own `prefix`, or none to both with \"\"",
                "7:10 `servers.p` has the same prefix as `servers.a` (line 3) | give each its own `prefix`, or none to both with \"\"",
            ],
        ),
        (
            "[timeouts]\nshutdown = \"6s\"\n[servers.a]\ncommand = \"x\"",
            &[
                "2:12 timeouts.shutdown (6s) must be longer than the stop ladder of `servers.a`: close (2s) + term (3s) + 1s | make shutdown longer than 6s, or the ladder shorter",
            ],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nstop = { close = \"20s\", term = \"4s\" }",
            &[
                "3:1 timeouts.shutdown (25s) must be longer than the stop ladder of `servers.a`: close (20s) + term (4s) + 1s | make shutdown longer than 25s, or the ladder shorter",
            ],
        ),
        (
            "[servers.a]\ncommand = \"x\"\ntimeouts = { shutdown = \"5s\" }",
            &[
                "3:25 timeouts.shutdown (5s) must be longer than the stop ladder of `servers.a`: close (2s) + term (3s) + 1s | make shutdown longer than 6s, or the ladder shorter",
            ],
        ),
        (
            "[servers.files]\ncommand = \"x\"\n[views.files]\nservers = [\"files\"]",
            &[
                "3:8 `views.files` has the name of a server, and the two would share a path | give the view another name",
            ],
        ),
        (
            "[views.V]\nservers = []",
            &[
                "1:8 `views.V` must have a name of 1 to 24 of a-z 0-9 -, with a letter first and no - at the end",
            ],
        ),
        (
            "[servers.files]\ncommand = \"x\"\n[views.v]\nservers = [\"file\", \"docs\", \"files\", \"files\"]\ntools = { files = [\"\"], flies = [\"*\"], x = 5 }",
            &[
                "4:12 `views.v.servers` names a server that does not exist | did you mean `files`?",
                "4:20 `views.v.servers` names a server that does not exist",
                "4:37 `views.v.servers` names a server twice",
                "5:20 `views.v.tools.files` must not be empty: it would match no name | write \"*\" for every name",
                "5:25 `views.v.tools` names a server that does not exist | did you mean `files`?",
                "5:40 `views.v.tools` names a server that does not exist",
                "5:44 `views.v.tools.x` must be an array of strings, not an integer",
            ],
        ),
        (
            "[servers.a]\ncommand = \"x\"\n[servers.b]\ncommand = \"x\"\n[views.v]\nservers = [\"a\"]\ntools = { b = [\"*\"] }",
            &["7:11 `views.v.tools.b` names a server that is not in `servers` of this view"],
        ),
        (
            "[timeouts]\nshutdown = \"6s\"\n[servers.a]\ncommand = \"x\"\n[servers.b]\ncommand = \"x\"\nstop = { close = \"1s\" }\n[servers.c]\nurl = \"http://h\"\n[servers.d]\ncommand = \"x\"\nstop = { close = \"9s\" }",
            &[
                "2:12 timeouts.shutdown (6s) must be longer than the stop ladder of `servers.a`: close (2s) + term (3s) + 1s | make shutdown longer than 6s, or the ladder shorter",
                "12:1 timeouts.shutdown (6s) must be longer than the stop ladder of `servers.d`: close (9s) + term (3s) + 1s | make shutdown longer than 13s, or the ladder shorter",
            ],
        ),
    ]);
}

#[test]
fn references_that_cannot_be_resolved() {
    check(&[
        (
            "[servers.a]\ncommand = \"${A}\"",
            &[
                "2:12 the environment variable `A` is not set | set it, or give a default: `${A:-default}`",
            ],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nargs = [\"ok\", \"é ${env:A} ${B}\"]",
            &[
                "3:18 the environment variable `A` is not set | set it, or give a default: `${A:-default}`",
                "3:27 the environment variable `B` is not set | set it, or give a default: `${B:-default}`",
            ],
        ),
        (
            "[servers.a]\ncommand = \"x\"\nenv = { K = '${file:/none}' }",
            &["3:14 the file `/none` cannot be read: permission denied"],
        ),
        (
            "[servers.a]\ncommand = \"\\u0041${A}\"",
            &[
                "2:11 the environment variable `A` is not set | set it, or give a default: `${A:-default}`",
            ],
        ),
        (
            "[servers.a]\ncommand = \"\"\"\n${A}\"\"\"",
            &[
                "2:11 the environment variable `A` is not set | set it, or give a default: `${A:-default}`",
            ],
        ),
        (
            "[listen]\naddress = \"a ${\"",
            &["2:14 a `${` is not closed by `}` | write `$${` for a literal `${`"],
        ),
        (
            "[admin]\naddress = \"${}\"",
            &[
                "2:12 between `${` and `}` stands no name of a variable | write `$${` for a literal `${`",
            ],
        ),
        (
            "[admin]\naddress = \"${1A}\"",
            &[
                "2:12 between `${` and `}` stands no name of a variable | write `$${` for a literal `${`",
            ],
        ),
        (
            "[admin]\naddress = \"${vault:x}\"",
            &[
                "2:12 a reference can be `${VAR}`, `${env:VAR}` or `${file:/path}` only | write `$${` for a literal `${`",
            ],
        ),
        (
            "[admin]\naddress = \"${file:}\"",
            &["2:12 `${file:}` names no file | write `$${` for a literal `${`"],
        ),
        (
            "[admin]\naddress = \"${A:-${B}}\"",
            &[
                "2:12 a default in `${VAR:-default}` cannot hold another reference | write `$${` for a literal `${`",
            ],
        ),
        (
            "[servers.a]\nurl = \"http://h\"\nheaders = { A = \"Bearer ${T}\" }",
            &[
                "3:25 the environment variable `T` is not set | set it, or give a default: `${T:-default}`",
            ],
        ),
    ]);
}

#[test]
fn what_the_rules_allow() {
    for text in [
        // Disabled servers and servers without a prefix take no name from others.
        "[servers.a]\ncommand = \"x\"\nprefix = \"p\"\n[servers.b]\ncommand = \"x\"\nprefix = \"p\"\nenabled = false",
        "[servers.a]\ncommand = \"x\"\nprefix = \"\"\n[servers.b]\ncommand = \"x\"\nprefix = \"\"",
        "[servers.a]\ncommand = \"x\"\nprefix = \"a__b\"",
        "[names]\nseparator = \"-\"\n[servers.a-b]\ncommand = \"x\"\nprefix = \"a_b\"",
        "[names]\nseparator = \"_\"\n[servers.a-b]\ncommand = \"x\"",
        // Just enough, and no ladder for an HTTP server.
        "[timeouts]\nshutdown = \"6001ms\"\n[servers.a]\ncommand = \"x\"",
        "[timeouts]\nshutdown = \"1s\"\n[servers.a]\nurl = \"http://h\"",
        "[servers.a]\ncommand = \"x\"\nstop = { close = \"0s\", term = \"0s\" }\ntimeouts = { shutdown = \"2s\" }",
        "[listen]\naddress = \"0.0.0.0:80\"\ninsecure = true",
        "[listen]\naddress = \"localhost:0\"",
        "[admin]\naddress = \"0.0.0.0:80\"",
        "[servers.a]\ncommand = \"x\"\ninherit_env = [\"*\"]\ntools = { allow = [] }",
        // TOML 1.1.
        "[servers.a]\ncommand = \"x\"\nenv = {\n  A = \"1\",\n}",
    ] {
        valid(text);
    }
}

#[test]
fn references_are_replaced() {
    let surroundings = Made::default()
        .variable("A", "1")
        .variable("EMPTY", "")
        .variable("TRICK", "${A}\"] #")
        .file("/f", "one\ntwo\n\n")
        .file("/crlf", "x\r\n");
    for (text, expected) in [
        ("plain", "plain"),
        ("$A $ {A} {A} $", "$A $ {A} {A} $"),
        ("${A}", "1"),
        ("<${env:A}${A}>", "<11>"),
        ("${A:-2}", "1"),
        ("${B:-2}", "2"),
        ("${env:B:-2}", "2"),
        ("${B:-}", ""),
        ("${B:-a:-b}", "a:-b"),
        ("${EMPTY}", ""),
        ("${EMPTY:-2}", "2"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$${", "${"),
        ("${TRICK}", "${A}\"] #"),
        ("${file:/f}", "one\ntwo\n"),
        ("${file:/crlf}", "x"),
        ("é${A}é", "é1é"),
    ] {
        let file = format!("[servers.a]\ncommand = \"x\"\nargs = ['{text}']");
        let config = parse_all(&file, &surroundings).unwrap_or_else(|faults| panic!("{faults}"));
        let Transport::Stdio { args, .. } = &config.servers[0].transport else {
            panic!("not a child");
        };
        assert_eq!(*args, [expected], "{text}");
    }
}

#[test]
fn references_work_in_every_kind_of_string() {
    let config = parse_all(
        "\
[listen]
address = \"127.0.0.1:${PORT}\"
[log]
level = \"${LEVEL}\"
[timeouts]
start = \"${START}s\"
[servers.a]
command = \"x\"
prefix = \"${LEVEL}\"
tools = { deny = [\"${LEVEL}_*\"] }
",
        &Made::default()
            .variable("PORT", "81")
            .variable("LEVEL", "warn")
            .variable("START", "9"),
    )
    .unwrap();
    assert_eq!(config.listen.address.port(), 81);
    assert_eq!(config.log.level.as_str(), "warn");
    assert_eq!(config.timeouts.start.as_secs(), 9);
    assert_eq!(config.servers[0].prefix.as_str(), "warn");
    assert!(!config.servers[0].tools.permits("warn_all"));
}
