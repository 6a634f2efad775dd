//! The tools' decisions. What takes time becomes a [`Work`] for `jobs`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Number, Value, json};

use crate::eras::Era;
use crate::handle::{Caller, Outcome};
use crate::jobs::Work;
use crate::message::Params;
use crate::process::Process;
use crate::reply::{Cache, Fault, Payload, text};
use crate::surface::{self, COUNTDOWN_MAX, INTERVAL_DEFAULT_MS, INTERVAL_MAX_MS};

/// The key of the one input request of `ask`.
const NAME_KEY: &str = "name";
/// What the user is asked.
pub(crate) const NAME_QUESTION: &str = "What is your name?";

/// The parameters of `tools/call`, in both eras.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call {
    name: String,
    arguments: Option<Box<RawValue>>,
    input_responses: Option<BTreeMap<String, Box<RawValue>>>,
    request_state: Option<String>,
}

/// A tool's result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<S> {
    content: [Text; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<S>,
    is_error: bool,
}

#[derive(Serialize)]
struct Text {
    r#type: &'static str,
    text: String,
}

/// `tools/call`.
///
/// An unknown tool is a protocol error; arguments that do not fit are a result with `isError`, which a model gets to see
/// (2025-11-25 and 2026-07-28, tools, "Error Handling").
pub(crate) fn call(process: &Process, caller: &Caller, params: &Params) -> Result<Outcome, Fault> {
    let call: Call = params.read()?;
    let tool: fn(&Process, &Caller, &Call) -> Result<Outcome, Fault> = match call.name.as_str() {
        "echo" => |_, caller, call| Ok(Outcome::Done(echo(caller, call))),
        "add" => |_, caller, call| Ok(Outcome::Done(add(caller, call))),
        "countdown" => |_, caller, call| Ok(countdown(caller, call)),
        "whoami" => |process, caller, _| Ok(Outcome::Done(whoami(process, caller))),
        "ask" => ask,
        unknown => return Err(Fault::InvalidParams(format!("unknown tool {unknown:?}"))),
    };
    process.count_call();
    tool(process, caller, &call)
}

/// A result with nothing but text.
pub(crate) fn said(caller: &Caller, text: impl Into<String>) -> Payload {
    result(caller, text.into(), None::<Value>, false)
}

/// A failed call, in words for the model.
pub(crate) fn failed(caller: &Caller, text: impl Into<String>) -> Payload {
    result(caller, text.into(), None::<Value>, true)
}

/// What `ask` makes of the user's answer, which is an `ElicitResult` if all is well.
pub(crate) fn greeted(caller: &Caller, answer: &RawValue) -> Payload {
    #[derive(Deserialize)]
    struct Elicited {
        action: String,
        content: Option<NameContent>,
    }
    #[derive(Deserialize)]
    struct NameContent {
        name: String,
    }
    let Ok(elicited) = serde_json::from_str::<Elicited>(answer.get()) else {
        return failed(caller, "the answer is not the result of an elicitation");
    };
    match (elicited.action.as_str(), elicited.content) {
        ("accept", Some(NameContent { name })) => structured(
            caller,
            format!("Hello, {name}!"),
            json!({ "action": "accept", "name": name }),
        ),
        ("accept", None) => failed(caller, "the form was accepted without a name"),
        (action @ ("decline" | "cancel"), _) => structured(
            caller,
            format!("No name was given ({action})."),
            json!({ "action": action }),
        ),
        (action, _) => failed(caller, format!("unknown action {action:?} in the answer")),
    }
}

fn echo(caller: &Caller, call: &Call) -> Payload {
    #[derive(Deserialize, Serialize)]
    struct Echo {
        message: Box<RawValue>,
    }
    let echo: Echo = match call.arguments() {
        Ok(echo) => echo,
        Err(why) => return failed(caller, why),
    };
    // Not every JSON string is text: one with half a surrogate pair goes back as it is spelled.
    let text = serde_json::from_str::<String>(echo.message.get())
        .unwrap_or_else(|_| echo.message.get().to_owned());
    structured(caller, text, echo)
}

fn add(caller: &Caller, call: &Call) -> Payload {
    #[derive(Deserialize)]
    struct Add {
        a: Number,
        b: Number,
    }
    let Add { a, b } = match call.arguments() {
        Ok(add) => add,
        Err(why) => return failed(caller, why),
    };
    match sum(&a, &b) {
        Some(sum) => structured(caller, sum.to_string(), json!({ "sum": sum })),
        None => failed(caller, "the sum is too large for a number"),
    }
}

