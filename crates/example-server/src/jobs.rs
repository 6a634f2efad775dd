//! The calls that take time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::handle::{Caller, Level};
use crate::message::Id;
use crate::process::Questions;
use crate::reply::{Notice, Payload, Question, Reply};
use crate::surface;
use crate::tools;

/// How long `ask` waits for a person.
const PATIENCE: Duration = Duration::from_secs(600);

/// A call to be run, and who wants its answer.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: Id,
    pub(crate) caller: Caller,
    pub(crate) work: Work,
}

/// What there is to do.
#[derive(Debug)]
pub(crate) enum Work {
    Countdown {
        from: u32,
        interval: Duration,
    },
    /// Ask a legacy client for a name.
    Ask,
    /// Keep a modern subscription open.
    Listen,
}

/// Where a running job can speak and hear.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    /// Messages to the client, before the answer. Bounded: a job waits for a slow client.
    pub(crate) messages: mpsc::Sender<String>,
    /// The questions that this client has not answered yet.
    pub(crate) questions: Arc<Questions>,
    /// Cancelled when the server shuts down in good order.
    pub(crate) closing: CancellationToken,
}

impl Job {
    /// Whether this is the call of a tool, and not a stream that is merely open.
    pub(crate) const fn is_tool_call(&self) -> bool {
        match self.work {
            Work::Countdown { .. } | Work::Ask => true,
            Work::Listen => false,
        }
    }

    /// Runs to the answer. Dropping the future is how a job is cancelled: nothing more is said for it.
    pub(crate) async fn run(self, outlet: &Outlet) -> Reply {
        let Self { id, caller, work } = self;
        let payload = match work {
            Work::Countdown { from, interval } => countdown(&caller, from, interval, outlet).await,
            Work::Ask => ask(&caller, outlet).await,
            Work::Listen => listen(&id, outlet).await,
        };
        Reply {
            id: Some(id),
            era: caller.era,
            outcome: Ok(payload),
        }
    }
}

impl Outlet {
    /// Says something. A client that is gone is no reason to stop here: its transport cancels the job.
    async fn say(&self, message: String) {
        self.messages.send(message).await.ok();
    }
}

async fn countdown(caller: &Caller, from: u32, interval: Duration, outlet: &Outlet) -> Payload {
    if caller.wants(Level::Debug) {
        let params = json!({
            "level": "debug", "logger": "countdown", "data": format!("counting down from {from}"),
        });
        outlet
            .say(Notice::json("notifications/message", params))
            .await;
    }
    for step in 1..=from {
        tokio::time::sleep(interval).await;
        if let Some(token) = &caller.progress {
            let params = json!({
                "progressToken": token,
                "progress": step,
                "total": from,
                "message": format!("{} to go", from - step),
            });
            outlet
                .say(Notice::json("notifications/progress", params))
                .await;
        }
    }
    tools::said(caller, format!("Counted down from {from}."))
}

async fn ask(caller: &Caller, outlet: &Outlet) -> Payload {
    let mut question = outlet.questions.open();
    // No `mode`: a form is what a question without one means, and 2025-06-18 does not know the member.
    let params =
        json!({ "message": tools::NAME_QUESTION, "requestedSchema": surface::name_form() });
    outlet
        .say(Question::json(question.id, "elicitation/create", params))
        .await;
    match tokio::time::timeout(PATIENCE, question.answer()).await {
        Ok(Some(answer)) => tools::greeted(caller, &answer),
        Ok(None) => tools::failed(caller, "the client answered the question with an error"),
        Err(_) => tools::failed(caller, "nobody answered in time"),
    }
}

async fn listen(id: &Id, outlet: &Outlet) -> Payload {
    let params = json!({
        "_meta": { "io.modelcontextprotocol/subscriptionId": id },
        "notifications": {},
    });
    outlet
        .say(Notice::json(
            "notifications/subscriptions/acknowledged",
            params,
        ))
        .await;
    outlet.closing.cancelled().await;
    Payload::subscription_closed(id)
}
