//! What the server offers, as the lists tell it. The same in both eras and for every client.

use serde_json::{Value, json};

/// The one resource.
pub(crate) const GREETING: &str = "example://greeting";
/// The one template.
pub(crate) const ITEM_TEMPLATE: &str = "example://item/{id}";
/// What URIs of the template start with.
pub(crate) const ITEM_PREFIX: &str = "example://item/";
/// The one prompt.
pub(crate) const GREET: &str = "greet";

/// The largest `from` of `countdown`.
pub(crate) const COUNTDOWN_MAX: u32 = 1000;
/// The longest `interval_ms` of `countdown`.
pub(crate) const INTERVAL_MAX_MS: u64 = 10_000;
/// `interval_ms` of `countdown` when none is given.
pub(crate) const INTERVAL_DEFAULT_MS: u64 = 100;

/// What a model is told about the server.
pub(crate) const INSTRUCTIONS: &str = "A small server for trying things out. `echo` gives back what it is given, `add` \
    adds two numbers, `countdown` takes its time and reports progress, `whoami` describes the process and this call, \
    `ask` asks the user for a name. Nothing here has an effect outside the process.";

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The capabilities, in both eras. Nothing changes while the process lives, so no `listChanged` and no `subscribe`.
pub(crate) fn capabilities() -> Value {
    json!({ "tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {} })
}

/// The tools, always in this order.
pub(crate) fn tools() -> Value {
    json!([
        {
            "name": "echo",
            "title": "Echo",
            "description": "Returns the argument `message`: a string as it is, anything else as its JSON text.",
            "inputSchema": object(&json!({ "message": { "description": "Any JSON value" } }), &["message"]),
            "outputSchema": object(&json!({ "message": { "description": "The value that came in" } }), &["message"]),
            "annotations": annotations("Echo", true),
        },
        {
            "name": "add",
            "title": "Add",
            "description": "Adds two numbers.",
            "inputSchema": object(&json!({ "a": { "type": "number" }, "b": { "type": "number" } }), &["a", "b"]),
            "outputSchema": object(&json!({ "sum": { "type": "number" } }), &["sum"]),
            "annotations": annotations("Add", true),
        },
        {
            "name": "countdown",
            "title": "Countdown",
            "description": "Counts down to zero and then answers. Reports each step as progress if the request has a \
                progress token.",
            "inputSchema": object(&json!({
                "from": { "type": "integer", "minimum": 1, "maximum": COUNTDOWN_MAX, "description": "How many steps" },
                "interval_ms": {
                    "type": "integer", "minimum": 0, "maximum": INTERVAL_MAX_MS, "default": INTERVAL_DEFAULT_MS,
                    "description": "Milliseconds before each step",
                },
            }), &["from"]),
            "annotations": annotations("Countdown", true),
        },
        {
            "name": "whoami",
            "title": "Who am I",
            "description": "Describes the server process and this call: pid, counters, era, protocol version, client.",
            "inputSchema": object(&json!({}), &[]),
            "outputSchema": object(&json!({
                "pid": { "type": "integer" },
                "calls": { "type": "integer", "description": "Tool calls since the process started, this one included" },
                "running": { "type": "integer", "description": "Slow tool calls in progress" },
                "cancelled": { "type": "integer", "description": "Slow tool calls that were given up" },
                "era": { "type": "string", "enum": ["legacy", "modern"] },
                "protocolVersion": { "type": "string" },
                "client": { "type": "string", "description": "The client's name, if it gave one" },
            }), &["pid", "calls", "running", "cancelled", "era", "protocolVersion"]),
            "annotations": annotations("Who am I", false),
        },
        {
            "name": "ask",
            "title": "Ask",
            "description": "Asks the user for a name and greets it. Needs a client that can show a form.",
            "inputSchema": object(&json!({}), &[]),
            "outputSchema": object(&json!({
                "action": { "type": "string", "enum": ["accept", "decline", "cancel"] },
                "name": { "type": "string", "description": "The name, if one was given" },
            }), &["action"]),
            "annotations": annotations("Ask", false),
        },
    ])
}

/// The resources.
pub(crate) fn resources() -> Value {
    json!([{
        "uri": GREETING,
        "name": "greeting",
        "title": "Greeting",
        "description": "One line of text that never changes",
        "mimeType": "text/plain",
    }])
}

/// The resource templates.
pub(crate) fn templates() -> Value {
    json!([{
        "uriTemplate": ITEM_TEMPLATE,
        "name": "item",
        "title": "Item",
        "description": "One line of text that names the id",
        "mimeType": "text/plain",
    }])
}

/// The prompts.
pub(crate) fn prompts() -> Value {
    json!([{
        "name": GREET,
        "title": "Greet somebody",
        "description": "Asks the model to greet somebody by name",
        "arguments": [{ "name": "name", "title": "Name", "description": "Whom to greet", "required": true }],
    }])
}

/// What `ask` shows to the user, in both eras.
pub(crate) fn name_form() -> Value {
    json!({
        "type": "object",
        "properties": { "name": { "type": "string", "title": "Name", "minLength": 1, "maxLength": 200 } },
        "required": ["name"],
    })
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({
        "$schema": DIALECT,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn annotations(title: &str, idempotent: bool) -> Value {
    json!({
        "title": title,
        "readOnlyHint": true,
        "destructiveHint": false,
        "idempotentHint": idempotent,
        "openWorldHint": false,
    })
}
