//! What may be a secret is in no message, no shown line and no `Debug` output.

use super::{Made, parse_all};
use crate::Config;

/// Every secret in these tests holds this word.
const WORD: &str = "hush";

#[test]
fn debug_of_a_configuration_shows_none() {
    let surroundings = Made::default()
        .variable("V", "hush1")
        .file("/k", "aHVzaGh1c2hodXNoaHVzaGh1c2hodXNoaHVzaGh1c2g=\n");
    let config = parse_all(
        r#"
        [admin]
        token = "hush2"
        [sessions]
        key = "${file:/k}"
        [servers.a]
        command = "${V}"
        args = ["${V}", "hush3"]
        env = { A = "${V}", B = "hush4" }
        inherit_env = ["${V}"]
        cwd = "/${V}"
        [servers.b]
        url = "https://x.example/?key=${V}"
        headers = { A = "${V}", B = "hush5" }
        "#,
        &surroundings,
    );
    let shown = format!("{:?}", config.unwrap());
    assert!(!shown.contains(WORD) && !shown.contains("aHVz"), "{shown}");
    assert!(
        shown.contains("\"A\""),
        "names of variables are there: {shown}"
    );
}

#[test]
fn faults_show_none() {
    let surroundings = Made::default()
        .variable("V", "hush1")
        .variable("LINES", "hush\nhush");
    for (text, messages) in [
        // The value itself is refused.
        ("[admin]\ntoken = \"hush hush\"", 1),
        ("[admin]\ntoken = 'hush hush'", 1),
        ("[admin]\ntoken = \"\"\"\nhush\nhush\"\"\"", 1),
        ("[admin]\ntoken = \"${NOT_SET} hush\"", 1),
        ("[admin]\ntoken = \"hush${\"", 1),
        ("[admin]\ntoken = \"hush${hush hush}\"", 1),
        ("[admin]\ntoken = \"${V:-hush} \"", 1),
        ("[admin]\ntoken = \"${file:/k}hush\"", 1),
        ("[sessions]\nkey = \"hush\"", 1),
        (
            "[servers.b]\nurl = \"http://h\"\nheaders = { A = \"${LINES}\", B = \"hush\\n\" }",
            2,
        ),
        ("[servers.b]\nurl = \"http://hush:hush@h\"", 1),
        ("[servers.b]\nurl = \"h/?key=hush\"", 1),
        // Something else in its line is.
        (
            "[servers.a]\ncommand = \"x\"\nenv = { A = \"hush\", B = 5 }",
            1,
        ),
        (
            "[servers.a]\ncommand = \"x\"\nargs = [\"--token\", \"hush\", 5]",
            1,
        ),
        ("[servers.a]\ncommand = \"x\"\nargs = \"--token hush\"", 1),
        ("[servers.a]\ncommand = \"x\"\nenv = \"hush\"", 1),
        (
            "servers.b = { url = \"http://h\", headers = { A = \"hush\" }, spare = 1 }",
            1,
        ),
        // The key is not known, or may not be used.
        ("[admin]\ntokn = \"hush\"", 1),
        (
            "[servers.b]\nurl = \"http://h\"\nheader = { A = \"hush\" }",
            1,
        ),
        ("auth = { keys = [\"hush\"] }", 1),
        // What was put in is of the wrong form.
        (
            "[listen]\naddress = \"${V}\"\npath = \"${V}\"\nallowed_hosts = [\"${V}/\"]",
            3,
        ),
        ("[log]\nlevel = \"${V}\"\n[names]\nseparator = \"${V}\"", 2),
        (
            "[timeouts]\nstart = \"${V}\"\n[limits]\nmessage = \"${V}\"",
            2,
        ),
        ("[servers.a]\ncommand = \"x\"\nprefix = \"${V}.\"", 1),
        ("[views.v]\nservers = [\"${V}\"]", 1),
        // The syntax is broken.
        ("[admin]\ntoken = \"hush", 1),
        ("[admin]\ntoken = \"hush\\q\"", 1),
        ("[admin]\ntoken = \"hush\" 5", 1),
        ("[admin]\ntoken \"hush\"", 1),
        ("[admin]\ntoken = hush", 1),
        ("[admin]\ntoken = \"\"\"\nhush", 1),
        ("[admin]\ntoken = '''hush\nhush''' 5", 1),
        ("[servers.a]\nenv = { A = \"hush\", B = \n", 2),
        ("[servers.a]\nargs = [\"hush\" \"hush\"]", 1),
        ("[admin]\ntoken = \"x\"\ntoken = 'hush'", 1),
        ("[servers.a]\nenv = { A: \"hush\" }", 2),
    ] {
        let faults = parse_all(text, &surroundings).expect_err(text);
        let shown = format!("{faults}\n{faults:?}\n{}", faults.render(true));
        assert!(!shown.contains(WORD), "{text}\n{shown}");
        assert_eq!(faults.as_slice().len(), messages, "{text}\n{shown}");
    }
}

#[test]
fn a_refused_key_is_not_shown() {
    let text = "[sessions]\nkey = \"hush\"";
    let faults = Config::parse(text, "manifold.toml", &Made::default()).unwrap_err();
    assert!(!format!("{faults}{faults:?}").contains(WORD), "{faults}");
}

#[test]
fn what_is_no_secret_is_shown() {
    let text = "[admin]\ntoken = \"x${NOT_SET:-y}${file:/k}\" # why\n";
    let faults = parse_all(text, &Made::default()).unwrap_err();
    assert_eq!(
        faults.to_string(),
        "\
error: the file `/k` cannot be read: permission denied
 --> manifold.toml:2:24
  |
2 | token = \"*${NOT_SET:-*}${file:/k}\" # why
  |                        ^^^^^^^^^^"
    );
}
