//! Reading an event stream while it is open.

use anyhow::{Context, bail};
use http::Response;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::timeout;

use crate::DEADLINE;

/// An open event stream. Dropping it closes the connection.
#[derive(Debug)]
pub struct Events {
    body: Incoming,
    text: String,
}

impl Events {
    /// Reads the body of `response`.
    ///
    /// # Errors
    /// When it is no event stream.
    pub fn of(response: Response<Incoming>) -> anyhow::Result<Self> {
        let kind = response.headers().get("content-type");
        if kind.is_none_or(|kind| kind != "text/event-stream") {
            bail!("{} with {kind:?}", response.status());
        }
        Ok(Self {
            body: response.into_body(),
            text: String::new(),
        })
    }

    /// The next message; none at the end of the stream. Comments are skipped.
    ///
    /// # Errors
    /// When nothing comes, or the stream breaks.
    pub async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                let message = data.map(serde_json::from_str).transpose()?;
                self.text = rest.to_owned();
                if let Some(message) = message {
                    return Ok(Some(message));
                }
            }
            let frame = timeout(DEADLINE, self.body.frame()).await;
            let Some(frame) = frame.context("nothing more comes")? else {
                return Ok(None);
            };
            if let Ok(data) = frame?.into_data() {
                self.text.push_str(std::str::from_utf8(&data)?);
            }
        }
    }
}
