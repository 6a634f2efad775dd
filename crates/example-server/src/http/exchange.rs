//! One request whose answer takes time, and the event stream it may become.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::reply::Reply;

/// How often a silent stream says that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A comment line, which clients skip.
const COMMENT: &[u8] = b": keep-alive\n\n";

type Work = Pin<Box<dyn Future<Output = Option<Reply>> + Send>>;

/// A running job with what it says. It runs only while polled, so dropping it is how a client that is gone cancels it.
pub(super) struct Exchange {
    work: Option<Work>,
    /// What the job leaves when it is done, for after its last message.
    reply: Option<Reply>,
    messages: mpsc::Receiver<String>,
}

/// What an exchange comes to next.
pub(super) enum Step {
    /// A notification, or a question to the client.
    Message(String),
    /// The answer; nothing comes after it.
    Reply(Reply),
    /// The end without an answer: the call was cancelled, or the stream was never to have one.
    Ended,
}

/// An exchange as `text/event-stream`, with a comment in every silence of 15 seconds.
pub(super) struct EventStream {
    /// What was learnt of the exchange before it became a stream.
    first: Option<Step>,
    exchange: Option<Exchange>,
    keep_alive: Interval,
}

impl Exchange {
    pub(super) fn new(
        work: impl Future<Output = Option<Reply>> + Send + 'static,
        messages: mpsc::Receiver<String>,
    ) -> Self {
        Self {
            work: Some(Box::pin(work)),
            reply: None,
            messages,
        }
    }

    /// The next step. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Step {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        if let Some(work) = &mut self.work
            && let Poll::Ready(reply) = work.as_mut().poll(context)
        {
            // Dropping the work drops the sender of messages, so that the receiver comes to its end below.
            self.work = None;
            self.reply = reply;
        }
        Poll::Ready(match ready!(self.messages.poll_recv(context)) {
            Some(message) => Step::Message(message),
            None => self.reply.take().map_or(Step::Ended, Step::Reply),
        })
    }
}

impl EventStream {
    /// Streams what `first` was and what follows.
    pub(super) fn new(first: Option<Step>, exchange: Exchange) -> Self {
        let mut keep_alive = interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            first,
            exchange: Some(exchange),
            keep_alive,
        }
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let Some(exchange) = &mut this.exchange else {
            return Poll::Ready(None);
        };
        let step = match this.first.take() {
            Some(first) => first,
            None => match exchange.poll_next(context) {
                Poll::Ready(step) => step,
                Poll::Pending => {
                    ready!(this.keep_alive.poll_tick(context));
                    return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(COMMENT)))));
                }
            },
        };
        let message = match step {
            Step::Message(message) => message,
            Step::Reply(reply) => {
                this.exchange = None;
                reply.to_json()
            }
            Step::Ended => {
                this.exchange = None;
                return Poll::Ready(None);
            }
        };
        this.keep_alive.reset();
        Poll::Ready(Some(Ok(Frame::data(event(&message)))))
    }
}

/// One event. A line break in the JSON, which only a raw part of it can have, becomes a further `data` line.
fn event(message: &str) -> Bytes {
    let mut event = String::with_capacity(message.len() + 32);
    event.push_str("event: message\n");
    for line in message.split(['\n', '\r']) {
        event.push_str("data: ");
        event.push_str(line);
        event.push('\n');
    }
    event.push('\n');
    event.into()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::eras::Era;
    use crate::reply::{Cache, Payload};

    fn reply() -> Reply {
        Reply {
            id: None,
            era: Era::Legacy,
            outcome: Ok(Payload::complete(
                Era::Legacy,
                serde_json::json!({}),
                Cache::No,
            )),
        }
    }

    #[test]
    fn line_breaks_in_a_message_become_data_lines() {
        assert_eq!(&event("{}")[..], b"event: message\ndata: {}\n\n");
        assert_eq!(
            &event("{\r\n\"a\":1\n}")[..],
            b"event: message\ndata: {\ndata: \ndata: \"a\":1\ndata: }\n\n"
        );
    }

    #[tokio::test]
    async fn more_messages_than_the_queue_holds_come_before_the_reply() {
        let (sender, messages) = mpsc::channel(2);
        let mut exchange = Exchange::new(
            async move {
                for number in 0..9 {
                    sender.send(number.to_string()).await.unwrap();
                }
                Some(reply())
            },
            messages,
        );
        for number in 0..9 {
            let Step::Message(message) = exchange.next().await else {
                panic!("message {number} is missing");
            };
            assert_eq!(message, number.to_string());
        }
        assert!(matches!(exchange.next().await, Step::Reply(_)));
        assert!(matches!(exchange.next().await, Step::Ended));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_sends_comments_until_its_end() {
        let (sender, messages) = mpsc::channel(1);
        let exchange = Exchange::new(
            async move {
                tokio::time::sleep(KEEP_ALIVE * 5 / 2).await;
                drop(sender);
                Some(reply())
            },
            messages,
        );
        let mut stream = EventStream::new(Some(Step::Message("first".to_owned())), exchange);
        let mut seen = Vec::new();
        while let Some(frame) = stream.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            seen.push(String::from_utf8(data.to_vec()).unwrap());
        }
        assert_eq!(
            seen,
            [
                "event: message\ndata: first\n\n",
                ": keep-alive\n\n",
                ": keep-alive\n\n",
                "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}\n\n",
            ]
        );
    }
}