/// Exact for integers while it fits, otherwise in floating point.
fn sum(a: &Number, b: &Number) -> Option<Number> {
    let exact = a
        .as_i64()
        .zip(b.as_i64())
        .and_then(|(a, b)| a.checked_add(b));
    match exact {
        Some(sum) => Some(sum.into()),
        None => Number::from_f64(a.as_f64()? + b.as_f64()?),
    }
}

fn countdown(caller: &Caller, call: &Call) -> Outcome {
    #[derive(Deserialize)]
    struct Countdown {
        from: u32,
        interval_ms: Option<u64>,
    }
    let countdown: Countdown = match call.arguments() {
        Ok(countdown) => countdown,
        Err(why) => return Outcome::Done(failed(caller, why)),
    };
    let interval_ms = countdown.interval_ms.unwrap_or(INTERVAL_DEFAULT_MS);
    if !(1..=COUNTDOWN_MAX).contains(&countdown.from) {
        return Outcome::Done(failed(
            caller,
            format!("`from` must be 1 to {COUNTDOWN_MAX}"),
        ));
    }
    if interval_ms > INTERVAL_MAX_MS {
        return Outcome::Done(failed(
            caller,
            format!("`interval_ms` must be 0 to {INTERVAL_MAX_MS}"),
        ));
    }
    Outcome::Later(Work::Countdown {
        from: countdown.from,
        interval: Duration::from_millis(interval_ms),
    })
}

fn whoami(process: &Process, caller: &Caller) -> Payload {
    let counts = process.counts();
    let mut facts = json!({
        "pid": std::process::id(),
        "calls": counts.calls,
        "running": counts.running,
        "cancelled": counts.cancelled,
        "era": caller.era.name(),
        "protocolVersion": caller.version,
    });
    if let (Some(client), Some(members)) = (&caller.client, facts.as_object_mut()) {
        members.insert("client".to_owned(), json!(client));
    }
    structured(caller, text(&facts), facts)
}

/// Legacy: a question on the wire while the call stays open. Modern: rounds of `input_required`, each a call of its own.
fn ask(process: &Process, caller: &Caller, call: &Call) -> Result<Outcome, Fault> {
    match caller.era {
        Era::Legacy if caller.elicitation => Ok(Outcome::Later(Work::Ask)),
        Era::Legacy => Ok(Outcome::Done(failed(
            caller,
            "this client did not declare the elicitation capability, so nobody can be asked",
        ))),
        Era::Modern if !caller.elicitation => Err(Fault::NeedsElicitation),
        Era::Modern => {
            if let Some(state) = &call.request_state
                && !process.redeem_ticket(state)
            {
                return Err(Fault::InvalidParams(
                    "requestState was not given out by this process, or has been used".to_owned(),
                ));
            }
            let answer = call
                .input_responses
                .as_ref()
                .and_then(|all| all.get(NAME_KEY));
            Ok(Outcome::Done(match (answer, &call.request_state) {
                (Some(answer), Some(_)) => greeted(caller, answer),
                // No answer yet, or one to a question that was never asked.
                (_, _) => Payload::input_required(json!({
                    "inputRequests": { NAME_KEY: {
                        "method": "elicitation/create",
                        "params": { "mode": "form", "message": NAME_QUESTION, "requestedSchema": surface::name_form() },
                    } },
                    "requestState": process.issue_ticket(),
                })),
            }))
        }
    }
}

fn structured(caller: &Caller, text: String, structured: impl Serialize) -> Payload {
    result(caller, text, Some(structured), false)
}

fn result(
    caller: &Caller,
    text: String,
    structured: Option<impl Serialize>,
    is_error: bool,
) -> Payload {
    let result = ToolResult {
        content: [Text {
            r#type: "text",
            text,
        }],
        structured_content: structured,
        is_error,
    };
    caller.complete(result, Cache::No)
}

impl Call {
    /// The arguments, or in words what is wrong with them.
    fn arguments<T: DeserializeOwned>(&self) -> Result<T, String> {
        let text = self.arguments.as_deref().map_or("{}", RawValue::get);
        serde_json::from_str(text).map_err(|error| format!("arguments of {}: {error}", self.name))
    }
}
