//! A modern server's announcements: one `subscriptions/listen` request that stays open (2026-07-28 subscriptions).

use std::time::Duration;

use manifold_protocol::{Method, Outcome, Params, ProtocolVersion, code};
use tracing::debug;

use super::{Ear, End, Mark, Resume, Watched};
use crate::{
    LinkError,
    call::{Call, Origin, Patience},
    exchange::{Event, Wire},
    link::Channel,
};

/// Subscribes, over pipes or HTTP. Dropping it over HTTP ends the subscription; over pipes the link's end does.
#[derive(Debug)]
pub(crate) struct Subscription {
    channel: Channel,
    version: ProtocolVersion,
    call: Call,
    open: Option<Wire>,
}

impl Subscription {
    pub(crate) fn new(
        channel: Channel,
        version: ProtocolVersion,
        origin: Origin,
        watched: Watched,
    ) -> Self {
        let params = Params::parse(&watched.params()).unwrap_or_else(|_| Params::absent());
        // Nobody looks at the clock of a subscription: it is to last.
        let patience = Patience {
            silence: Duration::MAX,
            max: Duration::MAX,
        };
        let call = Call::own(Method::SubscriptionsListen, params, patience);
        Self {
            channel,
            version,
            call: Call { origin, ..call },
            open: None,
        }
    }
}

impl Ear for Subscription {
    async fn open(&mut self, _resume: Resume) -> Result<(), End> {
        // A server that sends two answers must not find the old exchange.
        self.open = None;
        let begun = self.channel.request(self.version, &self.call).await;
        let mut exchange = begun.map_err(|error| end_of(&Err(error)))?;
        loop {
            match exchange.next().await {
                Event::Note(note) if note.method == Method::SubscriptionsAcknowledged => break,
                Event::Note(_) | Event::Ask(_) => {}
                Event::Done(outcome) => return Err(end_of(&outcome)),
            }
        }
        self.open = Some(exchange);
        Ok(())
    }

    async fn hear(&mut self) -> Result<Mark, End> {
        let Some(exchange) = &mut self.open else {
            return Err(End::Over);
        };
        loop {
            if let Event::Done(outcome) = exchange.next().await {
                return Err(end_of(&outcome));
            }
        }
    }
}

/// What the end of a subscription means.
fn end_of(outcome: &Result<Outcome, LinkError>) -> End {
    let end = match outcome {
        Ok(Outcome::Result(_)) => End::Over,
        Ok(Outcome::Error(error)) => match error.code() {
            // The same request would be refused again.
            code::METHOD_NOT_FOUND | code::INVALID_REQUEST | code::INVALID_PARAMS => End::Refused,
            _ => End::Over,
        },
        Err(LinkError::Status(500..)) => End::Over,
        Err(LinkError::Status(_) | LinkError::Unauthorized(_) | LinkError::NotMcp(_)) => {
            End::Refused
        }
        Err(_) => End::Over,
    };
    debug!(?end, ?outcome, "a subscription has ended");
    end
}
