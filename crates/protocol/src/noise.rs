//! What a server prints on stdout: messages, and whatever else.
//!
//! Receivers are free to deal with a server that breaks the rule that stdout carries nothing but messages
//! (2025-11-25 transports, "stdio"). Users expect it to go on working.

use bytes::Bytes;

use crate::{
    id::{IdField, RequestId},
    message::{self, EnvelopeError, EnvelopeFault, Message},
};

/// One line of a child's stdout.
#[derive(Debug)]
pub enum Line {
    /// A message. `prefix` bytes of junk stood before it on the same line.
    Message {
        /// The message.
        message: Box<Message>,
        /// How many bytes were cut off in front.
        prefix: usize,
    },
    /// Several messages of a batch, which only revision 2025-03-26 allows.
    Batch(Vec<Message>),
    /// Something that was meant as the answer to a request and is none.
    Unusable {
        /// The request's id.
        id: RequestId,
        /// What is wrong with it.
        why: EnvelopeFault,
    },
    /// Something else: a banner, a log line, JSON that is not JSON-RPC.
    Noise,
}

/// Classifies one line.
#[must_use]
pub fn classify(line: Bytes) -> Line {
    match Message::parse(line.clone()) {
        Ok(message) => {
            return Line::Message {
                message: Box::new(message),
                prefix: 0,
            };
        }
        Err(EnvelopeError {
            fault,
            id: IdField::Id(id),
        }) if is_meant(&line) => return Line::Unusable { id, why: fault },
        Err(_) => {}
    }
    if line.first() == Some(&b'[') {
        let batch = batch(&line);
        if !batch.is_empty() {
            return Line::Batch(batch);
        }
    }
    // A print without a line break before a message: the message is what starts at some `{` and reaches
    // the end of the line. The envelope's first members are short, so only a few places are tried.
    for at in memchr::memchr_iter(b'{', &line)
        .skip_while(|at| *at == 0)
        .take(8)
    {
        if let Ok(message) = Message::parse(line.slice(at..)) {
            return Line::Message {
                message: Box::new(message),
                prefix: at,
            };
        }
    }
    Line::Noise
}

/// Whether a line that is no message was meant as one. A log line may have an `id`, too.
fn is_meant(line: &[u8]) -> bool {
    memchr::memmem::find(line, b"\"jsonrpc\"").is_some()
}

fn batch(line: &Bytes) -> Vec<Message> {
    let elements = message::elements(line).unwrap_or_default();
    elements
        .into_iter()
        .filter_map(|element| Message::parse(element).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_noise(line: &str) -> bool {
        matches!(
            classify(Bytes::copy_from_slice(line.as_bytes())),
            Line::Noise
        )
    }

    #[test]
    fn banners_and_json_that_is_no_message_are_noise() {
        for line in [
            "╔══════╗",
            "\u{1b}[32mready\u{1b}[0m",
            "[INFO] {\"a\":1}",
            "{\"level\":\"info\",\"msg\":\"hi\"}",
            "\"str\"",
            "42",
            "null",
            "[]",
            "[1]",
            "{}",
            "Content-Length: 42",
            "{\"id\":1,\"level\":\"info\"}",
        ] {
            assert!(is_noise(line), "{line}");
        }
    }

    #[test]
    fn an_answer_that_is_none_says_whose_it_was() {
        let deep = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}{}}}",
            "[".repeat(200),
            "]".repeat(200)
        );
        for line in [
            r#"{"jsonrpc":"2.0","id":7}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":null}"#,
            r#"{"jsonrpc":"2.0","result":"x","id":7}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{},"result":{}}"#,
            &deep,
        ] {
            let Line::Unusable { id, .. } = classify(Bytes::copy_from_slice(line.as_bytes()))
            else {
                panic!("{line}");
            };
            assert_eq!(id, RequestId::from("7"));
        }
    }

    #[test]
    fn a_message_behind_a_prefix_on_the_same_line_is_found() {
        let line = "loading {x} done\u{1b}[0m{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":{}}}";
        let Line::Message { prefix, .. } = classify(Bytes::from_static(line.as_bytes())) else {
            panic!();
        };
        assert_eq!(prefix, line.find("{\"jsonrpc").unwrap());
    }

    #[test]
    fn batches_are_taken_apart() {
        let line = r#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"x"}]"#;
        let Line::Batch(messages) = classify(Bytes::from_static(line.as_bytes())) else {
            panic!();
        };
        assert_eq!(messages.len(), 2);
    }
}
